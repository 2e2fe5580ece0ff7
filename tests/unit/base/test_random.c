/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/base/unit.h"

#include "base/random.h"

/* The published generators, written once more in another way, as the reference. */
static uint64_t reference_split_mix(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * UINT64_C(11400714819323198485);

	z = (z ^ z / (UINT64_C(1) << 30)) * UINT64_C(13787848793156543929);
	z = (z ^ z / (UINT64_C(1) << 27)) * UINT64_C(10723151780598845931);
	return z ^ z / (UINT64_C(1) << 31);
}

static void the_first_numbers_are_those_of_the_definition(void **state)
{
	/* splitmix64 from 1234567, as published with the generator. */
	struct bps_prng prng;
	uint64_t s1;

	assert_true(reference_split_mix(1234567, 0) == UINT64_C(6457827717110365317));
	assert_true(reference_split_mix(1234567, 1) == UINT64_C(3203168211198807973));
	bps_prng_init(&prng, 1234567);
	for (uint64_t i = 0; i < 4; i++)
		assert_true(prng.state[i] == reference_split_mix(1234567, i));
	s1 = prng.state[1] * 5;
	assert_true(bps_prng_u64(&prng) == (s1 * 128 + s1 / (UINT64_C(1) << 57)) * 9);

	/* xoshiro256** from the state 1, 2, 3, 4, as published. */
	prng = (struct bps_prng){ { 1, 2, 3, 4 } };
	assert_true(bps_prng_u64(&prng) == 11520);
	assert_true(bps_prng_u64(&prng) == 0);
	assert_true(bps_prng_u64(&prng) == 1509978240);
	assert_true(bps_prng_u64(&prng) == UINT64_C(1215971899390074240));
}

static void equal_seeds_give_equal_numbers(void **state)
{
	struct bps_prng one, other, third;
	int n_equal = 0;

	bps_prng_init(&one, 5);
	bps_prng_init(&other, 5);
	bps_prng_init(&third, 6);
	for (int i = 0; i < 100; i++) {
		uint64_t x = bps_prng_u64(&one);

		assert_true(x == bps_prng_u64(&other));
		n_equal += x == bps_prng_u64(&third);
	}
	assert_int_equal(n_equal, 0);
}

static void numbers_stay_below_their_limit_and_spread(void **state)
{
	struct bps_prng prng;
	uint32_t seen[6] = { 0 };

	bps_prng_init(&prng, 0);
	for (int i = 0; i < 60000; i++)
		seen[bps_prng_below(&prng, 6)]++;
	for (int i = 0; i < 6; i++)
		assert_in_range(seen[i], 9500, 10500);
	for (int i = 0; i < 1000; i++) {
		double x = bps_prng_unit(&prng);

		assert_int_equal(bps_prng_below(&prng, 1), 0);
		assert_true(bps_prng_below(&prng, (UINT64_C(1) << 63) + 1) <=
		            UINT64_C(1) << 63);
		assert_true(x >= 0 && x < 1);
	}
}

static void filling_writes_its_bytes_alone(void **state)
{
	for (size_t n = 0; n < 40; n++) {
		unsigned char buf[48], other[48];
		struct bps_prng prng;

		memset(buf, 0xa5, sizeof(buf));
		memset(other, 0x5a, sizeof(other));
		bps_prng_init(&prng, n);
		bps_prng_fill(&prng, buf, n);
		bps_prng_init(&prng, n);
		bps_prng_fill(&prng, other, n);
		assert_memory_equal(buf, other, n);
		for (size_t i = n; i < sizeof(buf); i++)
			assert_int_equal(buf[i], 0xa5);
	}
}

static void the_kernel_gives_as_many_as_asked(void **state)
{
	static unsigned char one[70000], other[70000];

	assert_int_equal(bps_random_bytes(one, 0), 0);
	assert_int_equal(one[0], 0);
	assert_int_equal(bps_random_bytes(one, sizeof(one)), 0);
	assert_int_equal(bps_random_bytes(other, sizeof(other)), 0);
	assert_memory_not_equal(one, other, 32);
	assert_memory_not_equal(one + sizeof(one) - 32, other + sizeof(one) - 32, 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_numbers_are_those_of_the_definition),
		cmocka_unit_test(equal_seeds_give_equal_numbers),
		cmocka_unit_test(numbers_stay_below_their_limit_and_spread),
		cmocka_unit_test(filling_writes_its_bytes_alone),
		cmocka_unit_test(the_kernel_gives_as_many_as_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
