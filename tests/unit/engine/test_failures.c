/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers and members that die, fall silent, stall or come late: every call ends, in
 * time, with its answer or with a reason that says what happened; who needs nothing of
 * the dead notices nothing.
 */
#include "tests/unit/engine/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define N_SEEDS    150
#define TIMEOUT_NS (10 * BPS_NS_PER_S)

static const struct bps_sim_config network = {
	.delay_ns = 100000,
	.jitter_ns = 100000,
	.rto_ns = 2000000,
	.split_percent = 20,
};

static const struct bps_sim_nic nic = { .bits_per_s = 1000000000 };

static const struct bps_sim_job_config usual = {
	.n_members = 4,
	.nic = { .bits_per_s = 1000000000 },
	.slot_bytes = 512,
	.n_slots = 2,
	.max_ranks = 3,
	.n_groups = 2,
	.n_calls = 8,
	.max_in_flight = 2,
	.max_op_bytes = 10000,
	.gap_ns = 300000,
	.timeout_ns = TIMEOUT_NS,
};

static void check_seed(uint64_t seed)
{
	if (bps_sim_failures() > 0)
		fail_msg("seed %llu failed", (unsigned long long)seed);
}

/* Every share of @job, one after the other; NULL at the end. */
static struct bps_sim_share *next_share(struct bps_sim_job *job, uint32_t *at)
{
	uint32_t n_calls = job->config.n_calls, i = (*at)++;
	uint32_t g;

	for (g = 0; g < job->config.n_groups; g++) {
		struct bps_sim_group *group = &job->groups[g];

		if (i < n_calls * group->n_members)
			return bps_sim_job_share(job, g, i / group->n_members,
			                         i % group->n_members);
		i -= n_calls * group->n_members;
	}
	return NULL;
}

/*
 * What failed says what happened, and did not take longer than @longest_ns after
 * @since_ns, or less than @least_ns.
 */
static void check_reasons(struct bps_sim_job *job, const char *name, const char *other,
                          uint64_t since_ns, uint64_t least_ns, uint64_t longest_ns)
{
	struct bps_sim_share *share;
	char number[32];
	uint32_t at = 0;

	while ((share = next_share(job, &at))) {
		uint64_t from_ns =
			share->start_ns > since_ns ? share->start_ns : since_ns;

		if (share->seat->member->crashed)
			continue;
		if (share->over && share->end_ns > from_ns + longest_ns)
			bps_sim_wrong("it took %.1f s",
			              (double)(share->end_ns - from_ns) * 1e-9);
		if (!share->over || share->reason.error == 0)
			continue;
		if (share->end_ns < since_ns + least_ns)
			bps_sim_wrong("it took %.1f s only",
			              (double)(share->end_ns - since_ns) * 1e-9);
		if ((!strstr(share->reason.text, name) &&
		     !strstr(share->reason.text, other)) ||
		    !strstr(share->reason.text, share->seat->of->name))
			bps_sim_wrong("a reason does not say who: %s",
			              share->reason.text);
		snprintf(number, sizeof(number), "number ");
		if (share->end_ns > share->start_ns &&
		    !strstr(share->reason.text, number))
			bps_sim_wrong("a reason has no number: %s", share->reason.text);
	}
}

static bool are_welcome(const struct bps_sim_job *job)
{
	uint32_t m, s;

	for (m = 0; m < job->config.n_members; m++) {
		for (s = 0; s < job->config.n_servers; s++) {
			const struct bps_client *client = job->members[m].client;

			if (!client || bps_client_status(client, s, NULL) != 0)
				return false;
		}
	}
	return true;
}

/* Nobody could tell of a member that no server ever saw; MPI_Init waits for it. */
static void let_all_join(struct bps_sim_world *world)
{
	while (!are_welcome(world->jobs[0]) && bps_sim_step(world->sim))
		;
}

static void step_at_random(struct bps_sim_world *world, uint32_t most)
{
	uint64_t n = bps_prng_below(bps_sim_prng(world->sim), most);

	while (n-- > 0 && bps_sim_step(world->sim))
		;
}

/*
 * A job on all servers loses the first of them, another one has only the others.
 * Return: whether it was not over by then.
 */
static bool lose_server(uint64_t seed, void (*kill)(struct bps_sim_node *),
                        uint64_t longest_ns)
{
	struct bps_sim_job_config config = usual;
	struct bps_sim_config net = network;
	struct bps_sim_world world;
	struct bps_sim_job *job;
	uint64_t since_ns;
	bool failed;

	net.seed = seed;
	bps_sim_world_open(&world, &net, 4, &nic, 0);
	config.may_fail = true;
	job = bps_sim_world_add(&world, &config);
	config.may_fail = false;
	config.servers = world.servers + 1;
	config.n_servers = world.n_servers - 1;
	bps_sim_world_add(&world, &config);
	step_at_random(&world, 12000);
	kill(world.servers[0]->node);
	since_ns = bps_sim_now(world.sim);
	bps_sim_world_run(&world, 10 * TIMEOUT_NS);
	check_reasons(job, "server0", "server0", since_ns, 0, longest_ns);
	failed = job->n_failed > 0;
	bps_sim_world_close(&world);
	check_seed(seed);
	return failed;
}

static void a_server_that_crashes_ends_calls_at_once(void **state)
{
	uint32_t n_failed = 0;
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= N_SEEDS; seed++)
		n_failed += lose_server(seed, bps_sim_crash, BPS_NS_PER_S);
	assert_true(n_failed > N_SEEDS / 4);
}

static void silence(struct bps_sim_node *node)
{
	bps_sim_silence(node, true);
}

static void a_server_that_falls_silent_ends_calls_in_time(void **state)
{
	uint32_t n_failed = 0;
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= N_SEEDS; seed++)
		n_failed += lose_server(seed, silence, TIMEOUT_NS + 3 * BPS_NS_PER_S);
	assert_true(n_failed > N_SEEDS / 4);
}

/* Not crashed, not dead for as long as the timeout: nothing may be noticed. */
static void a_pause_is_no_failure(void **state)
{
	struct bps_sim_world world;
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= N_SEEDS; seed++) {
		struct bps_sim_config net = network;
		struct bps_sim_node *node;

		net.seed = seed;
		net.keepalive_ns = 8 * BPS_NS_PER_S;
		bps_sim_world_open(&world, &net, 3, &nic, 0);
		bps_sim_world_add(&world, &usual);
		step_at_random(&world, 8000);
		node = seed % 2 ? world.servers[0]->node : world.jobs[0]->members[0].node;
		if (seed % 4 < 2) {
			bps_sim_stall(node, bps_sim_now(world.sim) + TIMEOUT_NS / 2);
		} else {
			bps_sim_silence(node, true);
			bps_sim_run(world.sim, bps_sim_now(world.sim) + TIMEOUT_NS / 2);
			bps_sim_silence(node, false);
		}
		bps_sim_world_run(&world, 10 * TIMEOUT_NS);
		bps_sim_world_close(&world);
		check_seed(seed);
	}
}

static void a_member_that_dies_is_named_after_a_grace(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= N_SEEDS; seed++) {
		struct bps_sim_job_config config = usual;
		struct bps_sim_config net = network;
		struct bps_sim_world world;
		struct bps_sim_job *job;
		uint64_t since_ns;
		char name[32], server[32];

		net.seed = seed;
		bps_sim_world_open(&world, &net, seed % 3 ? 3 : 0, &nic, 0);
		config.may_fail = true;
		job = bps_sim_world_add(&world, &config);
		config.may_fail = false;
		bps_sim_world_add(&world, &config);
		let_all_join(&world);
		step_at_random(&world, 8000);
		bps_sim_job_crash(job, 1);
		since_ns = bps_sim_now(world.sim);
		bps_sim_world_run(&world, 10 * TIMEOUT_NS);
		snprintf(name, sizeof(name), "rank %u", job->members[1].first_rank);
		/* Its server may have died with it. */
		snprintf(server, sizeof(server), "%s",
		         seed % 3 == 0 ? "colocated1" : name);
		if (bps_sim_failures() > 0)
			fail_msg("seed %llu failed", (unsigned long long)seed);
		/* Four seconds, as far as the ticks of a clock tell. */
		check_reasons(job, name, server, since_ns, 7 * BPS_NS_PER_S / 2,
		              8 * BPS_NS_PER_S);
		bps_sim_world_close(&world);
		check_seed(seed);
	}
}

/* A member that nothing is heard of is found out by the servers' transport. */
static void a_member_that_falls_silent_is_found_out(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= N_SEEDS; seed++) {
		struct bps_sim_job_config config = usual;
		struct bps_sim_config net = network;
		struct bps_sim_world world;
		struct bps_sim_job *job;

		net.seed = seed;
		net.keepalive_ns = 20 * BPS_NS_PER_S;
		bps_sim_world_open(&world, &net, 3, &nic, 0);
		config.may_fail = true;
		job = bps_sim_world_add(&world, &config);
		config.may_fail = false;
		bps_sim_world_add(&world, &config);
		let_all_join(&world);
		step_at_random(&world, 8000);
		bps_sim_silence(job->members[1].node, true);
		bps_sim_world_run(&world, 10 * TIMEOUT_NS);
		bps_sim_world_close(&world);
		check_seed(seed);
	}
}

/* What is logged goes to a file. */
static FILE *capture(int *ret_old_fd)
{
	FILE *file = tmpfile();

	assert_non_null(file);
	*ret_old_fd = bps_log_set_fd(fileno(file));
	return file;
}

static uint32_t count_lines(FILE *file, const char *text)
{
	char line[BPS_LOG_LINE_BYTES + 1];
	uint32_t n = 0;

	rewind(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, text) != NULL;
	return n;
}

static void a_late_member_is_named_once_a_timeout(void **state)
{
	struct bps_sim_job_config config = usual;
	struct bps_sim_world world;
	struct bps_sim_job *job;
	char text[128];
	FILE *log;
	int fd;

	(void)state;
	log = capture(&fd);
	bps_log_set_level(BPS_LOG_WARN);
	bps_sim_world_open(&world, &network, 3, &nic, 0);
	config.n_groups = 1;
	config.max_in_flight = 1;
	job = bps_sim_world_add(&world, &config);
	bps_sim_job_share(job, 0, 3, 2)->delay_ns = 600 * BPS_NS_PER_S;
	bps_sim_world_run(&world, 700 * BPS_NS_PER_S);
	bps_log_set_level(BPS_LOG_ERROR);
	bps_log_set_fd(fd);
	snprintf(text, sizeof(text), "number 3 of comm0 has waited 50 s for rank%s %u",
	         job->members[2].n_ranks > 1 ? "s" : "", job->members[2].first_rank);
	assert_in_range(count_lines(log, text), 1, 3);
	/* three members wait for ten minutes, and each says so every ten seconds */
	assert_in_range(count_lines(log, "number 3 of comm0 has waited"), 3 * 50, 3 * 60);
	assert_int_equal(count_lines(log, ""), count_lines(log, "number 3 of comm0"));
	fclose(log);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_that_crashes_ends_calls_at_once),
		cmocka_unit_test(a_server_that_falls_silent_ends_calls_in_time),
		cmocka_unit_test(a_pause_is_no_failure),
		cmocka_unit_test(a_member_that_dies_is_named_after_a_grace),
		cmocka_unit_test(a_member_that_falls_silent_is_found_out),
		cmocka_unit_test(a_late_member_is_named_once_a_timeout),
	};

	bps_log_set_level(BPS_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
