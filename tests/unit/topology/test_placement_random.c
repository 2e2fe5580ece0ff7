/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What holds for the plan of any box, on boxes from a dice; and that no other way to sum
 * moves fewer values from node to node, on small boxes, by trying them all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "made-machine.h"
#include "topology/placement.h"

#define N_BOXES   600
#define MAX_RANKS 8

struct box {
	struct made made;
	struct bps_cpuset ranks[MAX_RANKS];
	uint32_t n_ranks, nics[MADE_DEVICES], n_nics;
	double measured[MADE_DEVICES];
	const struct bps_placement *plan;
};

static uint64_t dice_state;

static uint32_t roll(uint32_t from, uint32_t to)
{
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return from + (uint32_t)(dice_state >> 16) % (to - from + 1);
}

static bool chance(uint32_t of_100)
{
	return roll(1, 100) <= of_100;
}

/* -- boxes -- */

static void roll_nodes(struct made *made, uint32_t max_nodes)
{
	uint32_t n = roll(1, max_nodes);

	made_init(made);
	for (uint32_t i = 0; i < n; i++) {
		made_node(made, i > 0 && chance(15) ? 0 : roll(1, 4), roll(1, 2));
		if (i > 0 && chance(30)) /* a package of several nodes */
			made->nodes[i].package = made->nodes[i - 1].package;
	}
	if (chance(60))
		made->machine.distances = made->distances;
	for (uint32_t i = 0; i < n * n; i++)
		made->distances[i] = i % (n + 1) == 0 ? 10 : roll(11, 40);
}

static uint32_t roll_node(const struct made *made)
{
	return chance(15) ? NONE : roll(0, made->machine.n_nodes - 1);
}

/* Below one of the bridges, or below none. */
static struct bps_machine_place roll_place(const struct made *made)
{
	uint32_t n = made->machine.n_bridges;
	uint32_t bridge = n > 0 && chance(60) ? roll(0, n - 1) : NONE;

	return made_at(made,
	               bridge == NONE ? roll_node(made) : made->bridges[bridge].at.node,
	               bridge);
}

static void roll_devices(struct made *made)
{
	static const double speeds[] = { 0, 0, 1e8, 1e9, 1.25e9, 3e9, 12.5e9 };

	for (uint32_t i = roll(0, 5); i > 0; i--) {
		struct bps_machine_place at = roll_place(made);

		made_bridge(made, at.node, at.bridge);
	}
	for (uint32_t i = roll(0, 6); i > 0; i--) {
		struct bps_machine_place at = roll_place(made);

		made_gpu(made, at.node, at.bridge);
		at = roll_place(made);
		made_nic(made, at.node, at.bridge, speeds[roll(0, 6)]);
	}
}

static struct bps_cpuset roll_set(const struct bps_cpuset *of, uint32_t percent)
{
	struct bps_cpuset set = { 0 };

	for (uint32_t i = 0; i < MADE_CPUS; i++)
		if (bps_cpuset_has(of, i) && chance(percent))
			bps_cpuset_add(&set, i);
	if (bps_cpuset_count(&set) == 0)
		bps_cpuset_add(&set, (uint32_t)bps_cpuset_nth(
					     of, roll(0, bps_cpuset_count(of) - 1)));
	return set;
}

/* A rank is bound to a CPU or some of a node, or may run on some of all. */
static void roll_ranks(struct box *box, const struct bps_cpuset *all, uint32_t max_ranks,
                       uint32_t percent_roam)
{
	box->n_ranks = roll(1, max_ranks);
	for (uint32_t r = 0; r < box->n_ranks; r++) {
		struct bps_cpuset one = roll_set(all, 0), node;
		uint32_t cpu = (uint32_t)bps_cpuset_nth(&one, 0);

		bps_machine_node_cpus(&box->made.machine, box->made.cpus[cpu].node, false,
		                      &node);
		box->ranks[r] = chance(50) ? one : roll_set(&node, 60);
		if (chance(percent_roam))
			box->ranks[r] = roll_set(all, 60);
	}
}

static void roll_box(struct box *box, uint32_t seed, uint32_t max_nodes,
                     uint32_t max_ranks, uint32_t percent_roam)
{
	struct bps_cpuset all;

	dice_state = (uint64_t)seed * 2654435761u + 88172645463325252u;
	*box = (struct box){ 0 };
	roll_nodes(&box->made, max_nodes);
	roll_devices(&box->made);
	all = box->made.machine.usable;
	roll_ranks(box, &all, max_ranks, percent_roam);
	box->made.machine.usable = chance(50) ? all : roll_set(&all, 50);
	if (chance(30))
		box->made.machine.cpu_quota = roll(1, 20);
	for (uint32_t i = 0; i < box->made.machine.n_nics; i++) {
		if (chance(70))
			box->nics[box->n_nics++] = i;
		box->measured[i] = chance(20) ? roll(1, 9) * 1e8 : 0;
	}
}

static void plan_box(struct box *box)
{
	const struct bps_place_in in = {
		.machine = &box->made.machine,
		.ranks = box->ranks,
		.n_ranks = box->n_ranks,
		.nics = box->nics,
		.n_nics = box->n_nics,
		.nic_bytes_per_s = box->measured,
	};

	assert_int_equal(bps_place(&in, &box->plan), 0);
}

/* -- what holds for all -- */

static void is_inside(const struct bps_cpuset *set, const struct bps_cpuset *bound)
{
	struct bps_cpuset both = *set;

	assert_true(bps_cpuset_count(set) > 0);
	bps_cpuset_intersect(&both, bound);
	assert_memory_equal(&both, set, sizeof(both));
}

/* The nodes with CPUs that a rank may run on, as bits. */
static uint32_t nodes_of(const struct box *box, uint32_t rank)
{
	uint32_t nodes = 0;

	for (uint32_t i = 0; i < box->made.machine.n_cpus; i++)
		if (bps_cpuset_has(&box->ranks[rank], i))
			nodes |= 1u << box->made.cpus[i].node;
	return nodes;
}

static void check_groups(const struct box *box)
{
	const struct bps_placement *plan = box->plan;
	uint32_t n[MAX_RANKS] = { 0 }, next = 0;

	assert_int_equal(plan->n_ranks, box->n_ranks);
	for (uint32_t r = 0; r < plan->n_ranks; r++) {
		uint32_t g = plan->group_of[r], nodes = nodes_of(box, r);

		assert_true(g <= next && g < plan->n_groups); /* by first ranks */
		next += g == next;
		n[g]++;
		if ((nodes & (nodes - 1)) == 0)
			assert_int_equal(1u << plan->groups[g].node, nodes);
		else
			assert_int_equal(plan->groups[g].node, NONE);
	}
	assert_int_equal(next, plan->n_groups);
	for (uint32_t g = 0; g < plan->n_groups; g++) {
		assert_int_equal(n[g], plan->groups[g].n_ranks);
		for (uint32_t other = 0; other < g; other++)
			assert_int_not_equal(plan->groups[g].node,
			                     plan->groups[other].node);
	}
	assert_true(plan->home < plan->n_groups);
}

static void check_rails(const struct box *box)
{
	const struct bps_placement *plan = box->plan;
	double sum = 0;
	uint32_t used = 0;

	assert_true(box->n_nics == 0 || plan->n_rails > 0);
	assert_true(plan->n_rails <= BPS_PLACE_RAILS_MAX);
	for (uint32_t i = 0; i < plan->n_rails; i++) {
		uint32_t there = 0;

		for (uint32_t j = 0; j < box->n_nics; j++)
			there += box->nics[j] == plan->rails[i].nic;
		assert_int_equal(there, 1);
		assert_false(used & 1u << plan->rails[i].nic);
		used |= 1u << plan->rails[i].nic;
		assert_true(i == 0 || plan->rails[i].share <= plan->rails[i - 1].share);
		/* None is slower than a fifth of the fastest. */
		assert_true(plan->rails[i].share >= plan->rails[0].share * 0.2 - 1e-12);
		sum += plan->rails[i].share;
	}
	assert_true(plan->n_rails == 0 || fabs(sum - 1) < 1e-12);
}

/* What is above @at, the closest first; how many. */
static uint32_t list_above(const struct box *box, const struct bps_machine_place *at,
                           uint32_t *ret)
{
	uint32_t n = 0;

	for (uint32_t b = at->bridge; b != NONE; b = box->made.bridges[b].at.bridge)
		ret[n++] = b;
	return n;
}

/* How many bridges both are below. */
static uint32_t n_common(const struct box *box, const struct bps_machine_place *a,
                         const struct bps_machine_place *b)
{
	uint32_t x[MADE_DEVICES], y[MADE_DEVICES], n = 0;
	uint32_t n_x = list_above(box, a, x), n_y = list_above(box, b, y);

	while (n < n_x && n < n_y && x[n_x - 1 - n] == y[n_y - 1 - n])
		n++;
	return n;
}

static void check_nearest(const struct box *box, uint32_t gpu)
{
	const struct bps_placement *plan = box->plan;
	const struct bps_machine_place *at = &box->made.gpus[gpu].at;
	uint32_t nic = plan->gpu_groups[plan->gpu_group_of[gpu]].nic, common;

	assert_true((nic == NONE) == (plan->n_rails == 0));
	if (nic == NONE)
		return;
	common = n_common(box, at, &box->made.nics[nic].at);
	for (uint32_t i = 0; i < plan->n_rails; i++) {
		const struct bps_machine_place *other =
			&box->made.nics[plan->rails[i].nic].at;

		assert_true(n_common(box, at, other) <= common);
		if (common == 0 && at->node != NONE && other->node == at->node)
			assert_int_equal(box->made.nics[nic].at.node, at->node);
	}
}

static void check_gpus(const struct box *box)
{
	const struct bps_placement *plan = box->plan;
	const struct bps_machine_gpu *gpus = box->made.gpus;
	uint32_t next = 0;

	for (uint32_t i = 0; i < box->made.machine.n_gpus; i++) {
		uint32_t group = plan->gpu_group_of[i];

		assert_true(group <= next);
		next += group == next;
		assert_int_equal(plan->gpu_groups[group].bridge, gpus[i].at.bridge);
		assert_int_equal(plan->gpu_groups[group].node, gpus[i].at.node);
		for (uint32_t j = 0; j < i; j++)
			if (gpus[j].at.bridge == gpus[i].at.bridge &&
			    (gpus[i].at.bridge != NONE ||
			     gpus[j].at.node == gpus[i].at.node))
				assert_int_equal(plan->gpu_group_of[j], group);
		check_nearest(box, i);
	}
	assert_int_equal(next, plan->n_gpu_groups);
}

static void check_server(const struct box *box, uint32_t asked)
{
	const struct bps_machine *machine = &box->made.machine;
	struct bps_place_server server;
	uint32_t n[MADE_NODES] = { 0 };

	assert_int_equal(
		bps_place_server(machine, box->nics, box->n_nics, asked, &server), 0);
	assert_true(server.n_threads > 0);
	if (asked > 0) {
		assert_int_equal(server.n_threads, asked);
	} else {
		assert_true(server.n_threads <= bps_cpuset_count(&machine->usable));
		assert_true(server.n_threads <= machine->cpu_quota);
	}
	for (uint32_t i = 0; i < server.n_threads; i++) {
		struct bps_cpuset node;

		is_inside(&server.cpus[i], &machine->usable);
		bps_machine_node_cpus(machine, server.node[i], false, &node);
		is_inside(&server.cpus[i], &node);
		n[server.node[i]]++;
		assert_true(asked > 0 ||
		            n[server.node[i]] <= bps_cpuset_count(&server.cpus[i]));
	}
	bps_place_server_deinit(&server);
}

static void random_boxes(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= N_BOXES; seed++) {
		static struct box box;

		roll_box(&box, seed, 5, MAX_RANKS, 20);
		plan_box(&box);
		check_groups(&box);
		check_rails(&box);
		check_gpus(&box);
		is_inside(&box.plan->engine_cpus, &box.made.machine.usable);
		check_server(&box, 0);
		check_server(&box, roll(1, 30));
		bps_place_free(box.plan);
	}
}

/* The same question has the same answer. */
static void plans_are_pure(void **state)
{
	static struct box box;
	const struct bps_placement *first;

	(void)state;
	for (uint32_t seed = 1; seed <= 50; seed++) {
		roll_box(&box, seed, 5, MAX_RANKS, 20);
		plan_box(&box);
		first = box.plan;
		plan_box(&box);
		assert_memory_equal(first->group_of, box.plan->group_of,
		                    first->n_ranks * sizeof(*first->group_of));
		assert_memory_equal(first->rails, box.plan->rails,
		                    first->n_rails * sizeof(*first->rails));
		assert_memory_equal(&first->engine_cpus, &box.plan->engine_cpus,
		                    sizeof(first->engine_cpus));
		assert_int_equal(first->wire_node, box.plan->wire_node);
		bps_place_free(first);
		bps_place_free(box.plan);
	}
}

/* -- all ways to sum one element --
 *
 * A value is a sum of the inputs of some groups, as bits; ANSWER is what comes back from
 * the servers. Each of at most three nodes holds some values, a bit each of eight: a
 * state is three times eight bits. What is on one node is added up for nothing; a move
 * copies one value to another node. */

#define SMALL  3
#define ANSWER 0

struct search {
	uint32_t n_nodes, full;
	uint32_t wire;   /* where the full sum becomes the answer; NONE: alone */
	uint32_t wanted; /* the nodes, as bits, that must end with the total */
};

static uint32_t held(uint32_t state, uint32_t node)
{
	return state >> 8 * node & 0xff;
}

/* All sums of what is there. */
static uint32_t add_up(const struct search *search, uint32_t state)
{
	for (uint32_t again = 0; again < SMALL; again++)
		for (uint32_t node = 0; node < search->n_nodes; node++)
			for (uint32_t a = 1; a < 8; a++)
				for (uint32_t b = 1; b < 8; b++)
					if (!(a & b) && held(state, node) >> a & 1 &&
					    held(state, node) >> b & 1)
						state |= 1u << (8 * node + (a | b));
	if (search->wire != NONE && held(state, search->wire) >> search->full & 1)
		state |= 1u << (8 * search->wire + ANSWER);
	return state;
}

static bool is_over(const struct search *search, uint32_t state)
{
	uint32_t total = search->wire == NONE ? search->full : ANSWER;

	for (uint32_t node = 0; node < search->n_nodes; node++)
		if (search->wanted >> node & 1 && !(held(state, node) >> total & 1))
			return false;
	return true;
}

static uint8_t seen[1 << 24];
static uint32_t queue[1 << 20];

static uint32_t reach(const struct search *search, uint32_t state, uint32_t n_queued,
                      uint8_t n_moves)
{
	for (uint32_t move = 0; move < SMALL * SMALL * 8; move++) {
		uint32_t from = move / 8 % SMALL, to = move / 8 / SMALL, value = move % 8;
		uint32_t next = state | 1u << (8 * to + value);

		if (from >= search->n_nodes || to >= search->n_nodes ||
		    !(held(state, from) >> value & 1) || next == state)
			continue;
		next = add_up(search, next);
		if (seen[next])
			continue;
		seen[next] = n_moves;
		assert_true(n_queued < sizeof(queue) / sizeof(queue[0]));
		queue[n_queued++] = next;
	}
	return n_queued;
}

/* The least number of moves, by breadth. */
static uint32_t least_moves(const struct search *search, uint32_t start)
{
	uint32_t n_queued = 1, i = 0, least;

	queue[0] = add_up(search, start);
	seen[queue[0]] = 1; /* a move more than there were */
	for (; i < n_queued && !is_over(search, queue[i]); i++)
		n_queued =
			reach(search, queue[i], n_queued, (uint8_t)(seen[queue[i]] + 1));
	assert_true(i < n_queued);
	least = seen[queue[i]] - 1u;
	while (n_queued > 0)
		seen[queue[--n_queued]] = 0;
	return least;
}

/* By trying all: of a box whose ranks are all on nodes. */
static uint32_t least_for(const struct box *box, uint32_t wire)
{
	struct search search = { .n_nodes = box->made.machine.n_nodes, .wire = wire };
	uint32_t start = 0, bit = 1;

	for (uint32_t node = 0; node < search.n_nodes; node++)
		for (uint32_t r = 0; r < box->n_ranks; r++)
			if (nodes_of(box, r) == 1u << node) {
				search.wanted |= 1u << node;
				search.full |= bit;
				start |= 1u << (8 * node + bit);
				bit <<= 1;
				break;
			}
	return least_moves(&search, start);
}

static uint64_t crossing(const struct box *box, uint64_t bytes, bool alone)
{
	uint64_t moved[SMALL * SMALL], sum = 0;
	uint32_t n = box->made.machine.n_nodes;

	bps_place_crossings(box->plan, bytes, alone, moved);
	for (uint32_t i = 0; i < n * n; i++) {
		assert_true(moved[i] == 0 || i % (n + 1) != 0);
		sum += moved[i];
	}
	return sum;
}

static void nothing_moves_less_alone(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= N_BOXES / 4; seed++) {
		static struct box box;

		roll_box(&box, seed, SMALL, 4, 0);
		plan_box(&box);
		assert_int_equal(crossing(&box, 1001, true),
		                 1001 * least_for(&box, NONE));
		bps_place_free(box.plan);
	}
}

/* One card whose node is known and has CPUs for the engine: the sum must come there, and
 * the answer is there first. */
static void nothing_moves_less_to_a_card(void **state)
{
	uint32_t n = 0;

	(void)state;
	for (uint32_t seed = 1; seed <= N_BOXES; seed++) {
		static struct box box;
		struct bps_cpuset set;
		uint32_t card;

		roll_box(&box, seed, SMALL, 4, 0);
		card = box.made.machine.n_nics ? box.made.nics[0].at.node : NONE;
		box.nics[0] = 0;
		box.n_nics = 1;
		if (card == NONE)
			continue;
		bps_machine_node_cpus(&box.made.machine, card, false, &set);
		bps_cpuset_intersect(&set, &box.made.machine.usable);
		if (bps_cpuset_count(&set) == 0)
			continue;
		plan_box(&box);
		assert_int_equal(box.plan->engine_node, card);
		assert_int_equal(crossing(&box, 999, false), 999 * least_for(&box, card));
		bps_place_free(box.plan);
		n++;
	}
	assert_true(n > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_boxes),
		cmocka_unit_test(plans_are_pure),
		cmocka_unit_test(nothing_moves_less_alone),
		cmocka_unit_test(nothing_moves_less_to_a_card),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
