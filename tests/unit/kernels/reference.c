/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/kernels/reference.h"

#include <math.h>
#include <string.h>

const char *const bps_test_dtype_names[BPS_N_DTYPES] = {
	"none", "i8",  "i16", "i32", "i64",  "u8",    "u16",  "u32",  "u64",   "f16",
	"bf16", "f32", "f64", "c64", "c128", "bool8", "byte", "f16w", "bf16w",
};

const char *const bps_test_redop_names[BPS_N_REDOPS] = {
	"none", "sum", "prod", "min", "max", "land", "lor", "lxor", "band", "bor", "bxor",
};

/* The formats with fewer bits than C has a type for. */
struct small_float {
	int mantissa_bits;
	int exponent_bits;
};

static const struct small_float binary16 = { 10, 5 };
static const struct small_float bfloat16 = { 7, 8 };

static bool is_integer(enum bps_dtype dtype)
{
	return dtype >= BPS_I8 && dtype <= BPS_U64;
}

static bool is_float(enum bps_dtype dtype)
{
	return dtype >= BPS_F16 && dtype <= BPS_F64;
}

static bool is_wide(enum bps_dtype dtype)
{
	return dtype == BPS_F16_WIDE || dtype == BPS_BF16_WIDE;
}

static bool is_complex(enum bps_dtype dtype)
{
	return dtype == BPS_C64 || dtype == BPS_C128;
}

bool bps_test_allowed(enum bps_dtype dtype, enum bps_redop op)
{
	switch (op) {
	case BPS_SUM:
	case BPS_PROD:
		return is_integer(dtype) || is_float(dtype) || is_complex(dtype) ||
		       is_wide(dtype);
	case BPS_MIN:
	case BPS_MAX:
		return is_integer(dtype) || is_float(dtype);
	case BPS_LAND:
	case BPS_LOR:
	case BPS_LXOR:
		return is_integer(dtype) || dtype == BPS_BOOL8;
	case BPS_BAND:
	case BPS_BOR:
	case BPS_BXOR:
		return is_integer(dtype) || dtype == BPS_BYTE;
	default:
		return false;
	}
}

static double decode(const struct small_float *format, unsigned bits)
{
	int bias = (1 << (format->exponent_bits - 1)) - 1;
	unsigned mantissa = bits & ((1U << format->mantissa_bits) - 1);
	int exponent = (int)(bits >> format->mantissa_bits &
	                     ((1U << format->exponent_bits) - 1));
	double value;

	if (exponent == (1 << format->exponent_bits) - 1)
		value = mantissa ? NAN : INFINITY;
	else if (exponent == 0)
		value = ldexp(mantissa, 1 - bias - format->mantissa_bits);
	else
		value = ldexp(mantissa + (1U << format->mantissa_bits),
		              exponent - bias - format->mantissa_bits);
	return bits & 0x8000 ? -value : value;
}

static unsigned encode(const struct small_float *format, double value)
{
	int bias = (1 << (format->exponent_bits - 1)) - 1;
	unsigned infinity = ((1U << format->exponent_bits) - 1) << format->mantissa_bits;
	unsigned sign = signbit(value) ? 0x8000 : 0;
	unsigned bits;
	int exponent;
	double steps;

	if (isnan(value))
		return sign | infinity | 1U << (format->mantissa_bits - 1);
	if (isinf(value))
		return sign | infinity;
	frexp(value, &exponent);
	exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
	/* nearbyint() takes ties to even; a carry moves into the exponent by itself */
	steps = nearbyint(ldexp(fabs(value), format->mantissa_bits - exponent));
	bits = (unsigned)steps;
	if (bits >> format->mantissa_bits)
		bits += (unsigned)(exponent + bias - 1) << format->mantissa_bits;
	return sign | (bits < infinity ? bits : infinity);
}

static double real_op_f64(enum bps_redop op, double a, double b)
{
	switch (op) {
	case BPS_SUM:
		return a + b;
	case BPS_PROD:
		return a * b;
	case BPS_MIN:
		return a < b ? a : b;
	default:
		return a > b ? a : b;
	}
}

static float real_op_f32(enum bps_redop op, float a, float b)
{
	switch (op) {
	case BPS_SUM:
		return a + b;
	case BPS_PROD:
		return a * b;
	case BPS_MIN:
		return a < b ? a : b;
	default:
		return a > b ? a : b;
	}
}

static void reduce_small_float(const struct small_float *format, enum bps_redop op,
                               uint16_t *dst, const void *const *src, unsigned n_src,
                               size_t i)
{
	float acc = (float)decode(format, ((const uint16_t *)src[0])[i]);

	for (unsigned k = 1; k < n_src; k++)
		acc = real_op_f32(op, acc,
		                  (float)decode(format, ((const uint16_t *)src[k])[i]));
	dst[i] = (uint16_t)encode(format, (double)acc);
}

static float sum_wide(enum bps_redop op, const void *const *src, unsigned n_src, size_t i)
{
	float acc = ((const float *)src[0])[i];

	for (unsigned k = 1; k < n_src; k++)
		acc = real_op_f32(op, acc, ((const float *)src[k])[i]);
	return acc;
}

/* The bits move as integers: a copied signalling NaN stays what it is. */
static void reduce_f32(enum bps_redop op, float *dst, const void *const *src,
                       unsigned n_src, size_t i)
{
	memcpy(&dst[i], (const float *)src[0] + i, sizeof(*dst));
	for (unsigned k = 1; k < n_src; k++)
		dst[i] = real_op_f32(op, dst[i], ((const float *)src[k])[i]);
}

static void reduce_f64(enum bps_redop op, double *dst, const void *const *src,
                       unsigned n_src, size_t i)
{
	memcpy(&dst[i], (const double *)src[0] + i, sizeof(*dst));
	for (unsigned k = 1; k < n_src; k++)
		dst[i] = real_op_f64(op, dst[i], ((const double *)src[k])[i]);
}

static void complex_op_f32(enum bps_redop op, float *acc, const float *next)
{
	float re = acc[0], im = acc[1];

	if (op == BPS_SUM) {
		acc[0] = re + next[0];
		acc[1] = im + next[1];
		return;
	}
	acc[0] = re * next[0] - im * next[1];
	acc[1] = re * next[1] + im * next[0];
}

static void complex_op_f64(enum bps_redop op, double *acc, const double *next)
{
	double re = acc[0], im = acc[1];

	if (op == BPS_SUM) {
		acc[0] = re + next[0];
		acc[1] = im + next[1];
		return;
	}
	acc[0] = re * next[0] - im * next[1];
	acc[1] = re * next[1] + im * next[0];
}

static void reduce_complex(enum bps_dtype dtype, enum bps_redop op, void *dst,
                           const void *const *src, unsigned n_src, size_t i)
{
	for (unsigned k = 1; k < n_src; k++) {
		if (dtype == BPS_C64)
			complex_op_f32(op, (float *)dst + 2 * i,
			               (const float *)src[k] + 2 * i);
		else
			complex_op_f64(op, (double *)dst + 2 * i,
			               (const double *)src[k] + 2 * i);
	}
}

static __int128 load_integer(enum bps_dtype dtype, const void *array, size_t i)
{
	size_t n_bytes = bps_dtype_bytes(dtype);
	const unsigned char *p = (const unsigned char *)array + i * n_bytes;
	bool is_signed = dtype >= BPS_I8 && dtype <= BPS_I64;
	__int128 value = 0;

	for (size_t k = 0; k < n_bytes; k++)
		value += (__int128)p[k] << (8 * k);
	if (is_signed && p[n_bytes - 1] & 0x80)
		value -= (__int128)1 << (8 * n_bytes);
	return value;
}

static void store_integer(enum bps_dtype dtype, void *array, size_t i, __int128 value)
{
	size_t n_bytes = bps_dtype_bytes(dtype);
	unsigned char *p = (unsigned char *)array + i * n_bytes;

	for (size_t k = 0; k < n_bytes; k++)
		p[k] = (unsigned char)((unsigned __int128)value >> (8 * k));
}

static __int128 integer_op(enum bps_redop op, __int128 a, __int128 b)
{
	switch (op) {
	case BPS_SUM:
		return a + b;
	case BPS_PROD:
		return (__int128)((unsigned __int128)a * (unsigned __int128)b);
	case BPS_MIN:
		return a < b ? a : b;
	case BPS_MAX:
		return a > b ? a : b;
	case BPS_LAND:
		return a && b;
	case BPS_LOR:
		return a || b;
	case BPS_LXOR:
		return !a != !b;
	case BPS_BAND:
		return a & b;
	case BPS_BOR:
		return a | b;
	default:
		return a ^ b;
	}
}

static void reduce_integer(enum bps_dtype dtype, enum bps_redop op, void *dst,
                           const void *const *src, unsigned n_src, size_t i)
{
	for (unsigned k = 1; k < n_src; k++)
		store_integer(dtype, dst, i,
		              integer_op(op, load_integer(dtype, dst, i),
		                         load_integer(dtype, src[k], i)));
}

static void reduce_element(enum bps_dtype dtype, enum bps_redop op, void *dst,
                           const void *const *src, unsigned n_src, size_t i)
{
	switch (dtype) {
	case BPS_F16:
		reduce_small_float(&binary16, op, dst, src, n_src, i);
		break;
	case BPS_BF16:
		reduce_small_float(&bfloat16, op, dst, src, n_src, i);
		break;
	case BPS_F32:
		reduce_f32(op, dst, src, n_src, i);
		break;
	case BPS_F64:
		reduce_f64(op, dst, src, n_src, i);
		break;
	case BPS_C64:
	case BPS_C128:
		reduce_complex(dtype, op, dst, src, n_src, i);
		break;
	default:
		reduce_integer(dtype, op, dst, src, n_src, i);
	}
}

void bps_test_reduce(enum bps_dtype dtype, enum bps_redop op, void *dst,
                     const void *const *src, unsigned n_src, size_t count)
{
	if (is_wide(dtype)) {
		for (size_t i = 0; i < count; i++)
			((uint16_t *)dst)[i] = (uint16_t)encode(
				dtype == BPS_F16_WIDE ? &binary16 : &bfloat16,
				(double)sum_wide(op, src, n_src, i));
		return;
	}
	memcpy(dst, src[0], count * bps_dtype_bytes(dtype));
	for (size_t i = 0; n_src > 1 && i < count; i++)
		reduce_element(dtype, op, dst, src, n_src, i);
}

void bps_test_reduce_push(enum bps_dtype dtype, enum bps_redop op, float *dst,
                          const void *const *src, unsigned n_src, size_t count)
{
	const struct small_float *format = dtype == BPS_F16_WIDE ? &binary16 : &bfloat16;

	for (size_t i = 0; i < count; i++) {
		dst[i] = (float)decode(format, ((const uint16_t *)src[0])[i]);
		for (unsigned k = 1; k < n_src; k++)
			dst[i] = real_op_f32(
				op, dst[i],
				(float)decode(format, ((const uint16_t *)src[k])[i]));
	}
}

/* Is this a number in which any quiet NaN would do? */
static bool is_quiet_nan(uint64_t bits, int mantissa_bits, int exponent_bits)
{
	uint64_t infinity = ((1ULL << exponent_bits) - 1) << mantissa_bits;
	uint64_t quiet = infinity | 1ULL << (mantissa_bits - 1);

	return (bits & quiet) == quiet;
}

static bool same_real(enum bps_dtype dtype, const void *want, const void *got, size_t i)
{
	size_t n_bytes = bps_total_bytes(dtype, bps_dtype_bytes(dtype));
	uint64_t w = 0, g = 0;

	memcpy(&w, (const char *)want + i * n_bytes, n_bytes);
	memcpy(&g, (const char *)got + i * n_bytes, n_bytes);
	if (w == g)
		return true;
	switch (dtype) {
	case BPS_F16:
	case BPS_F16_WIDE:
		return is_quiet_nan(w, 10, 5) && is_quiet_nan(g, 10, 5);
	case BPS_BF16:
	case BPS_BF16_WIDE:
		return is_quiet_nan(w, 7, 8) && is_quiet_nan(g, 7, 8);
	case BPS_F32:
		return is_quiet_nan(w, 23, 8) && is_quiet_nan(g, 23, 8);
	case BPS_F64:
		return is_quiet_nan(w, 52, 11) && is_quiet_nan(g, 52, 11);
	default:
		return false;
	}
}

bool bps_test_same(enum bps_dtype dtype, const void *want, const void *got, size_t i)
{
	enum bps_dtype part = dtype == BPS_C64 ? BPS_F32 : BPS_F64;

	if (!is_complex(dtype))
		return same_real(dtype, want, got, i);
	return same_real(part, want, got, 2 * i) && same_real(part, want, got, 2 * i + 1);
}
