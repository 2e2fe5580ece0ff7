/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every kernel of every instruction set that this processor has, against arithmetic of
 * the test's own. --seed N repeats a run; --bench measures instead: --bytes N, --sources
 * N, and a part of the kernel's name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "engine/kernels/kernels.h"
#include "tests/unit/kernels/bench.h"
#include "tests/unit/kernels/inputs.h"
#include "tests/unit/kernels/reference.h"

#define MAX_ELEM_BYTES 16
#define MAX_COUNT      1003
#define MAX_SRC        8
#define GUARD_BYTES    64
#define GUARD          0xa5
#define MAX_OFFSET     36
#define N_ELEMS(array) (sizeof(array) / sizeof((array)[0]))

static const size_t counts[] = { 0,  1,  2,  7,  8,  9,  15,  16,
	                         17, 31, 33, 63, 64, 65, 127, 1003 };
static const unsigned n_srcs[] = { 1, 2, 3, 5, 8 };
static const size_t offsets[] = { 0, 1, 2, 3, 4, 8, 12, 20, MAX_OFFSET };

/* One array with room for any misalignment and a guard on both sides. */
struct slot {
	_Alignas(64) unsigned char bytes[GUARD_BYTES + MAX_OFFSET +
	                                 MAX_COUNT * MAX_ELEM_BYTES + GUARD_BYTES];
};

struct input {
	_Alignas(64) unsigned char bytes[MAX_COUNT * MAX_ELEM_BYTES];
};

/* What is being tried: for the message that a failure prints. */
struct trial {
	enum bps_isa isa;
	enum bps_dtype dtype;
	enum bps_redop op;
	size_t count;
	unsigned n_src;
	unsigned offset; /* index of the destination's, the sources take the next ones */
	int alias;       /* the source that is the destination too, -1 is none */
};

static uint64_t seed;
static bps_reduce_fn *kernels[BPS_N_ISAS][BPS_N_DTYPES][BPS_N_REDOPS];
static int n_isas;

static struct input inputs[MAX_SRC];
static struct input want;
static struct input first_got; /* by the first instruction set */
static struct slot slots[MAX_SRC + 1];

static const char *describe(const struct trial *t)
{
	static char text[256];

	snprintf(text, sizeof(text),
	         "seed %llu: isa %d, %s %s, count %zu, %u sources, offset %zu, alias %d",
	         (unsigned long long)seed, (int)t->isa, bps_test_dtype_names[t->dtype],
	         bps_test_redop_names[t->op], t->count, t->n_src, offsets[t->offset],
	         t->alias);
	return text;
}

static void fail_at(const struct trial *t, const char *what, size_t i)
{
	print_error("%s: %s at %zu\n", describe(t), what, i);
	fail();
}

static unsigned char *place(unsigned slot, unsigned offset, const void *data,
                            size_t n_bytes)
{
	unsigned char *p =
		slots[slot].bytes + GUARD_BYTES + offsets[offset % N_ELEMS(offsets)];

	memset(p - GUARD_BYTES, GUARD, GUARD_BYTES);
	memset(p + n_bytes, GUARD, GUARD_BYTES);
	if (data && n_bytes)
		memcpy(p, data, n_bytes);
	return p;
}

static void check_guards(const struct trial *t, const unsigned char *p, size_t n_bytes)
{
	for (size_t i = 0; i < GUARD_BYTES; i++)
		if (p[n_bytes + i] != GUARD || p[-1 - (ptrdiff_t)i] != GUARD)
			fail_at(t, "written outside", i);
}

static void check_result(const struct trial *t, const void *expected, const void *got)
{
	for (size_t i = 0; i < t->count; i++)
		if (!bps_test_same(t->dtype, expected, got, i))
			fail_at(t, "wrong element", i);
}

static void try_once(const struct trial *t)
{
	size_t n_bytes = t->count * bps_dtype_bytes(t->dtype);
	size_t n_total = bps_total_bytes(t->dtype, n_bytes);
	const void *src[MAX_SRC];
	unsigned char *dst;

	for (unsigned k = 0; k < t->n_src; k++)
		src[k] = place(k, t->offset + 1 + k, inputs[k].bytes, n_bytes);
	if (t->alias < 0)
		dst = place(MAX_SRC, t->offset, NULL, n_total);
	else
		dst = place((unsigned)t->alias, t->offset + 1 + (unsigned)t->alias, NULL,
		            n_bytes);
	kernels[t->isa][t->dtype][t->op](dst, src, t->n_src, t->count);

	check_guards(t, dst, n_total);
	if (memcmp(dst, want.bytes, n_total) != 0)
		check_result(t, want.bytes, dst);
	if (t->isa == 0 && t->offset == 0 && t->alias < 0)
		memcpy(first_got.bytes, dst, n_total);
	else if (memcmp(dst, first_got.bytes, n_total) != 0)
		check_result(t, first_got.bytes, dst);
	for (unsigned k = 0; k < t->n_src; k++)
		if ((int)k != t->alias && memcmp(src[k], inputs[k].bytes, n_bytes) != 0)
			fail_at(t, "source written", k);
}

static bool in_place(enum bps_dtype dtype)
{
	return bps_dtype_bytes(dtype) == bps_total_bytes(dtype, bps_dtype_bytes(dtype));
}

static void try_places(struct trial t)
{
	int n_alias = in_place(t.dtype) ? (int)t.n_src : 0;

	for (int isa = 0; isa < n_isas; isa++) {
		t.isa = (enum bps_isa)isa;
		for (t.offset = 0; t.offset < N_ELEMS(offsets); t.offset++)
			for (t.alias = -1; t.alias < n_alias; t.alias++)
				try_once(&t);
	}
}

static void try_sizes(enum bps_dtype dtype, enum bps_redop op)
{
	struct bps_test_random random = { seed + dtype * 100UL + op };
	const void *src[MAX_SRC];

	for (size_t i = 0; i < N_ELEMS(counts); i++) {
		for (unsigned k = 0; k < MAX_SRC; k++) {
			bps_test_fill(&random, dtype, inputs[k].bytes, counts[i]);
			src[k] = inputs[k].bytes;
		}
		for (size_t k = 0; k < N_ELEMS(n_srcs); k++) {
			bps_test_reduce(dtype, op, want.bytes, src, n_srcs[k], counts[i]);
			try_places((struct trial){ .dtype = dtype,
			                           .op = op,
			                           .count = counts[i],
			                           .n_src = n_srcs[k] });
		}
	}
}

typedef void pair_fn(enum bps_dtype dtype, enum bps_redop op);

static void for_each_pair(pair_fn *fn)
{
	for (int dtype = 0; dtype < BPS_N_DTYPES; dtype++)
		for (int op = 0; op < BPS_N_REDOPS; op++)
			if (bps_test_allowed((enum bps_dtype)dtype, (enum bps_redop)op))
				fn((enum bps_dtype)dtype, (enum bps_redop)op);
}

static void test_table(void **state)
{
	(void)state;
	for (int isa = 0; isa < n_isas; isa++)
		for (int dtype = 0; dtype < BPS_N_DTYPES; dtype++)
			for (int op = 0; op < BPS_N_REDOPS; op++)
				assert_int_equal(bps_test_allowed((enum bps_dtype)dtype,
				                                  (enum bps_redop)op),
				                 kernels[isa][dtype][op] != NULL);
	assert_null(bps_kernel((enum bps_dtype)BPS_N_DTYPES, BPS_SUM));
	assert_null(bps_kernel((enum bps_dtype) - 1, BPS_SUM));
	assert_null(bps_kernel(BPS_F32, (enum bps_redop)BPS_N_REDOPS));
	assert_null(bps_kernel(BPS_F32, (enum bps_redop) - 1));
}

static void test_isa(void **state)
{
	static const char *const names[BPS_N_ISAS] = { "c", "avx2", "avx512" };

	(void)state;
	for (int isa = 0; isa < n_isas; isa++) {
		assert_int_equal(bps_kernels_init((enum bps_isa)isa), isa);
		assert_string_equal(bps_kernels_isa(), names[isa]);
		assert_ptr_equal(bps_kernel(BPS_F32, BPS_SUM),
		                 kernels[isa][BPS_F32][BPS_SUM]);
	}
}

static void test_places(void **state)
{
	(void)state;
	for_each_pair(try_sizes);
}

/* Every 16-bit number, with itself and with others. */
static void try_every_half(enum bps_dtype dtype, enum bps_redop op)
{
	enum { N = 65536, ROUNDS = 12 };
	static uint16_t a[N], b[N], expected[N], got[N];
	const void *src[2] = { a, b };
	struct bps_test_random random = { seed };
	struct trial t = {
		.dtype = dtype, .op = op, .count = N, .n_src = 2, .alias = -1
	};

	if (dtype != BPS_F16 && dtype != BPS_BF16)
		return;
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < N; i++) {
			a[i] = (uint16_t)i;
			b[i] = round ? (uint16_t)bps_test_next(&random) : (uint16_t)i;
			/* neighbours in size: sums that cancel, or need rounding */
			if (round & 1)
				b[i] = (uint16_t)(i ^ (b[i] & 0x8fff));
		}
		bps_test_reduce(dtype, op, expected, src, 2, N);
		for (int isa = 0; isa < n_isas; isa++) {
			t.isa = (enum bps_isa)isa;
			kernels[isa][dtype][op](got, src, 2, N);
			check_result(&t, expected, got);
		}
	}
}

static void test_every_half(void **state)
{
	(void)state;
	for_each_pair(try_every_half);
}

/* More than a block of elements, and more sources than any job has boxes. */
static void try_large(enum bps_dtype dtype, enum bps_redop op, unsigned n_src,
                      size_t count)
{
	size_t n_bytes = count * bps_dtype_bytes(dtype);
	unsigned char *memory = test_malloc(n_bytes * (n_src + 2));
	const void **src = test_calloc(n_src, sizeof(*src));
	struct bps_test_random random = { seed + n_src };
	struct trial t = {
		.dtype = dtype, .op = op, .count = count, .n_src = n_src, .alias = -1
	};

	for (unsigned k = 0; k < n_src; k++) {
		unsigned char *p = memory + k * n_bytes;

		bps_test_fill(&random, dtype, p, count);
		src[k] = p;
	}
	bps_test_reduce(dtype, op, memory + n_src * n_bytes, src, n_src, count);
	for (int isa = 0; isa < n_isas; isa++) {
		t.isa = (enum bps_isa)isa;
		kernels[isa][dtype][op](memory + (n_src + 1) * n_bytes, src, n_src,
		                        count);
		check_result(&t, memory + n_src * n_bytes,
		             memory + (n_src + 1) * n_bytes);
	}
	test_free(src);
	test_free(memory);
}

static void try_blocks(enum bps_dtype dtype, enum bps_redop op)
{
	try_large(dtype, op, 3, 4096 + 4095);
}

static void test_blocks(void **state)
{
	(void)state;
	for_each_pair(try_blocks);
}

static void test_many_sources(void **state)
{
	(void)state;
	try_large(BPS_F32, BPS_SUM, 1024, 1100);
	try_large(BPS_BF16, BPS_SUM, 1024, 1100);
	try_large(BPS_U8, BPS_BXOR, 1024, 4200);
}

/* A NaN may still be a signalling one: it is quiet in the total. */
static bool same_number(const float *a, const void *unaligned)
{
	float b;

	memcpy(&b, unaligned, sizeof(b));
	return memcmp(a, &b, sizeof(b)) == 0 || (*a != *a && b != b);
}

/* The ranks' 16-bit inputs, anywhere, to one contribution in fp32. */
static void try_push(enum bps_dtype dtype, enum bps_redop op, unsigned n_src,
                     unsigned offset, size_t count)
{
	enum bps_dtype half = dtype == BPS_F16_WIDE ? BPS_F16 : BPS_BF16;
	struct bps_test_random random = { seed + n_src };
	struct trial t = {
		.dtype = dtype, .op = op, .count = count, .n_src = n_src, .offset = offset
	};
	const void *src[MAX_SRC], *aligned[MAX_SRC];
	unsigned char *dst;

	for (unsigned k = 0; k < n_src; k++) {
		bps_test_fill(&random, half, inputs[k].bytes, count);
		aligned[k] = inputs[k].bytes;
		src[k] = place(k, offset + 1 + k, inputs[k].bytes, 2 * count);
	}
	bps_test_reduce_push(dtype, op, (float *)want.bytes, aligned, n_src, count);
	for (int isa = 0; isa < n_isas; isa++) {
		t.isa = (enum bps_isa)isa;
		bps_kernels_init(t.isa);
		dst = place(MAX_SRC, offset, NULL, 4 * count);
		bps_kernel_push(dtype, op)(dst, src, n_src, count);
		check_guards(&t, dst, 4 * count);
		for (size_t i = 0; i < count; i++)
			if (!same_number((const float *)want.bytes + i, dst + 4 * i))
				fail_at(&t, "wrong contribution", i);
	}
}

static void test_push(void **state)
{
	(void)state;
	for (int op = BPS_SUM; op <= BPS_PROD; op++)
		for (int dtype = BPS_F16_WIDE; dtype <= BPS_BF16_WIDE; dtype++)
			for (unsigned i = 0; i < N_ELEMS(counts) * N_ELEMS(n_srcs); i++)
				try_push((enum bps_dtype)dtype, (enum bps_redop)op,
				         n_srcs[i / N_ELEMS(counts)],
				         i % N_ELEMS(offsets),
				         counts[i % N_ELEMS(counts)]);
	assert_null(bps_kernel_push(BPS_F16_WIDE, BPS_MIN));
	assert_null(bps_kernel_push(BPS_F16_WIDE, (enum bps_redop)BPS_N_REDOPS));
	assert_ptr_equal(bps_kernel_push(BPS_F16, BPS_SUM), bps_kernel(BPS_F16, BPS_SUM));
}

/* The arrays of one trial end (or start) where no memory is: not a byte more is read. */
struct edge {
	unsigned char *base;
	size_t page_bytes;
};

static void edge_init(struct edge *edge)
{
	edge->page_bytes = 16384;
	edge->base = mmap(NULL, 9 * edge->page_bytes, PROT_NONE,
	                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(edge->base != MAP_FAILED);
	for (size_t i = 1; i < 9; i += 2)
		assert_int_equal(mprotect(edge->base + i * edge->page_bytes,
		                          edge->page_bytes, PROT_READ | PROT_WRITE),
		                 0);
}

static struct edge edge;

static void try_edges(enum bps_dtype dtype, enum bps_redop op)
{
	struct bps_test_random random = { seed };

	for (unsigned i = 0; i < 2 * N_ELEMS(counts); i++) {
		size_t count = counts[i / 2];
		size_t n_bytes = count * bps_dtype_bytes(dtype);
		size_t at = i & 1 ? edge.page_bytes - n_bytes : 0;
		const void *src[3];

		if (n_bytes > edge.page_bytes)
			continue;
		for (unsigned k = 0; k < 3; k++) {
			unsigned char *p = edge.base + (2 * k + 1) * edge.page_bytes + at;

			bps_test_fill(&random, dtype, p, count);
			src[k] = p;
		}
		at = i & 1 ? edge.page_bytes - bps_total_bytes(dtype, n_bytes) : 0;
		for (int isa = 0; isa < n_isas; isa++)
			kernels[isa][dtype][op](edge.base + 7 * edge.page_bytes + at, src,
			                        3, count);
	}
}

static void test_edges(void **state)
{
	(void)state;
	edge_init(&edge);
	for_each_pair(try_edges);
	munmap(edge.base, 9 * edge.page_bytes);
}

/* Any place to any place, and nothing but what was asked for is read or written. */
static void try_copy(bps_copy_fn *copy, size_t n_bytes, struct bps_test_random *random)
{
	size_t room = edge.page_bytes - n_bytes;
	const size_t at[] = { 0, 1, 16, 63, 64, room };

	for (size_t i = 0; i < N_ELEMS(at) * N_ELEMS(at); i++) {
		size_t from = at[i / N_ELEMS(at)], to = at[i % N_ELEMS(at)];
		unsigned char *src = edge.base + edge.page_bytes + from;
		unsigned char *page = edge.base + 3 * edge.page_bytes;
		size_t k;

		if (from > room || to > room)
			continue;
		bps_test_fill(random, BPS_U8, src, n_bytes);
		memset(page, GUARD, edge.page_bytes);
		copy(page + to, src, n_bytes);
		bps_copy_fence();
		assert_memory_equal(page + to, src, n_bytes);
		for (k = 0; k < edge.page_bytes; k++)
			if ((k < to || k >= to + n_bytes) && page[k] != GUARD)
				fail_msg("seed %llu: %zu bytes from %zu to %zu: written "
				         "at %zu",
				         (unsigned long long)seed, n_bytes, from, to, k);
	}
}

static void test_copies(void **state)
{
	static const size_t sizes[] = { 0,   1,   15,  63,   64,   65,    127,
		                        128, 129, 191, 1000, 4096, 10007, 16384 };
	struct bps_test_random random = { seed };

	(void)state;
	edge_init(&edge);
	for (int isa = 0; isa < n_isas; isa++) {
		bps_kernels_init((enum bps_isa)isa);
		for (size_t i = 0; i < N_ELEMS(sizes); i++) {
			try_copy(bps_copy(false), sizes[i], &random);
			try_copy(bps_copy(true), sizes[i], &random);
		}
	}
	munmap(edge.base, 9 * edge.page_bytes);
}

static void find_kernels(void)
{
	for (; n_isas < BPS_N_ISAS; n_isas++) {
		if ((int)bps_kernels_init((enum bps_isa)n_isas) != n_isas)
			break;
		for (int dtype = 0; dtype < BPS_N_DTYPES; dtype++)
			for (int op = 0; op < BPS_N_REDOPS; op++)
				kernels[n_isas][dtype][op] = bps_kernel(
					(enum bps_dtype)dtype, (enum bps_redop)op);
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "bench", no_argument, NULL, 'b' },
		{ "bytes", required_argument, NULL, 'n' },
		{ "sources", required_argument, NULL, 'k' },
		{ "seed", required_argument, NULL, 's' },
		{ 0 },
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),  cmocka_unit_test(test_isa),
		cmocka_unit_test(test_places), cmocka_unit_test(test_every_half),
		cmocka_unit_test(test_blocks), cmocka_unit_test(test_many_sources),
		cmocka_unit_test(test_edges),  cmocka_unit_test(test_copies),
		cmocka_unit_test(test_push),
	};
	size_t n_bytes = 256 << 10;
	unsigned n_src = 2;
	bool bench = false;
	int c;

	seed = (uint64_t)time(NULL);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'b')
			bench = true;
		else if (c == 'n')
			n_bytes = strtoul(optarg, NULL, 0);
		else if (c == 'k')
			n_src = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	if (bench) {
		bps_test_bench(n_bytes, n_src, argv[optind]);
		return 0;
	}
	find_kernels();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
