/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cutting and placing: any size, any number of servers; what the functions say agrees.
 */
#include "tests/unit/engine/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan.h"

static struct bps_prng prng;

static uint64_t below(uint64_t n)
{
	return bps_prng_below(&prng, n);
}

/* Sizes of every magnitude. */
static uint64_t any_size(int bits)
{
	return 1 + below(1ull << below((uint64_t)bits + 1));
}

static struct bps_cut any_cut(int bits, uint32_t *ret_partition)
{
	uint32_t partition = BPS_CUT_MIN_PARTITION + (uint32_t)below(1 << below(20));
	uint32_t n_servers = 1 + (uint32_t)below(70);
	struct bps_cut cut;

	assert_int_equal(bps_cut_make(any_size(bits), partition, n_servers, &cut), 0);
	*ret_partition = partition;
	return cut;
}

/* Parts follow each other without a gap, none is empty or too large. */
static void parts_cover_the_op(void **state)
{
	uint32_t partition, part, bytes;
	uint64_t offset, at;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct bps_cut cut = any_cut(22, &partition);

		for (part = 0, at = 0; part < cut.n_parts; part++, at += bytes) {
			bps_cut_part(&cut, part, &offset, &bytes);
			assert_int_equal(offset, at);
			assert_int_equal(offset % BPS_CUT_UNIT, 0);
			assert_in_range(bytes, 1, partition);
		}
		assert_int_equal(at, cut.op_bytes);
	}
}

static void sizes_that_make_no_sense_are_refused(void **state)
{
	struct bps_cut cut;

	(void)state;
	assert_int_equal(bps_cut_make(0, 4096, 1, &cut), -EINVAL);
	assert_int_equal(bps_cut_make(1, BPS_CUT_MIN_PARTITION - 1, 1, &cut), -EINVAL);
	assert_int_equal(bps_cut_make(1, 4096, 0, &cut), -EINVAL);
	assert_int_equal(bps_cut_make(1ull << 40, 128, 1, &cut), -EOVERFLOW);
	assert_int_equal(bps_cut_make(UINT64_MAX, 4096, 64, &cut), -EOVERFLOW);
	assert_int_equal(bps_cut_make(UINT64_MAX, UINT32_MAX, UINT32_MAX, &cut),
	                 -EOVERFLOW);
}

/* Up to 2^40 bytes and beyond: the last parts of the op are where they must be. */
static void huge_ops_do_not_overflow(void **state)
{
	uint32_t partition, bytes;
	uint64_t offset, before;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint64_t op_bytes = (1ull << 38) + below(1ull << 44);
		uint32_t n_servers = 1 + (uint32_t)below(70);
		struct bps_cut cut;

		partition = 65536 + (uint32_t)below(UINT32_MAX - 65536);
		assert_int_equal(bps_cut_make(op_bytes, partition, n_servers, &cut), 0);
		assert_int_equal(cut.n_parts % n_servers, 0);
		bps_cut_part(&cut, cut.n_parts - 1, &offset, &bytes);
		assert_int_equal(offset + bytes, op_bytes);
		assert_in_range(bytes, 1, partition);
		bps_cut_part(&cut, cut.n_parts - 2, &before, &bytes);
		assert_int_equal(before + bytes, offset);
		assert_true(bps_plan_position(&cut, UINT64_MAX, 69, n_servers - 1,
		                              cut.n_parts / n_servers) >= cut.n_parts);
		assert_true(bps_plan_position(&cut, UINT64_MAX, 69, n_servers - 1,
		                              cut.n_parts / n_servers - 1) < cut.n_parts);
	}
}

/* All servers have the same number of parts, and of bytes but for one unit a part. */
static void shares_are_even(void **state)
{
	uint32_t partition;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct bps_cut cut = any_cut(20, &partition);
		uint32_t n[70] = { 0 }, part;
		uint64_t op = bps_prng_u64(&prng);

		for (part = 0; part < cut.n_parts; part++)
			n[bps_plan_server(&cut, op, part)]++;
		for (uint32_t s = 0; s < cut.n_servers; s++) {
			if (cut.n_parts >= cut.n_servers)
				assert_int_equal(n[s], cut.n_parts / cut.n_servers);
			else
				assert_in_range(n[s], 0, 1);
		}
	}
}

/* Crumbs are made only where one part a server would be larger than need be. */
static void parts_are_no_crumbs(void **state)
{
	uint32_t partition;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		struct bps_cut cut = any_cut(24, &partition);
		uint64_t least = (cut.op_bytes + partition - 1) / partition;

		if (cut.n_parts > least)
			assert_true(cut.op_bytes / cut.n_parts >= 4096 ||
			            cut.op_bytes / cut.n_parts >= partition / 4);
		assert_true(cut.n_parts >= least);
		assert_true(cut.n_parts % cut.n_servers == 0 ||
		            cut.n_parts < cut.n_servers);
	}
}

/* Smaller for small ops, never larger than allowed, and always good for a cut. */
static void partitions_grow_with_ops(void **state)
{
	(void)state;
	for (int i = 0; i < 10000; i++) {
		uint32_t most = BPS_CUT_MIN_PARTITION + (uint32_t)below(1 << below(25));
		uint32_t n_servers = 1 + (uint32_t)below(70);
		uint64_t op_bytes = any_size(40);
		uint32_t part = bps_plan_partition(op_bytes, most, n_servers);
		struct bps_cut cut;

		assert_in_range(part, BPS_CUT_MIN_PARTITION, most);
		assert_true(part <= bps_plan_partition(2 * op_bytes, most, n_servers));
		if (op_bytes / part < UINT32_MAX / 2)
			assert_int_equal(bps_cut_make(op_bytes, part, n_servers, &cut),
			                 0);
	}
}

/* A member visits every part once, and finds each server's parts where it looks. */
static void every_part_is_visited_once(void **state)
{
	uint32_t partition, position, part, server, nth;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct bps_cut cut = any_cut(18, &partition);
		uint32_t start = (uint32_t)below(70);
		uint64_t op = bps_prng_u64(&prng), found;
		uint8_t *visited = calloc(cut.n_parts, 1);
		uint32_t n_found = 0;

		assert_non_null(visited);
		for (position = 0; position < cut.n_parts; position++) {
			part = bps_plan_part(&cut, start, position);
			assert_in_range(part, 0, cut.n_parts - 1);
			assert_int_equal(visited[part], 0);
			visited[part] = 1;
		}
		for (server = 0; server < cut.n_servers; server++) {
			uint32_t last = 0;

			for (nth = 0; nth <= cut.n_parts; nth++) {
				found = bps_plan_position(&cut, op, start, server, nth);
				if (found >= cut.n_parts)
					break;
				part = bps_plan_part(&cut, start, (uint32_t)found);
				assert_int_equal(bps_plan_server(&cut, op, part), server);
				/* in the same order at every member */
				assert_true(nth == 0 || part > last);
				last = part;
				assert_int_equal(visited[part], 1);
				visited[part] = 2;
				n_found++;
			}
		}
		assert_int_equal(n_found, cut.n_parts);
		free(visited);
	}
}

/* Members that start at different servers are at different servers all the time. */
static void members_do_not_meet(void **state)
{
	struct bps_cut cut;

	(void)state;
	for (uint32_t k = 1; k <= 70; k++) {
		assert_int_equal(bps_cut_make(1 << 20, 8192, k, &cut), 0);
		for (uint32_t position = 0; position < cut.n_parts; position++) {
			uint8_t busy[70] = { 0 };

			for (uint32_t start = 0; start < k; start++) {
				uint32_t part = bps_plan_part(&cut, start, position);
				uint32_t server = bps_plan_server(&cut, 5, part);

				assert_int_equal(busy[server]++, 0);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_cover_the_op),
		cmocka_unit_test(sizes_that_make_no_sense_are_refused),
		cmocka_unit_test(huge_ops_do_not_overflow),
		cmocka_unit_test(shares_are_even),
		cmocka_unit_test(parts_are_no_crumbs),
		cmocka_unit_test(partitions_grow_with_ops),
		cmocka_unit_test(every_part_is_visited_once),
		cmocka_unit_test(members_do_not_meet),
	};

	bps_prng_init(&prng, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
