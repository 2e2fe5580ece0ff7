/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of long arrays, included once an instruction set. Two things make them faster
 * than the C library's:
 * - The source is asked for well ahead. The processor does so by itself only within a
 * page of 4 KiB, and begins anew in each; what comes from memory takes half the time.
 * - Where it is told to, whole lines of the destination go past the caches. The processor
 *   gathers a line in a buffer of its own and writes it at once, without reading it
 * first.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define BPS_COPY_LINE  64u
#define BPS_COPY_AHEAD 1024u

#if defined(__AVX512F__)
#define BPS_COPY_VECTOR       64u
#define BPS_COPY_PUT(d, s)    _mm512_store_si512((d), _mm512_loadu_si512(s))
#define BPS_COPY_STREAM(d, s) _mm512_stream_si512((d), _mm512_loadu_si512(s))
#elif defined(__AVX2__)
#define BPS_COPY_VECTOR       32u
#define BPS_COPY_PUT(d, s)    _mm256_store_si256((d), _mm256_loadu_si256(s))
#define BPS_COPY_STREAM(d, s) _mm256_stream_si256((d), _mm256_loadu_si256(s))
#elif defined(__SSE2__)
#define BPS_COPY_VECTOR       16u
#define BPS_COPY_PUT(d, s)    _mm_store_si128((d), _mm_loadu_si128(s))
#define BPS_COPY_STREAM(d, s) _mm_stream_si128((d), _mm_loadu_si128(s))
#else
#define BPS_COPY_VECTOR       BPS_COPY_LINE
#define BPS_COPY_PUT(d, s)    memcpy((d), (s), BPS_COPY_LINE)
#define BPS_COPY_STREAM(d, s) BPS_COPY_PUT(d, s)
#endif

/* put: one aligned vector, from any address */
#define BPS_COPY(name, put)                                                        \
	static void name(void *dst, const void *src, size_t bytes)                 \
	{                                                                          \
		size_t at = -(uintptr_t)dst % BPS_COPY_LINE, i;                    \
		unsigned char *d = dst;                                            \
		const unsigned char *s = src;                                      \
                                                                                   \
		if (at > bytes)                                                    \
			at = bytes;                                                \
		if (at > 0)                                                        \
			memcpy(d, s, at);                                          \
		for (; bytes - at >= BPS_COPY_LINE; at += BPS_COPY_LINE) {         \
			__builtin_prefetch(s + at + BPS_COPY_AHEAD);               \
			for (i = at; i < at + BPS_COPY_LINE; i += BPS_COPY_VECTOR) \
				put((void *)(d + i), (const void *)(s + i));       \
		}                                                                  \
		if (at < bytes)                                                    \
			memcpy(d + at, s + at, bytes - at);                        \
	}

BPS_COPY(bps_copy_near, BPS_COPY_PUT)
BPS_COPY(bps_copy_past, BPS_COPY_STREAM)
