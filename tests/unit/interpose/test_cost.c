/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost model against a scripted clock: several ranks, each with its own state and its
 * own times, that share nothing but the maximum that they are asked to agree on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "interpose/cost.h"

#define N_RANKS 4
#define US      INT64_C(1000)
#define MS      INT64_C(1000000)
#define MIB     (UINT64_C(1) << 20)

/* What one call did; the same on all ranks, or the test ends. */
struct call {
	enum bps_cost_way way;
	bool trial, agreed, decided;
};

struct world {
	struct bps_cost *costs[N_RANKS];
	int64_t ns[N_RANKS][BPS_COST_N_WAYS]; /* the clock's script */
	/* since it was last set to zero */
	uint64_t n_trials, n_agreed, n_decided, n_calls[BPS_COST_N_WAYS];
};

static int set_up(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	for (int rank = 0; rank < N_RANKS; rank++)
		world->costs[rank] = calloc(1, sizeof(struct bps_cost));
	*state = world;
	return 0;
}

static int tear_down(void **state)
{
	struct world *world = *state;

	for (int rank = 0; rank < N_RANKS; rank++)
		free(world->costs[rank]);
	free(world);
	return 0;
}

static void script(struct world *world, int64_t own_ns, int64_t native_ns)
{
	for (int rank = 0; rank < N_RANKS; rank++) {
		world->ns[rank][BPS_COST_OWN] = own_ns;
		world->ns[rank][BPS_COST_NATIVE] = native_ns;
	}
}

static void forget_counts(struct world *world)
{
	world->n_trials = world->n_agreed = world->n_decided = 0;
	memset(world->n_calls, 0, sizeof(world->n_calls));
}

/* Whether the ranks were asked; *@ret_decided: whether that ended a series. */
static bool agree(struct world *world, struct bps_cost_class **classes, uint64_t bytes,
                  bool *ret_decided)
{
	bool asked = bps_cost_asks(classes[0], bytes);
	int64_t longest = 0;

	for (int rank = 0; rank < N_RANKS; rank++) {
		assert_int_equal(bps_cost_asks(classes[rank], bytes), asked);
		if (classes[rank]->took_ns > longest)
			longest = classes[rank]->took_ns;
	}
	*ret_decided = false;
	for (int rank = 0; asked && rank < N_RANKS; rank++) {
		bool decided = bps_cost_agreed(classes[rank], longest);

		assert_true(rank == 0 || decided == *ret_decided);
		*ret_decided = decided;
	}
	return asked;
}

static struct call call_of(struct world *world, enum bps_coll coll, uint64_t bytes)
{
	struct bps_cost_class *classes[N_RANKS];
	struct call call = { 0 };

	for (int rank = 0; rank < N_RANKS; rank++)
		classes[rank] = bps_cost_class(world->costs[rank], coll, bytes);
	call.agreed = agree(world, classes, bytes, &call.decided);
	for (int rank = 0; rank < N_RANKS; rank++) {
		bool trial;
		enum bps_cost_way way = bps_cost_next(classes[rank], bytes, &trial);

		assert_true(rank == 0 || (way == call.way && trial == call.trial));
		call.way = way;
		call.trial = trial;
		if (trial)
			classes[rank]->took_ns = world->ns[rank][way];
	}
	world->n_trials += call.trial;
	world->n_agreed += call.agreed;
	world->n_decided += call.decided;
	world->n_calls[call.way]++;
	return call;
}

static struct call reduce(struct world *world, uint64_t bytes)
{
	return call_of(world, BPS_ALLREDUCE, bytes);
}

/* Calls of 1 MiB until a series ends; how many trials it had. */
static uint64_t run_series(struct world *world, enum bps_cost_way *ret_way)
{
	struct call call;

	forget_counts(world);
	do {
		call = reduce(world, MIB);
		assert_true(world->n_trials < 100);
	} while (!call.decided);
	*ret_way = call.way;
	return world->n_trials;
}

static void ways_take_turns(void **state)
{
	struct world *world = *state;

	script(world, 10 * MS, 11 * MS);
	for (int i = 0; i < 8; i++) {
		struct call call = reduce(world, MIB);

		assert_true(call.trial);
		assert_int_equal(call.way, i % 2 ? BPS_COST_NATIVE : BPS_COST_OWN);
		assert_int_equal(call.agreed, i >= 2); /* two that do not count */
		assert_false(call.decided);
	}
	assert_true(reduce(world, MIB).decided);
}

/* Pairs that count: by how long they take, and how clear they are. */
static void series_are_as_long_as_needed(void **state)
{
	static const struct {
		int64_t own_ns, native_ns;
		uint64_t n_pairs;
		enum bps_cost_way way;
	} rows[] = {
		{ 10 * US, 1000 * US, 7, BPS_COST_OWN },    /* all 7 take 7 ms */
		{ 2 * MS, 2500 * US, 5, BPS_COST_OWN },     /* 4: 18 ms, 5: 22.5 ms */
		{ 10 * MS, 11 * MS, 3, BPS_COST_OWN },      /* not clear */
		{ 10 * MS, 19 * MS, 3, BPS_COST_OWN },      /* nor is that: a change */
		{ 10 * MS, 20 * MS, 1, BPS_COST_OWN },      /* clear */
		{ 12 * MS, 10 * MS, 3, BPS_COST_NATIVE },   /* not clear */
		{ 12500 * US, 10 * MS, 1, BPS_COST_NATIVE } /* clear: no change */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum bps_cost_way way;
		void *fresh;

		set_up(&fresh);
		script(fresh, rows[i].own_ns, rows[i].native_ns);
		assert_int_equal(run_series(fresh, &way), 2 + 2 * rows[i].n_pairs);
		assert_int_equal(way, rows[i].way);
		tear_down(&fresh);
	}
}

static void first_calls_do_not_count(void **state)
{
	struct world *world = *state;
	enum bps_cost_way way;

	script(world, 500 * MS, 20 * MS); /* connections that open, cold pages */
	reduce(world, MIB);
	script(world, 10 * MS, 20 * MS);
	run_series(world, &way);
	assert_int_equal(way, BPS_COST_OWN);
	assert_int_equal(bps_cost_class(world->costs[0], BPS_ALLREDUCE, MIB)
	                         ->learnt_ns[BPS_COST_OWN],
	                 10 * MS);
}

/* One hiccup among three is not what is learnt. */
static void medians_are_compared(void **state)
{
	struct world *world = *state;
	struct call call = { 0 };

	for (int i = 0; !call.decided; i++) {
		script(world, i == 4 ? 900 * MS : 10 * MS, 12 * MS);
		call = reduce(world, MIB);
	}
	assert_int_equal(call.way, BPS_COST_OWN);
}

/* Done is a call when its last rank is. */
static void slowest_rank_decides(void **state)
{
	struct world *world = *state;
	enum bps_cost_way way;

	script(world, 10 * MS, 20 * MS);
	world->ns[2][BPS_COST_OWN] = 30 * MS;
	run_series(world, &way);
	assert_int_equal(way, BPS_COST_NATIVE);
}

/* Sizes, collectives and times without any order: what differs between the ranks (their
 * times) must not show; call_of() ends the test if it does. */
static void ranks_decide_alike(void **state)
{
	static const uint64_t sizes[] = {
		5000, 8192, 300000, 320000, 500000, MIB, 9 * MIB
	};
	struct world *world = *state;

	srand(7);
	for (int i = 0; i < 50000; i++) {
		enum bps_coll coll = rand() % 3 ? BPS_ALLREDUCE : BPS_BCAST;

		for (int rank = 0; rank < N_RANKS; rank++) {
			world->ns[rank][BPS_COST_OWN] = (rand() % 1000) * 20 * US;
			world->ns[rank][BPS_COST_NATIVE] = (rand() % 1000) * 25 * US;
		}
		call_of(world, coll, sizes[rand() % 7] + (uint64_t)rand() % 1000);
	}
	assert_true(world->n_decided > 20);
	assert_true(world->n_calls[BPS_COST_OWN] > 1000);
}

static void small_gains_change_nothing(void **state)
{
	struct world *world = *state;
	enum bps_cost_way way;

	script(world, 100 * MS, 102900 * US);
	run_series(world, &way);
	assert_int_equal(way, BPS_COST_NATIVE);
	script(world, 100 * MS, 103100 * US);
	run_series(world, &way);
	assert_int_equal(way, BPS_COST_OWN);
	script(world, 102900 * US, 100 * MS);
	run_series(world, &way);
	assert_int_equal(way, BPS_COST_OWN);
	script(world, 103100 * US, 100 * MS);
	run_series(world, &way);
	assert_int_equal(way, BPS_COST_NATIVE);
}

/* All that series cost after the first, over the time of all calls the faster way. */
static double share_of_series(struct world *world, int64_t own_ns, int64_t native_ns)
{
	int64_t fast_ns = own_ns < native_ns ? own_ns : native_ns;
	int64_t agree_ns = 50 * US;
	enum bps_cost_way way;
	double all_ns, least_ns;

	script(world, own_ns, native_ns);
	run_series(world, &way);
	forget_counts(world);
	for (int i = 0; i < 300000; i++)
		reduce(world, MIB);
	assert_true(world->n_decided >= 2);
	all_ns = (double)world->n_calls[BPS_COST_OWN] * (double)own_ns +
	         (double)world->n_calls[BPS_COST_NATIVE] * (double)native_ns +
	         (double)world->n_agreed * (double)agree_ns;
	least_ns = 300000.0 * (double)fast_ns;
	return (all_ns - least_ns) / least_ns;
}

static void series_cost_little(void **state)
{
	static const int64_t times[][2] = {
		{ 5 * US, 6 * US },    { 8 * US, 5 * US },   { 200 * US, 900 * US },
		{ 4 * MS, 6 * MS },    { 50 * MS, 60 * MS }, { 900 * MS, 500 * MS },
		{ 20 * MS, 1000 * MS }
	};

	(void)state;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		void *fresh;

		set_up(&fresh);
		assert_true(share_of_series(fresh, times[i][0], times[i][1]) < 0.02);
		tear_down(&fresh);
	}
}

/* The calls between series: 64 at least, doubled while nothing changes, three times. */
static void series_become_rarer(void **state)
{
	static const uint64_t rests[] = { 64, 128, 256, 512, 512 };
	struct world *world = *state;
	enum bps_cost_way way;

	script(world, 10 * MS, 11 * MS);
	run_series(world, &way);
	for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++) {
		uint64_t n = 1; /* the call that ended the series */

		while (!reduce(world, MIB).trial)
			n++;
		assert_int_equal(n, rests[i]);
		run_series(world, &way);
		assert_int_equal(way, BPS_COST_OWN);
	}
}

static void changes_are_noticed(void **state)
{
	struct world *world = *state;
	enum bps_cost_way way;

	script(world, 10 * MS, 12 * MS);
	run_series(world, &way);
	assert_int_equal(way, BPS_COST_OWN);
	script(world, 40 * MS, 12 * MS); /* a server lost its bandwidth */
	for (int i = 0; i < 200; i++)
		reduce(world, MIB);
	assert_int_equal(reduce(world, MIB).way, BPS_COST_NATIVE);
}

static void sure_predictions_need_no_trial(void **state)
{
	/* 100 Mbit/s, 4 boxes and servers: a ring needs 1.5 times as long at least. */
	const struct bps_cost_model model = { .own_latency_s = 2e-3,
		                              .own_s_per_byte = 8e-8,
		                              .native_s_per_byte_least = 12e-8 };
	struct world *world = *state;
	struct call call;

	for (int rank = 0; rank < N_RANKS; rank++)
		bps_cost_predict(world->costs[rank], BPS_ALLREDUCE, &model);
	script(world, 90 * MS, 150 * MS);
	for (int i = 0; i < 64; i++) {
		call = reduce(world, MIB);
		assert_true(call.way == BPS_COST_OWN && !call.trial);
	}
	/* 1.25 (2 ms + 80 ns n) = 120 ns n at n = 125000: above 64 KiB, below 128 KiB */
	assert_true(reduce(world, 130000).trial);
	call = reduce(world, 131072);
	assert_true(call.way == BPS_COST_OWN && !call.trial);
	assert_true(call_of(world, BPS_BCAST, MIB).trial); /* another collective */
	/* But it is looked at in the end. */
	for (int i = 0; i < 1000; i++)
		reduce(world, MIB);
	assert_true(world->n_decided > 0);
}

/* 24% is not sure. */
static void unsure_predictions_are_tried(void **state)
{
	const struct bps_cost_model model = { 0, 100e-9, 124e-9 };
	struct world *world = *state;

	for (int rank = 0; rank < N_RANKS; rank++)
		bps_cost_predict(world->costs[rank], BPS_ALLREDUCE, &model);
	assert_true(reduce(world, 64 * MIB).trial);
}

/* A failing way is left, and in practice not tried again. */
static void failures_are_slow(void **state)
{
	struct world *world = *state;
	enum bps_cost_way way;

	script(world, 10 * MS, 20 * MS);
	world->ns[3][BPS_COST_OWN] = BPS_COST_FAILED_NS;
	run_series(world, &way);
	assert_int_equal(way, BPS_COST_NATIVE);
	forget_counts(world);
	for (int i = 0; i < 100000; i++)
		reduce(world, MIB);
	assert_int_equal(world->n_calls[BPS_COST_OWN], 0);
}

/* Calls of two sizes of one class in turn: only one of them is compared. */
static void like_is_compared_with_like(void **state)
{
	struct world *world = *state;
	struct call call = { 0 };

	for (int i = 0; !call.decided; i++) {
		script(world, i % 2 ? 19 * MS : 10 * MS, i % 2 ? 22 * MS : 12 * MS);
		call = reduce(world, i % 2 ? 2 * MIB - 4 : MIB);
		assert_int_equal(call.trial, i % 2 == 0 && !call.decided);
		assert_true(i % 2 == 0 || call.way == BPS_COST_NATIVE);
	}
	assert_int_equal(call.way, BPS_COST_OWN);
	assert_int_equal(bps_cost_class(world->costs[0], BPS_ALLREDUCE, MIB)
	                         ->learnt_ns[BPS_COST_NATIVE],
	                 12 * MS);
}

/* A size that does not come again is given up for the one that does. */
static void sizes_that_stay_away_are_given_up(void **state)
{
	struct world *world = *state;
	uint64_t n = 1;

	script(world, 10 * MS, 20 * MS);
	assert_true(reduce(world, MIB).trial);
	while (!reduce(world, MIB + MIB / 2).trial)
		n++;
	assert_int_equal(n, 32);
	while (!reduce(world, MIB + MIB / 2).decided)
		assert_true(n++ < 100);
}

static void least_size_depends_on_mode_and_place(void **state)
{
	static struct bps_config config;

	(void)state;
	bps_config_defaults(&config);
	assert_int_equal(config.mode, BPS_MODE_AUTO);
	assert_int_equal(bps_cost_least_bytes(&config, true), 4096);
	assert_int_equal(bps_cost_least_bytes(&config, false), 262144);
	config.mode = BPS_MODE_ALWAYS;
	assert_int_equal(bps_cost_least_bytes(&config, true), 262144);
	config.mode = BPS_MODE_AUTO;
	config.threshold_bytes = 1000;
	config.source[BPS_CONFIG_ROW_threshold_bytes] = BPS_CONFIG_ENVIRONMENT;
	assert_int_equal(bps_cost_least_bytes(&config, true), 1000);
}

static void learn(struct world *world, uint64_t bytes, int64_t own_ns, int64_t native_ns)
{
	script(world, own_ns, native_ns);
	while (!reduce(world, bytes).decided)
		;
}

static void report_says_what_was_learnt(void **state)
{
	struct world *world = *state;
	char text[200], small[12];

	assert_false(bps_cost_format(world->costs[0], BPS_ALLREDUCE, text, sizeof(text)));
	learn(world, 4096, 20 * US, 10 * US);
	learn(world, 8192, 30 * US, 10 * US);
	learn(world, MIB, 10 * MS, 18 * MS);
	reduce(world, 4 * MIB);
	assert_true(bps_cost_format(world->costs[0], BPS_ALLREDUCE, text, sizeof(text)));
	assert_string_equal(text, "4K-8K native (2-3x), 1M own (1.8x), "
	                          "4M not tried to the end");
	assert_true(
		bps_cost_format(world->costs[0], BPS_ALLREDUCE, small, sizeof(small)));
	assert_string_equal(small, "4K-8K nativ");
	assert_false(bps_cost_format(world->costs[0], BPS_BCAST, text, sizeof(text)));
}

static void sizes_have_their_classes(void **state)
{
	struct world *world = *state;
	struct bps_cost *cost = world->costs[0];

	assert_ptr_equal(bps_cost_class(cost, BPS_BCAST, 4096),
	                 &cost->classes[BPS_BCAST][12]);
	assert_ptr_equal(bps_cost_class(cost, BPS_BCAST, 8191),
	                 &cost->classes[BPS_BCAST][12]);
	assert_ptr_equal(bps_cost_class(cost, BPS_BCAST, 8192),
	                 &cost->classes[BPS_BCAST][13]);
	assert_ptr_equal(bps_cost_class(cost, BPS_BCAST, 1),
	                 &cost->classes[BPS_BCAST][0]);
	assert_ptr_equal(bps_cost_class(cost, BPS_BCAST, UINT64_MAX),
	                 &cost->classes[BPS_BCAST][39]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(ways_take_turns),
		TEST(series_are_as_long_as_needed),
		TEST(first_calls_do_not_count),
		TEST(medians_are_compared),
		TEST(slowest_rank_decides),
		TEST(ranks_decide_alike),
		TEST(small_gains_change_nothing),
		TEST(series_cost_little),
		TEST(series_become_rarer),
		TEST(changes_are_noticed),
		TEST(sure_predictions_need_no_trial),
		TEST(unsure_predictions_are_tried),
		TEST(failures_are_slow),
		TEST(like_is_compared_with_like),
		TEST(sizes_that_stay_away_are_given_up),
		TEST(least_size_depends_on_mode_and_place),
		TEST(report_says_what_was_learnt),
		TEST(sizes_have_their_classes),
	};

	return cmocka_run_group_tests_name("interpose-cost", tests, NULL, NULL);
}
