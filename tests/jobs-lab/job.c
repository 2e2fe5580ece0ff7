/* SPDX-License-Identifier: BSD-3-Clause */
#include "job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GUARD_BYTES 64
#define GUARD       0xa5
#define MAX_FAILS   10 /* lines a rank */

int job_rank, job_size;
uint64_t job_n_allreduce, job_n_bcast, job_threshold;

static int n_fails;
static int *world;

void job_begin(int *argc, char ***argv)
{
	const char *threshold = getenv("BPSMPI_THRESHOLD_BYTES");
	uint64_t mine = threshold ? strtoull(threshold, NULL, 10) : 256 << 10, *all;
	int r;

	setvbuf(stdout, NULL, _IOLBF, 0);
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &job_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &job_size);
	all = malloc((size_t)job_size * sizeof(*all));
	MPI_Allgather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, MPI_COMM_WORLD);
	job_threshold = all[0];
	free(all);
	world = malloc((size_t)job_size * sizeof(*world));
	for (r = 0; r < job_size; r++)
		world[r] = r;
	printf("rank %d pid %d\n", job_rank, (int)getpid());
}

int job_end(void)
{
	printf("rank %d done allreduce=%llu bcast=%llu\n", job_rank,
	       (unsigned long long)job_n_allreduce, (unsigned long long)job_n_bcast);
	MPI_Finalize();
	free(world);
	return n_fails ? 1 : 0;
}

void job_fail(const char *format, ...)
{
	char text[400];
	va_list args;

	if (n_fails++ >= MAX_FAILS)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("rank %d WRONG: %s\n", job_rank, text);
}

static double clock_s(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double job_now(void)
{
	return clock_s(CLOCK_MONOTONIC);
}

double job_cpu(void)
{
	return clock_s(CLOCK_PROCESS_CPUTIME_ID);
}

void job_sleep(double s)
{
	struct timespec left = { .tv_sec = (time_t)s,
		                 .tv_nsec = (long)((s - (double)(time_t)s) * 1e9) };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

uint32_t job_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

int job_input(int rank, uint64_t i, uint32_t call)
{
	return (int)((i * 7 + (uint64_t)rank * 61 + (uint64_t)call * 31) % 251);
}

const int *job_world(void)
{
	return world;
}

static void put(void *buf, MPI_Datatype type, uint64_t i, int value)
{
	if (type == MPI_INT)
		((int *)buf)[i] = value;
	else if (type == MPI_FLOAT)
		((float *)buf)[i] = (float)value;
	else
		((double *)buf)[i] = value;
}

static double get(const void *buf, MPI_Datatype type, uint64_t i)
{
	if (type == MPI_INT)
		return ((const int *)buf)[i];
	if (type == MPI_FLOAT)
		return (double)((const float *)buf)[i];
	return ((const double *)buf)[i];
}

/* A buffer between guards, whose content is no answer. */
static char *guarded(size_t bytes)
{
	char *all = malloc(bytes + 2 * GUARD_BYTES);

	memset(all, GUARD, bytes + 2 * GUARD_BYTES);
	return all + GUARD_BYTES;
}

static void check_guards(const char *buf, size_t bytes, const char *what)
{
	int i;

	for (i = 1; i <= GUARD_BYTES; i++) {
		if ((unsigned char)buf[-i] != GUARD ||
		    (unsigned char)buf[bytes + (size_t)i - 1] != GUARD) {
			job_fail("%s wrote beside its buffer of %zu bytes", what, bytes);
			return;
		}
	}
}

static void check_sums(const void *buf, const int *ranks, int n, int count,
                       MPI_Datatype type, uint32_t call)
{
	int i, r;

	for (i = 0; i < count; i++) {
		int sum = 0;

		for (r = 0; r < n; r++)
			sum += job_input(ranks[r], (uint64_t)i, call);
		if (get(buf, type, (uint64_t)i) == sum)
			continue;
		job_fail("call %u, %d ranks: element %d of %d is %g, not %d", call, n, i,
		         count, get(buf, type, (uint64_t)i), sum);
		return;
	}
}

int job_allreduce(MPI_Comm comm, const int *ranks, int n, int count, MPI_Datatype type,
                  uint32_t call)
{
	size_t size = type == MPI_DOUBLE ? 8 : 4, bytes = size * (size_t)count;
	char *in = guarded(bytes), *out = guarded(bytes);
	bool in_place = call % 3 == 0;
	int i, rc;

	for (i = 0; i < count; i++)
		put(in_place ? out : in, type, (uint64_t)i,
		    job_input(job_rank, (uint64_t)i, call));
	rc = MPI_Allreduce(in_place ? MPI_IN_PLACE : in, out, count, type, MPI_SUM, comm);
	if (n > 1 && bytes >= job_threshold && bytes > 0)
		job_n_allreduce++;
	if (rc == MPI_SUCCESS)
		check_sums(out, ranks, n, count, type, call);
	check_guards(in, bytes, "MPI_Allreduce");
	check_guards(out, bytes, "MPI_Allreduce");
	free(in - GUARD_BYTES);
	free(out - GUARD_BYTES);
	return rc;
}

int job_bcast(MPI_Comm comm, const int *ranks, int root, int count, uint32_t call)
{
	size_t bytes = sizeof(int) * (size_t)count;
	char *buf = guarded(bytes);
	int i, n, rc;

	MPI_Comm_size(comm, &n);
	for (i = 0; i < count; i++)
		put(buf, MPI_INT, (uint64_t)i,
		    ranks[root] == job_rank ? job_input(job_rank, (uint64_t)i, call)
		                            : -1);
	rc = MPI_Bcast(buf, count, MPI_INT, root, comm);
	if (n > 1 && bytes >= job_threshold && bytes > 0)
		job_n_bcast++;
	for (i = 0; rc == MPI_SUCCESS && i < count; i++) {
		if (((int *)(void *)buf)[i] == job_input(ranks[root], (uint64_t)i, call))
			continue;
		job_fail("call %u: element %d of %d from root %d is wrong", call, i,
		         count, root);
		break;
	}
	check_guards(buf, bytes, "MPI_Bcast");
	free(buf - GUARD_BYTES);
	return rc;
}
