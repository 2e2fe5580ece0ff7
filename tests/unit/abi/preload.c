/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the real product does with abi/, in small: a preloaded library that exports the
 * names of MPI itself, and so must not find itself.
 */
#include "abi/abi.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT struct bps_mpi *preload_mpi;
EXPORT int preload_finalized;

EXPORT int PMPI_Init(int *argc, char ***argv);
EXPORT int MPI_Init(int *argc, char ***argv);
EXPORT int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided);
EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
EXPORT int PMPI_Finalize(void);
EXPORT int MPI_Finalize(void);

static int init(int *argc, char ***argv, int required, int *provided, const void *caller)
{
	int r;

	if (bps_mpi_resolve(caller, &preload_mpi))
		return -1;
	r = provided ? preload_mpi->Init_thread(argc, argv, required, provided)
	             : preload_mpi->Init(argc, argv);
	return r ? r : bps_mpi_check(preload_mpi);
}

int PMPI_Init(int *argc, char ***argv)
{
	return init(argc, argv, 0, NULL, __builtin_return_address(0));
}

int MPI_Init(int *argc, char ***argv)
{
	return init(argc, argv, 0, NULL, __builtin_return_address(0));
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	return init(argc, argv, required, provided, __builtin_return_address(0));
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	return init(argc, argv, required, provided, __builtin_return_address(0));
}

int PMPI_Finalize(void)
{
	preload_finalized++;
	return preload_mpi->Finalize();
}

int MPI_Finalize(void)
{
	int (*tool)(void) = (int (*)(void))bps_mpi_next_tool(preload_mpi, "MPI_Finalize");

	return tool ? tool() : PMPI_Finalize();
}
