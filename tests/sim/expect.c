/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/expect.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const enum bps_dtype dtypes[] = { BPS_I32, BPS_I64,      BPS_U8,       BPS_F32,
	                                 BPS_F64, BPS_F16_WIDE, BPS_BF16_WIDE };
static const enum bps_redop redops[] = { BPS_SUM, BPS_MIN, BPS_MAX, BPS_BXOR };

static bool is_wide(enum bps_dtype dtype)
{
	return dtype == BPS_F16_WIDE || dtype == BPS_BF16_WIDE;
}

void bps_expect_pick(struct bps_prng *prng, enum bps_dtype *ret_dtype,
                     enum bps_redop *ret_redop)
{
	*ret_dtype = dtypes[bps_prng_below(prng, sizeof(dtypes) / sizeof(dtypes[0]))];
	*ret_redop = BPS_SUM;
	if (is_wide(*ret_dtype))
		return;
	do
		*ret_redop = redops[bps_prng_below(prng, 4)];
	while (*ret_redop == BPS_BXOR &&
	       (*ret_dtype == BPS_F32 || *ret_dtype == BPS_F64));
}

void bps_expect_fill(struct bps_prng *prng, enum bps_dtype dtype, void *buf, size_t bytes)
{
	float *f32 = buf;
	double *f64 = buf;
	size_t i;

	if (dtype == BPS_F32 || is_wide(dtype)) {
		for (i = 0; i < bytes / sizeof(*f32); i++)
			f32[i] = (float)(bps_prng_unit(prng) * 2000 - 1000);
	} else if (dtype == BPS_F64) {
		for (i = 0; i < bytes / sizeof(*f64); i++)
			f64[i] = bps_prng_unit(prng) * 2000 - 1000;
	} else {
		bps_prng_fill(prng, buf, bytes);
	}
}

/* Sums of integers wrap around: they are added as unsigned numbers. */
#define ADD(name, type, sum_type)                                                 \
	static void add_##name(enum bps_redop redop, void *acc, const void *next, \
	                       size_t bytes)                                      \
	{                                                                         \
		type *a = acc;                                                    \
		const type *b = next;                                             \
		for (size_t i = 0; i < bytes / sizeof(type); i++) {               \
			if (redop == BPS_SUM)                                     \
				a[i] = (type)((sum_type)a[i] + (sum_type)b[i]);   \
			else if (redop == BPS_MIN)                                \
				a[i] = a[i] < b[i] ? a[i] : b[i];                 \
			else                                                      \
				a[i] = a[i] > b[i] ? a[i] : b[i];                 \
		}                                                                 \
	}

ADD(i32, int32_t, uint32_t)
ADD(i64, int64_t, uint64_t)
ADD(u8, uint8_t, uint8_t)
ADD(f32, float, float)
ADD(f64, double, double)

static void exclusive_or(void *acc, const void *next, size_t bytes)
{
	const uint8_t *b = next;
	uint8_t *a = acc;

	for (size_t i = 0; i < bytes; i++)
		a[i] ^= b[i];
}

void bps_expect_add(enum bps_dtype dtype, enum bps_redop redop, void *acc,
                    const void *next, size_t bytes)
{
	if (redop == BPS_BXOR)
		exclusive_or(acc, next, bytes);
	else if (dtype == BPS_I32)
		add_i32(redop, acc, next, bytes);
	else if (dtype == BPS_I64)
		add_i64(redop, acc, next, bytes);
	else if (dtype == BPS_U8)
		add_u8(redop, acc, next, bytes);
	else if (dtype == BPS_F32 || is_wide(dtype))
		add_f32(redop, acc, next, bytes);
	else if (dtype == BPS_F64)
		add_f64(redop, acc, next, bytes);
	else
		abort();
}

/* To the nearest of the numbers with @bits bits of mantissa, the even one of two. */
static double rounded(double value, int bits)
{
	int exponent;
	double step;

	frexp(value, &exponent);
	step = ldexp(1, exponent - 1 - bits);
	return nearbyint(value / step) * step;
}

static uint16_t narrowed(enum bps_dtype dtype, float value)
{
	int bits = dtype == BPS_F16_WIDE ? 10 : 7,
	    bias = dtype == BPS_F16_WIDE ? 15 : 127;
	double near = fabs(rounded((double)value, bits));
	uint16_t sign = signbit(value) ? 0x8000 : 0;
	int exponent;

	if (near == 0)
		return sign;
	if (dtype == BPS_F16_WIDE && near < 0x1p-14)
		return (uint16_t)(sign | (int)nearbyint(fabs((double)value) * 0x1p24));
	if (dtype == BPS_F16_WIDE && near > 65504)
		return sign | 0x7c00;
	near = frexp(near, &exponent) * 2 - 1;
	return (uint16_t)(sign | (exponent - 1 + bias) << bits | (int)ldexp(near, bits));
}

void bps_expect_total(enum bps_dtype dtype, void *acc, size_t bytes)
{
	const float *f32 = acc;
	uint16_t *half = acc;

	for (size_t i = 0; is_wide(dtype) && i < bytes / sizeof(*f32); i++)
		half[i] = narrowed(dtype, f32[i]);
}
