/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server's jobs and memory: what is granted, what is refused, what is left.
 */
#include "tests/unit/engine/raw.h"
#include "tests/unit/engine/unit.h"

#include <string.h>

#include "base/log.h"

static const struct bps_sim_config network = { .seed = 3, .delay_ns = 10000 };
static const struct bps_sim_nic no_nic = { 0 };

static void join(struct raw *raw, struct bps_sim_world *world, uint32_t rank)
{
	raw_dial(raw, world->sim, world->servers[0]);
	raw->rank = rank;
	raw->n_ranks = 100;
	raw_hello(raw, BPS_WIRE_HELLO);
	raw_settle(world->sim);
}

static uint64_t used_bytes(const struct bps_sim_world *world)
{
	struct bps_server_memory memory;

	bps_server_memory(world->servers[0]->server, &memory);
	return memory.used_bytes;
}

/* A window and as much for sums, and the little that is kept of each push. */
static uint64_t bytes_of_one(void)
{
	const uint64_t slots = 2 + BPS_SPARE_SLOTS;
	struct bps_sim_world world;
	struct raw raw;
	uint64_t one;

	bps_sim_world_open(&world, &network, 1, &no_nic, 0);
	join(&raw, &world, 0);
	one = used_bytes(&world);
	raw_close(&raw);
	bps_sim_world_close(&world);
	assert_in_range(one, slots * 2 * 1024, slots * (2 * 1024 + 2000));
	return one;
}

static void memory_is_bounded_and_comes_back(void **state)
{
	uint64_t one = bytes_of_one();
	struct bps_sim_world world;
	struct raw raws[4];
	uint32_t i;

	(void)state;
	bps_sim_world_open(&world, &network, 1, &no_nic, 4 * one - 1);
	for (i = 0; i < 4; i++)
		join(&raws[i], &world, i);
	assert_int_equal(used_bytes(&world), 3 * one);
	assert_int_equal(raws[3].n_by_type[BPS_WIRE_REFUSE], 1);
	assert_null(raws[3].conn); /* the refused are not kept */
	assert_non_null(strstr((const char *)raws[3].payload, "is reached"));
	assert_non_null(strstr((const char *)raws[3].payload, "--memory"));
	raw_close(&raws[3]);
	raw_close(&raws[1]);
	raw_settle(world.sim);
	assert_int_equal(used_bytes(&world), 2 * one);
	join(&raws[3], &world, 3);
	assert_int_equal(raws[3].n_by_type[BPS_WIRE_WELCOME], 1);
	for (i = 0; i < 4; i++)
		raw_close(&raws[i]);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

static void a_rank_joins_once_until_it_left(void **state)
{
	struct bps_sim_world world;
	struct raw first, second;

	(void)state;
	bps_sim_world_open(&world, &network, 1, &no_nic, 0);
	join(&first, &world, 5);
	join(&second, &world, 5);
	assert_int_equal(second.n_by_type[BPS_WIRE_REFUSE], 1);
	assert_non_null(strstr((const char *)second.payload, "rank 5"));
	raw_close(&second);
	raw_close(&first);
	raw_settle(world.sim);
	join(&second, &world, 5);
	assert_int_equal(second.n_by_type[BPS_WIRE_WELCOME], 1);
	raw_close(&second);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

/* Who leaves without a goodbye is reported lost to the others of its job, and to no one
 * else. */
static void the_lost_are_reported(void **state)
{
	struct bps_sim_world world;
	struct raw stays, polite, lost, stranger;

	(void)state;
	bps_sim_world_open(&world, &network, 1, &no_nic, 0);
	join(&stays, &world, 1);
	join(&polite, &world, 2);
	join(&lost, &world, 3);
	raw_dial(&stranger, world.sim, world.servers[0]);
	memset(stranger.job, 1, sizeof(stranger.job));
	raw_hello(&stranger, BPS_WIRE_HELLO);
	raw_send(&polite, &(struct bps_wire_hdr){ .type = BPS_WIRE_BYE }, NULL, 0);
	raw_close(&polite);
	raw_settle(world.sim);
	assert_int_equal(stays.n_by_type[BPS_WIRE_LOST], 0);
	assert_int_equal(bps_server_n_jobs(world.servers[0]->server), 2);
	raw_close(&lost);
	raw_settle(world.sim);
	assert_int_equal(stays.n_by_type[BPS_WIRE_LOST], 1);
	assert_int_equal(stays.hdr.peer, 3);
	assert_string_equal((const char *)stays.payload, "evil");
	assert_int_equal(stranger.n_by_type[BPS_WIRE_LOST], 0);
	raw_close(&stays);
	raw_close(&stranger);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

/*
 * A second connection that breaks before it was used is no loss, only the first one is;
 * one that was used is.
 */
static void a_rail_that_fails_is_no_loss(void **state)
{
	static const uint8_t zeros[64];
	struct bps_sim_world world;
	struct raw stays, first, second;
	struct bps_wire_hdr push;

	(void)state;
	for (int used = 0; used < 2; used++) {
		bps_sim_world_open(&world, &network, 1, &no_nic, 0);
		join(&stays, &world, 1);
		join(&first, &world, 3);
		raw_dial(&second, world.sim, world.servers[0]);
		second.rank = 3;
		second.connection = 1;
		second.n_ranks = 100;
		raw_hello(&second, BPS_WIRE_HELLO);
		raw_settle(world.sim);
		assert_int_equal(second.n_by_type[BPS_WIRE_WELCOME], 1);
		push = raw_push(&second, 0, 0);
		if (used)
			raw_send(&second, &push, zeros, sizeof(zeros));
		raw_settle(world.sim);
		raw_close(&second);
		raw_settle(world.sim);
		assert_int_equal(stays.n_by_type[BPS_WIRE_LOST], used);
		raw_close(&first);
		raw_settle(world.sim);
		assert_int_equal(stays.n_by_type[BPS_WIRE_LOST], used + 1);
		raw_close(&stays);
		bps_sim_world_close(&world);
		assert_int_equal(bps_sim_failures(), 0);
	}
}

/* What a member pushed counts, though it is gone by the time the others come. */
static void the_last_push_of_the_dead_counts(void **state)
{
	const float one[4] = { 1, 2, 3, 4 }, two[4] = { 10, 20, 30, 40 };
	const float sum[4] = { 11, 22, 33, 44 };
	struct bps_sim_world world;
	struct raw dead, late;
	struct bps_wire_hdr push;

	(void)state;
	bps_sim_world_open(&world, &network, 1, &no_nic, 0);
	join(&dead, &world, 0);
	join(&late, &world, 1);
	push = raw_push(&dead, 0, 0);
	raw_send(&dead, &push, one, sizeof(one));
	raw_close(&dead);
	raw_settle(world.sim);
	push = raw_push(&late, 0, 0);
	raw_send(&late, &push, two, sizeof(two));
	raw_settle(world.sim);
	assert_int_equal(late.hdr.type, BPS_WIRE_ANSWER);
	assert_memory_equal(late.payload, sum, sizeof(sum));
	raw_close(&late);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

/* The same job again and again, its last members still leaving when its first come. */
static void a_job_comes_again(void **state)
{
	struct bps_sim_job_config config = {
		.n_members = 3,
		.slot_bytes = 512,
		.n_slots = 2,
		.max_ranks = 1,
		.n_groups = 2,
		.n_calls = 4,
		.max_in_flight = 2,
		.max_op_bytes = 5000,
		.gap_ns = 100000,
		.timeout_ns = 60 * BPS_NS_PER_S,
	};
	struct bps_sim_world world;
	struct bps_sim_job *job;
	uint32_t i;

	(void)state;
	bps_sim_world_open(&world, &network, 2, &no_nic, 0);
	for (i = 0; i < 3; i++) {
		job = bps_sim_world_add(&world, &config);
		memset(job->id, 9, sizeof(job->id));
		bps_sim_world_run(&world, BPS_NS_PER_S);
		raw_settle(world.sim);
		assert_int_equal(used_bytes(&world), 0);
	}
	assert_int_equal(bps_server_counters(world.servers[0]->server)->n_jobs, 3);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

/* Jobs side by side that number their groups alike. */
static void jobs_do_not_mix(void **state)
{
	struct bps_sim_job_config config = {
		.n_members = 4,
		.slot_bytes = 512,
		.n_slots = 2,
		.max_ranks = 2,
		.n_groups = 3,
		.n_calls = 10,
		.max_in_flight = 3,
		.max_op_bytes = 8000,
		.gap_ns = 100000,
		.timeout_ns = 60 * BPS_NS_PER_S,
	};
	struct bps_sim_world world;
	uint32_t i;

	(void)state;
	bps_sim_world_open(&world, &network, 3, &no_nic, 0);
	for (i = 0; i < 4; i++) {
		config.n_members = 2 + i;
		bps_sim_world_add(&world, &config);
	}
	bps_sim_world_run(&world, 10 * BPS_NS_PER_S);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

/* The end of a server that its members do not know of yet. */
static void a_server_closes_its_peers(void **state)
{
	struct bps_sim_world world;
	struct raw raws[2], silent;
	struct bps_wire_hdr push;

	(void)state;
	bps_sim_world_open(&world, &network, 1, &no_nic, 0);
	join(&raws[0], &world, 0);
	join(&raws[1], &world, 1);
	raw_dial(&silent, world.sim, world.servers[0]); /* says no HELLO */
	push = raw_push(&raws[0], 0, 0);
	raw_send(&raws[0], &push, "0123456789abcdef", 16);
	raw_settle(world.sim);
	bps_server_close_peers(world.servers[0]->server, NULL);
	raw_settle(world.sim);
	assert_null(raws[0].conn);
	assert_null(silent.conn);
	assert_int_equal(raws[1].error, 0);
	assert_int_equal(raws[1].n_by_type[BPS_WIRE_LOST], 0);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_bounded_and_comes_back),
		cmocka_unit_test(a_rank_joins_once_until_it_left),
		cmocka_unit_test(the_lost_are_reported),
		cmocka_unit_test(a_rail_that_fails_is_no_loss),
		cmocka_unit_test(the_last_push_of_the_dead_counts),
		cmocka_unit_test(a_job_comes_again),
		cmocka_unit_test(jobs_do_not_mix),
		cmocka_unit_test(a_server_closes_its_peers),
	};

	bps_log_set_level(BPS_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
