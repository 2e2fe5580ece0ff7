/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random jobs: any size, any plan, calls of any kind in flight at once, messages that are
 * late, lost and in pieces. Every answer is exact, nothing hangs, nothing is left.
 *
 *	test_jobs [--seeds N] [--first SEED]    10000 seeds from 1 on
 *	test_jobs --seed SEED                   one, with a line for each event
 */
#include "tests/unit/engine/unit.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

#define MAX_VIRTUAL_NS (3600 * BPS_NS_PER_S)

static uint64_t first_seed = 1, n_seeds = 10000;

/* Most numbers are small, some are large: 1 to @most, as likely in each power of two. */
static uint32_t scaled(struct bps_prng *prng, uint32_t most)
{
	uint32_t bits = 32 - (uint32_t)__builtin_clz(most);
	uint32_t n = 1 + (uint32_t)bps_prng_below(prng,
	                                          1ull << bps_prng_below(prng, bits + 1));

	return n < most ? n : most;
}

static void pick_network(struct bps_prng *prng, struct bps_sim_config *config)
{
	config->delay_ns = bps_prng_below(prng, 1000000);
	config->jitter_ns = bps_prng_below(prng, 2 * config->delay_ns + 1);
	config->loss_ppm = bps_prng_below(prng, 3) ? 0 : 20000;
	config->rto_ns = 5 * config->delay_ns + 100000;
	config->split_percent = (uint32_t)bps_prng_below(prng, 50);
}

static void pick_nic(struct bps_prng *prng, struct bps_sim_nic *nic)
{
	if (bps_prng_below(prng, 2) == 0)
		nic->bits_per_s = 10000000ull << bps_prng_below(prng, 11);
	if (bps_prng_below(prng, 2) == 0)
		nic->queue_bytes = 100000;
}

static void pick_job(struct bps_prng *prng, struct bps_sim_job_config *config)
{
	uint32_t n;

	config->n_members = 1 + scaled(prng, 63);
	config->n_servers = bps_prng_below(prng, 4) == 0 ? 0 : scaled(prng, 64);
	n = config->n_members;
	if (config->n_servers == 0 && n > 16)
		config->n_members = n = 16;
	config->slot_bytes = 512 + (uint32_t)bps_prng_below(prng, 2000);
	config->n_slots = 1 + (uint32_t)bps_prng_below(prng, 4);
	config->n_connections = 1 + (uint32_t)bps_prng_below(prng, 6) / 3 * 2;
	config->max_ranks = 1 + (uint32_t)bps_prng_below(prng, 4);
	config->n_groups = 1 + (uint32_t)bps_prng_below(prng, 4);
	config->n_calls = 1 + (uint32_t)bps_prng_below(prng, 6);
	config->max_in_flight = 1 + (uint32_t)bps_prng_below(prng, 4);
	config->max_op_bytes = 200000 / n / config->n_groups;
	config->gap_ns = bps_prng_below(prng, 1000000);
	config->timeout_ns = 60 * BPS_NS_PER_S;
	if (bps_prng_below(prng, 2) == 0)
		config->ring = (config->n_servers ? config->n_servers : n) +
		               (uint32_t)bps_prng_below(prng, 8);
	pick_nic(prng, &config->nic);
}

/* The windows and sums of a server: within what its members were granted. */
static void check_memory(const struct bps_sim_job *job)
{
	uint64_t window = (uint64_t)(job->config.n_slots + BPS_SPARE_SLOTS) *
	                  job->config.slot_bytes;
	struct bps_server_memory memory;
	uint32_t i;

	for (i = 0; i < job->config.n_servers; i++) {
		bps_server_memory(job->servers[i]->server, &memory);
		if (memory.sum_bytes >
		    job->config.n_members * job->config.n_connections * window)
			bps_sim_wrong("%s: too many sums", job->servers[i]->name);
	}
}

static struct bps_sim_stats run_seed(uint64_t seed, bool trace)
{
	struct bps_sim_server *servers[64] = { 0 };
	struct bps_sim_job_config config = { 0 };
	struct bps_sim_config network = { .seed = seed, .trace = trace };
	struct bps_server_config server = {
		.host = "h",
		.memory_bytes = UINT64_MAX,
		.max_slots = 64,
		.quiet = true,
	};
	struct bps_sim_stats stats;
	struct bps_sim_job *job;
	struct bps_prng prng;
	struct bps_sim *sim;
	uint32_t i;

	bps_prng_init(&prng, ~seed);
	pick_network(&prng, &network);
	pick_job(&prng, &config);
	sim = bps_sim_new(&network);
	if (config.n_servers > 0)
		config.servers = servers;
	server.n_reducers = 1 + config.n_members % 3;
	bps_sim_servers_new(sim, config.n_servers, &config.nic, &server, servers);
	job = bps_sim_job_new(sim, &config);
	bps_sim_trace(sim,
	              "%u members, %u servers, %u groups of %u calls, window %u times %u",
	              config.n_members, config.n_servers, config.n_groups, config.n_calls,
	              config.n_slots, config.slot_bytes);
	bps_sim_job_start(job);
	while (!bps_sim_job_done(job) && bps_sim_now(sim) < MAX_VIRTUAL_NS &&
	       bps_sim_step(sim)) {
		if (bps_sim_stats(sim)->n_events % 64 == 0)
			check_memory(job);
	}
	if (!bps_sim_job_done(job))
		bps_sim_wrong("the job hangs");
	bps_sim_run(sim, bps_sim_now(sim) + 10 * BPS_NS_PER_S);
	for (i = 0; i < job->config.n_servers; i++)
		bps_sim_server_empty(job->servers[i]);
	stats = *bps_sim_stats(sim);
	bps_sim_free(sim);
	bps_sim_job_free(job);
	for (i = 0; i < config.n_servers; i++)
		bps_sim_server_free(servers[i]);
	return stats;
}

static void every_seed_is_exact(void **state)
{
	uint64_t n_messages = 0, n_lost = 0;
	uint64_t seed;

	(void)state;
	for (seed = first_seed; seed < first_seed + n_seeds; seed++) {
		struct bps_sim_stats stats = run_seed(seed, false);

		n_messages += stats.n_messages;
		n_lost += stats.n_lost;
		if (bps_sim_failures() > 0)
			fail_msg("seed %llu failed: test_jobs --seed %llu",
			         (unsigned long long)seed, (unsigned long long)seed);
	}
	printf("# %llu messages, %llu lost\n", (unsigned long long)n_messages,
	       (unsigned long long)n_lost);
}

static void the_same_seed_is_the_same_run(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed < 50; seed++) {
		struct bps_sim_stats first = run_seed(seed, false);
		struct bps_sim_stats second = run_seed(seed, false);

		assert_int_equal(first.n_events, second.n_events);
		assert_true(first.hash == second.hash);
		assert_true(first.hash != run_seed(seed + 1, false).hash);
	}
}

static int parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seeds", required_argument, NULL, 'n' },
		{ "first", required_argument, NULL, 'f' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's') {
			run_seed(strtoull(optarg, NULL, 0), true);
			exit(bps_sim_failures() > 0);
		} else if (c == 'n') {
			n_seeds = strtoull(optarg, NULL, 0);
		} else if (c == 'f') {
			first_seed = strtoull(optarg, NULL, 0);
		} else {
			return -1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_seed_is_exact),
		cmocka_unit_test(the_same_seed_is_the_same_run),
	};

	bps_log_set_level(BPS_LOG_ERROR);
	if (parse(argc, argv) < 0)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
