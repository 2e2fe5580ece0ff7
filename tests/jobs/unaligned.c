/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A09: user buffers that are not aligned, another offset on each rank, in place and not:
 * exact sums, no crash, and nothing written beside the buffer.
 */
#include "tests/jobs/job.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 64
#define MOST  1000003

enum kind { FLOAT, DOUBLE, INT16, BYTE8, N_KINDS };

static const struct {
	MPI_Datatype type;
	size_t bytes;
} kinds[N_KINDS] = {
	[FLOAT] = { MPI_FLOAT, 4 },
	[DOUBLE] = { MPI_DOUBLE, 8 },
	[INT16] = { MPI_INT16_T, 2 },
	[BYTE8] = { MPI_UINT8_T, 1 },
};

/* Open MPI's own sums of 8-bit integers stop at the largest one, so stay below it. */
static int positive(enum kind kind, int value, int n)
{
	return kind == BYTE8 ? value + 20 * n : value;
}

/* memcpy: the test itself must not load what is not aligned. */
static void put(unsigned char *buf, enum kind kind, int i, int value)
{
	const float f = (float)value;
	const double d = value;
	const int16_t s = (int16_t)value;
	const uint8_t b = (uint8_t)value;
	const void *const from[] = { &f, &d, &s, &b };

	memcpy(buf + (size_t)i * kinds[kind].bytes, from[kind], kinds[kind].bytes);
}

static void check(const unsigned char *buf, enum kind kind, int count, size_t seed)
{
	unsigned char want[8] = { 0 };

	for (int i = 0; i < count; i++) {
		int sum = bps_test_sum(bps_test_size, (uint64_t)i, seed);

		put(want, kind, 0, positive(kind, sum, bps_test_size));
		if (memcmp(buf + (size_t)i * kinds[kind].bytes, want,
		           kinds[kind].bytes) == 0)
			continue;
		bps_test_fail("type %d, element %d of %d is wrong (seed %zu)", (int)kind,
		              i, count, seed);
		return;
	}
}

static void check_guards(const unsigned char *base, size_t offset, size_t bytes)
{
	size_t i;

	for (i = 0; i < GUARD + offset; i++)
		BPS_CHECK(base[i] == 0xa5, "written %zu before the buffer",
		          GUARD + offset - i);
	for (i = 0; i < GUARD; i++)
		BPS_CHECK(base[GUARD + offset + bytes + i] == 0xa5,
		          "written %zu behind the buffer", i);
}

static void one(unsigned char *send_base, unsigned char *recv_base, enum kind kind,
                int count, size_t seed, bool in_place)
{
	static const size_t offsets[] = { 4, 8, 12, 20, 36, 1, 2, 3 };
	size_t bytes = (size_t)count * kinds[kind].bytes;
	size_t at = offsets[(seed + (size_t)bps_test_rank) % 8];
	size_t from = offsets[(seed + (size_t)bps_test_rank + 3) % 8];
	unsigned char *send = send_base + GUARD + from, *recv = recv_base + GUARD + at;

	memset(recv_base, 0xa5, bytes + at + 2 * GUARD);
	memset(send_base, 0xa5, bytes + from + 2 * GUARD);
	for (int i = 0; i < count; i++)
		put(in_place ? recv : send, kind, i,
		    positive(kind, bps_test_value(bps_test_rank, (uint64_t)i, seed), 1));
	MPI_Allreduce(in_place ? MPI_IN_PLACE : send, recv, count, kinds[kind].type,
	              MPI_SUM, MPI_COMM_WORLD);
	check(recv, kind, count, seed);
	check_guards(recv_base, at, bytes);
	check_guards(send_base, from, in_place ? 0 : bytes);
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, bytes, NULL);
}

int main(int argc, char **argv)
{
	static const int counts[] = { 1, 7, 8, 9, 63, MOST };
	unsigned char *send = malloc(MOST * 8 + 64 + 2 * GUARD);
	unsigned char *recv = malloc(MOST * 8 + 64 + 2 * GUARD);

	bps_test_init(&argc, &argv, MPI_THREAD_SINGLE);
	for (int kind = 0; kind < N_KINDS; kind++) {
		for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
			size_t n_seeds = counts[c] == MOST && !bps_test_long ? 1 : 8;

			for (size_t seed = 0; seed < n_seeds; seed++) {
				one(send, recv, (enum kind)kind, counts[c], seed, false);
				one(send, recv, (enum kind)kind, counts[c], seed, true);
			}
		}
	}
	free(send);
	free(recv);
	return bps_test_end();
}
