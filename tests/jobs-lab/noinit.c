/* SPDX-License-Identifier: BSD-3-Clause */
/* Linked with MPI, and never starts it. */
#include <mpi.h>
#include <stdio.h>

int main(void)
{
	int flag = 1, version, sub;

	MPI_Initialized(&flag);
	MPI_Get_version(&version, &sub);
	printf("never initialised: %d, MPI %d\n", flag, version);
	return 0;
}
