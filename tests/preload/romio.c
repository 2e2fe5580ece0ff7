/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective file access: ROMIO, inside the MPI library, calls PMPI_Allreduce and
 * PMPI_Bcast itself. Those pass; what the program calls is taken.
 */
#include "tests/jobs/job.h"

#include <stdio.h>
#include <stdlib.h>

#define N 1000

int main(int argc, char **argv)
{
	int data[N], back[N];
	MPI_Offset at;
	MPI_File file;
	float sum[N];
	int rc;

	if (argc < 2)
		return 2;
	bps_test_init(&argc, &argv, -1);
	at = (MPI_Offset)bps_test_rank * (MPI_Offset)sizeof(data);
	for (int i = 0; i < N; i++)
		data[i] = bps_test_rank * N + i;
	rc = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR,
	                   MPI_INFO_NULL, &file);
	BPS_CHECK(rc == MPI_SUCCESS, "MPI_File_open: %d", rc);
	if (rc == MPI_SUCCESS) {
		MPI_File_write_at_all(file, at, data, N, MPI_INT, MPI_STATUS_IGNORE);
		bps_test_floats(NULL, sum, N, MPI_COMM_WORLD, bps_test_rank,
		                bps_test_size, 1);
		MPI_File_read_at_all(file, at, back, N, MPI_INT, MPI_STATUS_IGNORE);
		for (int i = 0; i < N; i++)
			BPS_CHECK(back[i] == data[i], "element %d is %d", i, back[i]);
		MPI_File_close(&file);
		bps_test_expect(BPS_TEST_ALLREDUCE, 1, sizeof(sum), NULL);
	}
	return bps_test_end();
}
