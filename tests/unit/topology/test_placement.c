/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of boxes that are written down here, with the plan that each should have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "made-machine.h"
#include "topology/placement.h"

#define MAX_RANKS 16

/* What a test asks with: all cards of the box, and ranks as they are added. */
struct ask {
	struct made made;
	struct bps_cpuset ranks[MAX_RANKS];
	uint32_t nics[MADE_DEVICES], n_ranks;
	double measured[MADE_DEVICES];
	const struct bps_placement *plan;
};

static void rank_on(struct ask *ask, struct bps_cpuset set)
{
	ask->ranks[ask->n_ranks++] = set;
}

static int try_plan(struct ask *ask)
{
	struct bps_place_in in = {
		.machine = &ask->made.machine,
		.ranks = ask->ranks,
		.n_ranks = ask->n_ranks,
		.nics = ask->nics,
		.n_nics = ask->made.machine.n_nics,
		.nic_bytes_per_s = ask->measured,
	};

	for (uint32_t i = 0; i < MADE_DEVICES; i++)
		ask->nics[i] = i;
	return bps_place(&in, &ask->plan);
}

static const struct bps_placement *plan_of(struct ask *ask)
{
	assert_int_equal(try_plan(ask), 0);
	return ask->plan;
}

static void is_set(const struct bps_cpuset *set, struct bps_cpuset expected)
{
	char is[256], should[256];

	bps_cpuset_format(set, is, sizeof(is));
	bps_cpuset_format(&expected, should, sizeof(should));
	assert_string_equal(is, should);
}

static void is_share(double share, double expected)
{
	if (fabs(share - expected) > 1e-12)
		fail_msg("%.15g is not %.15g", share, expected);
}

/* Two nodes of @n_cores each, and nothing else. */
static struct ask *two_nodes(uint32_t n_cores, uint32_t n_threads)
{
	static struct ask ask;

	ask = (struct ask){ 0 };
	made_init(&ask.made);
	made_node(&ask.made, n_cores, n_threads);
	made_node(&ask.made, n_cores, n_threads);
	return &ask;
}

static void done(struct ask *ask)
{
	bps_place_free(ask->plan);
	ask->plan = NULL;
}

/* -- groups -- */

static void ranks_are_grouped_by_node(void **state)
{
	struct ask *ask = two_nodes(4, 1);
	const struct bps_placement *plan;
	const uint32_t groups[] = { 0, 1, 0, 2, 1, 2 };

	(void)state;
	rank_on(ask, cpus(1, 4));
	rank_on(ask, cpus(2, 0, 3));
	rank_on(ask, cpus(4, 4, 5, 6, 7));
	rank_on(ask, cpus(2, 3, 4));
	rank_on(ask, cpus(1, 1));
	rank_on(ask, cpus(1, 60)); /* a CPU of which nothing is known */
	plan = plan_of(ask);
	assert_int_equal(plan->n_groups, 3);
	assert_int_equal(plan->groups[0].node, 1);
	assert_int_equal(plan->groups[1].node, 0);
	assert_int_equal(plan->groups[2].node, NONE);
	for (uint32_t r = 0; r < 6; r++)
		assert_int_equal(plan->group_of[r], groups[r]);
	for (uint32_t g = 0; g < 3; g++)
		assert_int_equal(plan->groups[g].n_ranks, 2);
	done(ask);
}

/* What a description without hwloc has: the leader's CPU alone, and one node. */
static void a_single_node_has_all_ranks(void **state)
{
	struct ask *ask = two_nodes(1, 1);
	const struct bps_placement *plan;

	(void)state;
	ask->made.nodes[1].n_cpus = 0; /* memory alone */
	ask->made.machine.n_cpus = 1;
	ask->made.machine.usable = cpus(1, 0);
	rank_on(ask, cpus(1, 0));
	rank_on(ask, cpus(1, 7));
	plan = plan_of(ask);
	assert_int_equal(plan->n_groups, 1);
	assert_int_equal(plan->groups[0].node, 0);
	assert_int_equal(plan->groups[0].n_ranks, 2);
	assert_int_equal(plan->wire_node, 0);
	done(ask);
}

/* -- nodes and the engine's CPUs -- */

static void all_is_where_the_card_is(void **state)
{
	struct ask *ask = two_nodes(4, 1);
	const struct bps_placement *plan;

	(void)state;
	made_nic(&ask->made, 1, NONE, 0);
	rank_on(ask, cpus(1, 0));
	rank_on(ask, cpus(1, 4));
	rank_on(ask, cpus(1, 5));
	plan = plan_of(ask);
	assert_int_equal(plan->engine_node, 1);
	assert_int_equal(plan->home, 1);
	assert_int_equal(plan->wire_node, 1);
	is_set(&plan->engine_cpus, cpus(2, 6, 7));
	done(ask);
}

static void equal_nodes_go_by_the_first_rank(void **state)
{
	struct ask *ask = two_nodes(2, 1);
	const struct bps_placement *plan;

	(void)state;
	made_nic(&ask->made, 0, NONE, 1e9);
	made_nic(&ask->made, 1, NONE, 1e9);
	rank_on(ask, cpus(1, 3));
	rank_on(ask, cpus(1, 1));
	plan = plan_of(ask);
	assert_int_equal(plan->wire_node, 1);
	assert_int_equal(plan->home, 0);
	is_set(&plan->engine_cpus, cpus(1, 2));
	done(ask);
}

/* 0.1 + 0.2 is more than 0.3, and is not meant to be. */
static void rounding_decides_nothing(void **state)
{
	struct ask *ask = two_nodes(2, 1);

	(void)state;
	made_nic(&ask->made, 0, NONE, 3e9);
	made_nic(&ask->made, 1, NONE, 1e9);
	made_nic(&ask->made, 1, NONE, 2e9);
	made_nic(&ask->made, NONE, NONE, 4e9);
	rank_on(ask, cpus(1, 0));
	rank_on(ask, cpus(1, 2));
	assert_int_equal(plan_of(ask)->wire_node, 0);
	done(ask);
}

static void the_faster_card_decides(void **state)
{
	struct ask *ask = two_nodes(2, 1);

	(void)state;
	made_nic(&ask->made, 0, NONE, 1e9);
	made_nic(&ask->made, 1, NONE, 2e9);
	rank_on(ask, cpus(1, 0));
	rank_on(ask, cpus(1, 2));
	assert_int_equal(plan_of(ask)->wire_node, 1);
	done(ask);
	made_nic(&ask->made, 0, NONE, 1.5e9);
	assert_int_equal(plan_of(ask)->wire_node, 0);
	done(ask);
}

/* The card's node has no rank: its CPUs are the engine's, and the sums lie where the
 * closest ranks are. */
static void a_card_may_be_away_from_all_ranks(void **state)
{
	static const uint32_t distances[] = { 10, 20, 40, 20, 10, 30, 40, 30, 10 };
	struct ask *ask = two_nodes(2, 1);
	const struct bps_placement *plan;
	uint64_t moved[9];

	(void)state;
	made_node(&ask->made, 2, 1);
	memcpy(ask->made.distances, distances, sizeof(distances));
	ask->made.machine.distances = ask->made.distances;
	made_nic(&ask->made, 2, NONE, 0);
	rank_on(ask, cpus(2, 0, 1));
	rank_on(ask, cpus(2, 2, 3));
	plan = plan_of(ask);
	assert_int_equal(plan->engine_node, 2);
	assert_int_equal(plan->home, 1);
	assert_int_equal(plan->wire_node, 1);
	is_set(&plan->engine_cpus, cpus(2, 4, 5));
	bps_place_crossings(plan, 1001, false, moved);
	for (uint32_t i = 0; i < 9; i++)
		assert_int_equal(moved[i],
		                 i == 1 || i == 3 || i == 5 || i == 7 ? 1001 : 0);
	done(ask);
}

static void the_engine_stays_on_usable_cpus(void **state)
{
	struct ask *ask = two_nodes(2, 1);
	const struct bps_placement *plan;

	(void)state;
	made_nic(&ask->made, 1, NONE, 0);
	ask->made.machine.usable = cpus(1, 0);
	rank_on(ask, cpus(1, 0));
	rank_on(ask, cpus(1, 2));
	plan = plan_of(ask);
	assert_int_equal(plan->engine_node, 0);
	assert_int_equal(plan->home, 0);
	assert_int_equal(plan->wire_node, 0);
	is_set(&plan->engine_cpus, cpus(1, 0));
	done(ask);
}

static void ranks_that_roam_have_no_node(void **state)
{
	struct ask *ask = two_nodes(2, 1);
	const struct bps_placement *plan;
	uint64_t moved[4];

	(void)state;
	rank_on(ask, cpus(4, 0, 1, 2, 3));
	plan = plan_of(ask);
	assert_int_equal(plan->wire_node, NONE);
	assert_int_equal(plan->engine_node, NONE);
	is_set(&plan->engine_cpus, cpus(4, 0, 1, 2, 3));
	done(ask);
	made_nic(&ask->made, 1, NONE, 0);
	plan = plan_of(ask);
	assert_int_equal(plan->groups[plan->home].node, NONE);
	assert_int_equal(plan->wire_node, 1);
	is_set(&plan->engine_cpus, cpus(2, 2, 3));
	bps_place_crossings(plan, 1 << 20, false, moved);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(moved[i], 0);
	done(ask);
}

/* A whole core, else another thread of a rank's core, else what there is. */
static void the_engine_keeps_off_ranks(void **state)
{
	struct ask *ask = two_nodes(2, 2); /* cores 0,1 2,3 and 4,5 6,7 */
	const struct bps_placement *plan;

	(void)state;
	rank_on(ask, cpus(3, 0, 1, 2)); /* not bound to a core: it can move aside */
	plan = plan_of(ask);
	is_set(&plan->engine_cpus, cpus(4, 0, 1, 2, 3));
	done(ask);
	rank_on(ask, cpus(1, 0));
	plan = plan_of(ask);
	is_set(&plan->engine_cpus, cpus(2, 2, 3));
	done(ask);
	rank_on(ask, cpus(1, 2));
	plan = plan_of(ask);
	is_set(&plan->engine_cpus, cpus(2, 1, 3));
	done(ask);
	rank_on(ask, cpus(2, 0, 1)); /* all of a core is one core too */
	plan = plan_of(ask);
	is_set(&plan->engine_cpus, cpus(1, 3));
	done(ask);
	rank_on(ask, cpus(1, 3));
	plan = plan_of(ask);
	is_set(&plan->engine_cpus, cpus(4, 0, 1, 2, 3));
	done(ask);
}

/* -- network cards -- */

static void cards_share_by_speed(void **state)
{
	struct ask *ask = two_nodes(1, 1);
	const struct bps_placement *plan;
	const uint32_t order[] = { 3, 0, 2, 4 };
	const double speed[] = { 8, 5, 1.6, 1.6 };

	(void)state;
	rank_on(ask, cpus(1, 0));
	made_nic(&ask->made, 0, NONE, 5e9);
	made_nic(&ask->made, 0, NONE, 1.5e9); /* less than a fifth of 8e9 */
	made_nic(&ask->made, 0, NONE, 0);     /* as the slowest that is used */
	made_nic(&ask->made, 0, NONE, 1e9);
	ask->measured[3] = 8e9; /* what was measured counts more */
	made_nic(&ask->made, 0, NONE, 1.6e9);
	plan = plan_of(ask);
	assert_int_equal(plan->n_rails, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(plan->rails[i].nic, order[i]);
		is_share(plan->rails[i].share, speed[i] / 16.2);
	}
	done(ask);
}

static void cards_of_unknown_speed_are_alike(void **state)
{
	struct ask *ask = two_nodes(1, 1);
	const struct bps_placement *plan;

	(void)state;
	rank_on(ask, cpus(1, 0));
	for (uint32_t i = 0; i < 3; i++)
		made_nic(&ask->made, NONE, NONE, i == 1 ? INFINITY : 0);
	plan = plan_of(ask);
	assert_int_equal(plan->n_rails, 3);
	for (uint32_t i = 0; i < 3; i++)
		is_share(plan->rails[i].share, 1 / 3.0);
	done(ask);
}

static void the_fastest_eight_are_used(void **state)
{
	struct ask *ask = two_nodes(1, 1);
	const struct bps_placement *plan;

	(void)state;
	rank_on(ask, cpus(1, 0));
	for (uint32_t i = 0; i < 10; i++)
		made_nic(&ask->made, 0, NONE, 10 + i);
	plan = plan_of(ask);
	assert_int_equal(plan->n_rails, 8);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(plan->rails[i].nic, 9 - i);
		is_share(plan->rails[i].share,
		         (19.0 - i) / (12 + 13 + 14 + 15 + 16 + 17 + 18 + 19));
	}
	done(ask);
}

/* -- bytes -- */

static void alone_each_byte_crosses_once_each_way(void **state)
{
	struct ask *ask = two_nodes(2, 1);
	const struct bps_placement *plan;
	uint64_t moved[4];

	(void)state;
	rank_on(ask, cpus(1, 0));
	rank_on(ask, cpus(1, 2));
	plan = plan_of(ask);
	bps_place_crossings(plan, 1001, true, moved);
	/* Piece 0 has 500 bytes, piece 1 has 501; of both a sum comes and a total goes.
	 */
	assert_int_equal(moved[0], 0);
	assert_int_equal(moved[1], 1001);
	assert_int_equal(moved[2], 1001);
	assert_int_equal(moved[3], 0);
	done(ask);
}

static void pieces_follow_the_ranks(void **state)
{
	struct ask *ask = two_nodes(2, 1);
	const struct bps_placement *plan;
	uint64_t moved[9];

	(void)state;
	made_node(&ask->made, 2, 1);
	rank_on(ask, cpus(1, 0)); /* bytes 0 to 17 of 70 */
	rank_on(ask, cpus(1, 2)); /* to 35 */
	rank_on(ask, cpus(1, 4)); /* the last, 52 to 70 */
	rank_on(ask, cpus(1, 3)); /* 35 to 52, as those of a group follow each other */
	plan = plan_of(ask);
	bps_place_crossings(plan, 70, true, moved);
	assert_int_equal(moved[0 * 3 + 1], 17 + 35);
	assert_int_equal(moved[1 * 3 + 0], 17 + 35);
	assert_int_equal(moved[0 * 3 + 2], 17 + 18);
	assert_int_equal(moved[2 * 3 + 0], 17 + 18);
	assert_int_equal(moved[1 * 3 + 2], 35 + 18);
	assert_int_equal(moved[2 * 3 + 1], 35 + 18);
	done(ask);
}

/* Two nodes with ranks, and a card on each. */
static void several_boxes_use_the_cards(void **state)
{
	struct ask *ask = two_nodes(2, 1);
	const struct bps_placement *plan;
	uint64_t moved[4];

	(void)state;
	made_nic(&ask->made, 0, NONE, 3e9);
	made_nic(&ask->made, 1, NONE, 1e9);
	rank_on(ask, cpus(1, 2));
	rank_on(ask, cpus(1, 0));
	plan = plan_of(ask);
	assert_int_equal(plan->wire_node, 0);
	bps_place_crossings(plan, 1001, false, moved);
	/* Card 0 has 750 of 1001 bytes: 0.75 of them, rounded down. */
	assert_int_equal(moved[1], 1001 + 251);
	assert_int_equal(moved[2], 1001 + 251);
	assert_int_equal(moved[0] + moved[3], 0);
	done(ask);
}

/* -- GPUs -- */

static void gpus_have_the_nearest_card(void **state)
{
	struct ask *ask = two_nodes(2, 1);
	const struct bps_placement *plan;
	uint32_t outer, left, right, other;

	(void)state;
	outer = made_bridge(&ask->made, 0, NONE);
	left = made_bridge(&ask->made, 0, outer);
	right = made_bridge(&ask->made, 0, outer);
	other = made_bridge(&ask->made, 0, NONE);
	made_nic(&ask->made, 1, NONE, 1e9);
	made_nic(&ask->made, 0, NONE, 1e9);
	made_nic(&ask->made, 0, left, 1e9);
	for (uint32_t i = 0; i < 2; i++) {
		made_gpu(&ask->made, 0, left);
		made_gpu(&ask->made, 0, right);
		made_gpu(&ask->made, 0, other);
		made_gpu(&ask->made, 1, NONE);
		made_gpu(&ask->made, NONE, NONE);
	}
	rank_on(ask, cpus(1, 0));
	plan = plan_of(ask);
	assert_int_equal(plan->n_gpu_groups, 5);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(plan->gpu_group_of[i], i % 5);
	assert_int_equal(plan->gpu_groups[0].bridge, left);
	assert_int_equal(plan->gpu_groups[0].nic, 2);
	assert_int_equal(plan->gpu_groups[1].nic, 2); /* below the outer one together */
	assert_int_equal(plan->gpu_groups[2].nic,
	                 1); /* on the node, and with fewer GPUs */
	assert_int_equal(plan->gpu_groups[3].node, 1);
	assert_int_equal(plan->gpu_groups[3].nic, 0);
	assert_int_equal(plan->gpu_groups[4].node, NONE);
	done(ask);
}

static void gpus_spread_over_equal_cards(void **state)
{
	struct ask *ask = two_nodes(2, 1);
	const struct bps_placement *plan;

	(void)state;
	made_nic(&ask->made, 0, NONE, 1e9);
	made_nic(&ask->made, 0, NONE, 1e9);
	for (uint32_t i = 0; i < 4; i++)
		made_gpu(&ask->made, 0, made_bridge(&ask->made, 0, NONE));
	rank_on(ask, cpus(1, 0));
	plan = plan_of(ask);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(plan->gpu_groups[i].nic, i % 2);
	done(ask);
	ask->made.machine.n_nics = 0;
	plan = plan_of(ask);
	assert_int_equal(plan->gpu_groups[3].nic, NONE);
	done(ask);
}

/* Of a package of several nodes, it may be all that is known. */
static void gpus_of_a_package(void **state)
{
	struct ask *ask = two_nodes(2, 1);
	const struct bps_placement *plan;

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		made_gpu(&ask->made, NONE, NONE);
		ask->made.gpus[i].at.package = i;
		made_nic(&ask->made, 1 - i, NONE, 1e9);
	}
	rank_on(ask, cpus(1, 0));
	plan = plan_of(ask);
	assert_int_equal(plan->n_gpu_groups, 2);
	assert_int_equal(plan->gpu_groups[0].nic, 1);
	assert_int_equal(plan->gpu_groups[1].nic, 0);
	done(ask);
}

/* -- servers -- */

static void seats_are(struct ask *ask, uint32_t n_threads, const char *nodes)
{
	struct bps_place_server server;
	char text[MADE_CPUS + 1] = "";

	for (uint32_t i = 0; i < MADE_DEVICES; i++)
		ask->nics[i] = i;
	assert_int_equal(bps_place_server(&ask->made.machine, ask->nics,
	                                  ask->made.machine.n_nics, n_threads, &server),
	                 0);
	for (uint32_t i = 0; i < server.n_threads; i++) {
		struct bps_cpuset outside = server.cpus[i];

		text[i] = server.node[i] == NONE ? '-' : (char)('0' + server.node[i]);
		assert_true(bps_cpuset_count(&server.cpus[i]) > 0);
		bps_cpuset_intersect(&outside, &ask->made.machine.usable);
		assert_memory_equal(&outside, &server.cpus[i], sizeof(outside));
	}
	assert_string_equal(text, nodes);
	bps_place_server_deinit(&server);
	assert_int_equal(server.n_threads, 0);
}

static void servers_sit_by_their_cards(void **state)
{
	struct ask *ask = two_nodes(4, 1);

	(void)state;
	seats_are(ask, 0, "01010101"); /* without a card, everywhere */
	made_nic(&ask->made, 1, NONE, 1e9);
	seats_are(ask, 0, "1111");
	seats_are(ask, 2, "11");
	made_nic(&ask->made, 0, NONE, 3e9);
	seats_are(ask, 4, "0001");     /* by speed */
	seats_are(ask, 0, "00010111"); /* until all CPUs of a node have one */
	seats_are(ask, 12, "000101110000");
	ask->made.machine.cpu_quota = 3;
	seats_are(ask, 0, "000");
}

static void servers_stay_on_usable_cpus(void **state)
{
	struct ask *ask = two_nodes(4, 1);

	(void)state;
	made_nic(&ask->made, 1, NONE, 1e9);
	ask->made.machine.usable = cpus(3, 0, 1, 7);
	seats_are(ask, 0, "1");
	ask->made.machine.usable = cpus(2, 0, 1);
	seats_are(ask, 0, "00");
	made_nic(&ask->made, NONE, NONE, 1e9);
	seats_are(ask, 0, "00");
	for (uint32_t i = 0; i < 8; i++)
		ask->made.cpus[i].node = NONE;
	seats_are(ask, 0, "--");
}

/* -- what cannot be -- */

static void bad_questions_are_refused(void **state)
{
	struct ask *ask = two_nodes(2, 1);
	const uint32_t unknown[] = { 2 }, twice[] = { 1, 0, 1 };
	struct bps_place_in in = { .machine = &ask->made.machine, .ranks = ask->ranks };
	struct bps_place_server server;
	const struct bps_placement *plan = (void *)ask;

	(void)state;
	assert_int_equal(try_plan(ask), -EINVAL); /* no rank */
	rank_on(ask, cpus(1, 0));
	made_nic(&ask->made, 0, NONE, 0);
	made_nic(&ask->made, 0, NONE, 0);
	in.n_ranks = 1;
	in.nics = unknown;
	in.n_nics = 1;
	assert_int_equal(bps_place(&in, &plan), -EINVAL);
	assert_null(plan);
	assert_int_equal(bps_place_server(in.machine, unknown, 1, 0, &server), -EINVAL);
	in.nics = twice;
	in.n_nics = 3;
	assert_int_equal(bps_place(&in, &plan), -EINVAL);
	assert_int_equal(bps_place_server(in.machine, twice, 3, 0, &server), -EINVAL);
	assert_null(server.cpus);
	ask->made.machine.usable = cpus(0);
	assert_int_equal(try_plan(ask), -EINVAL);
	assert_int_equal(bps_place_server(in.machine, twice, 2, 4, &server), -EINVAL);
	assert_int_equal(server.n_threads, 0);
	bps_place_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_are_grouped_by_node),
		cmocka_unit_test(a_single_node_has_all_ranks),
		cmocka_unit_test(all_is_where_the_card_is),
		cmocka_unit_test(equal_nodes_go_by_the_first_rank),
		cmocka_unit_test(rounding_decides_nothing),
		cmocka_unit_test(the_faster_card_decides),
		cmocka_unit_test(a_card_may_be_away_from_all_ranks),
		cmocka_unit_test(the_engine_stays_on_usable_cpus),
		cmocka_unit_test(ranks_that_roam_have_no_node),
		cmocka_unit_test(the_engine_keeps_off_ranks),
		cmocka_unit_test(cards_share_by_speed),
		cmocka_unit_test(cards_of_unknown_speed_are_alike),
		cmocka_unit_test(the_fastest_eight_are_used),
		cmocka_unit_test(alone_each_byte_crosses_once_each_way),
		cmocka_unit_test(pieces_follow_the_ranks),
		cmocka_unit_test(several_boxes_use_the_cards),
		cmocka_unit_test(gpus_have_the_nearest_card),
		cmocka_unit_test(gpus_spread_over_equal_cards),
		cmocka_unit_test(gpus_of_a_package),
		cmocka_unit_test(servers_sit_by_their_cards),
		cmocka_unit_test(servers_stay_on_usable_cpus),
		cmocka_unit_test(bad_questions_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
