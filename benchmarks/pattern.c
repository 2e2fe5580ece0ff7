/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmarks/pattern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A prime, so that no power of two of bytes is a whole number of periods. */
#define PERIOD 8191
#define SHIFT  17

#define TYPE(name, mpi, ctype, kind)                         \
	{                                                    \
		name, mpi, sizeof(ctype), BPS_PATTERN_##kind \
	}

static const struct bps_pattern_type types[] = {
	TYPE("float", MPI_FLOAT, float, FLOATING),
	TYPE("double", MPI_DOUBLE, double, FLOATING),
	TYPE("char", MPI_SIGNED_CHAR, signed char, SIGNED),
	TYPE("short", MPI_SHORT, short, SIGNED),
	TYPE("int", MPI_INT, int, SIGNED),
	TYPE("long", MPI_LONG, long, SIGNED),
	TYPE("int64", MPI_INT64_T, int64_t, SIGNED),
	TYPE("uchar", MPI_UNSIGNED_CHAR, unsigned char, UNSIGNED),
	TYPE("ushort", MPI_UNSIGNED_SHORT, unsigned short, UNSIGNED),
	TYPE("uint", MPI_UNSIGNED, unsigned int, UNSIGNED),
	TYPE("ulong", MPI_UNSIGNED_LONG, unsigned long, UNSIGNED),
	TYPE("uint64", MPI_UINT64_T, uint64_t, UNSIGNED),
	TYPE("byte", MPI_BYTE, unsigned char, BYTES),
};

static const struct bps_pattern_op ops[] = {
	{ "sum", MPI_SUM, BPS_PATTERN_ARITHMETIC },
	{ "prod", MPI_PROD, BPS_PATTERN_ARITHMETIC },
	{ "min", MPI_MIN, BPS_PATTERN_ARITHMETIC },
	{ "max", MPI_MAX, BPS_PATTERN_ARITHMETIC },
	{ "land", MPI_LAND, BPS_PATTERN_LOGICAL },
	{ "lor", MPI_LOR, BPS_PATTERN_LOGICAL },
	{ "lxor", MPI_LXOR, BPS_PATTERN_LOGICAL },
	{ "band", MPI_BAND, BPS_PATTERN_BITWISE },
	{ "bor", MPI_BOR, BPS_PATTERN_BITWISE },
	{ "bxor", MPI_BXOR, BPS_PATTERN_BITWISE },
};

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

const struct bps_pattern_type *bps_pattern_find_type(const char *name)
{
	if (strncmp(name, "mpi_", 4) == 0)
		name += 4;
	for (size_t i = 0; i < N_ELEMENTS(types); i++)
		if (strcmp(name, types[i].name) == 0)
			return &types[i];
	return NULL;
}

const struct bps_pattern_op *bps_pattern_find_op(const char *name)
{
	for (size_t i = 0; i < N_ELEMENTS(ops); i++)
		if (strcmp(name, ops[i].name) == 0)
			return &ops[i];
	return NULL;
}

int bps_pattern_allowed(const struct bps_pattern_type *type,
                        const struct bps_pattern_op *op)
{
	switch (type->kind) {
	case BPS_PATTERN_FLOATING:
		return op->group == BPS_PATTERN_ARITHMETIC;
	case BPS_PATTERN_BYTES:
		return op->group == BPS_PATTERN_BITWISE;
	default:
		return 1;
	}
}

static uint32_t scramble(uint32_t rank, uint32_t index)
{
	uint32_t x = index * 0x9e3779b1u + rank * 0x85ebca77u + 1;

	x = (x ^ (x >> 15)) * 0x2c1b3c6du;
	x = (x ^ (x >> 12)) * 0x297a2d39u;
	return x ^ (x >> 15);
}

/* What a rank gives: few zeros for "and", few ones for "or", factors that stay exact. */
static int64_t value_of(const struct bps_pattern *pattern, uint32_t rank, uint32_t index)
{
	int64_t x = scramble(rank, index);
	MPI_Op op = pattern->op->mpi;
	int is_signed = pattern->type->kind == BPS_PATTERN_SIGNED ||
	                pattern->type->kind == BPS_PATTERN_FLOATING;

	if (op == MPI_SUM)
		return x % 16 - (is_signed ? 7 : 0);
	if (op == MPI_PROD)
		return (int64_t)(x % 4 == 0 ? 2 : 1) * (is_signed && (x & 16) ? -1 : 1);
	if (op == MPI_MIN || op == MPI_MAX)
		return x % 101 - (is_signed ? 50 : 0);
	if (op == MPI_LAND || op == MPI_LXOR)
		return x % 8;
	if (op == MPI_LOR)
		return x % 8 == 0 ? 3 : 0;
	if (op == MPI_BAND)
		return x | (x >> 7) | (x >> 14);
	if (op == MPI_BOR)
		return x & (x >> 7) & (x >> 14);
	return x;
}

static int64_t combine(MPI_Op op, int64_t a, int64_t b)
{
	if (op == MPI_SUM)
		return a + b;
	if (op == MPI_PROD)
		return (int64_t)((uint64_t)a * (uint64_t)b);
	if (op == MPI_MIN)
		return a < b ? a : b;
	if (op == MPI_MAX)
		return a > b ? a : b;
	if (op == MPI_LAND)
		return a && b;
	if (op == MPI_LOR)
		return a || b;
	if (op == MPI_LXOR)
		return !a != !b;
	if (op == MPI_BAND)
		return a & b;
	if (op == MPI_BOR)
		return a | b;
	return a ^ b;
}

/* A product of many ranks leaves 64 bits, where a float is still exact. */
static double combine_floating(MPI_Op op, double a, double b)
{
	return op == MPI_PROD ? a * b : (double)combine(op, (int64_t)a, (int64_t)b);
}

static void store(const struct bps_pattern_type *type, unsigned char *period,
                  uint32_t index, int64_t value, double floating)
{
	float narrow = (float)floating;
	const void *from = &value; /* little endian: the low bytes come first */

	if (type->kind == BPS_PATTERN_FLOATING && type->bytes == sizeof(float))
		from = &narrow;
	else if (type->kind == BPS_PATTERN_FLOATING)
		from = &floating;
	memcpy(period + index * type->bytes, from, type->bytes);
}

static void compute_expected(struct bps_pattern *pattern, uint32_t index,
                             uint32_t n_ranks)
{
	int64_t total = value_of(pattern, 0, index);
	double floating = (double)total;

	/* Of a single rank MPI returns the input as it is, also for the logical ones. */
	for (uint32_t rank = 1; rank < n_ranks; rank++) {
		int64_t value = value_of(pattern, rank, index);

		total = combine(pattern->op->mpi, total, value);
		floating = combine_floating(pattern->op->mpi, floating, (double)value);
	}
	store(pattern->type, pattern->expected, index, total, floating);
}

int bps_pattern_init(struct bps_pattern *pattern, const struct bps_pattern_type *type,
                     const struct bps_pattern_op *op, int rank, int n_ranks)
{
	*pattern = (struct bps_pattern){ .type = type, .op = op };
	pattern->input = malloc(PERIOD * type->bytes);
	pattern->expected = malloc(PERIOD * type->bytes);
	if (!pattern->input || !pattern->expected)
		return -ENOMEM;
	for (uint32_t i = 0; i < PERIOD; i++) {
		int64_t value = value_of(pattern, (uint32_t)rank, i);

		store(type, pattern->input, i, value, (double)value);
		compute_expected(pattern, i, (uint32_t)n_ranks);
	}
	return 0;
}

void bps_pattern_deinit(struct bps_pattern *pattern)
{
	free(pattern->input);
	free(pattern->expected);
	*pattern = (struct bps_pattern){ 0 };
}

void bps_pattern_fill(const struct bps_pattern *pattern, void *buffer, size_t count,
                      unsigned int iteration)
{
	size_t bytes = pattern->type->bytes;
	size_t from = (size_t)iteration * SHIFT % PERIOD;

	for (size_t done = 0; done < count;) {
		size_t n = count - done < PERIOD - from ? count - done : PERIOD - from;

		memcpy((char *)buffer + done * bytes, pattern->input + from * bytes,
		       n * bytes);
		done += n;
		from = 0;
	}
}

static size_t first_difference(const char *a, const char *b, size_t n, size_t bytes)
{
	size_t i = 0;

	while (i < n && memcmp(a + i * bytes, b + i * bytes, bytes) == 0)
		i++;
	return i;
}

static size_t check(const unsigned char *period, const void *buffer, size_t count,
                    unsigned int iteration, size_t bytes)
{
	size_t from = (size_t)iteration * SHIFT % PERIOD;

	for (size_t done = 0; done < count;) {
		size_t n = count - done < PERIOD - from ? count - done : PERIOD - from;
		const char *got = (const char *)buffer + done * bytes;
		const char *want = (const char *)period + from * bytes;

		if (memcmp(got, want, n * bytes) != 0)
			return done + first_difference(got, want, n, bytes);
		done += n;
		from = 0;
	}
	return count;
}

size_t bps_pattern_check_input(const struct bps_pattern *pattern, const void *buffer,
                               size_t count, unsigned int iteration)
{
	return check(pattern->input, buffer, count, iteration, pattern->type->bytes);
}

size_t bps_pattern_check_result(const struct bps_pattern *pattern, const void *buffer,
                                size_t count, unsigned int iteration)
{
	return check(pattern->expected, buffer, count, iteration, pattern->type->bytes);
}
