/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The 16-bit floats to fp32 and back, arrays at a time: widening is exact, narrowing
 * rounds to nearest even. NaN come out quiet from narrowing, with the upper bits of their
 * payload. The wide side is aligned to 64 bytes; the narrow side is not aligned at all.
 *
 * Every instruction set gives the same bits, so the choices below follow the processors'
 * own conversions. The portable code has no branch, for the compiler to make vectors of,
 * and makes no subnormal fp32 on its way, for threads that flush them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__F16C__)
#include <immintrin.h>
#endif

typedef uint16_t __attribute__((aligned(1), may_alias)) bps_half_bits;

union bps_f32_bits {
	float f;
	uint32_t u;
};

static inline float bps_f32_of_bits(uint32_t u)
{
	return (union bps_f32_bits){ .u = u }.f;
}

static inline uint32_t bps_bits_of_f32(float f)
{
	return (union bps_f32_bits){ .f = f }.u;
}

/* Both sides are always worked out: a choice by ?: may become a branch. */
static inline uint32_t bps_pick(int condition, uint32_t yes, uint32_t no)
{
	return no ^ ((no ^ yes) & -(uint32_t)condition);
}

static inline float bps_bf16_widen(uint16_t h)
{
	return bps_f32_of_bits((uint32_t)h << 16);
}

static inline uint16_t bps_bf16_narrow(float f)
{
	uint32_t u = bps_bits_of_f32(f);
	uint32_t rounded = u + 0x7fff + (u >> 16 & 1);
	uint32_t quiet = u | 0x400000;

	return (uint16_t)(bps_pick(f != f, quiet, rounded) >> 16);
}

static inline float bps_f16_widen(uint16_t h)
{
	int32_t magnitude = h & 0x7fff;
	uint32_t shifted = (uint32_t)magnitude << 13;
	/* a subnormal counts steps of 2^-24 */
	uint32_t small = bps_bits_of_f32((float)magnitude * 0x1p-24f);
	uint32_t normal = shifted + (112U << 23);
	uint32_t u = bps_pick(magnitude < 0x0400, small, normal);

	u = bps_pick(magnitude < 0x7c00, u, shifted | 0x7f800000);
	u |= bps_pick(magnitude > 0x7c00, 0x400000, 0);
	return bps_f32_of_bits(u | (uint32_t)(h & 0x8000) << 16);
}

static inline uint16_t bps_f16_narrow(float f)
{
	uint32_t u = bps_bits_of_f32(f);
	int32_t magnitude = u & 0x7fffffff;
	/* one unit in the last place of 0.5f is 2^-24, the step of the subnormals */
	uint32_t small =
		bps_bits_of_f32(bps_f32_of_bits((uint32_t)magnitude) + 0.5f) - 0x3f000000;
	uint32_t odd = (uint32_t)magnitude >> 13 & 1;
	uint32_t normal = ((uint32_t)magnitude - (112U << 23) + 0x0fff + odd) >> 13;
	uint32_t nan = 0x7e00 | ((uint32_t)magnitude >> 13 & 0x3ff);
	uint32_t h = bps_pick(magnitude < 0x38800000, small, normal);

	h = bps_pick(magnitude < 0x47800000, h, 0x7c00);
	h = bps_pick(magnitude > 0x7f800000, nan, h);
	return (uint16_t)(h | (u >> 16 & 0x8000));
}

/* The compilers make no vectors of the processor's own fp16 conversions: do it by hand.
 */
#if defined(__AVX512F__)
#define BPS_F16_LANES 16

static inline void bps_f16_widen_lanes(float *dst, const void *src)
{
	_mm512_store_ps(dst, _mm512_cvtph_ps(_mm256_loadu_si256(src)));
}

static inline void bps_f16_narrow_lanes(void *dst, const float *src)
{
	_mm256_storeu_si256(
		dst, _mm512_cvtps_ph(_mm512_load_ps(src), _MM_FROUND_TO_NEAREST_INT));
}

#elif defined(__F16C__)
#define BPS_F16_LANES 8

static inline void bps_f16_widen_lanes(float *dst, const void *src)
{
	_mm256_store_ps(dst, _mm256_cvtph_ps(_mm_loadu_si128(src)));
}

static inline void bps_f16_narrow_lanes(void *dst, const float *src)
{
	_mm_storeu_si128(dst,
	                 _mm256_cvtps_ph(_mm256_load_ps(src), _MM_FROUND_TO_NEAREST_INT));
}
#endif

static inline void bps_widen_f16(float *restrict dst, const void *restrict src,
                                 size_t count)
{
	const bps_half_bits *h = src;
	size_t done = 0;

#if defined(BPS_F16_LANES)
	for (; done + BPS_F16_LANES <= count; done += BPS_F16_LANES)
		bps_f16_widen_lanes(dst + done, h + done);
#endif
	for (size_t i = done; i < count; i++)
		dst[i] = bps_f16_widen(h[i]);
}

static inline void bps_narrow_f16(void *restrict dst, const float *restrict src,
                                  size_t count)
{
	bps_half_bits *h = dst;
	size_t done = 0;

#if defined(BPS_F16_LANES)
	for (; done + BPS_F16_LANES <= count; done += BPS_F16_LANES)
		bps_f16_narrow_lanes(h + done, src + done);
#endif
	for (size_t i = done; i < count; i++)
		h[i] = bps_f16_narrow(src[i]);
}

static inline void bps_widen_bf16(float *restrict dst, const void *restrict src,
                                  size_t count)
{
	const bps_half_bits *h = src;

	for (size_t i = 0; i < count; i++)
		dst[i] = bps_bf16_widen(h[i]);
}

static inline void bps_narrow_bf16(void *restrict dst, const float *restrict src,
                                   size_t count)
{
	bps_half_bits *h = dst;

	for (size_t i = 0; i < count; i++)
		h[i] = bps_bf16_narrow(src[i]);
}
