/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small MPI program to load things into: an allreduce and a broadcast of 4 MiB,
 * checked. Rank 0 says what a change of the process by the library would change.
 * Arguments: "alias": also with one buffer for both; "exit N": ends with N; "abort N";
 * "unfinished": without MPI_Finalize.
 */
#include "tests/jobs/job.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOATS (1 << 20)

static float buf[FLOATS];

static void bcast(void)
{
	int root = bps_test_size - 1;

	for (int i = 0; i < FLOATS; i++)
		buf[i] = bps_test_rank == root ? (float)i : -1;
	MPI_Bcast(buf, FLOATS, MPI_FLOAT, root, MPI_COMM_WORLD);
	for (int i = 0; i < FLOATS; i++) {
		if (buf[i] == (float)i)
			continue;
		bps_test_fail("broadcast element %d is %g", i, (double)buf[i]);
		break;
	}
	bps_test_expect(BPS_TEST_BCAST, 1, sizeof(buf), NULL);
}

/* Only where the MPI library does not mind: then it is as if in place. */
static void alias(void)
{
	for (int i = 0; i < FLOATS; i++)
		buf[i] = (float)bps_test_rank;
	MPI_Allreduce(buf, buf, FLOATS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < FLOATS; i++) {
		if (buf[i] == (float)(bps_test_size * (bps_test_size - 1) / 2))
			continue;
		bps_test_fail("aliased element %d is %g", i, (double)buf[i]);
		break;
	}
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, sizeof(buf), NULL);
}

/* Descriptors that a program started by this one would get. */
static int inherited(void)
{
	int n = 0;

	for (int fd = 0; fd < 4096; fd++) {
		int flags = fcntl(fd, F_GETFD);

		n += flags >= 0 && !(flags & FD_CLOEXEC);
	}
	return n;
}

static int handled(void)
{
	int n = 0;

	for (int i = 1; i < 64; i++) {
		struct sigaction action;

		n += sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
	}
	return n;
}

static void describe(void)
{
	int level = -1;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	MPI_Query_thread(&level);
	printf("process: thread level %d, %d descriptors to inherit, %d signals handled, "
	       "%d CPUs\n",
	       level, inherited(), handled(), CPU_COUNT(&cpus));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int number = argc > 2 ? atoi(argv[2]) : 0;
	int status;

	bps_test_init(&argc, &argv, -1);
	bps_test_floats(NULL, buf, FLOATS, MPI_COMM_WORLD, bps_test_rank, bps_test_size,
	                3);
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, sizeof(buf), NULL);
	bcast();
	if (strcmp(what, "alias") == 0)
		alias();
	if (bps_test_rank == 0)
		describe();
	if (strcmp(what, "abort") == 0)
		MPI_Abort(MPI_COMM_WORLD, number);
	if (strcmp(what, "unfinished") == 0)
		return 0;
	status = bps_test_end();
	return status ? status : number;
}
