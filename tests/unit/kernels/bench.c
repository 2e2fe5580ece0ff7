/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/kernels/bench.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/kernels/kernels.h"
#include "tests/unit/kernels/inputs.h"
#include "tests/unit/kernels/reference.h"

#define N_SAMPLES 5
#define SAMPLE_NS 1000000
#define MAX_SRC   1024
#define PAGE      4096
#define STAGGER_BYTES \
	192 /* as buffers of real programs: not all at one place in a page */

struct bench {
	unsigned char *dst;
	const void *src[MAX_SRC];
	unsigned n_src;
	size_t n_bytes;
};

typedef void work_fn(const struct bench *bench, bps_reduce_fn *fn, size_t count);

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void work_kernel(const struct bench *bench, bps_reduce_fn *fn, size_t count)
{
	fn(bench->dst, bench->src, bench->n_src, count);
}

static void work_memcpy(const struct bench *bench, bps_reduce_fn *fn, size_t count)
{
	(void)fn;
	memcpy(bench->dst, bench->src[0], count);
}

static void work_copy_near(const struct bench *bench, bps_reduce_fn *fn, size_t count)
{
	(void)fn;
	bps_copy(false)(bench->dst, bench->src[0], count);
}

static void work_copy_past(const struct bench *bench, bps_reduce_fn *fn, size_t count)
{
	(void)fn;
	bps_copy(true)(bench->dst, bench->src[0], count);
	bps_copy_fence();
}

static void work_triad(const struct bench *bench, bps_reduce_fn *fn, size_t count)
{
	float *restrict dst = (void *)bench->dst;
	const float *a = bench->src[0], *b = bench->src[1];

	(void)fn;
	for (size_t i = 0; i < count; i++)
		dst[i] = a[i] + 3 * b[i];
}

/* The best of a few samples, in ns a call. */
static double measure(const struct bench *bench, work_fn *work, bps_reduce_fn *fn,
                      size_t count)
{
	double best = 1e18;

	work(bench, fn, count);
	for (int i = 0; i < N_SAMPLES; i++) {
		uint64_t start = now_ns(), end;
		unsigned n_calls = 0;
		double each;

		do {
			work(bench, fn, count);
			n_calls++;
			end = now_ns();
		} while (end - start < SAMPLE_NS);
		each = (double)(end - start) / n_calls;
		best = each < best ? each : best;
	}
	return best;
}

static void measure_kernel(const struct bench *bench, enum bps_dtype dtype,
                           enum bps_redop op, const char *only)
{
	size_t count = bench->n_bytes / bps_dtype_bytes(dtype);
	double n_moved = (double)bench->n_bytes * (bench->n_src + 1);
	char name[32];

	snprintf(name, sizeof(name), "%s %s", bps_test_dtype_names[dtype],
	         bps_test_redop_names[op]);
	if (only && !strstr(name, only))
		return;
	printf("%-12s", name);
	for (int isa = 0; isa < BPS_N_ISAS; isa++) {
		if ((int)bps_kernels_init((enum bps_isa)isa) != isa)
			break;
		printf(" %8.1f", n_moved / measure(bench, work_kernel,
		                                   bps_kernel(dtype, op), count));
	}
	printf("\n");
}

static void measure_copy(const struct bench *bench, const char *name, work_fn *work)
{
	double n_moved = 2 * (double)bench->n_bytes;

	printf("%-12s", name);
	for (int isa = 0; isa < BPS_N_ISAS; isa++) {
		if ((int)bps_kernels_init((enum bps_isa)isa) != isa)
			break;
		printf(" %8.1f", n_moved / measure(bench, work, NULL, bench->n_bytes));
	}
	printf("\n");
}

static void measure_all(const struct bench *bench, const char *only)
{
	size_t n_bytes = bench->n_bytes, n_floats = n_bytes / sizeof(float);

	printf("# %u sources of %zu bytes; GB/s read and written\n", bench->n_src,
	       n_bytes);
	printf("memcpy       %8.1f\n",
	       2 * (double)n_bytes / measure(bench, work_memcpy, NULL, n_bytes));
	printf("triad        %8.1f\n",
	       3 * (double)n_bytes / measure(bench, work_triad, NULL, n_floats));
	printf("%-12s %8s %8s %8s\n", "kernel", "c", "avx2", "avx512");
	measure_copy(bench, "copy near", work_copy_near);
	measure_copy(bench, "copy past", work_copy_past);
	for (int dtype = 1; dtype < BPS_N_DTYPES; dtype++)
		for (int op = 1; op < BPS_N_REDOPS; op++)
			if (bps_test_allowed((enum bps_dtype)dtype, (enum bps_redop)op))
				measure_kernel(bench, (enum bps_dtype)dtype,
				               (enum bps_redop)op, only);
}

void bps_test_bench(size_t n_bytes, unsigned n_src, const char *only)
{
	struct bench bench = { .n_bytes = n_bytes, .n_src = n_src };
	size_t stride = (n_bytes + PAGE - 1) / PAGE * PAGE + STAGGER_BYTES;
	unsigned char *memory;
	size_t n_all;

	if (n_src < 2 || n_src > MAX_SRC) {
		fprintf(stderr, "sources: 2 to %d\n", MAX_SRC);
		return;
	}
	n_all = stride * (n_src + 1);
	memory = aligned_alloc(PAGE, (n_all + PAGE - 1) / PAGE * PAGE);
	if (!memory) {
		fprintf(stderr, "no memory for %zu bytes\n", n_all);
		return;
	}
	/* small integers, ordinary as floats of any width too */
	memset(memory, 0x3c, n_all);
	bench.dst = memory;
	for (unsigned k = 0; k < n_src; k++)
		bench.src[k] = memory + (k + 1) * stride;
	measure_all(&bench, only);
	free(memory);
}
