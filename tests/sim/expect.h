/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a reduction must give, computed one element at a time by the tests' own
 * arithmetic, and inputs for it. For int32, int64, uint8, float32, float64 with SUM, MIN,
 * MAX, and BXOR of integers; for contributions of fp32 with a total of 16 bits with SUM.
 */
#pragma once

#include <stddef.h>

#include "base/random.h"
#include "base/types.h"

/** bps_expect_pick() - any type and operation that are known here. */
void bps_expect_pick(struct bps_prng *prng, enum bps_dtype *ret_dtype,
                     enum bps_redop *ret_redop);

/** bps_expect_fill() - @bytes bytes of random elements; floats are finite. */
void bps_expect_fill(struct bps_prng *prng, enum bps_dtype dtype, void *buf,
                     size_t bytes);

/** bps_expect_add() - @acc = @acc op @next, element by element. */
void bps_expect_add(enum bps_dtype dtype, enum bps_redop redop, void *acc,
                    const void *next, size_t bytes);

/** bps_expect_total() - @acc, @bytes of contributions added up, as it is answered. */
void bps_expect_total(enum bps_dtype dtype, void *acc, size_t bytes);
