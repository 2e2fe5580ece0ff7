/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the test programs share. They are plain MPI programs that know nothing of the
 * library but its threshold: each computes what its calls must give by its own
 * arithmetic, and says at its end how many of its calls the library should have taken,
 * and passed for which reason; run-jobs compares that with the library's own counters.
 */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bps_test_coll { BPS_TEST_ALLREDUCE, BPS_TEST_BCAST, BPS_TEST_N_COLLS };

extern int bps_test_rank, bps_test_size;
extern bool bps_test_long; /* --long was given: the loops are as long as can be */

/**
 * bps_test_init() - MPI_Init_thread with @level, which must be provided, and options.
 * @level: negative: MPI_Init.
 */
void bps_test_init(int *argc, char ***argv, int level);

/** bps_test_fail() - say what is wrong, and remember that something is; any thread. */
__attribute__((format(printf, 1, 2))) void bps_test_fail(const char *format, ...);

#define BPS_CHECK(condition, ...)                   \
	do {                                        \
		if (!(condition))                   \
			bps_test_fail(__VA_ARGS__); \
	} while (0)

/**
 * bps_test_expect() - this rank made @n calls of @bytes bytes each.
 * @reason: NULL: taken if the threshold allows; or the label of why they must pass.
 * @bytes may be 0 with a @reason, where the library does not count them. Any thread.
 */
void bps_test_expect(enum bps_test_coll coll, uint64_t n, uint64_t bytes,
                     const char *reason);

/** bps_test_end() - say what was expected, MPI_Finalize. Returns the exit status. */
int bps_test_end(void);

/** bps_test_random() - a number below @limit; the same on all ranks for one *@state. */
uint64_t bps_test_random(uint64_t *state, uint64_t limit);

/* What rank @rank contributes as element @i: a small whole number, exact in any type. */
static inline int bps_test_value(int rank, uint64_t i, uint64_t seed)
{
	return (int)((i * 7 + (uint64_t)rank * 13 + seed * 5) % 61) - 20;
}

/** bps_test_sum() - over the ranks 0 to @n - 1. */
static inline int bps_test_sum(int n, uint64_t i, uint64_t seed)
{
	int sum = 0;

	for (int rank = 0; rank < n; rank++)
		sum += bps_test_value(rank, i, seed);
	return sum;
}

/**
 * bps_test_floats() - an MPI_Allreduce of @count MPI_FLOATs by MPI_SUM on @comm, of which
 * this process is rank @rank of @size: filled, called, checked. Not counted as expected.
 * @send: NULL: in place.
 */
void bps_test_floats(float *send, float *recv, int count, MPI_Comm comm, int rank,
                     int size, uint64_t seed);
