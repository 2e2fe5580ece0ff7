/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time of MPI_Allreduce where something about each call is new.
 *
 * usage: bps_fresh CASE BYTES CALLS FILE
 *
 *   same    the same two buffers in each call
 *   fresh   two buffers from malloc for each call; nobody has written to the receive one
 *   touched as fresh, but all pages of the receive buffer are there before the call
 *   sizes   the same buffers, each call with another size from 15/16 of BYTES up to it
 *   comms   MPI_Comm_dup, a call and MPI_Comm_free, all three timed; the same buffers
 *
 * BYTES are of floats. FILE gets the time of each call, the longest of all ranks'; every
 * element is checked on every rank.
 */
#include "benchmarks/pattern.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_SIZES 8 /* then they come again */

enum fresh_case {
	FRESH_SAME,
	FRESH_BUFFERS,
	FRESH_TOUCHED,
	FRESH_SIZES,
	FRESH_COMMS,
	FRESH_N
};

static const char *const case_names[FRESH_N] = { "same", "fresh", "touched", "sizes",
	                                         "comms" };

struct fresh {
	struct bps_pattern pattern;
	enum fresh_case kind;
	size_t count; /* floats, the most of a call */
	int n_calls;
	const char *path;
	float *send;
	float *recv;
	int n_errors;
};

static int parse(struct fresh *fresh, int argc, char **argv)
{
	int kind = 0;

	if (argc != 5)
		return -1;
	while (kind < FRESH_N && strcmp(argv[1], case_names[kind]) != 0)
		kind++;
	fresh->kind = (enum fresh_case)kind;
	fresh->count = strtoull(argv[2], NULL, 10) / sizeof(float);
	fresh->n_calls = (int)strtol(argv[3], NULL, 10);
	fresh->path = argv[4];
	return kind < FRESH_N && fresh->count >= 16 && fresh->count <= INT_MAX &&
	                       fresh->n_calls > 0
	               ? 0
	               : -1;
}

static int get_buffers(struct fresh *fresh)
{
	fresh->send = malloc(fresh->count * sizeof(float));
	fresh->recv = malloc(fresh->count * sizeof(float));
	return fresh->send && fresh->recv ? 0 : -1;
}

static void put_buffers(struct fresh *fresh)
{
	free(fresh->send);
	free(fresh->recv);
	fresh->send = NULL;
	fresh->recv = NULL;
}

static int has_new_buffers(const struct fresh *fresh)
{
	return fresh->kind == FRESH_BUFFERS || fresh->kind == FRESH_TOUCHED;
}

static size_t count_of(const struct fresh *fresh, int call)
{
	if (fresh->kind != FRESH_SIZES)
		return fresh->count;
	return fresh->count - fresh->count / 16 * (size_t)(call * 3 % N_SIZES) / N_SIZES;
}

static double call_once(const struct fresh *fresh, size_t count)
{
	MPI_Comm comm = MPI_COMM_WORLD;
	double start;

	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	if (fresh->kind == FRESH_COMMS)
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Allreduce(fresh->send, fresh->recv, (int)count, MPI_FLOAT, MPI_SUM, comm);
	if (fresh->kind == FRESH_COMMS)
		MPI_Comm_free(&comm);
	return MPI_Wtime() - start;
}

static int run(struct fresh *fresh, double *times)
{
	for (int i = 0; i < fresh->n_calls; i++) {
		size_t count = count_of(fresh, i);

		if ((i == 0 || has_new_buffers(fresh)) && get_buffers(fresh) < 0)
			return -1;
		bps_pattern_fill(&fresh->pattern, fresh->send, count, (unsigned int)i);
		if (fresh->kind == FRESH_TOUCHED)
			memset(fresh->recv, 1, count * sizeof(float));
		times[i] = call_once(fresh, count);
		fresh->n_errors +=
			bps_pattern_check_result(&fresh->pattern, fresh->recv, count,
		                                 (unsigned int)i) < count;
		if (has_new_buffers(fresh))
			put_buffers(fresh);
	}
	return 0;
}

static int report(const struct fresh *fresh, int rank, double *times)
{
	double *longest = times + fresh->n_calls;
	int errors = 0;
	FILE *file;

	MPI_Reduce(times, longest, fresh->n_calls, MPI_DOUBLE, MPI_MAX, 0,
	           MPI_COMM_WORLD);
	MPI_Reduce(&fresh->n_errors, &errors, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank != 0)
		return 0;
	file = fopen(fresh->path, "w");
	if (!file)
		return -1;
	fprintf(file, "{\"errors\": %d, \"times_s\": [", errors);
	for (int i = 0; i < fresh->n_calls; i++)
		fprintf(file, "%s%.9f", i ? ", " : "", longest[i]);
	fputs("]}\n", file);
	return ferror(file) | fclose(file) ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct fresh fresh = { .n_errors = 0 };
	double *times = NULL;
	int rank;
	int n_ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	if (parse(&fresh, argc, argv) == 0)
		times = calloc((size_t)fresh.n_calls * 2, sizeof(*times));
	if (!times ||
	    bps_pattern_init(&fresh.pattern, bps_pattern_find_type("float"),
	                     bps_pattern_find_op("sum"), rank, n_ranks) < 0 ||
	    run(&fresh, times) < 0 || report(&fresh, rank, times) < 0) {
		fprintf(stderr, "bps_fresh: wrong arguments, no memory, or no file\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	put_buffers(&fresh);
	bps_pattern_deinit(&fresh.pattern);
	free(times);
	MPI_Finalize();
	return 0;
}
