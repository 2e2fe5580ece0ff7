/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * half-error [ELEMENTS [RANKS_A_BOX [SEED]]]: how far sums of 16-bit floats are from the
 * exact ones, by the order of the additions and by where they are rounded. No MPI: the
 * orders of the usual algorithms are gone through here, with the library's own kernels.
 *
 * The exact sum is in fp64. The unit is the last place of a 16-bit float of the exact
 * sum's size, or of the sums' root mean square where that is more: sums that cancel to
 * almost nothing would count for nearly everything else.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kernels/kernels.h"

#define MAX_RANKS 64u

struct job {
	enum bps_dtype dtype;
	unsigned n_ranks, ranks_a_box;
	size_t count;
	uint16_t *input[MAX_RANKS];
	uint16_t *work[MAX_RANKS]; /* as long */
	float *push[MAX_RANKS];    /* of each box */
	double *exact;
	uint16_t *total;
};

typedef void way_fn(struct job *job);

static const void **sources(uint16_t *const *arrays, unsigned first, const void **ret)
{
	for (unsigned i = 0; first + i < MAX_RANKS; i++)
		ret[i] = arrays[first + i];
	return ret;
}

/* Two arrays, rounded: what an operation on 16-bit floats does. */
static void add(const struct job *job, uint16_t *dst, const uint16_t *a,
                const uint16_t *b, size_t at, size_t count)
{
	const void *src[] = { a + at, b + at };

	bps_kernel(job->dtype, BPS_SUM)(dst + at, src, 2, count);
}

/* A part goes from rank to rank, each part from another one on. */
static void ring(struct job *job)
{
	unsigned n = job->n_ranks;

	for (unsigned part = 0; part < n; part++) {
		size_t at = job->count / n * part, count = job->count / n;

		if (part == n - 1)
			count = job->count - at;
		memcpy(job->total + at, job->input[part] + at, 2 * count);
		for (unsigned i = 1; i < n; i++)
			add(job, job->total, job->total, job->input[(part + i) % n], at,
			    count);
	}
}

/* Pairs at distance 1, pairs of pairs at 2, and so on. */
static void doubling(struct job *job)
{
	for (unsigned r = 0; r < job->n_ranks; r++)
		memcpy(job->work[r], job->input[r], 2 * job->count);
	for (unsigned step = 1; step < job->n_ranks; step *= 2)
		for (unsigned r = 0; r + step < job->n_ranks; r += 2 * step)
			add(job, job->work[r], job->work[r], job->work[r + step], 0,
			    job->count);
	memcpy(job->total, job->work[0], 2 * job->count);
}

static unsigned n_boxes(const struct job *job)
{
	return (job->n_ranks + job->ranks_a_box - 1) / job->ranks_a_box;
}

static unsigned ranks_in(const struct job *job, unsigned box)
{
	unsigned first = box * job->ranks_a_box;

	return job->n_ranks - first < job->ranks_a_box ? job->n_ranks - first
	                                               : job->ranks_a_box;
}

/* Ours: boxes push fp32, where there are several. */
static void once(struct job *job)
{
	enum bps_dtype wide = bps_dtype_wide(job->dtype);
	const void *src[MAX_RANKS], *pushes[MAX_RANKS];

	if (n_boxes(job) == 1) {
		bps_kernel(job->dtype, BPS_SUM)(job->total, sources(job->input, 0, src),
		                                job->n_ranks, job->count);
		return;
	}
	for (unsigned box = 0; box < n_boxes(job); box++) {
		sources(job->input, box * job->ranks_a_box, src);
		bps_kernel_push(wide, BPS_SUM)(job->push[box], src, ranks_in(job, box),
		                               job->count);
		pushes[box] = job->push[box];
	}
	bps_kernel(wide, BPS_SUM)(job->total, pushes, n_boxes(job), job->count);
}

/* Ours with BPSMPI_HALF_PUSH_BITS=16. */
static void twice(struct job *job)
{
	const void *src[MAX_RANKS];

	for (unsigned box = 0; box < n_boxes(job); box++) {
		sources(job->input, box * job->ranks_a_box, src);
		bps_kernel(job->dtype, BPS_SUM)(job->work[box], src, ranks_in(job, box),
		                                job->count);
	}
	bps_kernel(job->dtype, BPS_SUM)(job->total, sources(job->work, 0, src),
	                                n_boxes(job), job->count);
}

static const struct way {
	const char *name;
	way_fn *fn;
} ways[] = {
	{ "rounded at each addition, ring", ring },
	{ "rounded at each addition, doubling", doubling },
	{ "ours, 16-bit pushes", twice },
	{ "ours", once },
};

/* -- numbers -- */

static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static double normal(uint64_t *state)
{
	double u = ((double)(next(state) >> 11) + 1) * 0x1p-53;
	double v = (double)(next(state) >> 11) * 0x1p-53;

	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static int mantissa_bits(const struct job *job)
{
	return job->dtype == BPS_F16 ? 10 : 7;
}

static double value_of(const struct job *job, uint16_t h)
{
	int bits = mantissa_bits(job), bias = job->dtype == BPS_F16 ? 15 : 127;
	int exponent = (h & 0x7fff) >> bits;
	double mantissa = h & ((1 << bits) - 1);

	if (exponent > 0)
		mantissa += 1 << bits;
	mantissa = ldexp(mantissa, (exponent > 0 ? exponent : 1) - bias - bits);
	return h & 0x8000 ? -mantissa : mantissa;
}

/* To the format by its own kernel: a sum of one fp32 is that number, rounded. */
static void fill(struct job *job, uint64_t seed)
{
	enum bps_dtype wide = bps_dtype_wide(job->dtype);
	const void *src[] = { job->push[0] };

	memset(job->exact, 0, job->count * sizeof(*job->exact));
	for (unsigned r = 0; r < job->n_ranks; r++) {
		for (size_t i = 0; i < job->count; i++)
			job->push[0][i] = (float)(normal(&seed) * 1e-2);
		bps_kernel(wide, BPS_SUM)(job->input[r], src, 1, job->count);
		for (size_t i = 0; i < job->count; i++)
			job->exact[i] += value_of(job, job->input[r][i]);
	}
}

/* -- errors -- */

static double last_place(const struct job *job, double size)
{
	int exponent;

	frexp(size, &exponent);
	return ldexp(1, exponent - 1 - mantissa_bits(job));
}

static double mean_size(const struct job *job)
{
	double sum = 0;

	for (size_t i = 0; i < job->count; i++)
		sum += job->exact[i] * job->exact[i];
	return sqrt(sum / (double)job->count);
}

static void measure(struct job *job, const struct way *way)
{
	double least = mean_size(job), sum = 0, most = 0;

	way->fn(job);
	for (size_t i = 0; i < job->count; i++) {
		double size = fabs(job->exact[i]) > least ? fabs(job->exact[i]) : least;
		double error = fabs(value_of(job, job->total[i]) - job->exact[i]) /
		               last_place(job, size);

		sum += error * error;
		most = error > most ? error : most;
	}
	printf(" %.2f, %.2f |", sqrt(sum / (double)job->count), most);
}

static void *room(size_t bytes)
{
	void *memory = malloc(bytes);

	if (memory)
		return memory;
	fputs("half-error: no memory\n", stderr);
	exit(1);
}

static void measure_all(struct job *job, uint64_t seed)
{
	printf("\n%s, %zu elements, %u ranks a box, seed %llu; root mean square, largest\n\n"
	       "| ranks |",
	       job->dtype == BPS_F16 ? "float16" : "bfloat16", job->count,
	       job->ranks_a_box, (unsigned long long)seed);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		printf(" %s |", ways[i].name);
	printf("\n|---:|---:|---:|---:|---:|\n");
	for (job->n_ranks = 2; job->n_ranks <= MAX_RANKS; job->n_ranks *= 2) {
		fill(job, seed);
		printf("| %u |", job->n_ranks);
		for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
			measure(job, &ways[i]);
		printf("\n");
	}
}

int main(int argc, char **argv)
{
	struct job job = { .count = 1 << 17, .ranks_a_box = 8 };
	uint64_t seed = 1;

	if (argc > 1)
		job.count = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		job.ranks_a_box = (unsigned)strtoul(argv[2], NULL, 10);
	if (argc > 3)
		seed = strtoull(argv[3], NULL, 10);
	if (job.count < MAX_RANKS || job.ranks_a_box < 1 || job.ranks_a_box > MAX_RANKS) {
		fputs("half-error [ELEMENTS (64 or more) [RANKS_A_BOX (1 to 64) [SEED]]]\n",
		      stderr);
		return 2;
	}
	for (unsigned r = 0; r < MAX_RANKS; r++) {
		job.input[r] = room(job.count * sizeof(uint16_t));
		job.work[r] = room(job.count * sizeof(uint16_t));
		job.push[r] = room(job.count * sizeof(float));
	}
	job.exact = room(job.count * sizeof(double));
	job.total = room(job.count * sizeof(uint16_t));
	job.dtype = BPS_F16;
	measure_all(&job, seed);
	job.dtype = BPS_BF16;
	measure_all(&job, seed);
	return 0; /* the process ends, and its memory with it */
}
