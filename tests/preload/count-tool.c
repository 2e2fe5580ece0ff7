/* SPDX-License-Identifier: BSD-3-Clause */
/* A tool of the usual kind: it counts calls and passes them on to PMPI_. */
#include <mpi.h>
#include <stdio.h>

static int n_init, n_allreduce, n_bcast;

int MPI_Init(int *argc, char ***argv)
{
	n_init++;
	return PMPI_Init(argc, argv);
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm)
{
	n_allreduce++;
	return PMPI_Allreduce(sendbuf, recvbuf, count, type, op, comm);
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	n_bcast++;
	return PMPI_Bcast(buffer, count, type, root, comm);
}

int MPI_Finalize(void)
{
	printf("tool: %d %d %d\n", n_init, n_allreduce, n_bcast);
	return PMPI_Finalize();
}
