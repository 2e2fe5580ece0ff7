/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the ranks of a communicator agree on. Links and servers are pretended: a server's
 * window is full for as long as it holds the others up, and an op takes as long as its
 * slowest server does.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "interpose/tune.h"

#define MAX   16u
#define MBIT  125000.0
#define N_OPS 200u

/* A communicator, as all its ranks see it, and servers that are as fast as they are. */
struct world {
	double boxes[MAX], servers[MAX];
	bool colocated[MAX];
	struct bps_tune_config config;
	struct bps_tune *tune;
	double speed[MAX]; /* of each server, of what was planned */
	struct bps_load loads[MAX];
	uint64_t op_bytes;
	double op_s; /* the last op */
	uint32_t n_exchanges;
	uint32_t lost_ppm;
};

static void open_world(struct world *world, uint32_t n, uint32_t k, double rate)
{
	uint32_t i;

	*world = (struct world){ .op_bytes = 4 << 20 };
	for (i = 0; i < MAX; i++) {
		world->boxes[i] = world->servers[i] = rate;
		world->colocated[i] = k < n;
		world->speed[i] = 1;
	}
	world->config = (struct bps_tune_config){
		.links = { .box_bytes_per_s = world->boxes,
		           .server_bytes_per_s = world->servers,
		           .colocated = world->colocated,
		           .n_boxes = n,
		           .n_servers = k },
		.n_servers = k < n ? k + n : k,
		.largest_bytes = 256 << 10,
	};
	assert_int_equal(bps_tune_new(&world->config, &world->tune), 0);
}

/* The share of each server in the next op. */
static void shares(struct world *world, enum bps_coll coll, uint32_t root,
                   double *ret_shares)
{
	struct bps_cut cut;
	uint32_t part, bytes, s;
	uint64_t offset;

	assert_int_equal(bps_tune_cut(world->tune, coll, root, world->op_bytes, &cut), 0);
	for (s = 0; s < world->config.n_servers; s++)
		ret_shares[s] = 0;
	for (part = 0; part < cut.n_parts; part++) {
		bps_cut_part(&cut, part, &offset, &bytes);
		assert_true(bytes <= bps_tune_partition(world->tune));
		ret_shares[bps_cut_server(&cut, part)] +=
			(double)bytes / (double)world->op_bytes;
	}
}

/*
 * One allreduce among k >= n equal boxes: server s needs n * share / (rate * speed), no
 * box less than 1 / rate. Its window is full for all of that; of one that is done early,
 * for a tenth of it, as it is fed by the one that is not.
 */
static void call(struct world *world)
{
	uint32_t n = world->config.links.n_boxes, k = world->config.n_servers, s;
	double share[MAX], took[MAX], rate = world->boxes[0];

	if (bps_tune_due(world->tune)) {
		int64_t words[MAX + 2];

		assert_int_equal(bps_tune_n_words(k), k + 2);
		bps_tune_report(world->tune, world->loads, words);
		bps_tune_agree(world->tune, words);
		world->n_exchanges++;
	}
	shares(world, BPS_ALLREDUCE, 0, share);
	world->op_s = (double)world->op_bytes / rate;
	for (s = 0; s < k; s++) {
		took[s] = n * share[s] * (double)world->op_bytes / (rate * world->speed[s]);
		if (took[s] > world->op_s)
			world->op_s = took[s];
	}
	for (s = 0; s < k; s++) {
		double full = took[s] > 0.8 * world->op_s ? took[s] : took[s] / 10;

		world->loads[s].full_ns += (uint64_t)(full * 1e9);
		world->loads[s].packets.n_sent += 10000;
		world->loads[s].packets.n_resent += world->lost_ppm / 100;
	}
	bps_tune_took(world->tune, (uint64_t)(world->op_s * 1e9));
}

static void calls(struct world *world, uint32_t n)
{
	while (n-- > 0)
		call(world);
}

static void begins_with_the_closed_form(void **state)
{
	const double n = 8, k = 4, whole = n * n + k * n - 2 * k;
	struct world world;
	double share[MAX];
	uint32_t s;

	(void)state;
	open_world(&world, 8, 4, 100 * MBIT);
	shares(&world, BPS_ALLREDUCE, 0, share);
	for (s = 0; s < 12; s++) {
		double want = (s < 4 ? 2 * (n - 1) : n - k) / whole;

		assert_true(fabs(share[s] - want) < 0.003);
	}
	assert_true(fabs(bps_tune_s_per_byte(world.tune) * 100 * MBIT -
	                 2 * n * (n - 1) / whole) < 1e-6);
	shares(&world, BPS_BCAST, 5, share);
	assert_true(share[4 + 5] < 0.01); /* the root sends enough already */
	bps_tune_free(world.tune);
}

/* Half of a queue of 20 ms a member, 16 KiB or 200 us: what docs/flow-control.md says. */
static void partitions_fit_the_queue(void **state)
{
	static const struct {
		uint32_t n;
		double rate, want;
	} cases[] = {
		{ 8, 100 * MBIT, 100 * MBIT * 20e-3 / 16 }, /* 15625: the queue */
		{ 2, 100 * MBIT, 16384 },                   /* enough */
		{ 8, 10 * MBIT, 4096 },                     /* no less */
		{ 2, 5000 * MBIT, 5000 * MBIT * 200e-6 },   /* 125000: messages are dear */
		{ 2, 100000 * MBIT, 256 << 10 },            /* all there is */
	};
	struct world world;
	uint32_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_world(&world, cases[i].n, cases[i].n, cases[i].rate);
		assert_true(fabs(bps_tune_partition(world.tune) - cases[i].want) < 64);
		bps_tune_free(world.tune);
	}
}

static void even_servers_stay_even(void **state)
{
	double share[MAX];
	struct world world;
	uint32_t s;

	(void)state;
	open_world(&world, 8, 8, 100 * MBIT);
	calls(&world, N_OPS);
	assert_in_range(world.n_exchanges, N_OPS / 16, N_OPS / 4);
	shares(&world, BPS_ALLREDUCE, 0, share);
	for (s = 0; s < 8; s++)
		assert_true(fabs(share[s] - 0.125) < 0.001);
	bps_tune_free(world.tune);
}

/* To a quarter of its rate in mid-job; and back. */
static void a_slow_server_gets_less(void **state)
{
	struct world world;
	double before, share[MAX];

	(void)state;
	open_world(&world, 8, 8, 100 * MBIT);
	calls(&world, 43);
	before = world.op_s;
	world.speed[3] = 0.25;
	call(&world);
	assert_true(world.op_s > 3.9 * before);
	calls(&world, 20);
	assert_true(world.op_s < 1.3 * before);
	calls(&world, N_OPS);
	assert_true(world.op_s < 1.2 * before); /* 8 / 7.25 is the least */
	world.speed[3] = 1;
	calls(&world, N_OPS);
	assert_true(world.op_s < 1.02 * before);
	shares(&world, BPS_ALLREDUCE, 0, share);
	assert_true(fabs(share[3] - 0.125) < 0.01);
	bps_tune_free(world.tune);
}

/* One that stands still costs the others next to nothing in the end. */
static void a_server_that_crawls_is_left_aside(void **state)
{
	struct world world;
	double before;

	(void)state;
	open_world(&world, 8, 8, 100 * MBIT);
	calls(&world, 20);
	before = world.op_s;
	world.speed[0] = 0.01;
	calls(&world, 60);
	assert_true(world.op_s < 2.5 * before);
	bps_tune_free(world.tune);
}

/* All ranks of a slow box are slow at all servers: that is no server's fault. */
static void slow_ops_alone_change_nothing(void **state)
{
	double share[MAX];
	struct world world;
	uint32_t s;

	(void)state;
	open_world(&world, 8, 8, 100 * MBIT);
	calls(&world, 20);
	for (s = 0; s < 8; s++)
		world.speed[s] = 0.3;
	calls(&world, N_OPS);
	shares(&world, BPS_ALLREDUCE, 0, share);
	for (s = 0; s < 8; s++)
		assert_true(fabs(share[s] - 0.125) < 0.001);
	bps_tune_free(world.tune);
}

static void loss_makes_partitions_smaller(void **state)
{
	struct world world;
	uint32_t first;

	(void)state;
	open_world(&world, 4, 4, 100 * MBIT);
	first = bps_tune_partition(world.tune);
	world.lost_ppm = 4000;
	calls(&world, 30);
	assert_int_equal(bps_tune_partition(world.tune), first);
	world.lost_ppm = 20000;
	calls(&world, 3);
	assert_int_equal(bps_tune_partition(world.tune), first / 2);
	calls(&world, 60);
	assert_int_equal(bps_tune_partition(world.tune), 4096);
	world.lost_ppm = 0;
	calls(&world, 1000);
	assert_int_equal(bps_tune_partition(world.tune), first);
	bps_tune_free(world.tune);
}

static void a_given_partition_stays(void **state)
{
	struct world world;

	(void)state;
	open_world(&world, 4, 4, 10 * MBIT);
	bps_tune_free(world.tune);
	world.config.pinned = true;
	world.config.largest_bytes = 65536;
	assert_int_equal(bps_tune_new(&world.config, &world.tune), 0);
	world.lost_ppm = 50000;
	calls(&world, 100);
	assert_int_equal(bps_tune_partition(world.tune), 65536);
	bps_tune_free(world.tune);
}

/* Ranks that lead, and that do not, and joined late, agree at every call. */
static void all_ranks_decide_alike(void **state)
{
	struct world world;
	struct bps_tune *other;
	uint32_t i, w;

	(void)state;
	open_world(&world, 5, 3, 200 * MBIT);
	assert_int_equal(bps_tune_new(&world.config, &other), 0);
	for (i = 0; i < N_OPS; i++) {
		struct bps_cut left, right;
		bool due = bps_tune_due(world.tune);

		assert_int_equal(bps_tune_due(other), due);
		if (due) {
			int64_t words[MAX + 2], none[MAX + 2];

			bps_tune_report(world.tune, world.loads, words);
			bps_tune_report(other, NULL, none);
			for (w = 0; w < 9; w++)
				assert_int_equal(none[w], 0);
			words[9] = -(int64_t)(i * 1000000); /* slower and slower */
			bps_tune_agree(world.tune, words);
			bps_tune_agree(other, words);
		}
		assert_int_equal(bps_tune_cut(world.tune, i % 3 ? BPS_ALLREDUCE : BPS_BCAST,
		                              i % 5, 1 << (10 + i % 15), &left),
		                 0);
		assert_int_equal(bps_tune_cut(other, i % 3 ? BPS_ALLREDUCE : BPS_BCAST,
		                              i % 5, 1 << (10 + i % 15), &right),
		                 0);
		assert_int_equal(left.n_parts, right.n_parts);
		assert_int_equal(left.n_slices, right.n_slices);
		for (w = 0; w < left.n_slices; w++) {
			assert_int_equal(left.slices[w].server, right.slices[w].server);
			assert_int_equal(left.slices[w].end, right.slices[w].end);
		}
		world.loads[i % 8].full_ns += i * 1000000;
	}
	bps_tune_free(other);
	bps_tune_free(world.tune);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begins_with_the_closed_form),
		cmocka_unit_test(partitions_fit_the_queue),
		cmocka_unit_test(even_servers_stay_even),
		cmocka_unit_test(a_slow_server_gets_less),
		cmocka_unit_test(a_server_that_crawls_is_left_aside),
		cmocka_unit_test(slow_ops_alone_change_nothing),
		cmocka_unit_test(loss_makes_partitions_smaller),
		cmocka_unit_test(a_given_partition_stays),
		cmocka_unit_test(all_ranks_decide_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
