/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Boxes of the world and members of communicators, against layouts written out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "topology/boxes.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* Three boxes, their ranks in between each other: {0,3,4}, {1,5}, {2}. */
static const uint32_t roots[] = { 0, 1, 2, 0, 0, 1 };

static void boxes_are_in_the_order_of_their_lowest_ranks(void **state)
{
	static const uint32_t box_of[] = { 0, 1, 2, 0, 0, 1 }, leader[] = { 0, 1, 2 };
	struct bps_boxes boxes;

	(void)state;
	assert_int_equal(bps_boxes_make(roots, N(roots), &boxes), 0);
	assert_int_equal(boxes.n_ranks, 6);
	assert_int_equal(boxes.n_boxes, 3);
	assert_memory_equal(boxes.box_of, box_of, sizeof(box_of));
	assert_memory_equal(boxes.leader, leader, sizeof(leader));
	bps_boxes_free(&boxes);
	assert_null(boxes.box_of);
}

static void roots_that_contradict_each_other_are_refused(void **state)
{
	static const uint32_t later[] = { 1, 1 }, chain[] = { 0, 0, 1 }, far[] = { 0, 9 };
	struct bps_boxes boxes;

	(void)state;
	assert_int_equal(bps_boxes_make(later, N(later), &boxes), -EINVAL);
	assert_int_equal(bps_boxes_make(chain, N(chain), &boxes), -EINVAL);
	assert_int_equal(bps_boxes_make(far, N(far), &boxes), -EINVAL);
}

/* In another order than the world's, and without world rank 0. */
static void members_follow_the_communicators_order(void **state)
{
	static const uint32_t world[] = { 5, 2, 4, 1, 3 };
	static const uint32_t member_of[] = { 0, 1, 2, 0, 2 },
			      index_of[] = { 0, 0, 0, 1, 1 };
	static const uint32_t leader[] = { 0, 1, 2 }, box[] = { 1, 2, 0 };
	static const uint32_t n_local[] = { 2, 1, 2 };
	struct bps_members members;
	struct bps_boxes boxes;

	(void)state;
	assert_int_equal(bps_boxes_make(roots, N(roots), &boxes), 0);
	assert_int_equal(bps_members_make(&boxes, world, N(world), &members), 0);
	assert_int_equal(members.n_members, 3);
	assert_memory_equal(members.member_of, member_of, sizeof(member_of));
	assert_memory_equal(members.index_of, index_of, sizeof(index_of));
	assert_memory_equal(members.leader, leader, sizeof(leader));
	assert_memory_equal(members.box, box, sizeof(box));
	assert_memory_equal(members.n_local, n_local, sizeof(n_local));
	bps_members_free(&members);
	assert_int_equal(
		bps_members_make(&boxes, (const uint32_t[]){ 0, 6 }, 2, &members),
		-EINVAL);
	bps_boxes_free(&boxes);
}

static void ranks_are_written_in_runs(void **state)
{
	static const uint32_t ranks[] = { 0, 1, 2, 3, 7, 9, 10 };
	uint32_t many[200];
	char text[64];

	(void)state;
	assert_string_equal(bps_ranks_format(ranks, N(ranks), text, sizeof(text)),
	                    "0-3,7,9-10");
	assert_string_equal(bps_ranks_format(ranks, 1, text, sizeof(text)), "0");
	assert_string_equal(bps_ranks_format(ranks, 0, text, sizeof(text)), "");
	for (uint32_t i = 0; i < N(many); i++)
		many[i] = 2 * i;
	bps_ranks_format(many, N(many), text, sizeof(text));
	assert_string_equal(text + strlen(text) - 4, ",...");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(boxes_are_in_the_order_of_their_lowest_ranks),
		cmocka_unit_test(roots_that_contradict_each_other_are_refused),
		cmocka_unit_test(members_follow_the_communicators_order),
		cmocka_unit_test(ranks_are_written_in_runs),
	};

	return cmocka_run_group_tests_name("topology-boxes", tests, NULL, NULL);
}
