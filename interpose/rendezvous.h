/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All or nobody: does every rank of MPI_COMM_WORLD carry this library? No MPI message can
 * ask that, since a rank without the library would not answer, and a collective would
 * meet the application's own. So rank 0 publishes an address by MPI_Publish_name, which
 * only talks to the launcher; every other rank that carries the library looks it up and
 * reports over TCP; rank 0 counts, and gives all of them one verdict.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/abi.h"
#include "transport/addr.h"

struct bps_rendezvous {
	const struct bps_mpi *mpi;
	uint32_t rank, size;
	const char *job_name;  /* the launcher's name for this MPI_COMM_WORLD */
	const char *interface; /* BPSMPI_INTERFACE, of rank 0's addresses; "": all */
	uint64_t timeout_ns;
	bool enabled; /* rank 0: false makes the verdict no, in silence */
};

/**
 * bps_rendezvous() - called by every rank that carries the library, in MPI_Init.
 * @ret_local: this rank's address on the network over which it reached rank 0; rank 0's
 * own as most others reached it. bytes 0: not known.
 *
 * Return: true on every rank, or false on every rank (within the timeout; rank 0 has
 * logged one line that says what to do).
 */
bool bps_rendezvous(const struct bps_rendezvous *rendezvous, struct bps_addr *ret_local);
