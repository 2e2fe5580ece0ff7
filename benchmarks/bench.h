/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the benchmark programs share: options, the timed loop, the columns of the OSU
 * benchmarks, JSON. They are plain MPI programs: they know nothing of the library, which
 * is there or is not. One thread; one struct bps_bench a process.
 */
#pragma once

#include "benchmarks/pattern.h"

#include <stddef.h>

struct bps_bench {
	/* Options */
	size_t min_bytes;
	size_t max_bytes;
	int n_iterations;
	int n_warmup;
	int full;        /* print minimum, maximum and iterations too */
	int check;       /* compare every element on every rank */
	int each;        /* rank 0 prints each call's time as it ends */
	int in_place;    /* allreduce: MPI_IN_PLACE */
	int root;        /* bcast */
	int rotate_root; /* bcast: the root moves on by one each iteration */
	const struct bps_pattern_type *type;
	const struct bps_pattern_op *op;
	const char *json_path; /* NULL: none */

	int rank;
	int n_ranks;
	struct bps_pattern pattern;
	char *send; /* max_bytes and a guard behind them; owned, as is recv */
	char *recv;
	int count;              /* elements of the size that runs now */
	unsigned int iteration; /* never the same twice in a run */
	int n_errors;           /* wrong results seen by this rank */
};

/* Bytes behind each buffer that no call may touch. */
#define BPS_BENCH_GUARD_BYTES 64

struct bps_bench_program {
	const char *name;  /* "bps_allreduce" */
	const char *title; /* "Allreduce" */
	int one_source; /* a single rank gives data; else all do, and an op is applied */
	/* Set up the buffers for bench->iteration; outside the timing. */
	void (*prepare)(struct bps_bench *bench);
	/* The call that is timed. */
	void (*call)(struct bps_bench *bench);
	/* The first wrong element, or bench->count; outside the timing. */
	size_t (*check)(struct bps_bench *bench);
};

/**
 * bps_bench_main() - the program: MPI_Init to MPI_Finalize.
 *
 * Returns the exit status: 0, 1 when a result was wrong, 2 for bad usage or no memory.
 */
int bps_bench_main(int argc, char **argv, const struct bps_bench_program *program);
