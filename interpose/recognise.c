/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/recognise.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The longest array that has no whole vector of eight. */
#define SHORT_COUNT 7u
/* Behind the elements: must stay what it is. */
#define GUARD       0x5a5au
#define GUARD_COUNT 8u

/* A 16-bit float, by its definition. */
struct format {
	int mantissa_bits, bias;
	double least; /* the smallest subnormal */
};

static const struct format binary16 = { 10, 15, 0x1p-24 };
static const struct format bfloat16 = { 7, 127, 0x1p-133 };

/* What an operation may be. A MIN or MAX keeps, of two without order, the later or not.
 */
static const struct candidate {
	struct bps_recognised kind;
	const struct format *format;
	bool later;
} candidates[] = {
	{ { BPS_F16, BPS_SUM }, &binary16, false },
	{ { BPS_F16, BPS_PROD }, &binary16, false },
	{ { BPS_F16, BPS_MIN }, &binary16, false },
	{ { BPS_F16, BPS_MIN }, &binary16, true },
	{ { BPS_F16, BPS_MAX }, &binary16, false },
	{ { BPS_F16, BPS_MAX }, &binary16, true },
	{ { BPS_BF16, BPS_SUM }, &bfloat16, false },
	{ { BPS_BF16, BPS_PROD }, &bfloat16, false },
	{ { BPS_BF16, BPS_MIN }, &bfloat16, false },
	{ { BPS_BF16, BPS_MIN }, &bfloat16, true },
	{ { BPS_BF16, BPS_MAX }, &bfloat16, false },
	{ { BPS_BF16, BPS_MAX }, &bfloat16, true },
};

/* Numbers of both formats that are neither tiny nor huge, nor sum or multiply to such. */
static const uint16_t ordinary[] = {
	0x3c00, 0xbc00, 0x3f80, 0x3e01, 0xbdff, 0x4000,
	0xc040, 0x3d55, 0x3c01, 0x40ff, 0xbe80,
};

/* Positive ones; each is also used with the other sign. */
static const uint16_t chosen[] = {
	0x0000, 0x0001, 0x0002, 0x0003, 0x007f, 0x0080, 0x0081, /* bfloat16: subnormals
	                                                           end */
	0x01ff, 0x0200, 0x03ff, 0x0400, 0x0401, 0x0402, 0x07ff, /* binary16: likewise */
	0x1000, 0x1001, 0x1400, 0x13ff, 0x2c00, 0x3333, 0x3555, /* below 1: ties with it
	                                                         */
	0x33ff, 0x37ff, 0x3800, 0x3801, 0x3bff, 0x3c00, 0x3c01, 0x3c02, 0x3c03, 0x3dff,
	0x3b80, 0x3c80, 0x3e80, 0x3f00, 0x3f01, 0x3f7f, 0x3f80, 0x3f81, 0x3f82, 0x3f83,
	0x4000, 0x4001, 0x4049, 0x4200, 0x42ff, 0x5bff, 0x5c00, 0x6400, 0x6800, 0x6bff,
	0x7800, 0x7bfe, 0x7bff, 0x7c00, 0x7c01, 0x7dff, 0x7e00, /* binary16: to infinity
	                                                         */
	0x7f00, 0x7f7e, 0x7f7f, 0x7f80, 0x7f81, 0x7fbf, 0x7fc0, 0x7fff, /* bfloat16's */
};

#define N_CHOSEN   (2 * COUNT(chosen))
#define N_PAIRS    (N_CHOSEN * N_CHOSEN)
#define N_ELEMENTS 65536u

/* -- arithmetic -- */

union f64_bits {
	double f;
	uint64_t u;
};

static double decode(const struct format *format, uint16_t bits)
{
	int mantissa_bits = format->mantissa_bits;
	uint64_t sign = (uint64_t)(bits & 0x8000u) << 48;
	uint64_t mantissa = bits & ((1u << mantissa_bits) - 1);
	uint64_t exponent = (bits & 0x7fffu) >> mantissa_bits;
	union f64_bits value = { .u = mantissa << (52 - mantissa_bits) };

	if (exponent == 0)
		value.f = (double)mantissa * format->least;
	else if (exponent == 2 * (uint64_t)format->bias + 1)
		value.u |= UINT64_C(0x7ff) << 52 | (mantissa ? UINT64_C(1) << 51 : 0);
	else
		value.u |= (exponent + 1023 - (uint64_t)format->bias) << 52;
	value.u |= sign;
	return value.f;
}

/* To nearest, of two the even one. */
static uint16_t encode(const struct format *format, double f)
{
	const union f64_bits value = { .f = f };
	uint16_t sign = (uint16_t)(value.u >> 48 & 0x8000);
	uint32_t infinity = (2u * (uint32_t)format->bias + 1) << format->mantissa_bits;
	int exponent = (int)(value.u >> 52 & 0x7ff) - 1023 + format->bias;
	uint64_t mantissa = (value.u & (UINT64_MAX >> 12)) | UINT64_C(1) << 52;
	int dropped = 52 - format->mantissa_bits + (exponent < 1 ? 1 - exponent : 0);
	uint64_t kept, rest, half;

	if (f != f)
		return (uint16_t)(infinity | 1u << (format->mantissa_bits - 1));
	if (exponent > 2 * format->bias)
		return (uint16_t)(sign | infinity);
	if (dropped > 54)
		return sign;
	kept = mantissa >> dropped;
	rest = mantissa & ((UINT64_C(1) << dropped) - 1);
	half = UINT64_C(1) << (dropped - 1);
	kept += rest > half || (rest == half && kept % 2 == 1);
	/* the leading one counts as a step of the exponent */
	if (exponent > 1)
		kept += (uint64_t)(exponent - 1) << format->mantissa_bits;
	return (uint16_t)(sign | kept);
}

static bool is_nan(const struct format *format, uint16_t bits)
{
	uint32_t infinity = (2u * (uint32_t)format->bias + 1) << format->mantissa_bits;

	return (bits & 0x7fffu) > infinity;
}

/* @a of the earlier rank op @b of the later one. */
static uint16_t apply(const struct candidate *candidate, uint16_t a, uint16_t b)
{
	const struct format *format = candidate->format;
	float x = (float)decode(format, a), y = (float)decode(format, b);

	switch (candidate->kind.redop) {
	case BPS_SUM:
		return encode(format, (double)(x + y));
	case BPS_PROD:
		return encode(format, (double)(x * y));
	case BPS_MIN:
		return x < y || (!candidate->later && !(y < x)) ? a : b;
	default:
		return x > y || (!candidate->later && !(y > x)) ? a : b;
	}
}

/* -- trials -- */

struct trial {
	bps_combine_fn *combine;
	void *owner;
	bool left[COUNT(candidates)]; /* those that no result has contradicted */
	const uint16_t *a, *b;        /* the arrays under trial */
	uint16_t *in, *inout;         /* N_ELEMENTS, and more behind */
};

static bool any_left(const struct trial *trial)
{
	for (size_t i = 0; i < COUNT(candidates); i++)
		if (trial->left[i])
			return true;
	return false;
}

static bool agrees(const struct candidate *candidate, const struct trial *trial,
                   size_t at, const uint16_t *got, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint16_t want = apply(candidate, trial->a[at + i], trial->b[at + i]);

		if (want != got[i] && !(is_nan(candidate->format, want) &&
		                        is_nan(candidate->format, got[i])))
			return false;
	}
	return true;
}

/* One call, of @count elements from @at on, lying @shift elements off an aligned place.
 */
static void try_part(struct trial *trial, size_t at, size_t count, size_t shift)
{
	uint16_t *in = trial->in + shift, *inout = trial->inout + shift;
	bool sound;

	memcpy(in, trial->a + at, count * sizeof(*in));
	memcpy(inout, trial->b + at, count * sizeof(*inout));
	for (size_t i = 0; i < GUARD_COUNT; i++)
		inout[count + i] = GUARD;
	sound = trial->combine(trial->owner, in, inout, (int)count) == 0;
	for (size_t i = 0; i < GUARD_COUNT; i++)
		sound = sound && inout[count + i] == GUARD;
	for (size_t i = 0; i < COUNT(candidates); i++)
		trial->left[i] = trial->left[i] && sound &&
		                 agrees(&candidates[i], trial, at, inout, count);
}

/* In one long array, then in short ones, which have no whole vector. */
static void try_arrays(struct trial *trial, size_t count)
{
	if (any_left(trial))
		try_part(trial, 0, count, 0);
	for (size_t at = 0; at < count && any_left(trial); at += SHORT_COUNT)
		try_part(trial, at, count - at < SHORT_COUNT ? count - at : SHORT_COUNT,
		         at / SHORT_COUNT % 4);
	for (size_t at = 1; at < count && at < 64 && any_left(trial); at++)
		try_part(trial, 0, at, at % 3);
}

static void cross(const uint16_t *numbers, size_t n, uint16_t *a, uint16_t *b)
{
	for (size_t i = 0; i < n * n; i++) {
		a[i] = numbers[i / n];
		b[i] = numbers[i % n];
	}
}

/* Every element, on both sides, beside one of its size and beside any other. */
static void try_every(struct trial *trial, uint16_t *a, uint16_t *b)
{
	for (uint32_t round = 0; round < 4 && any_left(trial); round++) {
		uint16_t *every = round % 2 ? b : a, *other = round % 2 ? a : b;

		for (uint32_t i = 0; i < N_ELEMENTS; i++) {
			every[i] = (uint16_t)i;
			other[i] = (uint16_t)(round < 2 ? i ^ (i * 0x9e37u & 0x83ffu)
			                                : i * 0x6255u + 0x3619u);
		}
		try_part(trial, 0, N_ELEMENTS, round);
	}
}

/* Of the program's own, that many beside as many others; a single one beside itself. */
#define N_SAMPLE 32u

static void try_sample(struct trial *trial, const uint16_t *sample, size_t count)
{
	size_t half = count - count / 2, n = half < N_SAMPLE ? half : N_SAMPLE;
	uint16_t a[N_SAMPLE], b[N_SAMPLE]; /* @sample may lie at an odd place */

	memcpy(a, sample, n * sizeof(*a));
	memcpy(b, (const char *)sample + 2 * (count - n), n * sizeof(*b));
	trial->a = a;
	trial->b = b;
	try_part(trial, 0, n, 0);
}

static void try_all(struct trial *trial, uint16_t *a, uint16_t *b)
{
	uint16_t numbers[N_CHOSEN];

	trial->a = a;
	trial->b = b;
	if (!any_left(trial))
		return;
	cross(ordinary, COUNT(ordinary), a, b);
	try_arrays(trial, COUNT(ordinary) * COUNT(ordinary));
	for (size_t i = 0; i < N_CHOSEN; i++)
		numbers[i] = (uint16_t)(chosen[i / 2] | i % 2 << 15);
	cross(numbers, N_CHOSEN, a, b);
	if (any_left(trial))
		try_arrays(trial, N_PAIRS);
	if (any_left(trial))
		try_every(trial, a, b);
}

/* A program may have its exceptions trap: not for what we try. */
#if defined(__SSE__)
#define MXCSR_FLAGS 0x003fu
#define MXCSR_MASKS 0x1f80u

static uint32_t float_hold(void)
{
	uint32_t before = __builtin_ia32_stmxcsr();

	__builtin_ia32_ldmxcsr((before & ~MXCSR_FLAGS) | MXCSR_MASKS);
	return before;
}

static void float_restore(uint32_t before)
{
	__builtin_ia32_ldmxcsr(before);
}
#else
static uint32_t float_hold(void)
{
	return 0;
}

static void float_restore(uint32_t before)
{
	(void)before;
}
#endif

static bool same(struct bps_recognised a, struct bps_recognised b)
{
	return a.dtype == b.dtype && a.redop == b.redop;
}

bool bps_recognise_again(bps_combine_fn *combine, void *owner, const uint16_t *sample,
                         size_t count, struct bps_recognised kind)
{
	uint16_t arrays[2][N_SAMPLE + GUARD_COUNT];
	struct trial trial = {
		.combine = combine, .owner = owner, .in = arrays[0], .inout = arrays[1]
	};
	uint32_t held = float_hold();

	for (size_t i = 0; i < COUNT(candidates); i++)
		trial.left[i] = same(candidates[i].kind, kind);
	try_sample(&trial, sample, count);
	float_restore(held);
	return any_left(&trial);
}

int bps_recognise(bps_combine_fn *combine, void *owner, const uint16_t *sample,
                  size_t count_sample, struct bps_recognised *ret)
{
	const size_t count = N_ELEMENTS + 64;
	struct trial trial = { .combine = combine, .owner = owner };
	uint16_t *arrays = aligned_alloc(64, 4 * count * sizeof(*arrays));
	uint32_t held;

	if (!arrays)
		return -ENOMEM;
	*ret = (struct bps_recognised){ BPS_DTYPE_NONE, BPS_REDOP_NONE };
	memset(trial.left, true, sizeof(trial.left));
	trial.in = arrays + 2 * count;
	trial.inout = arrays + 3 * count;
	held = float_hold();
	try_sample(&trial, sample, count_sample);
	try_all(&trial, arrays, arrays + count);
	float_restore(held);
	for (size_t i = 0; i < COUNT(candidates); i++)
		if (trial.left[i])
			*ret = candidates[i].kind;
	free(arrays);
	return 0;
}
