/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/kernels/inputs.h"

#include <string.h>

#define N_SPECIAL 16

/* Upper half of a binary64, a binary32, a bfloat16; a binary16. */
static const uint64_t special_f64[N_SPECIAL] = {
	0,
	0x8000000000000000,
	0x7ff0000000000000,
	0xfff0000000000000,
	0x7ff8000000000000,
	0xfff8000000000123,
	0x7ff0000000000001,
	0xfff4000000000000,
	0x0000000000000001,
	0x800fffffffffffff,
	0x0010000000000000,
	0x7fefffffffffffff,
	0xffefffffffffffff,
	0x3ff0000000000000,
	0xbff0000000000000,
	0x3ca0000000000000,
};
static const uint32_t special_f32[N_SPECIAL] = {
	0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00123,
	0x7f800001, 0xffa00000, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff,
	0xff7fffff, 0x3f800000, 0xbf800000, 0x33800000,
};
static const uint16_t special_f16[N_SPECIAL] = {
	0,      0x8000, 0x7c00, 0xfc00, 0x7e00, 0xfe12, 0x7c01, 0xfd00,
	0x0001, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x3c00, 0xbc00, 0x1000,
};
static const uint64_t special_integer[8] = {
	0,
	1,
	2,
	UINT64_MAX,
	0x8080808080808080,
	0x8000800080008000,
	0x8000000080000000,
	1ULL << 63,
};

uint64_t bps_test_next(struct bps_test_random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint64_t bits_of_f32(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static uint64_t bits_of_f64(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* Within 2 of zero, so that products of many stay in range, and never exact. */
static uint64_t ordinary(enum bps_dtype dtype, uint64_t r)
{
	double value = ((double)(r >> 11) * 0x1p-53 - 0.5) * 4;

	switch (dtype) {
	case BPS_F16: /* exponent 11 to 16 of 15 */
		return (r & 0x83ff) | (11 + r % 5) << 10;
	case BPS_BF16:
		return bits_of_f32((float)value) >> 16;
	case BPS_F32:
		return bits_of_f32((float)value);
	case BPS_F64:
		return bits_of_f64(value);
	default: /* logical operations want zeros */
		return r % 5 ? r : 0;
	}
}

static uint64_t special(enum bps_dtype dtype, uint64_t r)
{
	switch (dtype) {
	case BPS_F16:
		return special_f16[r % N_SPECIAL];
	case BPS_BF16:
		return special_f32[r % N_SPECIAL] >> 16 | (r % N_SPECIAL == 6);
	case BPS_F32:
		return special_f32[r % N_SPECIAL];
	case BPS_F64:
		return special_f64[r % N_SPECIAL];
	default:
		return special_integer[r % 8];
	}
}

static uint64_t element(struct bps_test_random *random, enum bps_dtype dtype)
{
	uint64_t r = bps_test_next(random);

	if (r % 16 == 0)
		return special(dtype, r >> 4);
	if (r % 16 == 1)
		return r >> 4; /* any bits at all */
	return ordinary(dtype, r >> 4);
}

void bps_test_fill(struct bps_test_random *random, enum bps_dtype dtype, void *array,
                   size_t count)
{
	enum bps_dtype part = dtype;
	size_t n_parts = count, n_bytes;

	if (dtype == BPS_C64 || dtype == BPS_C128) {
		part = dtype == BPS_C64 ? BPS_F32 : BPS_F64;
		n_parts = 2 * count;
	}
	if (dtype == BPS_F16_WIDE || dtype == BPS_BF16_WIDE)
		part = BPS_F32;
	n_bytes = bps_dtype_bytes(part);
	for (size_t i = 0; i < n_parts; i++) {
		uint64_t bits = element(random, part);

		/* little endian: the low bytes come first */
		memcpy((char *)array + i * n_bytes, &bits, n_bytes);
	}
}
