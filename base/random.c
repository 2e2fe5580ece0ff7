/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/random.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

int bps_random_bytes(void *buf, size_t n_bytes)
{
	unsigned char *at = buf;

	while (n_bytes > 0) {
		ssize_t n = getrandom(at, n_bytes, 0);
		int error = errno;

		if (n < 0 && error == EINTR)
			continue;
		if (n < 0) {
			bps_error("the kernel gives no random bytes: %m");
			return -error;
		}
		at += n;
		n_bytes -= (size_t)n;
	}
	return 0;
}

/* splitmix64: spreads any seed, 0 too, over the state. */
static uint64_t split_mix(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

void bps_prng_init(struct bps_prng *prng, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		prng->state[i] = split_mix(&seed);
}

uint64_t bps_prng_u64(struct bps_prng *prng)
{
	uint64_t *s = prng->state;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t shifted = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= shifted;
	s[3] = rotate_left(s[3], 45);
	return result;
}

uint64_t bps_prng_below(struct bps_prng *prng, uint64_t n)
{
	uint64_t unfair = -n % n; /* so many numbers come once too often, 2^64 mod n */
	uint64_t x;

	do
		x = bps_prng_u64(prng);
	while (x < unfair);
	return x % n;
}

double bps_prng_unit(struct bps_prng *prng)
{
	return (double)(bps_prng_u64(prng) >> 11) * 0x1p-53;
}

void bps_prng_fill(struct bps_prng *prng, void *buf, size_t n_bytes)
{
	unsigned char *at = buf;

	while (n_bytes > 0) {
		uint64_t x = bps_prng_u64(prng);
		size_t n = n_bytes < sizeof(x) ? n_bytes : sizeof(x);

		memcpy(at, &x, n);
		at += n;
		n_bytes -= n;
	}
}
