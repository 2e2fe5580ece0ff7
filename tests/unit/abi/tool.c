/* SPDX-License-Identifier: BSD-3-Clause */
/* A tool: MPI_Finalize as a profiler has it, and a PMPI_Init that makes no MPI library.
 */
int MPI_Finalize(void);
int PMPI_Init(void);

int MPI_Finalize(void)
{
	return 42;
}

int PMPI_Init(void)
{
	return 42;
}
