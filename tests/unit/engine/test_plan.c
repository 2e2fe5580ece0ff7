/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cutting and placing: any size, any shares; what the functions say agrees.
 */
#include "tests/unit/engine/unit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan.h"
#include "tests/sim/cut.h"

static struct bps_prng prng;

/* A plan, and an op that is cut by it. */
struct sample {
	uint32_t weights[BPS_TEST_MAX_SERVERS];
	struct bps_plan plan;
	struct bps_slice slices[BPS_TEST_MAX_SERVERS];
	struct bps_cut cut;
};

static uint64_t below(uint64_t n)
{
	return bps_prng_below(&prng, n);
}

/* Sizes of every magnitude. */
static uint64_t any_size(int bits)
{
	return 1 + below(1ull << below((uint64_t)bits + 1));
}

/* Any that add up to a whole; some are nothing, some nearly all. */
static void any_weights(uint32_t n, uint32_t *ret_weights)
{
	uint32_t left = BPS_SHARE_ONE, s;

	if (below(3) == 0) {
		bps_plan_equal(n, ret_weights);
		return;
	}
	for (s = 0; s + 1 < n; s++) {
		uint64_t most = below(8) ? 2 * left / (n - s) : left;

		ret_weights[s] = below(6) ? (uint32_t)below(most + 1) : 0;
		if (ret_weights[s] > left)
			ret_weights[s] = left;
		left -= ret_weights[s];
	}
	ret_weights[n - 1] = left;
}

static void any_plan(struct sample *sample)
{
	sample->plan = (struct bps_plan){
		.n_servers = 1 + (uint32_t)below(BPS_TEST_MAX_SERVERS),
		.weights = sample->weights,
		.max_bytes = BPS_CUT_MIN_PARTITION + (uint32_t)below(1 << below(20)),
		.cost_bytes = (uint32_t)below(1 << below(31)),
	};
	any_weights(sample->plan.n_servers, sample->weights);
}

static void any_cut(struct sample *sample, int bits)
{
	any_plan(sample);
	assert_int_equal(bps_cut_make(&sample->plan, any_size(bits), below(1000),
	                              sample->slices, &sample->cut),
	                 0);
}

/* Parts follow each other without a gap, none is empty or too large. */
static void parts_cover_the_op(void **state)
{
	struct sample sample;
	uint32_t part, bytes;
	uint64_t offset, at;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		any_cut(&sample, 22);
		for (part = 0, at = 0; part < sample.cut.n_parts; part++, at += bytes) {
			bps_cut_part(&sample.cut, part, &offset, &bytes);
			assert_int_equal(offset, at);
			assert_int_equal(offset % BPS_CUT_UNIT, 0);
			assert_in_range(bytes, 1, sample.plan.max_bytes);
		}
		assert_int_equal(at, sample.cut.op_bytes);
	}
}

static void what_makes_no_sense_is_refused(void **state)
{
	static const uint32_t nothing[2];
	struct bps_slice slices[64];
	struct bps_plan plan = { 2, nothing, 4096, 0 };
	struct bps_cut cut;

	(void)state;
	assert_int_equal(bps_test_cut(0, 4096, 1, slices, &cut), -EINVAL);
	assert_int_equal(bps_test_cut(1, BPS_CUT_MIN_PARTITION - 1, 1, slices, &cut),
	                 -EINVAL);
	assert_int_equal(bps_test_cut(1, 4096, 0, slices, &cut), -EINVAL);
	assert_int_equal(bps_cut_make(&plan, 100, 0, slices, &cut), -EINVAL);
	assert_int_equal(bps_test_cut(1ull << 42, 512, 1, slices, &cut), -EOVERFLOW);
	assert_int_equal(bps_test_cut(UINT64_MAX, 4096, 64, slices, &cut), -EOVERFLOW);
	assert_int_equal(bps_test_cut(UINT64_MAX, UINT32_MAX, 64, slices, &cut),
	                 -EOVERFLOW);
}

/* Up to 2^44 bytes and beyond: the last parts of the op are where they must be. */
static void huge_ops_do_not_overflow(void **state)
{
	struct sample sample;
	struct bps_cut *cut = &sample.cut;
	uint64_t offset, before;
	uint32_t bytes;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint64_t op_bytes = (1ull << 38) + below(1ull << 44);

		any_plan(&sample);
		sample.plan.max_bytes = 1048576 + (uint32_t)below(UINT32_MAX - 1048576);
		sample.plan.cost_bytes = UINT32_MAX;
		assert_int_equal(
			bps_cut_make(&sample.plan, op_bytes, i, sample.slices, cut), 0);
		assert_int_equal(cut->n_parts % cut->n_slices, 0);
		bps_cut_part(cut, cut->n_parts - 1, &offset, &bytes);
		assert_int_equal(offset + bytes, op_bytes);
		assert_in_range(bytes, 1, sample.plan.max_bytes);
		bps_cut_part(cut, cut->n_parts - 2, &before, &bytes);
		assert_int_equal(before + bytes, offset);
		assert_true(bps_cut_position(cut, 69, cut->n_slices - 1, cut->n_rounds) >=
		            cut->n_parts);
		assert_true(bps_cut_position(cut, 69, cut->n_slices - 1,
		                             cut->n_rounds - 1) < cut->n_parts);
	}
}

/*
 * Each server has its share of every op, but for a few units; but the shares of servers
 * that would get next to nothing of a round are the others'.
 */
static void each_op_is_shared_as_planned(void **state)
{
	struct sample sample;
	const struct bps_cut *cut = &sample.cut;
	uint32_t n_checked = 0;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		double got[BPS_TEST_MAX_SERVERS] = { 0 }, kept = 0, round;
		uint32_t part, bytes, n_active = 0, s;
		uint64_t offset;

		any_cut(&sample, 24);
		for (s = 0; s < sample.plan.n_servers; s++)
			n_active += sample.weights[s] > 0;
		if (cut->op_bytes < n_active * 4096u)
			continue; /* a turn, see below */
		for (part = 0; part < cut->n_parts; part++) {
			bps_cut_part(cut, part, &offset, &bytes);
			got[bps_cut_server(cut, part)] += bytes;
		}
		for (s = 0; s < sample.plan.n_servers; s++)
			kept += got[s] > 0 ? sample.weights[s] : 0;
		round = (double)cut->op_bytes / cut->n_rounds;
		for (s = 0; s < sample.plan.n_servers; s++) {
			double share = sample.weights[s] / kept;
			double off = got[s] - share * (double)cut->op_bytes;

			if (got[s] == 0)
				assert_true(share * round < 8 * BPS_CUT_UNIT);
			else
				assert_true(fabs(off) <=
				            (4 + 2 * sqrt(cut->n_rounds)) * BPS_CUT_UNIT);
		}
		n_checked++;
	}
	assert_in_range(n_checked, 500, 3000);
}

/* An op that is too small for all servers goes to others each turn. */
static void tiny_ops_take_turns(void **state)
{
	struct bps_slice slices[8];
	uint32_t weights[8], n[8] = { 0 }, turn, part;
	struct bps_plan plan = { 8, weights, 16384, 64 };
	struct bps_cut cut;

	(void)state;
	bps_plan_equal(8, weights);
	for (turn = 0; turn < 8; turn++) {
		assert_int_equal(bps_cut_make(&plan, 3 * 4096, turn, slices, &cut), 0);
		assert_int_equal(cut.n_parts, 3);
		for (part = 0; part < 3; part++)
			n[bps_cut_server(&cut, part)]++;
	}
	for (part = 0; part < 8; part++)
		assert_int_equal(n[part], 3);
}

/* Smaller for small ops, never larger than allowed. */
static void partitions_grow_with_ops(void **state)
{
	struct sample sample;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		uint64_t op_bytes = any_size(40);
		uint32_t part;

		any_plan(&sample);
		part = bps_plan_partition(&sample.plan, op_bytes);
		assert_in_range(part, BPS_CUT_MIN_PARTITION, sample.plan.max_bytes);
		assert_true(part <= bps_plan_partition(&sample.plan, 2 * op_bytes));
	}
}

/* Where messages are dear beyond measure, parts are as large as they may be. */
static void dear_messages_are_few(void **state)
{
	struct bps_slice slices[2];
	struct bps_cut cut;
	uint64_t offset;
	uint32_t bytes;

	(void)state;
	assert_int_equal(bps_test_cut(16 << 20, 65536, 2, slices, &cut), 0);
	bps_cut_part(&cut, 5, &offset, &bytes);
	assert_in_range(bytes, 60000, 65536);
}

/*
 * The partition makes the sum of both costs the least: filling the pipe with a round, and
 * sending so many messages.
 */
static void the_partition_is_the_best_one(void **state)
{
	struct sample sample;
	struct bps_plan *plan = &sample.plan;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t op_bytes = (1 << 20) + below(1 << 28);
		double best = 0, at = 0, p, share, cost;

		any_plan(&sample);
		plan->max_bytes = 1 << 30;
		plan->cost_bytes = (uint32_t)below(100000);
		bps_plan_equal(plan->n_servers, sample.weights);
		share = (double)op_bytes / plan->n_servers;
		for (p = 4096; p < 1 << 30; p *= 1.01) {
			cost = p + share / p * (384 + plan->cost_bytes);
			if (best == 0 || cost < best) {
				best = cost;
				at = p;
			}
		}
		p = bps_plan_partition(plan, op_bytes);
		assert_true(p < at * 1.02 && p > at / 1.02);
	}
}

/* A member visits every part once, and finds each server's parts where it looks. */
static void every_part_is_visited_once(void **state)
{
	struct sample sample;
	const struct bps_cut *cut = &sample.cut;
	uint32_t position, part, slice, round;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		uint32_t start = (uint32_t)below(70), n_found = 0;
		uint8_t *visited;
		uint64_t found;

		any_cut(&sample, 18);
		visited = calloc(cut->n_parts, 1);
		assert_non_null(visited);
		for (position = 0; position < cut->n_parts; position++) {
			part = bps_cut_visit(cut, start, position);
			assert_in_range(part, 0, cut->n_parts - 1);
			assert_int_equal(visited[part], 0);
			visited[part] = 1;
		}
		for (slice = 0; slice < cut->n_slices; slice++) {
			uint32_t last = 0;

			for (round = 0;; round++) {
				found = bps_cut_position(cut, start, slice, round);
				if (found >= cut->n_parts)
					break;
				part = bps_cut_visit(cut, start, (uint32_t)found);
				assert_int_equal(bps_cut_server(cut, part),
				                 cut->slices[slice].server);
				/* in the same order at every member */
				assert_true(round == 0 || part > last);
				last = part;
				assert_int_equal(visited[part], 1);
				visited[part] = 2;
				n_found++;
			}
		}
		assert_int_equal(n_found, cut->n_parts);
		free(visited);
	}
}

/* Members that start at different servers are at different servers all the time. */
static void members_do_not_meet(void **state)
{
	struct bps_slice slices[70];
	struct bps_cut cut;

	(void)state;
	for (uint32_t k = 1; k <= 70; k++) {
		assert_int_equal(bps_test_cut(1 << 20, 8192, k, slices, &cut), 0);
		for (uint32_t position = 0; position < cut.n_parts; position++) {
			uint8_t busy[70] = { 0 };

			for (uint32_t start = 0; start < k; start++) {
				uint32_t part = bps_cut_visit(&cut, start, position);
				uint32_t server = bps_cut_server(&cut, part);

				assert_int_equal(busy[server]++, 0);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_cover_the_op),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(huge_ops_do_not_overflow),
		cmocka_unit_test(each_op_is_shared_as_planned),
		cmocka_unit_test(tiny_ops_take_turns),
		cmocka_unit_test(partitions_grow_with_ops),
		cmocka_unit_test(dear_messages_are_few),
		cmocka_unit_test(the_partition_is_the_best_one),
		cmocka_unit_test(every_part_is_visited_once),
		cmocka_unit_test(members_do_not_meet),
	};

	bps_prng_init(&prng, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
