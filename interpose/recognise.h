/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a user's reduction of two-byte elements does, found out by running it: whether it
 * is SUM, PROD, MIN or MAX of IEEE binary16 or of bfloat16, as our own kernels do them.
 *
 * It is run over ordinary numbers first; only where that fits, over zeros of both signs,
 * subnormals, ties, overflow, infinities and NaN, in long arrays and in short ones, at
 * even and odd places; then once over each of the 65536 elements. It is ours if no result
 * differs from fp32 arithmetic rounded once to nearest even. Any NaN equals any NaN.
 *
 * Where two elements are not ordered (a NaN, zeros of both signs), a MIN or MAX must
 * always keep the one on the same side: then what MPI gives depends on the order in which
 * it adds, and ours is one of these results. One that prefers numbers to NaN, NaN to
 * numbers, or -0 to +0, whichever side they are on, is not ours.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/types.h"

/* inout[i] = in[i] op inout[i]; @in comes before @inout. Nonzero: it failed. */
typedef int bps_combine_fn(void *owner, const uint16_t *in, uint16_t *inout, int count);

/* dtype BPS_DTYPE_NONE: none of ours. */
struct bps_recognised {
	enum bps_dtype dtype; /* BPS_F16 or BPS_BF16 */
	enum bps_redop redop;
};

/**
 * bps_recognise() - run @combine, on the calling thread, and say what it is. First over
 * some of the @count elements at @sample, that the program has itself: one that does
 * something else with these is not made to run over elements that it may not expect.
 * @combine may write count elements and reads no more; floating-point exceptions do not
 * trap meanwhile, and their flags are as before when this returns.
 * Return: 0 with *@ret set; -ENOMEM.
 */
int bps_recognise(bps_combine_fn *combine, void *owner, const uint16_t *sample,
                  size_t count, struct bps_recognised *ret);

/**
 * bps_recognise_again() - whether @combine does with some of the @count elements at
 * @sample what @kind does: it may go by more than its arguments.
 */
bool bps_recognise_again(bps_combine_fn *combine, void *owner, const uint16_t *sample,
                         size_t count, struct bps_recognised kind);
