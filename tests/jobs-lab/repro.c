/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * repro CALLS: sums of floats whose value depends on the order, the same each time, with
 * random delays. One line "rank R hash H" where all calls gave the same bits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "job.h"

#define COUNT 200003

static float value(int rank, uint32_t i)
{
	uint32_t state = (uint32_t)rank * 7919 + i * 31;
	float size = (float)(1u << job_random(&state) % 24);

	return ((float)(job_random(&state) % 20001) - 10000) / 3 * size;
}

static uint64_t hash(const void *buf, size_t bytes)
{
	const unsigned char *p = buf;
	uint64_t h = 14695981039346656037u;

	while (bytes--)
		h = (h ^ *p++) * 1099511628211u;
	return h;
}

int main(int argc, char **argv)
{
	float *in = malloc(COUNT * sizeof(float)), *out = malloc(COUNT * sizeof(float));
	uint64_t first = 0, h;
	uint32_t i, call, n_calls, state;

	job_begin(&argc, &argv);
	n_calls = argc > 1 ? (uint32_t)atoi(argv[1]) : 5;
	state = (uint32_t)getpid();
	for (i = 0; i < COUNT; i++)
		in[i] = value(job_rank, i);
	for (call = 0; call < n_calls; call++) {
		usleep(job_random(&state) % 20000);
		MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		job_n_allreduce++;
		h = hash(out, COUNT * sizeof(float));
		if (call > 0 && h != first)
			job_fail("call %u gave other bits than the first", call);
		first = h;
	}
	printf("rank %d hash %016llx\n", job_rank, (unsigned long long)first);
	free(in);
	free(out);
	return job_end();
}
