/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares against an optimum found without their formulas: the test counts what each link
 * carries, message by message, and bisects for the least time in which some shares fit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "engine/shares.h"

#define N_CASES   400
#define MAX_BOXES 16
#define MAX_NODES (2 * MAX_BOXES + 1)
#define N_HALVES  46 /* steps of a bisection: 1e-14 of the interval */
#define NEAR      1e-9
#define NO_ROOT   UINT32_MAX

/* Node s is server s: dedicated ones, then boxes; the last one is a server that is not
 * looked at, to which the rest of an op goes. */
struct net {
	uint32_t n, k;
	double bandwidth[MAX_NODES];
	bool colocated[MAX_BOXES];
};

struct traffic {
	double in[MAX_NODES], out[MAX_NODES];
};

static struct bps_prng prng;

static double any_in(double low, double high)
{
	return low + (high - low) * bps_prng_unit(&prng);
}

static bool near(double a, double b)
{
	return fabs(a - b) <= NEAR * (1 + fabs(a) + fabs(b));
}

static uint32_t n_nodes(const struct net *net)
{
	return net->k + net->n;
}

static struct bps_shares_in input(const struct net *net)
{
	return (struct bps_shares_in){
		.box_bytes_per_s = net->bandwidth + net->k,
		.server_bytes_per_s = net->bandwidth,
		.colocated = net->colocated,
		.n_boxes = net->n,
		.n_servers = net->k,
	};
}

static int solve(const struct net *net, uint32_t root, double *shares, double *t)
{
	struct bps_shares_in in = input(net);

	return root == NO_ROOT ? bps_shares_allreduce(&in, shares, t)
	                       : bps_shares_bcast(&in, root, shares, t);
}

static void send_part(struct traffic *traffic, uint32_t from, uint32_t to, double part)
{
	if (from == to)
		return; /* inside a box */
	traffic->out[from] += part;
	traffic->in[to] += part;
}

/* What travels because @server sums @part of an op. */
static void add_server(const struct net *net, uint32_t root, uint32_t server, double part,
                       struct traffic *traffic)
{
	for (uint32_t i = 0; i < net->n; i++) {
		if (root == NO_ROOT || i == root)
			send_part(traffic, net->k + i, server, part);
		if (i != root)
			send_part(traffic, server, net->k + i, part);
	}
}

static double node_time(const struct net *net, const struct traffic *traffic,
                        uint32_t node)
{
	return fmax(traffic->in[node], traffic->out[node]) / net->bandwidth[node];
}

static double node_time_with(const struct net *net, uint32_t root, uint32_t node,
                             double part)
{
	struct traffic traffic = { 0 };

	add_server(net, root, node, part, &traffic);
	add_server(net, root, n_nodes(net), 1 - part, &traffic);
	return node_time(net, &traffic, node);
}

/* The largest part that @node can sum in time @t; negative: t is too short for it. */
static double most_in(const struct net *net, uint32_t root, uint32_t node, double t)
{
	bool serves = node < net->k || net->colocated[node - net->k];
	double low = 0, high = 1;

	if (node_time_with(net, root, node, 0) > t)
		return -1;
	if (!serves)
		return 0;
	if (node_time_with(net, root, node, 1) <= t)
		return 1;
	for (int i = 0; i < N_HALVES; i++) {
		double middle = (low + high) / 2;

		*(node_time_with(net, root, node, middle) <= t ? &low : &high) = middle;
	}
	return low;
}

static bool fits(const struct net *net, uint32_t root, double t)
{
	double sum = 0;

	for (uint32_t i = 0; i < n_nodes(net); i++) {
		double most = most_in(net, root, i, t);

		if (most < 0)
			return false;
		sum += most;
	}
	return sum >= 1;
}

static double least_time(const struct net *net, uint32_t root)
{
	double low = 0, high = 1;

	while (!fits(net, root, high))
		high *= 2;
	for (int i = 0; i < N_HALVES; i++) {
		double middle = (low + high) / 2;

		*(fits(net, root, middle) ? &high : &low) = middle;
	}
	return high;
}

static double time_of(const struct net *net, uint32_t root, const double *shares)
{
	struct traffic traffic = { 0 };
	double slowest = 0;

	for (uint32_t i = 0; i < n_nodes(net); i++)
		add_server(net, root, i, shares[i], &traffic);
	for (uint32_t i = 0; i < n_nodes(net); i++)
		slowest = fmax(slowest, node_time(net, &traffic, i));
	return slowest;
}

/* Bandwidths of 1 to 1000, some equal; about every second case has all colocated. */
static struct net any_net(void)
{
	bool all = bps_prng_below(&prng, 2);
	double high = bps_prng_below(&prng, 3) ? any_in(100, 1000) : 100;
	struct net net = {
		.n = 2 + (uint32_t)bps_prng_below(&prng, MAX_BOXES - 1),
		.k = (uint32_t)bps_prng_below(&prng, MAX_BOXES + 1),
	};
	bool any = net.k > 0;

	for (uint32_t i = 0; i < n_nodes(&net); i++)
		net.bandwidth[i] = any_in(bps_prng_below(&prng, 2) ? 1 : high, high);
	for (uint32_t i = 0; i < net.n; i++)
		any |= net.colocated[i] = all || bps_prng_below(&prng, 3) > 0;
	if (!any)
		net.colocated[0] = true;
	return net;
}

/* All as fast: the design's formulas hold. */
static struct net equal_net(uint32_t n, uint32_t k, double bandwidth)
{
	struct net net = { .n = n, .k = k };

	for (uint32_t i = 0; i < n_nodes(&net); i++)
		net.bandwidth[i] = bandwidth;
	memset(net.colocated, 1, sizeof(net.colocated));
	return net;
}

static void check_shares(const struct net *net, const double *shares)
{
	double sum = 0;

	for (uint32_t i = 0; i < n_nodes(net); i++) {
		assert_true(shares[i] >= 0 && shares[i] <= 1);
		if (i >= net->k && !net->colocated[i - net->k])
			assert_true(shares[i] == 0);
		sum += shares[i];
	}
	assert_true(near(sum, 1));
}

/* Is a server that should be filled before @node's not yet full? */
static bool could_take_more(const struct net *net, uint32_t root, const double *shares,
                            uint32_t node, double t)
{
	for (uint32_t i = 0; i < n_nodes(net); i++) {
		bool before = i < net->k || (root != NO_ROOT && node == net->k + root);

		if (i != node && before && shares[i] < most_in(net, root, i, t) - 1e-6)
			return true;
	}
	return false;
}

static void check_order(const struct net *net, uint32_t root, const double *shares,
                        double t)
{
	for (uint32_t i = 0; i < n_nodes(net); i++) {
		if (i < net->k)
			assert_true(near(shares[i] * net->bandwidth[0],
			                 shares[0] * net->bandwidth[i]));
		else if (shares[i] > 1e-6)
			assert_false(
				could_take_more(net, root, shares, i, t * (1 + NEAR)));
	}
}

static void check_case(const struct net *net, uint32_t root)
{
	double shares[MAX_NODES], t, best = least_time(net, root);

	assert_int_equal(solve(net, root, shares, &t), 0);
	check_shares(net, shares);
	if (!near(t, best) || !near(time_of(net, root, shares), best))
		fail_msg("n=%u k=%u root=%d: %.12g said, %.12g taken, %.12g possible",
		         net->n, net->k, (int)root, t, time_of(net, root, shares), best);
	check_order(net, root, shares, t);
}

static void no_allreduce_is_faster(void **state)
{
	(void)state;
	for (int i = 0; i < N_CASES; i++) {
		struct net net = any_net();

		check_case(&net, NO_ROOT);
	}
}

static void no_broadcast_is_faster(void **state)
{
	(void)state;
	for (int i = 0; i < N_CASES; i++) {
		struct net net = any_net();

		check_case(&net, (uint32_t)bps_prng_below(&prng, net.n));
	}
}

static void small_and_lopsided_ones_are_best_too(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 4; n++) {
		for (uint32_t k = 0; k <= n + 2; k++) {
			struct net net = equal_net(n, k, 1000);

			check_case(&net, NO_ROOT);
			check_case(&net, n - 1);
			net.bandwidth[k] = 1;
			check_case(&net, NO_ROOT);
			check_case(&net, 0);
			net.bandwidth[0] = 1e6;
			check_case(&net, NO_ROOT);
			check_case(&net, 1);
		}
	}
}

static void equal_links_follow_the_closed_form(void **state)
{
	const double b = 12.5e6;

	(void)state;
	for (uint32_t n = 2; n <= MAX_BOXES; n++) {
		for (uint32_t k = 0; k <= n; k++) {
			double N = n, K = k, whole = N * N + K * N - 2 * K;
			struct net net = equal_net(n, k, b);
			double shares[MAX_NODES], t;

			assert_int_equal(solve(&net, NO_ROOT, shares, &t), 0);
			assert_true(near(t * b, 2 * N * (N - 1) / whole));
			for (uint32_t i = 0; i < k; i++)
				assert_true(near(shares[i], 2 * (N - 1) / whole));
			for (uint32_t i = 0; i < n; i++)
				assert_true(near(shares[k + i], (N - K) / whole));
			if (k == n)
				assert_true(shares[k] == 0);
		}
	}
}

/* Eight boxes of which two at half rate, four servers of which one at half: by hand. */
static void unequal_links_are_what_was_worked_out_by_hand(void **state)
{
	struct net net = equal_net(8, 4, 2);
	double shares[MAX_NODES], t;

	(void)state;
	net.bandwidth[3] = net.bandwidth[4] = net.bandwidth[5] = 1;
	assert_int_equal(solve(&net, NO_ROOT, shares, &t), 0);
	/* The slow boxes need 1. In that time the servers sum 7/8, the fast boxes could
	 * sum (2 - 1)/6 each and the slow ones nothing: 1/8 is left for the six. */
	assert_true(near(t, 1));
	assert_true(near(shares[0], 0.25) && near(shares[3], 0.125));
	assert_true(shares[4] < NEAR && shares[5] < NEAR);
	assert_true(near(shares[6], 1.0 / 48) && near(shares[11], 1.0 / 48));
}

static void a_ring_goes_around_at_the_slowest_boxs_pace(void **state)
{
	struct net net = equal_net(4, 1, 8);
	struct bps_shares_in in = input(&net);

	(void)state;
	assert_true(near(bps_ring_s_per_byte(&in), 1.5 / 8));
	net.bandwidth[0] = 1; /* a server is not in the ring */
	net.bandwidth[3] = 2;
	assert_true(near(bps_ring_s_per_byte(&in), 1.5 / 2));
}

static void no_list_of_colocated_means_all_are(void **state)
{
	struct net net = equal_net(5, 2, 1);
	struct bps_shares_in in = input(&net);
	double all[MAX_NODES], same[MAX_NODES], t, t_same;

	(void)state;
	assert_int_equal(bps_shares_allreduce(&in, all, &t), 0);
	in.colocated = NULL;
	assert_int_equal(bps_shares_allreduce(&in, same, &t_same), 0);
	assert_memory_equal(all, same, 7 * sizeof(double));
	assert_true(t == t_same);
}

static void what_makes_no_sense_is_refused(void **state)
{
	static const double wrong[] = { 0, -1, NAN, INFINITY, 1e-310, 1e300 };
	struct net net = equal_net(3, 2, 1), none = equal_net(3, 0, 1);
	double shares[MAX_NODES], t;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		net.bandwidth[1] = wrong[i];
		assert_int_equal(solve(&net, NO_ROOT, shares, &t), -EINVAL);
		net.bandwidth[1] = 1;
		net.bandwidth[4] = wrong[i];
		assert_int_equal(solve(&net, 0, shares, &t), -EINVAL);
		net.bandwidth[4] = 1;
	}
	assert_int_equal(solve(&net, 3, shares, &t), -EINVAL);
	net.n = 1;
	assert_int_equal(solve(&net, NO_ROOT, shares, &t), -EINVAL);
	memset(none.colocated, 0, sizeof(none.colocated));
	assert_int_equal(solve(&none, NO_ROOT, shares, &t), -EINVAL);
}

/* -- weights -- */

static void check_weights(const double *shares, uint32_t n)
{
	uint32_t weights[MAX_NODES];
	double largest = 0, kept = 0;
	uint64_t sum = 0;

	assert_int_equal(bps_shares_weights(shares, n, weights), 0);
	for (uint32_t i = 0; i < n; i++)
		largest = fmax(largest, shares[i]);
	for (uint32_t i = 0; i < n; i++)
		kept += weights[i] ? shares[i] : 0;
	for (uint32_t i = 0; i < n; i++) {
		sum += weights[i];
		if (shares[i] > 0 && shares[i] >= largest / 256)
			assert_true(fabs(weights[i] - shares[i] / kept * (1 << 20)) < 1);
		else if (shares[i] == 0)
			assert_int_equal(weights[i], 0);
	}
	assert_int_equal(sum, 1 << 20);
}

static void weights_add_up_and_are_near(void **state)
{
	double shares[MAX_NODES];

	(void)state;
	for (int i = 0; i < 20 * N_CASES; i++) {
		uint32_t n = 1 + (uint32_t)bps_prng_below(&prng, MAX_NODES);

		for (uint32_t j = 0; j < n; j++)
			shares[j] = bps_prng_below(&prng, 4) ? any_in(0, 1) : 0;
		shares[bps_prng_below(&prng, n)] = any_in(0.01, 1);
		check_weights(shares, n);
	}
}

static void weights_of_real_plans_cost_next_to_nothing(void **state)
{
	(void)state;
	for (int i = 0; i < N_CASES; i++) {
		struct net net = any_net();
		double shares[MAX_NODES], t;
		uint32_t weights[MAX_NODES];

		assert_int_equal(solve(&net, NO_ROOT, shares, &t), 0);
		check_weights(shares, n_nodes(&net));
		assert_int_equal(bps_shares_weights(shares, n_nodes(&net), weights), 0);
		for (uint32_t j = 0; j < n_nodes(&net); j++)
			shares[j] = weights[j] / 1048576.0;
		assert_true(time_of(&net, NO_ROOT, shares) <= t * 1.02);
	}
}

static void crumbs_are_left_out(void **state)
{
	static const double crumb[] = { 0.5, 0.498, 0.001, 0.001 };
	static const double edge[] = { 0.5, 0.498, 1.0 / 512, 0 };
	double many[64] = { 0.5 };
	uint32_t weights[64];

	(void)state;
	assert_int_equal(bps_shares_weights(crumb, 4, weights), 0);
	assert_int_equal(weights[2] + weights[3], 0);
	assert_int_equal(weights[0] + weights[1], 1 << 20);
	assert_int_equal(bps_shares_weights(edge, 4, weights), 0);
	assert_in_range(weights[2], 2040, 2060);
	for (int i = 1; i < 64; i++)
		many[i] = 0.001; /* each is small, not so all of them */
	assert_int_equal(bps_shares_weights(many, 64, weights), 0);
	assert_in_range(weights[63], 1860, 1863); /* 0.001 of 0.563, times 2^20 */
}

static void equal_shares_have_equal_weights_where_they_can(void **state)
{
	double shares[16];
	uint32_t weights[16];

	(void)state;
	for (int i = 0; i < N_CASES; i++) {
		uint32_t n = 1u << bps_prng_below(&prng, 5);
		double share = any_in(0.01, 1);

		for (uint32_t j = 0; j < n; j++)
			shares[j] = share;
		assert_int_equal(bps_shares_weights(shares, n, weights), 0);
		for (uint32_t j = 0; j < n; j++)
			assert_int_equal(weights[j], (1 << 20) / n);
	}
}

static void weights_of_nothing_are_refused(void **state)
{
	static const double wrong[][2] = {
		{ 0, 0 }, { 1, -0.5 }, { NAN, 1 }, { 1, INFINITY }, { 1e-320, 0 }
	};
	uint32_t weights[2];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(bps_shares_weights(wrong[i], 2, weights), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_allreduce_is_faster),
		cmocka_unit_test(no_broadcast_is_faster),
		cmocka_unit_test(small_and_lopsided_ones_are_best_too),
		cmocka_unit_test(equal_links_follow_the_closed_form),
		cmocka_unit_test(unequal_links_are_what_was_worked_out_by_hand),
		cmocka_unit_test(a_ring_goes_around_at_the_slowest_boxs_pace),
		cmocka_unit_test(no_list_of_colocated_means_all_are),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(weights_add_up_and_are_near),
		cmocka_unit_test(weights_of_real_plans_cost_next_to_nothing),
		cmocka_unit_test(crumbs_are_left_out),
		cmocka_unit_test(equal_shares_have_equal_weights_where_they_can),
		cmocka_unit_test(weights_of_nothing_are_refused),
	};
	const char *again = getenv("SHARES_SEED");
	uint64_t seed = again ? strtoull(again, NULL, 10) : 20201104;

	printf("# SHARES_SEED=%llu\n", (unsigned long long)seed);
	bps_prng_init(&prng, seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
