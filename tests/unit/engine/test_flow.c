/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long calls take on links with a rate and a queue, over the bound M/B that the plan
 * allows. Virtual time: the same on every machine.
 *
 *	test_flow [MEMBERS SERVERS SLOT_BYTES N_SLOTS MIB]    0 servers: colocated
 */
#include "tests/unit/engine/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

#define RATE_BITS 100000000ull
/* What a stream gets of it: the rest are the headers of its packets. */
#define GOODPUT_BITS (RATE_BITS * 1448 / 1514)
#define QUEUE_NS     (20 * BPS_NS_PER_MS)
#define N_CALLS      3u

struct layout {
	uint32_t n_members, n_servers; /* 0: colocated */
	uint32_t slot_bytes, n_slots;
	uint64_t op_bytes;
};

/* Sums are not made: a core reads their sources at 8 GB/s meanwhile. */
static struct bps_sim *charged;

static void charge(void *dst, const void *const *src, unsigned n_src, size_t count)
{
	(void)dst;
	(void)src;
	bps_sim_charge(charged, (n_src + 1) * count * sizeof(float) / 8);
}

static bps_reduce_fn *charging_kernel(enum bps_dtype dtype, enum bps_redop redop)
{
	(void)dtype;
	(void)redop;
	return charge;
}

/* The least that anybody's NIC must carry each way, over its rate. */
static double bound_s(const struct layout *layout)
{
	double n = layout->n_members, k = layout->n_servers;
	double units = k == 0 ? 2 * (n - 1) / n : k < n ? n / k : 1;

	return units * (double)layout->op_bytes * 8 / (double)GOODPUT_BITS;
}

/* Seconds of the last call, when all are connected and in step. */
static double last_call_s(struct bps_sim_job *job)
{
	uint64_t start_ns = UINT64_MAX, end_ns = 0;
	uint32_t m;

	for (m = 0; m < job->config.n_members; m++) {
		const struct bps_sim_share *share =
			bps_sim_job_share(job, 0, N_CALLS - 1, m);

		if (share->start_ns < start_ns)
			start_ns = share->start_ns;
		if (share->end_ns > end_ns)
			end_ns = share->end_ns;
	}
	return (double)(end_ns - start_ns) * 1e-9;
}

static double run(const struct layout *layout)
{
	const struct bps_sim_nic nic = {
		.bits_per_s = RATE_BITS,
		.queue_bytes = RATE_BITS / 8 * QUEUE_NS / BPS_NS_PER_S,
	};
	const struct bps_sim_config network = {
		.seed = 1,
		.delay_ns = 50000,
		.jitter_ns = 20000,
		.rto_ns = 50 * BPS_NS_PER_MS, /* of one repaired without a timeout */
		.no_bytes = true,
	};
	const struct bps_sim_job_config config = {
		.n_members = layout->n_members,
		.nic = nic,
		.slot_bytes = layout->slot_bytes,
		.n_slots = layout->n_slots,
		.max_ranks = 1,
		.n_groups = 1,
		.n_calls = N_CALLS,
		.max_in_flight = 1,
		.op_bytes = layout->op_bytes,
		.gap_ns = 20000,
		.timeout_ns = 60 * BPS_NS_PER_S,
		.no_bytes = true,
		.kernel = charging_kernel,
	};
	struct bps_server_memory memory;
	struct bps_sim_world world;
	struct bps_sim_stats stats;
	double ratio;

	bps_sim_world_open(&world, &network, 0, &nic, 0);
	charged = world.sim;
	world.n_servers = layout->n_servers;
	bps_sim_servers_new(world.sim, world.n_servers, &nic,
	                    &(struct bps_server_config){ .host = "h",
	                                                 .memory_bytes = UINT64_MAX,
	                                                 .n_reducers = 1,
	                                                 .max_slots = 64,
	                                                 .quiet = true,
	                                                 .kernel = charging_kernel },
	                    world.servers);
	bps_sim_world_add(&world, &config);
	bps_sim_world_run(&world, 1000 * BPS_NS_PER_S);
	ratio = last_call_s(world.jobs[0]) / bound_s(layout);
	stats = *bps_sim_stats(world.sim);
	bps_server_memory(world.jobs[0]->servers[0]->server, &memory);
	printf("# %u + %u, %u KiB, window %u: %.3f s, %.3f x bound; %llu messages, %llu lost",
	       layout->n_members, layout->n_servers, layout->slot_bytes / 1024,
	       layout->n_slots, last_call_s(world.jobs[0]), ratio,
	       (unsigned long long)stats.n_messages, (unsigned long long)stats.n_lost);
	printf(", %.1f MiB granted by a server\n", (double)memory.peak_bytes / (1 << 20));
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
	return ratio;
}

static void check(uint32_t n_members, uint32_t n_servers, uint32_t slot_bytes,
                  uint32_t n_slots, uint32_t op_mib, double most)
{
	const struct layout layout = { n_members, n_servers, slot_bytes, n_slots,
		                       (uint64_t)op_mib << 20 };
	double ratio = run(&layout);

	if (ratio > most)
		fail_msg("%.3f times the bound is more than %.2f", ratio, most);
}

static void eight_and_eight_meet_the_bound(void **state)
{
	(void)state;
	check(8, 8, 32768, 2, 16, 1.10);
	check(8, 8, 32768, 2, 64, 1.10);
	/* one part at a time cannot hide the last answer's time behind the next push */
	check(8, 8, 32768, 1, 16, 1.30);
	check(8, 8, 8192, 4, 1, 1.35);
}

static void fewer_servers_meet_theirs(void **state)
{
	(void)state;
	check(8, 4, 32768, 2, 16, 1.10);
	check(4, 4, 32768, 2, 16, 1.10);
	check(2, 2, 32768, 2, 16, 1.10);
}

static void colocated_ones_meet_theirs(void **state)
{
	(void)state;
	check(8, 0, 32768, 1, 16, 1.20);
	check(8, 0, 32768, 2, 16, 1.20);
	check(2, 0, 32768, 2, 16, 1.10);
}

static void many_meet_it_too(void **state)
{
	(void)state;
	check(64, 64, 8192, 1, 16, 1.30);
	check(256, 32, 8192, 1, 4, 1.30);
}

/* -- the network by packets (tests/sim/net.h) -- */

/* A job whose payloads are moved and checked, on links with TCP. */
static void run_packets(uint64_t queue_bytes, uint32_t slot_bytes,
                        struct bps_sim_stats *ret_stats, double *ret_s)
{
	const struct bps_sim_nic nic = { .bits_per_s = RATE_BITS,
		                         .queue_bytes = queue_bytes };
	const struct bps_sim_config network = {
		.seed = 1, .delay_ns = 50000, .jitter_ns = 20000, .tcp = true
	};
	const struct bps_sim_job_config config = {
		.n_members = 4,
		.nic = nic,
		.slot_bytes = slot_bytes,
		.n_slots = 2,
		.max_ranks = 1,
		.n_groups = 1,
		.n_calls = N_CALLS,
		.max_in_flight = 1,
		.op_bytes = 2 << 20,
		.timeout_ns = 60 * BPS_NS_PER_S,
	};
	struct bps_sim_world world;

	bps_sim_world_open(&world, &network, 4, &nic, 0);
	bps_sim_world_add(&world, &config);
	bps_sim_world_run(&world, 1000 * BPS_NS_PER_S);
	*ret_s = last_call_s(world.jobs[0]);
	*ret_stats = *bps_sim_stats(world.sim);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

/* Deep queues lose nothing; a call takes no less than its bytes, and not much more. */
static void packets_fill_the_link(void **state)
{
	const double bound = (2 << 20) * 8.0 / (double)GOODPUT_BITS;
	/* 4 members send 2 MiB and get as much, in packets of 1448 at best */
	const uint64_t least = N_CALLS * 2 * 4 * ((2u << 20) / 1448);
	struct bps_sim_stats stats;
	double s;

	(void)state;
	run_packets(1 << 20, 8192, &stats, &s);
	assert_int_equal(stats.n_lost, 0);
	assert_true(stats.n_packets > least && stats.n_packets < least * 11 / 10);
	assert_true(s > bound && s < 1.15 * bound);
}

/* In a queue of ten packets they are lost: they come again, answers stay exact. */
static void lost_packets_come_again(void **state)
{
	struct bps_sim_stats deep, shallow;
	double deep_s, shallow_s;

	(void)state;
	run_packets(1 << 20, 32768, &deep, &deep_s);
	run_packets(10 * 1514, 32768, &shallow, &shallow_s);
	assert_true(shallow.n_lost > 0 && shallow.n_resent > 0);
	assert_true(shallow.n_packets > deep.n_packets);
	assert_true(shallow_s > deep_s);
}

static void the_same_packets_each_time(void **state)
{
	struct bps_sim_stats one, two;
	double s;

	(void)state;
	run_packets(10 * 1514, 32768, &one, &s);
	run_packets(10 * 1514, 32768, &two, &s);
	assert_int_equal(one.hash, two.hash);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_and_eight_meet_the_bound),
		cmocka_unit_test(fewer_servers_meet_theirs),
		cmocka_unit_test(colocated_ones_meet_theirs),
		cmocka_unit_test(many_meet_it_too),
		cmocka_unit_test(packets_fill_the_link),
		cmocka_unit_test(lost_packets_come_again),
		cmocka_unit_test(the_same_packets_each_time),
	};

	bps_log_set_level(BPS_LOG_ERROR);
	if (argc == 6) {
		run(&(struct layout){
			(uint32_t)atoi(argv[1]),
			(uint32_t)atoi(argv[2]),
			(uint32_t)atoi(argv[3]),
			(uint32_t)atoi(argv[4]),
			(uint64_t)atoi(argv[5]) << 20,
		});
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
