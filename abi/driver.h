/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a known ABI is to the rest of abi/: one struct, defined in one file of its own
 * and listed in resolve.c.
 */
#pragma once

#include "abi/abi.h"

struct bps_abi_driver {
	enum bps_abi abi;
	/**
	 * match() - whether a library speaks this ABI.
	 * @abi_major: of the standard ABI (MPI-5) that it reports; 0 or less: not that
	 * one
	 * @version: the text of PMPI_Get_library_version
	 */
	bool (*match)(int abi_major, const char *version);
	/**
	 * fill() - set all constants of @mpi; its functions are set already.
	 * @handle: dlopen's, of the library
	 * @program: where the main program lies
	 *
	 * Return: 0, or -ENOENT if a constant that we cannot do without is missing.
	 */
	int (*fill)(struct bps_mpi *mpi, void *handle, const struct bps_span *program);
};

extern const struct bps_abi_driver bps_abi_ompi;

/**
 * bps_abi_build_types() - ask the library for the sizes of the types and fill the hash.
 *
 * MPI is initialised. The caller holds the lock of bps_mpi_check().
 */
void bps_abi_build_types(struct bps_mpi *mpi);
