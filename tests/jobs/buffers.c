/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * B04: buffers that move, go, or come back as something else. No rank keeps an address,
 * and nothing stays registered.
 */
#include "tests/jobs/job.h"

#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static long locked_kib(void)
{
	char line[128];
	long kib = -1;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "VmLck: %ld", &kib);
	if (file)
		fclose(file);
	return kib;
}

static void *map(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	            0);
}

/* A new mapping each time, unmapped right after the call. */
static void moving(int n, size_t most)
{
	uint64_t state = 4;

	for (int i = 0; i < n; i++) {
		size_t bytes = 4096 + bps_test_random(&state, most - 4096) / 4 * 4;
		float *send = map(bytes), *recv = map(bytes);

		bps_test_floats(send, recv, (int)(bytes / 4), MPI_COMM_WORLD,
		                bps_test_rank, bps_test_size, (uint64_t)i);
		munmap(send, bytes);
		munmap(recv, bytes);
		bps_test_expect(BPS_TEST_ALLREDUCE, 1, bytes, NULL);
	}
}

static void as_doubles(void *buf, int count, int i)
{
	double *x = buf;

	for (int k = 0; k < count; k++)
		x[k] = bps_test_value(bps_test_rank, (uint64_t)k, (uint64_t)i);
	MPI_Allreduce(MPI_IN_PLACE, x, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int k = 0; k < count; k++) {
		if (x[k] == bps_test_sum(bps_test_size, (uint64_t)k, (uint64_t)i))
			continue;
		bps_test_fail("double %d of %d is %g", k, count, x[k]);
		break;
	}
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, (uint64_t)count * sizeof(*x), NULL);
}

static void as_shorts(void *buf, int count, int i)
{
	int16_t *x = buf;

	for (int k = 0; k < count; k++)
		x[k] = (int16_t)bps_test_value(bps_test_rank, (uint64_t)k, (uint64_t)i);
	MPI_Allreduce(MPI_IN_PLACE, x, count, MPI_INT16_T, MPI_MAX, MPI_COMM_WORLD);
	for (int k = 0; k < count; k++) {
		int most = -1000;

		for (int rank = 0; rank < bps_test_size; rank++) {
			int v = bps_test_value(rank, (uint64_t)k, (uint64_t)i);

			most = v > most ? v : most;
		}
		if (x[k] == most)
			continue;
		bps_test_fail("short %d of %d is %d, not %d", k, count, x[k], most);
		break;
	}
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, (uint64_t)count * sizeof(*x), NULL);
}

/* One address, but another size, type and operation each time. */
static void changing(int n, size_t most)
{
	void *buf = malloc(most);
	uint64_t state = 9;

	for (int i = 0; i < n; i++) {
		int bytes = (int)bps_test_random(&state, most - 8) + 8;

		if (i % 2)
			as_doubles(buf, bytes / 8, i);
		else
			as_shorts(buf, bytes / 2, i);
	}
	free(buf);
}

/* Nonblocking, on the stack. */
static void pending(int depth)
{
	int x[1000], want = depth * bps_test_size;
	MPI_Request request;

	for (int k = 0; k < 1000; k++)
		x[k] = depth;
	MPI_Iallreduce(MPI_IN_PLACE, x, 1000, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
	if (depth > 0)
		pending(depth - 1);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	for (int k = 0; k < 1000; k++)
		BPS_CHECK(x[k] == want, "pending %d: %d, not %d", depth, x[k], want);
}

int main(int argc, char **argv)
{
	int n = 30;
	size_t most = 2 << 20;

	bps_test_init(&argc, &argv, MPI_THREAD_SINGLE);
	if (bps_test_long) {
		n = 300;
		most = 8 << 20;
	}
	moving(n, most);
	changing(n, most);
	pending(10);
	BPS_CHECK(locked_kib() == 0, "%ld KiB are locked", locked_kib());
	return bps_test_end();
}
