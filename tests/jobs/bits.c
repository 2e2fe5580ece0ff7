/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A13: the same bits on every rank, in every run, however a call is cut. Rank 0 prints a
 * hash of all results, which run-jobs compares between runs of the same layout.
 */
#include "tests/jobs/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 10000

static uint64_t hash = 14695981039346656037u;

static void fold(const void *data, size_t bytes)
{
	const unsigned char *p = data;

	while (bytes--)
		hash = (hash ^ *p++) * 1099511628211u;
}

/* All ranks have rank 0's bits. */
static void compare(const float *x, int n, const char *what)
{
	static float first[MOST];
	int same;

	memcpy(first, x, (size_t)n * sizeof(*x));
	MPI_Bcast(first, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
	same = memcmp(first, x, (size_t)n * sizeof(*x)) == 0;
	BPS_CHECK(same, "%s: other bits than on rank 0", what);
	bps_test_expect(BPS_TEST_BCAST, 1, (uint64_t)n * sizeof(*x), NULL);
	fold(x, (size_t)n * sizeof(*x));
}

static void sum(const float *in, float *out, int n)
{
	MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, (uint64_t)n * sizeof(*in), NULL);
}

/* 1e6 and -1e6 cancel, at once or after the small ones have lost their last bits. */
static void cancel(void)
{
	for (int a = 0; a < bps_test_size; a++) {
		for (int b = 0; b < bps_test_size; b++) {
			float in[8], out[8];

			for (int i = 0; i < 8; i++)
				in[i] = a == b               ? 1e-2f
				        : bps_test_rank == a ? 1e6f
				        : bps_test_rank == b ? -1e6f
				                             : 1e-2f;
			sum(in, out, 8);
			for (int i = 0; i < 8; i++)
				BPS_CHECK(fabsf(out[i]) <= 0.1f * (float)bps_test_size,
				          "+%d -%d: the sum is %g", a, b, (double)out[i]);
			compare(out, 8, "cancel");
		}
	}
}

/* Numbers whose sum depends on the order. */
static void fill(float *x, int n, int rank)
{
	uint64_t state = (uint64_t)rank + 1;

	for (int i = 0; i < n; i++)
		x[i] = (float)ldexp((double)bps_test_random(&state, 1 << 20) - (1 << 19),
		                    (int)bps_test_random(&state, 40) - 20);
}

static void check_sum(const float *x, int n)
{
	double *want = calloc((size_t)n, sizeof(*want)), *most = calloc((size_t)n, 8);
	float *one = malloc((size_t)n * sizeof(*one));

	for (int rank = 0; rank < bps_test_size; rank++) {
		fill(one, n, rank);
		for (int i = 0; i < n; i++) {
			want[i] += (double)one[i];
			most[i] += fabs((double)one[i]);
		}
	}
	for (int i = 0; i < n; i++) {
		if (fabs((double)x[i] - want[i]) <= most[i] * bps_test_size * 0x1p-24)
			continue;
		bps_test_fail("element %d is %g, not %g", i, (double)x[i], want[i]);
		break;
	}
	free(want);
	free(most);
	free(one);
}

static void split(void)
{
	static float in[MOST], whole[MOST], parts[MOST];

	fill(in, MOST, bps_test_rank);
	sum(in, whole, MOST);
	check_sum(whole, MOST);
	compare(whole, MOST, "whole");
	sum(in, parts, MOST / 2);
	sum(in + MOST / 2, parts + MOST / 2, MOST / 2);
	BPS_CHECK(memcmp(whole, parts, sizeof(whole)) == 0, "two halves give other bits");
	for (int i = 0, n; i < MOST; i += n) {
		n = i + 1777 < MOST ? 1777 : MOST - i;
		sum(in + i, parts + i, n);
	}
	BPS_CHECK(memcmp(whole, parts, sizeof(whole)) == 0,
	          "small parts give other bits");
}

/* Ranks come in any order. */
static void delays(int n)
{
	static float in[MOST], first[MOST], out[MOST];
	uint64_t state = (uint64_t)getpid();

	fill(in, MOST, bps_test_rank);
	for (int i = 0; i < n; i++) {
		usleep((useconds_t)bps_test_random(&state, 3000));
		sum(in, i ? out : first, MOST);
		BPS_CHECK(!i || memcmp(first, out, sizeof(out)) == 0,
		          "repeat %d gives other bits", i);
	}
}

int main(int argc, char **argv)
{
	bps_test_init(&argc, &argv, MPI_THREAD_SINGLE);
	cancel();
	split();
	delays(bps_test_long ? 200 : 40);
	if (bps_test_rank == 0)
		printf("hash %016llx\n", (unsigned long long)hash);
	return bps_test_end();
}
