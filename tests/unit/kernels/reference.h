/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernels must give, worked out one element at a time by other means: integers
 * in 128 bits, 16-bit floats through double and their definition.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/types.h"

extern const char *const bps_test_dtype_names[BPS_N_DTYPES];
extern const char *const bps_test_redop_names[BPS_N_REDOPS];

/**
 * bps_test_allowed() - does MPI-4.0 (section 6.9.2) define the operation for the type?
 */
bool bps_test_allowed(enum bps_dtype dtype, enum bps_redop op);

/**
 * bps_test_reduce() - the expected result of n_src arrays of count elements, none of them
 * misaligned for its type and none overlapping dst.
 */
void bps_test_reduce(enum bps_dtype dtype, enum bps_redop op, void *dst,
                     const void *const *src, unsigned n_src, size_t count);

/**
 * bps_test_reduce_push() - what the ranks of a box contribute together: @src are arrays
 * of the 16-bit floats of a wide type.
 */
void bps_test_reduce_push(enum bps_dtype dtype, enum bps_redop op, float *dst,
                          const void *const *src, unsigned n_src, size_t count);

/**
 * bps_test_same() - is element i of got what element i of want says?
 *
 * Bit for bit, but any quiet NaN is as good as another, where the kernel computed it.
 */
bool bps_test_same(enum bps_dtype dtype, const void *want, const void *got, size_t i);
