/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 16-bit floats in plain C, without a library's help: what two of them give, what a rank
 * contributes, and what all ranks together must give. Sums of what is contributed here
 * are exact in fp32, so that only the rounding at the end counts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum half { HALF_F16, HALF_BF16 };

/* -- binary16, in steps of 2^-24 -- */

static inline int64_t f16_steps(uint16_t h)
{
	int exponent = h >> 10 & 0x1f;
	int64_t steps =
		exponent ? (int64_t)(0x400 | (h & 0x3ff)) << (exponent - 1) : h & 0x3ff;

	return h & 0x8000 ? -steps : steps;
}

/* To nearest even, or towards zero. @zero: the sign that a zero has. */
static inline uint16_t f16_of_steps(int64_t steps, uint16_t zero, bool truncate)
{
	uint64_t size = (uint64_t)(steps < 0 ? -steps : steps);
	uint16_t sign = steps < 0 ? 0x8000 : steps > 0 ? 0 : zero;
	unsigned shift = 0;

	while (size >> shift >= 0x800)
		shift++;
	if (shift > 0) {
		if (!truncate)
			size += (UINT64_C(1) << (shift - 1)) - 1 + (size >> shift & 1);
		size = (size >> shift) + ((uint64_t)shift << 10);
	}
	return (uint16_t)(sign | (size > 0x7c00 ? 0x7c00 : size));
}

static inline uint16_t f16_sum(uint16_t a, uint16_t b, bool truncate)
{
	bool infinite_a = (a & 0x7fff) == 0x7c00, infinite_b = (b & 0x7fff) == 0x7c00;

	if ((a & 0x7fff) > 0x7c00 || (b & 0x7fff) > 0x7c00 ||
	    (infinite_a && infinite_b && a != b))
		return 0x7e00;
	if (infinite_a || infinite_b)
		return infinite_a ? a : b;
	return f16_of_steps(f16_steps(a) + f16_steps(b), a & b & 0x8000, truncate);
}

/* -- bfloat16, the upper half of a float -- */

static inline float bf16_value(uint16_t h)
{
	uint32_t bits = (uint32_t)h << 16;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint16_t bf16_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	if (value != value)
		return 0x7fc0;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* -- what ranks contribute -- */

/* Of either sign; all bits of the mantissa are used, sizes differ by up to 2^7. */
static inline uint16_t half_input(enum half half, int rank, uint64_t i, uint32_t call)
{
	uint64_t mix = (i * 64 + (uint64_t)rank + 1) * 0x9e3779b97f4a7c15u + call;
	uint16_t least = half == HALF_F16 ? 10 << 10 : 120 << 7;

	mix = (mix ^ mix >> 29) * 0xbf58476d1ce4e5b9u;
	mix ^= mix >> 32;
	if (half == HALF_F16)
		return (uint16_t)(least + (mix & 0x1fff) + (mix >> 1 & 0x8000));
	return (uint16_t)(least + (mix & 0x3ff) + (mix >> 1 & 0x8000));
}

/* The exact sum of @n ranks from @first on, as an integer of the format's steps. */
static inline int64_t half_steps(enum half half, int first, int n, uint64_t i,
                                 uint32_t call)
{
	int64_t sum = 0;

	for (int rank = first; rank < first + n; rank++) {
		uint16_t h = half_input(half, rank, i, call);

		sum += half == HALF_F16 ? f16_steps(h)
		                        : (int64_t)(bf16_value(h) * 0x1p14f);
	}
	return sum;
}

static inline uint16_t half_of_steps(enum half half, int64_t steps)
{
	return half == HALF_F16 ? f16_of_steps(steps, 0, false)
	                        : bf16_of((float)steps * 0x1p-14f);
}

/** half_total() - of ranks 0 to @n - 1, rounded once. */
static inline uint16_t half_total(enum half half, int n, uint64_t i, uint32_t call)
{
	return half_of_steps(half, half_steps(half, 0, n, i, call));
}

/** half_total_twice() - the boxes' sums are rounded, then their sum. @boxes: ranks. */
static inline uint16_t half_total_twice(enum half half, const int *boxes, int n_boxes,
                                        uint64_t i, uint32_t call)
{
	int64_t sum = 0;
	int first = 0;

	for (int box = 0; box < n_boxes; first += boxes[box++]) {
		uint16_t h =
			half_of_steps(half, half_steps(half, first, boxes[box], i, call));

		sum += half == HALF_F16 ? f16_steps(h)
		                        : (int64_t)(bf16_value(h) * 0x1p14f);
	}
	return half_of_steps(half, sum);
}
