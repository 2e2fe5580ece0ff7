/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who measures which link: no link is used twice at a time, and all are used soon.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "interpose/links.h"

#define MAX_BOXES   17u
#define MAX_SERVERS 20u

/* Which links, boxes first, take part in round @round; checks that none does twice. */
static void play(uint32_t n, uint32_t k, uint32_t round, uint8_t *used)
{
	uint32_t box, server, other;

	memset(used, 0, n + k);
	for (box = 0; box < n; box++) {
		if (!bps_links_partner(n, k, box, round, &server))
			continue;
		assert_in_range(server, 0, k < n ? k + n - 1 : k - 1);
		other = server < k ? n + server : server - k;
		assert_int_not_equal(other, box);
		assert_int_equal(used[box]++, 0);
		assert_int_equal(used[other]++, 0);
	}
}

static void no_link_is_used_twice_at_a_time(void **state)
{
	uint8_t used[MAX_BOXES + MAX_SERVERS];
	uint32_t n, k, round;

	(void)state;
	for (n = 2; n <= MAX_BOXES; n++)
		for (k = 0; k <= MAX_SERVERS; k++)
			for (round = 0; round < 40; round++)
				play(n, k, round, used);
}

/* In three rounds every box is measured, and every server but where there are many. */
static void all_are_measured_in_three_rounds(void **state)
{
	uint8_t used[MAX_BOXES + MAX_SERVERS];
	uint32_t n, k, round, i;

	(void)state;
	for (n = 2; n <= MAX_BOXES; n++) {
		for (k = 0; k <= n; k++) {
			uint32_t often[MAX_BOXES + MAX_SERVERS] = { 0 }, n_seen = 0;

			for (round = 0; round < 3; round++) {
				play(n, k, round, used);
				for (i = 0; i < n + k; i++)
					often[i] += used[i];
			}
			for (i = 0; i < n; i++)
				assert_in_range(often[i], 1, 3);
			for (i = n; i < n + k; i++)
				n_seen += often[i] > 0;
			assert_true(2 * n_seen >= k);
		}
	}
}

static void a_slow_link_is_told_from_chance(void **state)
{
	const int64_t fastest[5] = { 11500000, 11000000, 5900000, 0, 9000000 };
	double boxes[3], servers[2];

	(void)state;
	bps_links_settle(fastest, 3, 2, boxes, servers);
	assert_true(boxes[0] == 11500000.0 && boxes[1] == 11500000.0);
	assert_true(boxes[2] == 5900000.0);
	assert_true(servers[0] == 11500000.0); /* nobody knows: as the others */
	assert_true(servers[1] == 11500000.0); /* 0.78 times as fast */
}

/* Two gigabytes and one are the same two cores; a tenth of that is another link. */
static void busy_cores_are_not_slow_links(void **state)
{
	const int64_t fastest[3] = { 2000000000, 1000000000, 110000000 };
	double boxes[3], servers[1];

	(void)state;
	bps_links_settle(fastest, 3, 0, boxes, servers);
	assert_true(boxes[1] == 2e9);
	assert_true(boxes[2] == 110e6);
}

static void nothing_measured_is_a_rate_too(void **state)
{
	const int64_t fastest[2] = { 0, 0 };
	double boxes[2], servers[1];

	(void)state;
	bps_links_settle(fastest, 2, 0, boxes, servers);
	assert_true(boxes[0] > 0 && boxes[0] == boxes[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_link_is_used_twice_at_a_time),
		cmocka_unit_test(all_are_measured_in_three_rounds),
		cmocka_unit_test(a_slow_link_is_told_from_chance),
		cmocka_unit_test(busy_cores_are_not_slow_links),
		cmocka_unit_test(nothing_measured_is_a_rate_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
