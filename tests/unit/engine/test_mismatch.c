/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members that do not make the same call: an error on all of them that says who and what;
 * other communicators of the same members go on, on the same servers.
 */
#include "tests/unit/engine/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "tests/sim/cut.h"

#define CALL    3u
#define ODD     2u
#define N_SEEDS 40

static const struct bps_sim_job_config usual = {
	.n_members = 5,
	.slot_bytes = 512,
	.n_slots = 1,
	.max_ranks = 2,
	.n_groups = 3,
	.n_calls = 6,
	.max_in_flight = 2,
	.op_bytes = 6000,
	.gap_ns = 300000,
	.timeout_ns = 60 * BPS_NS_PER_S,
	.may_fail = true,
};

/* Into as many slices as before, which are not looked at when an op is started. */
static void cut_again(struct bps_op *op, uint64_t bytes)
{
	static struct bps_slice slices[BPS_TEST_MAX_SERVERS];

	assert_int_equal(bps_test_cut(bytes, 512, op->cut.n_slices, slices, &op->cut), 0);
}

static void other_count(struct bps_op *op)
{
	cut_again(op, 2000);
}

static void other_count_same_parts(struct bps_op *op)
{
	cut_again(op, op->cut.op_bytes - 4);
}

static void other_type(struct bps_op *op)
{
	op->dtype = BPS_I32;
}

static void other_redop(struct bps_op *op)
{
	op->redop = BPS_MAX;
}

static void other_coll(struct bps_op *op)
{
	op->coll = BPS_BCAST;
}

static void other_root(struct bps_op *op)
{
	op->root = 4;
}

/* What the odd member's call is, and two words that tell it from the others'. */
static const struct twist {
	void (*make)(struct bps_op *op);
	const char *usual, *odd;
	bool bcast;
} twists[] = {
	{ other_count, "6000 bytes", "2000 bytes", false },
	{ other_count_same_parts, "6000 bytes", "5996 bytes", false },
	{ other_count, "6000 bytes", "2000 bytes", true },
	{ other_type, "float32", "int32", false },
	{ other_redop, "SUM", "MAX", false },
	{ other_coll, "MPI_Allreduce", "MPI_Bcast", false },
	{ other_root, "member 1", "member 4", true },
};

static void twist_call(struct bps_sim_job *job, const struct twist *twist)
{
	uint32_t m;

	for (m = 0; m < job->config.n_members; m++) {
		struct bps_op *op = &bps_sim_job_share(job, 0, CALL, m)->op;

		if (twist->bcast) {
			op->coll = BPS_BCAST;
			op->root = 1;
		}
		if (m == ODD)
			twist->make(op);
	}
	if (twist->bcast)
		memcpy(job->groups[0].calls[CALL].expected,
		       bps_sim_job_share(job, 0, CALL, 1)->input, job->config.op_bytes);
}

/* On every member: this call failed, those before it did not. */
static void check_twisted(struct bps_sim_job *job, const struct twist *twist)
{
	char odd[32];
	uint32_t m, c;

	snprintf(odd, sizeof(odd), "rank %u:", job->members[ODD].first_rank);
	for (m = 0; m < job->config.n_members; m++) {
		const struct bps_reason *reason =
			&bps_sim_job_share(job, 0, CALL, m)->reason;

		if (reason->error == 0 || !strstr(reason->text, odd) ||
		    !strstr(reason->text, twist->usual) ||
		    !strstr(reason->text, twist->odd) ||
		    !strstr(reason->text, "number 3") || !strstr(reason->text, "comm0"))
			bps_sim_wrong("member %u was told: %s", m, reason->text);
		for (c = CALL + 1; c < job->config.n_calls; c++) {
			if (bps_sim_job_share(job, 0, c, m)->reason.error == 0)
				bps_sim_wrong("a call after the failed one did not fail");
		}
	}
}

/* Nothing failed in the other groups, though the failed one left pushes unanswered. */
static void check_others(struct bps_sim_job *job)
{
	uint32_t g, c, m;

	for (g = 1; g < job->config.n_groups; g++) {
		for (c = 0; c < job->config.n_calls; c++) {
			for (m = 0; m < job->groups[g].n_members; m++) {
				const struct bps_sim_share *share =
					bps_sim_job_share(job, g, c, m);

				if (share->reason.error != 0)
					bps_sim_wrong("%s failed too: %s",
					              job->groups[g].name,
					              share->reason.text);
			}
		}
	}
}

static void run_twist(const struct twist *twist, uint64_t seed)
{
	const struct bps_sim_nic nic = { 0 };
	struct bps_sim_config net = {
		.seed = seed,
		.delay_ns = 100000,
		.jitter_ns = 200000,
		.rto_ns = 1000000,
	};
	struct bps_sim_world world;
	struct bps_sim_job *job;

	bps_sim_world_open(&world, &net, seed % 4, &nic, 0);
	job = bps_sim_world_add(&world, &usual);
	twist_call(job, twist);
	bps_sim_world_run(&world, 50 * BPS_NS_PER_S); /* less than the timeout */
	check_twisted(job, twist);
	check_others(job);
	bps_sim_world_close(&world);
	if (bps_sim_failures() > 0)
		fail_msg("seed %llu, %s instead of %s", (unsigned long long)seed,
		         twist->odd, twist->usual);
}

static void all_members_are_told(void **state)
{
	uint64_t seed;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(twists) / sizeof(twists[0]); i++) {
		for (seed = 1; seed <= N_SEEDS; seed++)
			run_twist(&twists[i], seed);
	}
}

/* A broadcast's type is the caller's own business. */
static void types_of_a_broadcast_may_differ(void **state)
{
	struct bps_sim_job_config config = usual;
	struct bps_sim_config net = { .seed = 1, .delay_ns = 1000 };
	const struct bps_sim_nic nic = { 0 };
	struct bps_sim_world world;
	struct bps_sim_job *job;
	uint32_t m;

	(void)state;
	config.may_fail = false;
	bps_sim_world_open(&world, &net, 2, &nic, 0);
	job = bps_sim_world_add(&world, &config);
	twist_call(job, &(struct twist){ other_type, "", "", true });
	for (m = 0; m < config.n_members; m++)
		bps_sim_job_share(job, 0, CALL, m)->op.redop = m % 2 ? BPS_SUM : BPS_MAX;
	bps_sim_world_run(&world, 50 * BPS_NS_PER_S);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_members_are_told),
		cmocka_unit_test(types_of_a_broadcast_may_differ),
	};

	bps_log_set_level(BPS_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
