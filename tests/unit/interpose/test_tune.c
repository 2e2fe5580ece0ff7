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
	uint32_t window;
	double op_s; /* the last op */
	uint32_t n_exchanges;
	uint32_t lost_ppm;
	uint32_t best_part; /* ops with larger ones take twice as long; 0: none do */
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

	assert_int_equal(bps_tune_cut(world->tune, coll, root, world->op_bytes, &cut,
	                              &world->window),
	                 0);
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
		took[s] =
			n * share[s] * (double)world->op_bytes / (rate * world->speed[s]);
		if (took[s] > world->op_s)
			world->op_s = took[s];
	}
	world->op_s *= 1 + 2048.0 / bps_tune_partition(world->tune);
	if (world->best_part && bps_tune_partition(world->tune) > world->best_part)
		world->op_s *= 2;
	for (s = 0; s < k; s++) {
		double full = took[s] > 0.8 * world->op_s ? took[s] : took[s] / 10;

		if (share[s] < 0.6 / k) /* small parts fill a window for a short time */
			full *= took[s] > 1.2 * (double)world->op_bytes / rate ? 1 : 0.4;

		world->loads[s].full_ns += (uint64_t)(full * 1e9);
		world->loads[s].packets.n_sent += 10000;
		world->loads[s].packets.n_resent += world->lost_ppm / 100;
	}
	bps_tune_took(world->tune, world->op_bytes, (uint64_t)(world->op_s * 1e9));
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

/*
 * Of a queue that lasts 5 ms, two for each box fit at first, in the end of 20 ms; more
 * than 16 KiB and 200 us is not worth it. By doubling, so up to twice as small; in whole
 * packets, so up to half a packet more or less.
 */
static void partitions_fit_the_queue(void **state)
{
	static const struct {
		uint32_t n;
		double rate, first, most;
	} cases[] = {
		{ 8, 100 * MBIT, 100 * MBIT * 5e-3 / 16, 100 * MBIT * 20e-3 / 16 },
		{ 2, 100 * MBIT, 100 * MBIT * 5e-3 / 4, 16384 },
		{ 8, 10 * MBIT, 2048, 2048 }, /* no less */
		{ 2, 5000 * MBIT, 5000 * MBIT * 200e-6, 5000 * MBIT * 200e-6 },
		{ 2, 100000 * MBIT, 256 << 10, 256 << 10 }, /* all there is */
	};
	struct world world;
	uint32_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double first, most;

		open_world(&world, cases[i].n, cases[i].n, cases[i].rate);
		first = bps_tune_partition(world.tune);
		most = bps_tune_most(world.tune);
		assert_true(fabs(most - cases[i].most) <= 724 + 64);
		assert_true(first <= cases[i].first + 724 &&
		            first >= cases[i].first / 2 - 724 - 64);
		assert_true(most == 2048 || ((uint32_t)most + 68) % 1448 > 1448 - 64);
		calls(&world, 10);
		assert_int_equal(bps_tune_partition(world.tune), most);
		bps_tune_free(world.tune);
	}
}

/* Larger ones that take longer are given up, and not tried again for a while. */
static void partitions_grow_while_that_pays(void **state)
{
	struct world world;
	uint32_t first, n_larger = 0, i;

	(void)state;
	open_world(&world, 8, 8, 100 * MBIT);
	first = bps_tune_partition(world.tune);
	world.best_part = first;
	calls(&world, 10);
	assert_int_equal(bps_tune_partition(world.tune), first);
	for (i = 0; i < 100; i++) {
		call(&world);
		n_larger += bps_tune_partition(world.tune) != first;
	}
	assert_int_equal(n_larger, 0);
	world.best_part = 1 << 20;
	calls(&world, 200);
	assert_int_equal(bps_tune_partition(world.tune), bps_tune_most(world.tune));
	bps_tune_free(world.tune);
}

/* A millisecond of the link for all servers together, two partitions at least. */
static void windows_fill_the_pipe(void **state)
{
	double share[MAX];
	struct world world;

	(void)state;
	open_world(&world, 2, 2, 10000 * MBIT);
	world.op_bytes = 1 << 30;
	shares(&world, BPS_ALLREDUCE, 0, share);
	/* 250 KB parts, 625 KB a server */
	assert_int_equal(world.window, 2);
	world.op_bytes = 4 << 20;
	shares(&world, BPS_ALLREDUCE, 0, share);
	/* the best part is the root of half the op by 6250 + 128: 115 KB */
	assert_int_equal(world.window, 5);
	bps_tune_free(world.tune);
	world.config.window = 3;
	assert_int_equal(bps_tune_new(&world.config, &world.tune), 0);
	shares(&world, BPS_ALLREDUCE, 0, share);
	assert_int_equal(world.window, 3);
	bps_tune_free(world.tune);
}

/*
 * Two partitions for each connection to a server, so that all are busy; they share the
 * queue that fewer had.
 */
static void connections_share_the_queue(void **state)
{
	double share[MAX], first, safe = 100 * MBIT * 5e-3 / (8 * 2 * 4);
	struct world world;

	(void)state;
	open_world(&world, 8, 8, 100 * MBIT);
	bps_tune_free(world.tune);
	world.config.n_connections = 4;
	assert_int_equal(bps_tune_new(&world.config, &world.tune), 0);
	shares(&world, BPS_ALLREDUCE, 0, share);
	assert_int_equal(world.window, 8);
	first = bps_tune_partition(world.tune);
	assert_true(first == 2048 || first <= safe + 724);
	bps_tune_free(world.tune);
	world.config.n_connections = 16; /* more than the pipe would ever be given */
	assert_int_equal(bps_tune_new(&world.config, &world.tune), 0);
	shares(&world, BPS_ALLREDUCE, 0, share);
	assert_int_equal(world.window, 32);
	bps_tune_free(world.tune);
}

/* Each rail may have as much on its way as one alone. */
static void rails_have_windows_of_their_own(void **state)
{
	double share[MAX];
	struct world world;

	(void)state;
	open_world(&world, 2, 2, 1e6 * MBIT); /* a millisecond is more than any window */
	shares(&world, BPS_ALLREDUCE, 0, share);
	assert_int_equal(world.window, 8);
	bps_tune_free(world.tune);
	world.config.n_connections = world.config.n_rails = 3;
	assert_int_equal(bps_tune_new(&world.config, &world.tune), 0);
	shares(&world, BPS_ALLREDUCE, 0, share);
	assert_int_equal(world.window, 24);
	bps_tune_free(world.tune);
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
	uint32_t n_worse = 0, i;

	(void)state;
	open_world(&world, 8, 8, 100 * MBIT);
	calls(&world, 43);
	before = world.op_s;
	world.speed[3] = 0.25;
	call(&world);
	assert_true(world.op_s > 3.9 * before);
	calls(&world, 20);
	assert_true(world.op_s < 1.3 * before);
	for (i = 0; i < N_OPS; i++) { /* now and then it tries whether that has changed */
		call(&world);
		n_worse += world.op_s > 1.3 * before;
	}
	assert_in_range(n_worse, 0, N_OPS / 16);
	assert_true(world.op_s < 1.3 * before); /* 8 / 7.25 is the least */
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
	assert_true(world.op_s < 3 * before);
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
	uint32_t most;

	(void)state;
	open_world(&world, 4, 4, 100 * MBIT);
	most = bps_tune_most(world.tune);
	world.lost_ppm = 4000;
	calls(&world, 30);
	assert_int_equal(bps_tune_partition(world.tune), most);
	world.lost_ppm = 20000;
	calls(&world, 8);
	assert_in_range(bps_tune_partition(world.tune), most / 2 - 724, most / 2 + 724);
	calls(&world, 60);
	assert_int_equal(bps_tune_partition(world.tune), 2048);
	world.lost_ppm = 0;
	calls(&world, 300);
	assert_int_equal(bps_tune_partition(world.tune), most);
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
	uint32_t window[2], i, w;

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
		assert_int_equal(bps_tune_cut(world.tune,
		                              i % 3 ? BPS_ALLREDUCE : BPS_BCAST, i % 5,
		                              1 << (10 + i % 15), &left, &window[0]),
		                 0);
		assert_int_equal(bps_tune_cut(other, i % 3 ? BPS_ALLREDUCE : BPS_BCAST,
		                              i % 5, 1 << (10 + i % 15), &right,
		                              &window[1]),
		                 0);
		assert_int_equal(window[0], window[1]);
		assert_int_equal(left.n_parts, right.n_parts);
		assert_int_equal(left.n_slices, right.n_slices);
		for (w = 0; w < left.n_slices; w++) {
			assert_int_equal(left.slices[w].server, right.slices[w].server);
			assert_int_equal(left.slices[w].end, right.slices[w].end);
		}
		bps_tune_took(world.tune, 1 << (10 + i % 15), i * 1000);
		bps_tune_took(other, 1 << (10 + i % 15), i * 1001);
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
		cmocka_unit_test(partitions_grow_while_that_pays),
		cmocka_unit_test(windows_fill_the_pipe),
		cmocka_unit_test(connections_share_the_queue),
		cmocka_unit_test(rails_have_windows_of_their_own),
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
