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
#include <stdlib.h>
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

/* Of the program's own; where the library is to look at none, 0 of them. */
static const uint16_t sample[] = {
	0x3c00, 0xbc01, 0x0000, 0x8000, 0x3555, 0x7c00, 0xfc00, 0x7e01,
	0x0001, 0x83ff, 0x4248, 0xc0aa, 0x7bff, 0xfbff, 0x3f80, 0xbf81,
};

#define N_SAMPLE (sizeof(sample) / sizeof(sample[0]))

static void expect(const struct expected *rows, size_t n, size_t n_sample)
{
	for (size_t i = 0; i < n; i++) {
		struct bps_recognised kind;

		assert_int_equal(
			bps_recognise(rows[i].combine, NULL, sample, n_sample, &kind), 0);
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
	expect(rows, sizeof(rows) / sizeof(rows[0]), 0);
	expect(rows, sizeof(rows) / sizeof(rows[0]), N_SAMPLE);
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
	expect(rows, sizeof(rows) / sizeof(rows[0]), 0);
}

/* -- the program's own elements -- */

/* An operation as a program has it that brings @own and expects nothing else. */
struct habit {
	const uint16_t *own;
	size_t n_own;
	uint16_t odd_a, odd_b; /* of these two it gives 0 */
	bool is_max;           /* by now */
	uint32_t n_foreign;    /* elements that it met and that are not its own */
};

static bool is_foreign(const struct habit *habit, uint16_t h)
{
	for (size_t i = 0; i < habit->n_own; i++)
		if (habit->own[i] == h)
			return false;
	return true;
}

static int by_habit(void *owner, const uint16_t *in, uint16_t *inout, int count)
{
	struct habit *habit = owner;

	for (int i = 0; i < count; i++) {
		bool odd = in[i] == habit->odd_a && inout[i] == habit->odd_b;

		habit->n_foreign +=
			is_foreign(habit, in[i]) || is_foreign(habit, inout[i]);
		if (odd)
			inout[i] = 0;
		else
			(habit->is_max ? max_f16 : sum_f16)(NULL, in + i, inout + i, 1);
	}
	return 0;
}

static void expect_habit(const struct habit *like, size_t n_sample, bool is_sum,
                         bool tries_others)
{
	struct habit habit = *like;
	struct bps_recognised kind;

	assert_int_equal(bps_recognise(by_habit, &habit, like->own, n_sample, &kind), 0);
	assert_int_equal(kind.dtype, is_sum ? BPS_F16 : BPS_DTYPE_NONE);
	assert_int_equal(habit.n_foreign > 0, tries_others);
}

#define SUM_ODD  0x2b97
#define SUM_ODD2 0x31d5

/* Distinct, and of the first @n one half is as SUM_ODD, the other as SUM_ODD2. */
static void fill(uint16_t *own, size_t n, size_t at)
{
	for (size_t i = 0; i < n; i++)
		own[i] = (uint16_t)(0x3000 + i);
	own[at] = SUM_ODD;
	own[(n + 1) / 2 > 32 ? n - 32 + at : n / 2 + at] = SUM_ODD2;
}

/*
 * What it does with the program's own is looked at first, and what others it is run over
 * depends on that: whatever of them is looked at, the first, the last or the only one.
 */
static void test_own_come_first(void **state)
{
	const struct {
		size_t n, at;
	} rows[] = {
		{ 2, 0 }, { 3, 1 }, { 63, 31 }, { 64, 31 }, { 1000, 0 }, { 1000, 31 }
	};
	uint16_t own[1000], one = SUM_ODD;
	struct habit habit = { .odd_a = SUM_ODD, .odd_b = SUM_ODD2 };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fill(own, rows[i].n, rows[i].at);
		habit.own = own;
		habit.n_own = rows[i].n;
		expect_habit(&habit, rows[i].n, false, false);
		expect_habit(&habit, 0, true, true); /* nothing else is wrong with it */
	}
	habit = (struct habit){
		.own = &one, .n_own = 1, .odd_a = SUM_ODD, .odd_b = SUM_ODD
	};
	expect_habit(&habit, 1, false, false);
	habit.odd_b = SUM_ODD2; /* which does not occur */
	expect_habit(&habit, 1, true, true);
}

static bool is_still(struct habit *habit, enum bps_redop redop)
{
	const struct bps_recognised kind = { BPS_F16, redop };

	return bps_recognise_again(by_habit, habit, habit->own, habit->n_own, kind);
}

/* It is known; by the next call it may do something else. */
static void test_again(void **state)
{
	uint16_t own[1000];
	struct habit habit = { .own = own, .n_own = 1000 };

	(void)state;
	fill(own, 1000, 31);
	assert_true(is_still(&habit, BPS_SUM));
	assert_false(is_still(&habit, BPS_MAX));
	habit.is_max = true;
	assert_false(is_still(&habit, BPS_SUM));
	assert_true(is_still(&habit, BPS_MAX));
	habit.is_max = false;
	habit.odd_a = SUM_ODD;
	habit.odd_b = SUM_ODD2;
	assert_false(is_still(&habit, BPS_SUM));
	assert_int_equal(habit.n_foreign, 0);
}

/* A MIN that keeps the earlier of two NaN, and one that keeps the later, are both MIN. */
static void test_again_without_order(void **state)
{
	const uint16_t nans[] = { 0x7e01, 0x3c00, 0x8000, 0x3c00, 0x7e02, 0x0000 };
	const struct bps_recognised min = { BPS_F16, BPS_MIN },
				    sum = { BPS_F16, BPS_SUM };

	(void)state;
	assert_true(bps_recognise_again(min_f16, NULL, nans, 6, min));
	assert_true(bps_recognise_again(min_f16_earlier, NULL, nans, 6, min));
	assert_false(bps_recognise_again(min_prefers_numbers, NULL, nans, 6, min));
	assert_false(bps_recognise_again(fails, NULL, nans, 6, sum));
	assert_false(bps_recognise_again(writes_behind, NULL, nans, 6, sum));
}

/* A program may bring its elements at any address. */
static void test_odd_address(void **state)
{
	const struct bps_recognised sum = { BPS_F16, BPS_SUM };
	char *bytes = malloc(sizeof(sample) + 1);
	const uint16_t *odd = (const void *)(bytes + 1);
	struct bps_recognised kind;

	(void)state;
	memcpy(bytes + 1, sample, sizeof(sample));
	assert_int_equal(bps_recognise(sum_f16, NULL, odd, N_SAMPLE, &kind), 0);
	assert_int_equal(kind.dtype, BPS_F16);
	assert_true(bps_recognise_again(sum_f16, NULL, odd, N_SAMPLE, sum));
	free(bytes);
}

#if defined(__x86_64__)
static void test_vectors(void **state)
{
	const struct expected row = IS(sum_f16_vectors, F16, SUM);

	(void)state;
	if (!__builtin_cpu_supports("avx2"))
		skip();
	expect(&row, 1, N_SAMPLE);
}

#define TRAPS 0x1f80u
#define FLAGS 0x003fu
#define FLUSH 0x8040u

/* A program whose exceptions trap is not ended, and finds its flags as they were. */
static void test_traps(void **state)
{
	const struct expected row = IS(sum_f16_integers, F16, SUM);
	const struct bps_recognised sum = { BPS_F16, BPS_SUM };
	unsigned before = _mm_getcsr();

	(void)state;
	_mm_setcsr(before & ~(TRAPS | FLAGS));
	expect(&row, 1, N_SAMPLE);
	assert_true(bps_recognise_again(row.combine, NULL, sample, N_SAMPLE, sum));
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
	expect(&row, 1, N_SAMPLE);
	_mm_setcsr(before);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_right),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_own_come_first),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_again_without_order),
		cmocka_unit_test(test_odd_address),
#if defined(__x86_64__)
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_traps),
		cmocka_unit_test(test_flushing_thread),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
