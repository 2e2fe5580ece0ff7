/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an operation on two-byte elements is found to be: hand-written ones, right and
 * wrong in one thing each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "interpose/recognise.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* -- 16-bit floats, in one style: the definition, through double -- */

static double value_of(uint16_t h, int bits)
{
	int bias = bits == 10 ? 15 : 127, exponent = (h & 0x7fff) >> bits;
	double mantissa = h & ((1 << bits) - 1), value;

	if (exponent == 2 * bias + 1)
		value = mantissa != 0 ? NAN : INFINITY;
	else if (exponent == 0)
		value = ldexp(mantissa, 1 - bias - bits);
	else
		value = ldexp(mantissa + (1 << bits), exponent - bias - bits);
	return h & 0x8000 ? -value : value;
}

/* @step: how a number of steps is made whole */
static uint16_t bits_of(double value, int bits, double (*whole)(double))
{
	int bias = bits == 10 ? 15 : 127, infinity = (2 * bias + 1) << bits, exponent;
	uint16_t sign = signbit(value) ? 0x8000 : 0;
	double steps;
	int number;

	if (isnan(value))
		return (uint16_t)(infinity | 1);
	if (isinf(value))
		return (uint16_t)(sign | infinity);
	frexp(value, &exponent);
	if (value == 0 || exponent - 1 < 1 - bias)
		exponent = 2 - bias;
	steps = whole(ldexp(fabs(value), bits + 1 - exponent));
	number = (int)steps + ((exponent - 2 + bias) << bits);
	return (uint16_t)(sign | (number < infinity ? number : infinity));
}

#define LOOP(name, expression)                                                       \
	static int name(void *owner, const uint16_t *in, uint16_t *inout, int count) \
	{                                                                            \
		(void)owner;                                                         \
		for (int i = 0; i < count; i++) {                                    \
			uint16_t a = in[i], b = inout[i];                            \
                                                                                     \
			inout[i] = (uint16_t)(expression);                           \
		}                                                                    \
		return 0;                                                            \
	}

#define F16(h)       ((float)value_of((h), 10))
#define BF16(h)      ((float)value_of((h), 7))
#define TO_F16(f)    bits_of((double)(f), 10, nearbyint)
#define TO_BF16(f)   bits_of((double)(f), 7, nearbyint)
#define SUBNORMAL(h) (((h)&0x7c00) == 0)
#define FLUSHED(h)   (SUBNORMAL(h) ? (h)&0x8000 : (h))
#define IS_NAN(h)    (((h)&0x7fff) > 0x7c00)
#define SUM16(a, b)  TO_F16(F16(a) + F16(b))

LOOP(sum_f16, SUM16(a, b))
LOOP(prod_f16, TO_F16(F16(a) * F16(b)))
LOOP(min_f16, F16(a) < F16(b) ? a : b)
LOOP(min_f16_earlier, F16(b) < F16(a) ? b : a)
LOOP(max_f16, F16(a) > F16(b) ? a : b)
LOOP(sum_bf16, TO_BF16(BF16(a) + BF16(b)))
LOOP(prod_bf16, TO_BF16(BF16(a) * BF16(b)))
LOOP(min_bf16, BF16(a) < BF16(b) ? a : b)
LOOP(max_bf16_earlier, BF16(b) > BF16(a) ? b : a)

/* -- in another style: integers alone, as a processor's vectors for whole eights -- */

/* A NaN stays one; a sum of two numbers of 11 bits is exact in 2^-24 steps. */
static int64_t steps_of(uint16_t h)
{
	int exponent = h >> 10 & 0x1f;
	int64_t steps =
		exponent ? (int64_t)(0x400 | (h & 0x3ff)) << (exponent - 1) : h & 0x3ff;

	return h & 0x8000 ? -steps : steps;
}

static uint16_t half_of(int64_t steps, uint16_t sign)
{
	uint64_t size = (uint64_t)(steps < 0 ? -steps : steps);
	int shift = 0;

	if (steps != 0)
		sign = steps < 0 ? 0x8000 : 0;
	while (size >> shift >= 0x800)
		shift++;
	if (shift > 0) {
		uint64_t half = UINT64_C(1) << (shift - 1);

		size += half - 1 + (size >> shift & 1);
		size >>= shift;
		size += (uint64_t)shift << 10;
	}
	return (uint16_t)(sign | (size > 0x7c00 ? 0x7c00 : size));
}

static uint16_t integer_sum(uint16_t a, uint16_t b)
{
	bool infinite_a = (a & 0x7fff) == 0x7c00, infinite_b = (b & 0x7fff) == 0x7c00;

	if (IS_NAN(a) || IS_NAN(b) || (infinite_a && infinite_b && a != b))
		return 0x7fff;
	if (infinite_a || infinite_b)
		return infinite_a ? a : b;
	return half_of(steps_of(a) + steps_of(b), a & b & 0x8000);
}

LOOP(sum_f16_integers, integer_sum(a, b))

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) static int
sum_f16_vectors(void *owner, const uint16_t *in, uint16_t *inout, int count)
{
	int i = 0;

	for (; i + 8 <= count; i += 8) {
		__m256 a = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(in + i)));
		__m256 b = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(inout + i)));

		_mm_storeu_si128((void *)(inout + i),
		                 _mm256_cvtps_ph(_mm256_add_ps(a, b), 0));
	}
	for (; i < count; i++)
		inout[i] = integer_sum(in[i], inout[i]);
	return 0;
}
#endif

/* -- wrong in one thing each -- */

static double away_from_zero(double x)
{
	return floor(x + 0.5);
}

LOOP(truncates, bits_of((double)(F16(a) + F16(b)), 10, trunc))
LOOP(ties_away, bits_of((double)(F16(a) + F16(b)), 10, away_from_zero))
LOOP(ties_away_bf16, bits_of((double)(BF16(a) + BF16(b)), 7, away_from_zero))
LOOP(flushes_inputs, SUM16(FLUSHED(a), FLUSHED(b)))
LOOP(flushes_results, FLUSHED(SUM16(a, b)))
LOOP(saturates, (SUM16(a, b) & 0x7fff) == 0x7c00 && F16(a) < 65536 && F16(b) < 65536 &&
                                F16(a) > -65536 && F16(b) > -65536
                        ? (SUM16(a, b) & 0x8000) | 0x7bff
                        : SUM16(a, b))
LOOP(nan_is_zero, IS_NAN(SUM16(a, b)) ? 0 : SUM16(a, b))
LOOP(no_negative_zero, SUM16(a, b) == 0x8000 ? 0 : SUM16(a, b))
LOOP(one_element_wrong, a == 0x5678 ? 0 : SUM16(a, b))
LOOP(one_partner_wrong, b == 0xc9a7 ? a : SUM16(a, b))
LOOP(average, TO_F16((F16(a) + F16(b)) / 2))
LOOP(difference, TO_F16(F16(a) - F16(b)))
LOOP(integers, a + b)
LOOP(nothing, ((void)a, b))
LOOP(first, ((void)b, a))
LOOP(min_prefers_numbers, TO_F16(fminf(F16(a), F16(b))))
LOOP(min_prefers_nan, IS_NAN(a) || F16(a) < F16(b) ? a : b)
LOOP(min_orders_zeros, F16(a) < F16(b) || (F16(a) == F16(b) && a == 0x8000) ? a : b)
LOOP(max_of_size, F16(a & 0x7fff) > F16(b & 0x7fff) ? a : b)

static int tail_is_wrong(void *owner, const uint16_t *in, uint16_t *inout, int count)
{
	int whole = count / 8 * 8;

	sum_f16(owner, in, inout, whole);
	return truncates(owner, in + whole, inout + whole, count - whole);
}

static int vectors_are_wrong(void *owner, const uint16_t *in, uint16_t *inout, int count)
{
	int whole = count / 16 * 16;

	truncates(owner, in, inout, whole);
	return sum_f16(owner, in + whole, inout + whole, count - whole);
}

static int forgets_the_tail(void *owner, const uint16_t *in, uint16_t *inout, int count)
{
	return sum_f16(owner, in, inout, count / 4 * 4);
}

static int writes_behind(void *owner, const uint16_t *in, uint16_t *inout, int count)
{
	sum_f16(owner, in, inout, count);
	inout[count] = 0;
	return 0;
}

static int fails(void *owner, const uint16_t *in, uint16_t *inout, int count)
{
	sum_f16(owner, in, inout, count);
	return 1;
}

/* Would stop the program, had it seen more than ordinary numbers. */
static int fragile(void *owner, const uint16_t *in, uint16_t *inout, int count)
{
	(void)owner;
	for (int i = 0; i < count; i++) {
		assert_false(IS_NAN(in[i]) || IS_NAN(inout[i]));
		inout[i] = (uint16_t)(in[i] ^ inout[i]);
	}
	return 0;
}

/* -- tests -- */

struct expected {
	const char *name;
	bps_combine_fn *combine;
	enum bps_dtype dtype;
	enum bps_redop redop;
};

#define IS(function, dtype_, redop_)                            \
	{                                                       \
#function, function, BPS_##dtype_, BPS_##redop_ \
	}
#define IS_NONE(function) IS(function, DTYPE_NONE, REDOP_NONE)

static void expect(const struct expected *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct bps_recognised kind;

		assert_int_equal(bps_recognise(rows[i].combine, NULL, &kind), 0);
		if (kind.dtype != rows[i].dtype || kind.redop != rows[i].redop)
			fail_msg("%s: type %d, operation %d", rows[i].name,
			         (int)kind.dtype, (int)kind.redop);
	}
}

static void test_right(void **state)
{
	const struct expected rows[] = {
		IS(sum_f16, F16, SUM),         IS(sum_f16_integers, F16, SUM),
		IS(prod_f16, F16, PROD),       IS(min_f16, F16, MIN),
		IS(min_f16_earlier, F16, MIN), IS(max_f16, F16, MAX),
		IS(sum_bf16, BF16, SUM),       IS(prod_bf16, BF16, PROD),
		IS(min_bf16, BF16, MIN),       IS(max_bf16_earlier, BF16, MAX),
	};

	(void)state;
	expect(rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_wrong(void **state)
{
	const struct expected rows[] = {
		IS_NONE(truncates),
		IS_NONE(ties_away),
		IS_NONE(ties_away_bf16),
		IS_NONE(flushes_inputs),
		IS_NONE(flushes_results),
		IS_NONE(saturates),
		IS_NONE(nan_is_zero),
		IS_NONE(no_negative_zero),
		IS_NONE(one_element_wrong),
		IS_NONE(one_partner_wrong),
		IS_NONE(average),
		IS_NONE(difference),
		IS_NONE(integers),
		IS_NONE(nothing),
		IS_NONE(first),
		IS_NONE(min_prefers_numbers),
		IS_NONE(min_prefers_nan),
		IS_NONE(min_orders_zeros),
		IS_NONE(max_of_size),
		IS_NONE(tail_is_wrong),
		IS_NONE(vectors_are_wrong),
		IS_NONE(forgets_the_tail),
		IS_NONE(writes_behind),
		IS_NONE(fails),
		IS_NONE(fragile),
	};

	(void)state;
	expect(rows, sizeof(rows) / sizeof(rows[0]));
}

#if defined(__x86_64__)
static void test_vectors(void **state)
{
	const struct expected row = IS(sum_f16_vectors, F16, SUM);

	(void)state;
	if (!__builtin_cpu_supports("avx2"))
		skip();
	expect(&row, 1);
}

#define TRAPS 0x1f80u
#define FLAGS 0x003fu
#define FLUSH 0x8040u

/* A program whose exceptions trap is not ended, and finds its flags as they were. */
static void test_traps(void **state)
{
	const struct expected row = IS(sum_f16_integers, F16, SUM);
	unsigned before = _mm_getcsr();

	(void)state;
	_mm_setcsr(before & ~(TRAPS | FLAGS));
	expect(&row, 1);
	assert_int_equal(_mm_getcsr(), before & ~(TRAPS | FLAGS));
	_mm_setcsr(before);
}

/* A thread that flushes subnormal fp32 has the same 16-bit floats. */
static void test_flushing_thread(void **state)
{
	const struct expected row = IS(sum_f16_integers, F16, SUM);
	unsigned before = _mm_getcsr();

	(void)state;
	_mm_setcsr(before | FLUSH);
	expect(&row, 1);
	_mm_setcsr(before);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_right),
		cmocka_unit_test(test_wrong),
#if defined(__x86_64__)
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_traps),
		cmocka_unit_test(test_flushing_thread),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
