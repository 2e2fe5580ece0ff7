/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two kinds of random numbers: those that nobody can guess (job identities, keys), from
 * the kernel; and those that come again with their seed (tests, the simulator),
 * xoshiro256** by Blackman and Vigna, seeded through splitmix64.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * bps_random_bytes() - fill @buf with @n_bytes that nobody can guess; any thread.
 *
 * Returns 0, or a negative errno (logged) where the kernel gives none.
 */
int bps_random_bytes(void *buf, size_t n_bytes);

/* A generator belongs to the thread of the struct that holds it. */
struct bps_prng {
	uint64_t state[4];
};

/** bps_prng_init() - start over; equal seeds give equal numbers on every machine. */
void bps_prng_init(struct bps_prng *prng, uint64_t seed);

/** bps_prng_u64() - the next 64 bits. */
uint64_t bps_prng_u64(struct bps_prng *prng);

/** bps_prng_below() - a number from 0 to @n - 1, each equally likely; @n at least 1. */
uint64_t bps_prng_below(struct bps_prng *prng, uint64_t n);

/** bps_prng_unit() - a number from 0 (included) to 1 (excluded), 53 bits of it. */
double bps_prng_unit(struct bps_prng *prng);

/** bps_prng_fill() - fill @buf with @n_bytes. */
void bps_prng_fill(struct bps_prng *prng, void *buf, size_t n_bytes);
