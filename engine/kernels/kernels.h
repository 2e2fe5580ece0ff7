/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of a reduction: one function for each element type and operation, that
 * reads any number of sources once and writes one destination once.
 *
 * What every kernel holds to:
 * - Order. dst[i] = ((src[0][i] op src[1][i]) op src[2][i]) ..., nothing reassociated and
 *   no fused multiply-add, so the same sources in the same order give the same bits.
 * - The same bits from every instruction set. Only which NaN comes out, where two NaN of
 *   different sign or payload meet, is left to the processor and the compiler.
 * - Integers wrap around.
 * - MIN is a < b ? a : b and MAX is a > b ? a : b, for floats too: where a or b is NaN,
 * or where they are zeros of different sign, the later source's value stands.
 * - PROD of complex numbers is (ac - bd) + (ad + bc)i, without C's repair of infinities.
 * - LAND, LOR and LXOR take any nonzero value as true and give 0 or 1.
 * - F16 and BF16 are accumulated in fp32 and rounded once, to nearest even, at the end. A
 *   NaN among their results is a quiet one.
 * - F16_WIDE and BF16_WIDE have fp32 sources, and a destination of 16 bits. Their sources
 *   are what bps_kernel_push() leaves in fp32; so the two steps together round once.
 * - With one source its bytes are copied as they are, whatever the operation; of the wide
 *   types it is rounded.
 *
 * Floating point obeys the calling thread's control register, as the host's own
 * arithmetic does: where a program turned on flush-to-zero, its sums are flushed.
 *
 * Any thread may call anything at any time. The only state is the choice of instruction
 * set, made once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/types.h"

/* Instruction sets in rising order: each one's processors can run those before it. */
enum bps_isa {
	BPS_ISA_C,      /* what the compiler's baseline has: SSE2, NEON */
	BPS_ISA_AVX2,   /* AVX2 and F16C */
	BPS_ISA_AVX512, /* AVX-512 F, BW, DQ and VL */
	BPS_N_ISAS
};

/**
 * bps_reduce_fn - reduce n_src arrays of count elements into dst, in the order of src.
 *
 * @dst: count elements; may be exactly one of the sources, overlaps nothing otherwise;
 * where sources and destination differ in size, overlaps nothing
 * @src: n_src arrays of count elements each
 * @n_src: 1 or more
 * @count: elements, may be 0
 *
 * No pointer needs any alignment. All are borrowed until the return.
 */
typedef void bps_reduce_fn(void *dst, const void *const *src, unsigned n_src,
                           size_t count);

/**
 * bps_kernels_init() - keep to instruction sets up to max.
 *
 * Optional: without it the first bps_kernel() takes the best of the processor. Kernels
 * handed out before stay valid.
 *
 * Returns the instruction set that is in use from now on: max or less.
 */
enum bps_isa bps_kernels_init(enum bps_isa max);

/**
 * bps_kernel() - the kernel of one element type and operation.
 *
 * @dtype, @op: any numbers, they may come from a peer
 *
 * Returns NULL where the standard does not define the operation for the type (MPI-4.0
 * section 6.9.2), or where either number is unknown. The function lives for ever.
 */
bps_reduce_fn *bps_kernel(enum bps_dtype dtype, enum bps_redop op);

/**
 * bps_kernel_push() - the kernel that makes one contribution of the inputs of several
 * ranks: bps_kernel(), but for the wide types. Theirs has sources of 16 bits and a
 * destination of fp32, which is exact for one source.
 */
bps_reduce_fn *bps_kernel_push(enum bps_dtype dtype, enum bps_redop op);

/**
 * bps_copy_fn - copy bytes from src to dst, which do not overlap and need no alignment.
 */
typedef void bps_copy_fn(void *dst, const void *src, size_t bytes);

/**
 * bps_copy() - the copy for long arrays, at least some KiB.
 *
 * @past_cache: for what nobody reads soon: whole lines of dst are written past the caches
 * (non-temporal stores), so that they are not read from memory first and push nothing
 * out. The calling thread sees what it wrote; before another one may look, the caller
 * does bps_copy_fence().
 *
 * The function lives for ever.
 */
bps_copy_fn *bps_copy(bool past_cache);

/** bps_copy_fence() - order the stores of a copy past the caches before any later one. */
static inline void bps_copy_fence(void)
{
#if defined(__x86_64__)
	__builtin_ia32_sfence();
#endif
}

/**
 * bps_kernels_isa() - name of the instruction set in use, for a log line: "c", "avx2" or
 * "avx512".
 */
const char *bps_kernels_isa(void);
