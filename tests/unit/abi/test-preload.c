/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordinary MPI program, run with preload.so before it. With an argument: tool.so is
 * preloaded behind it, so its MPI_Finalize is the one that is called.
 */
#include "abi/abi.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct bps_mpi **mpi = dlsym(RTLD_DEFAULT, "preload_mpi");
	int *finalized = dlsym(RTLD_DEFAULT, "preload_finalized");
	int failed = 0;
	int r;

	printf("1..3\n");
	failed |= MPI_Init(&argc, &argv) != MPI_SUCCESS || !mpi || !*mpi;
	printf("%s 1 - initialised through the preloaded library\n",
	       failed ? "not ok" : "ok");
	if (failed)
		return 1;

	failed |= (*mpi)->comm_world != (bps_handle)MPI_COMM_WORLD ||
	          bps_abi_dtype(*mpi, (bps_handle)MPI_INTEGER) != BPS_I32 ||
	          bps_abi_redop(*mpi, (bps_handle)MPI_SUM) != BPS_SUM;
	printf("%s 2 - our handles are the program's\n", failed ? "not ok" : "ok");

	r = MPI_Finalize();
	failed |= argc > 1 ? r != 42 || *finalized != 0
	                   : r != MPI_SUCCESS || *finalized != 1;
	printf("%s 3 - finalized once, a tool behind us %s\n", failed ? "not ok" : "ok",
	       argc > 1 ? "comes first" : "is not there");
	if (argc > 1)
		(*mpi)->Finalize();
	return failed;
}
