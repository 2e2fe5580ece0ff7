/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers that find faults: ordinary values mixed with the extremes of their type.
 */
#pragma once

#include <stddef.h>

#include "base/types.h"

/* A generator's state (splitmix64): the same seed gives the same numbers. */
struct bps_test_random {
	uint64_t state;
};

/**
 * bps_test_next() - the next 64 random bits.
 */
uint64_t bps_test_next(struct bps_test_random *random);

/**
 * bps_test_fill() - fill count elements, one in eight of them out of the ordinary: NaN
 * quiet and signalling, infinities, zeros of both signs, subnormals, the largest and
 * smallest.
 */
void bps_test_fill(struct bps_test_random *random, enum bps_dtype dtype, void *array,
                   size_t count);
