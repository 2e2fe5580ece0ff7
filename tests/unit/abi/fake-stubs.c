/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pretended MPI library: every function that abi/ asks for, doing nothing. Weak, so
 * that fake-mpi.c can define those that matter.
 */
#include "abi/abi.h"

#define BPS_MPI_FN(need, ret, name, args)          \
	ret PMPI_##name args;                      \
	__attribute__((weak)) ret PMPI_##name args \
	{                                          \
		return 0;                          \
	}
#define PMPI_Abi_get_version unused_Abi_get_version
#include "abi/functions.def"
