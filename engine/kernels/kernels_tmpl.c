/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All kernels, compiled once for each instruction set: BPS_ISA is the suffix of the table
 * that comes out, the compiler's -m flags do the rest.
 *
 * The work on two arrays is a plain loop of one expression. More arrays are folded a
 * block at a time, so that the sum so far stays in the first-level cache: memory sees
 * each source read once and the destination written once.
 */
#include <string.h>

#include "engine/kernels/copy.h"
#include "engine/kernels/half.h"
#include "engine/kernels/table.h"

#define BLOCK_BYTES 4096

#define ALIGNED_BLOCK _Alignas(64)
#define ANYWHERE      __attribute__((aligned(1), may_alias))
/* Not one for each kernel: a call a block costs nothing. */
#define ONE_COPY __attribute__((noinline))
/* Iterations are independent: dst is one of the sources or overlaps none. */
#define SIMD _Pragma("omp simd")

/*
 * Where it has AVX-512, gcc 12 makes fused vfmaddsub of a complex product in spite of
 * -ffp-contract=off: one rounding in place of two. (Inlined, it would forget the target.)
 */
#if defined(__AVX512F__) && !defined(__clang__)
#define NOT_FUSED __attribute__((noinline, target("no-avx512f")))
#else
#define NOT_FUSED
#endif

typedef uint8_t ANYWHERE u8;
typedef uint16_t ANYWHERE u16;
typedef uint32_t ANYWHERE u32;
typedef uint64_t ANYWHERE u64;
typedef int8_t ANYWHERE i8;
typedef int16_t ANYWHERE i16;
typedef int32_t ANYWHERE i32;
typedef int64_t ANYWHERE i64;
typedef float ANYWHERE f32;
typedef double ANYWHERE f64;
typedef struct __attribute__((packed, may_alias)) {
	float re, im;
} c64;
typedef struct __attribute__((packed, may_alias)) {
	double re, im;
} c128;

/* dst[i] = a[i] op b[i] */
typedef void pair_fn(void *dst, const void *a, const void *b, size_t count);

ONE_COPY static void reduce(void *dst, const void *const *src, unsigned n_src,
                            size_t count, size_t elem_bytes, pair_fn *pair)
{
	ALIGNED_BLOCK unsigned char acc[BLOCK_BYTES];
	size_t n_block = n_src > 2 ? sizeof(acc) / elem_bytes : count;

	for (size_t at = 0; at < count; at += n_block) {
		size_t n = count - at < n_block ? count - at : n_block;
		size_t offset = at * elem_bytes;
		const void *left = (const char *)src[0] + offset;

		for (unsigned i = 1; i + 1 < n_src; i++) {
			pair(acc, left, (const char *)src[i] + offset, n);
			left = acc;
		}
		pair((char *)dst + offset, left, (const char *)src[n_src - 1] + offset,
		     n);
	}
}

typedef void widen_fn(float *dst, const void *src, size_t count);
typedef void narrow_fn(void *dst, const float *src, size_t count);

ONE_COPY static void reduce_half(void *dst, const void *const *src, unsigned n_src,
                                 size_t count, widen_fn *widen, narrow_fn *narrow,
                                 size_t dst_bytes, pair_fn *pair)
{
	ALIGNED_BLOCK float acc[BLOCK_BYTES / sizeof(float)];
	ALIGNED_BLOCK float next[BLOCK_BYTES / sizeof(float)];
	const size_t n_block = sizeof(acc) / sizeof(float);

	for (size_t at = 0; at < count; at += n_block) {
		size_t n = count - at < n_block ? count - at : n_block;

		widen(acc, (const bps_half_bits *)src[0] + at, n);
		for (unsigned i = 1; i < n_src; i++) {
			widen(next, (const bps_half_bits *)src[i] + at, n);
			pair(acc, acc, next, n);
		}
		narrow((char *)dst + at * dst_bytes, acc, n);
	}
}

/* Not narrowed at all: of a contribution. */
static void keep_f32(void *dst, const float *src, size_t count)
{
	memcpy(dst, src, count * sizeof(*src));
}

ONE_COPY static void reduce_wide(void *dst, const void *const *src, unsigned n_src,
                                 size_t count, narrow_fn *narrow, pair_fn *pair)
{
	ALIGNED_BLOCK float acc[BLOCK_BYTES / sizeof(float)];
	const size_t n_block = sizeof(acc) / sizeof(float);

	for (size_t at = 0; at < count; at += n_block) {
		size_t n = count - at < n_block ? count - at : n_block;
		size_t offset = at * sizeof(float);

		memcpy(acc, (const char *)src[0] + offset, n * sizeof(float));
		for (unsigned i = 1; i < n_src; i++)
			pair(acc, acc, (const char *)src[i] + offset, n);
		narrow((bps_half_bits *)dst + at, acc, n);
	}
}

static int copied(void *dst, const void *const *src, unsigned n_src, size_t n_bytes)
{
	if (n_src == 1 && n_bytes && dst != src[0])
		memcpy(dst, src[0], n_bytes);
	return n_src == 1;
}

#define LOOP(name, type, expr)                                                   \
	static void pair_##name(void *dst, const void *src_a, const void *src_b, \
	                        size_t count)                                    \
	{                                                                        \
		type *d = dst;                                                   \
		const type *pa = src_a, *pb = src_b;                             \
                                                                                 \
		SIMD for (size_t i = 0; i < count; i++)                          \
		{                                                                \
			type a = pa[i], b = pb[i];                               \
                                                                                 \
			d[i] = (expr);                                           \
		}                                                                \
	}

/* n_parts: how many elements of the loop make one element of the kernel */
#define KERNEL(name, elem_bytes, n_parts, loop)                                      \
	static void reduce_##name(void *dst, const void *const *src, unsigned n_src, \
	                          size_t count)                                      \
	{                                                                            \
		if (!copied(dst, src, n_src, count * (n_parts) * (elem_bytes)))      \
			reduce(dst, src, n_src, count *(n_parts), elem_bytes, loop); \
	}

#define KERNEL_HALF(op, type)                                                 \
	static void reduce_##op##_##type(void *dst, const void *const *src,   \
	                                 unsigned n_src, size_t count)        \
	{                                                                     \
		if (!copied(dst, src, n_src, count * sizeof(bps_half_bits)))  \
			reduce_half(dst, src, n_src, count, bps_widen_##type, \
			            bps_narrow_##type, sizeof(bps_half_bits), \
			            pair_##op##_f32);                         \
	}

#define KERNEL_WIDE(op, type)                                                            \
	static void push_##op##_##type(void *dst, const void *const *src,                \
	                               unsigned n_src, size_t count)                     \
	{                                                                                \
		reduce_half(dst, src, n_src, count, bps_widen_##type, keep_f32,          \
		            sizeof(float), pair_##op##_f32);                             \
	}                                                                                \
	static void wide_##op##_##type(void *dst, const void *const *src,                \
	                               unsigned n_src, size_t count)                     \
	{                                                                                \
		reduce_wide(dst, src, n_src, count, bps_narrow_##type, pair_##op##_f32); \
	}

#define REAL(op, type, expr)          \
	LOOP(op##_##type, type, expr) \
	KERNEL(op##_##type, sizeof(type), 1, pair_##op##_##type)

#define MIN_MAX(type)                  \
	REAL(min, type, a < b ? a : b) \
	REAL(max, type, a > b ? a : b)

/* 1U: small types would be multiplied as int, and overflow it. */
#define UNSIGNED(type)                                \
	REAL(sum, type, (type)(a + b))                \
	REAL(prod, type, (type)(1U * a * b))          \
	MIN_MAX(type)                                 \
	REAL(land, type, (type)((a != 0) & (b != 0))) \
	REAL(lor, type, (type)((a | b) != 0))         \
	REAL(lxor, type, (type)((a != 0) ^ (b != 0))) \
	REAL(band, type, (a & b))                     \
	REAL(bor, type, (a | b))                      \
	REAL(bxor, type, (a ^ b))

#define FLOAT(type)               \
	REAL(sum, type, a + b)    \
	REAL(prod, type, (a * b)) \
	MIN_MAX(type)

#define HALF(type)              \
	KERNEL_HALF(sum, type)  \
	KERNEL_HALF(prod, type) \
	KERNEL_HALF(min, type)  \
	KERNEL_HALF(max, type)  \
	KERNEL_WIDE(sum, type)  \
	KERNEL_WIDE(prod, type)

#define COMPLEX(type, part)                                                              \
	KERNEL(sum_##type, sizeof(part), 2, pair_sum_##part)                             \
	NOT_FUSED LOOP(prod_##type, type,                                                \
	               ((type){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re })) \
		KERNEL(prod_##type, sizeof(type), 1, pair_prod_##type)

UNSIGNED(u8)
UNSIGNED(u16)
UNSIGNED(u32)
UNSIGNED(u64)
MIN_MAX(i8)
MIN_MAX(i16)
MIN_MAX(i32)
MIN_MAX(i64)
FLOAT(f32)
FLOAT(f64)
HALF(f16)
HALF(bf16)
COMPLEX(c64, f32)
COMPLEX(c128, f64)

#define ROW_ARITHMETIC(type) \
	[BPS_SUM] = reduce_sum_##type, [BPS_PROD] = reduce_prod_##type
#define ROW_ORDER(type) [BPS_MIN] = reduce_min_##type, [BPS_MAX] = reduce_max_##type
#define ROW_LOGICAL(type)                                               \
	[BPS_LAND] = reduce_land_##type, [BPS_LOR] = reduce_lor_##type, \
	[BPS_LXOR] = reduce_lxor_##type
#define ROW_BITWISE(type)                                               \
	[BPS_BAND] = reduce_band_##type, [BPS_BOR] = reduce_bor_##type, \
	[BPS_BXOR] = reduce_bxor_##type
/* Only order tells signed integers from unsigned ones. */
#define ROW_INTEGER(type, bits)                                           \
	{                                                                 \
		ROW_ARITHMETIC(bits), ROW_ORDER(type), ROW_LOGICAL(bits), \
			ROW_BITWISE(bits)                                 \
	}
#define ROW_FLOAT(type)                               \
	{                                             \
		ROW_ARITHMETIC(type), ROW_ORDER(type) \
	}

#define ROW_WIDE(type)                                                     \
	{                                                                  \
		[BPS_SUM] = wide_sum_##type, [BPS_PROD] = wide_prod_##type \
	}
#define ROW_PUSH(type)                                                     \
	{                                                                  \
		[BPS_SUM] = push_sum_##type, [BPS_PROD] = push_prod_##type \
	}

#define TABLE_NAME_(isa) bps_kernels_##isa
#define TABLE_NAME(isa)  TABLE_NAME_(isa)

const struct bps_kernel_table TABLE_NAME(BPS_ISA) = {
	.reduce = {
		[BPS_I8] = ROW_INTEGER(i8, u8),      [BPS_I16] = ROW_INTEGER(i16, u16),
		[BPS_I32] = ROW_INTEGER(i32, u32),   [BPS_I64] = ROW_INTEGER(i64, u64),
		[BPS_U8] = ROW_INTEGER(u8, u8),      [BPS_U16] = ROW_INTEGER(u16, u16),
		[BPS_U32] = ROW_INTEGER(u32, u32),   [BPS_U64] = ROW_INTEGER(u64, u64),
		[BPS_F16] = ROW_FLOAT(f16),          [BPS_BF16] = ROW_FLOAT(bf16),
		[BPS_F32] = ROW_FLOAT(f32),          [BPS_F64] = ROW_FLOAT(f64),
		[BPS_C64] = { ROW_ARITHMETIC(c64) }, [BPS_C128] = { ROW_ARITHMETIC(c128) },
		[BPS_BOOL8] = { ROW_LOGICAL(u8) },   [BPS_BYTE] = { ROW_BITWISE(u8) },
		[BPS_F16_WIDE] = ROW_WIDE(f16),      [BPS_BF16_WIDE] = ROW_WIDE(bf16),
	},
	.push = { ROW_PUSH(f16), ROW_PUSH(bf16) },
	.copy_near = bps_copy_near,
	.copy_past = bps_copy_past,
};
