/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that MPI_Comm_spawn brings are not of MPI_COMM_WORLD: a communicator with them
 * passes, whether they carry the library or not. They are a world of their own.
 */
#include "tests/jobs/job.h"

#include <stdio.h>
#include <string.h>

#define N (1 << 20)

static float buf[N];

int main(int argc, char **argv)
{
	const char *reason = "outside";
	MPI_Comm parent, both, merged;
	int rank, size;

	bps_test_init(&argc, &argv, -1);
	MPI_Comm_get_parent(&parent);
	if (parent == MPI_COMM_NULL) {
		MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0,
		               MPI_COMM_WORLD, &both, MPI_ERRCODES_IGNORE);
		MPI_Intercomm_merge(both, 0, &merged);
	} else {
		both = parent;
		MPI_Intercomm_merge(both, 1, &merged);
	}
	MPI_Comm_rank(merged, &rank);
	MPI_Comm_size(merged, &size);
	BPS_CHECK(size == bps_test_size + 2, "%d ranks came together", size);
	for (int i = 0; i < 2; i++)
		bps_test_floats(NULL, buf, N, merged, rank, size, (uint64_t)i);
	bps_test_expect(BPS_TEST_ALLREDUCE, 2, sizeof(buf), reason);
	bps_test_floats(NULL, buf, N, MPI_COMM_WORLD, bps_test_rank, bps_test_size, 9);
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, sizeof(buf), NULL);
	MPI_Comm_free(&merged);
	MPI_Comm_disconnect(&both);
	if (parent != MPI_COMM_NULL)
		printf("child ");
	return bps_test_end();
}
