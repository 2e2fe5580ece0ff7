/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/expect.h"

/* Of bandwidth, in the time that a message takes of a core. */
#define COST_BYTES 64u

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static uint64_t below(struct bps_sim_job *job, uint64_t n)
{
	return bps_prng_below(&job->prng, n);
}

/* -- servers -- */

struct bps_sim_server *bps_sim_server_new(struct bps_sim *sim, struct bps_sim_node *node,
                                          const char *name,
                                          const struct bps_server_config *config)
{
	struct bps_sim_server *server = must(calloc(1, sizeof(*server)));

	server->sim = sim;
	server->node = node;
	snprintf(server->name, sizeof(server->name), "%s", name);
	if (bps_server_new(config, NULL, server, &server->server) < 0)
		abort();
	return server;
}

void bps_sim_server_free(struct bps_sim_server *server)
{
	if (!server)
		return;
	bps_server_free(server->server);
	free(server);
}

void bps_sim_servers_new(struct bps_sim *sim, uint32_t n, const struct bps_sim_nic *nic,
                         const struct bps_server_config *config,
                         struct bps_sim_server **ret_servers)
{
	char name[32];
	uint32_t i;

	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "server%u", i);
		ret_servers[i] =
			bps_sim_server_new(sim, bps_sim_node(sim, nic), name, config);
	}
}

void bps_sim_server_accept(void *owner, struct bps_conn *conn)
{
	struct bps_sim_server *server = owner;

	bps_server_accept(server->server, NULL, conn);
}

void bps_sim_server_empty(struct bps_sim_server *server)
{
	struct bps_server_memory memory;

	bps_server_memory(server->server, &memory);
	if (memory.used_bytes > 0 || bps_server_n_jobs(server->server) > 0 ||
	    bps_server_n_keys(server->server) > 0 ||
	    bps_server_n_peers(server->server) > 0)
		bps_sim_wrong("%s has %llu bytes, %u jobs, %u keys, %u peers left",
		              server->name, (unsigned long long)memory.used_bytes,
		              bps_server_n_jobs(server->server),
		              bps_server_n_keys(server->server),
		              bps_server_n_peers(server->server));
}

/* -- making a job -- */

static void describe(const struct bps_group *group, uint16_t member, char *buf,
                     size_t bytes)
{
	const struct bps_sim_seat *seat = group->owner;
	const struct bps_sim_member *other =
		&seat->of->job->members[seat->of->members[member]];

	snprintf(buf, bytes, "rank %u", other->first_rank);
	if (other->n_ranks > 1)
		snprintf(buf, bytes, "ranks %u-%u", other->first_rank,
		         other->first_rank + other->n_ranks - 1);
}

/* Some of @n, in order; at least one. */
static uint32_t *some_of(struct bps_sim_job *job, uint32_t n, bool all, uint32_t *ret_n)
{
	uint32_t *chosen = must(calloc(n, sizeof(*chosen)));
	uint32_t i;

	*ret_n = 0;
	for (i = 0; i < n; i++) {
		if (all || below(job, 2) == 0)
			chosen[(*ret_n)++] = i;
	}
	if (*ret_n == 0)
		chosen[(*ret_n)++] = (uint32_t)below(job, n);
	return chosen;
}

static void make_seats(struct bps_sim_group *group, uint32_t number)
{
	struct bps_sim_job *job = group->job;
	uint32_t m;

	group->seats = must(calloc(group->n_members, sizeof(*group->seats)));
	group->leaders = must(calloc(group->n_members, sizeof(*group->leaders)));
	for (m = 0; m < group->n_members; m++) {
		struct bps_sim_seat *seat = &group->seats[m];

		seat->of = group;
		seat->member = &job->members[group->members[m]];
		group->leaders[m] = seat->member->first_rank;
		seat->group = (struct bps_group){
			.id = number + 1,
			.member = (uint16_t)m,
			.n_members = (uint16_t)group->n_members,
			.n_servers = group->n_servers,
			.servers = group->servers,
			.name = group->name,
			.describe = describe,
			.leaders = group->leaders,
			.owner = seat,
		};
	}
}

static void fill_share(struct bps_sim_job *job, struct bps_sim_share *share)
{
	uint64_t bytes = share->op.cut.op_bytes;
	uint8_t *rank = must(malloc(bytes));
	uint32_t r;

	share->input = must(malloc(bytes));
	share->output = must(malloc(bytes));
	memset(share->output, 0xa5, bytes);
	bps_expect_fill(&job->prng, share->op.dtype, share->input, bytes);
	for (r = 1; r < share->seat->member->n_ranks && share->op.coll == BPS_ALLREDUCE;
	     r++) {
		bps_expect_fill(&job->prng, share->op.dtype, rank, bytes);
		bps_expect_add(share->op.dtype, share->op.redop, share->input, rank,
		               bytes);
	}
	free(rank);
}

static void expect(struct bps_sim_call *call)
{
	const struct bps_op *op = &call->shares[0].op;
	uint64_t bytes = op->cut.op_bytes;
	uint32_t m, first = op->coll == BPS_BCAST ? op->root : 0;

	call->expected = must(malloc(bytes));
	memcpy(call->expected, call->shares[first].input, bytes);
	for (m = 1; m < call->group->n_members && op->coll == BPS_ALLREDUCE; m++)
		bps_expect_add(op->dtype, op->redop, call->expected,
		               call->shares[m].input, bytes);
	if (op->coll == BPS_ALLREDUCE)
		bps_expect_total(op->dtype, call->expected, bytes);
}

static void pick_kind(struct bps_sim_group *group, struct bps_op *op)
{
	struct bps_sim_job *job = group->job;

	op->coll = below(job, 3) == 0 ? BPS_BCAST : BPS_ALLREDUCE;
	bps_expect_pick(&job->prng, &op->dtype, &op->redop);
	if (op->coll == BPS_BCAST) {
		op->root = (uint16_t)below(job, group->n_members);
		op->dtype = BPS_BYTE;
	}
	op->priority = (uint8_t)below(job, 3);
}

/* Any number of whole elements; a quarter of the ops are tiny. */
static uint64_t pick_bytes(struct bps_sim_job *job, const struct bps_op *op)
{
	uint32_t element = op->coll == BPS_BCAST ? 1 : bps_dtype_bytes(op->dtype);
	uint64_t bytes = 1 + below(job, below(job, 4) ? job->config.max_op_bytes : 256);

	return (bytes + element - 1) / element * element;
}

static void pick_op(struct bps_sim_call *call, struct bps_op *op)
{
	struct bps_sim_group *group = call->group;
	const struct bps_sim_job_config *config = &group->job->config;
	struct bps_plan plan = {
		.n_servers = group->n_servers,
		.weights = group->weights,
		.max_bytes = config->slot_bytes,
		.cost_bytes = UINT32_MAX, /* parts as large as they may be */
	};
	uint64_t bytes = config->op_bytes;

	op->coll = BPS_ALLREDUCE;
	op->dtype = BPS_F32;
	op->redop = BPS_SUM;
	if (bytes == 0) {
		pick_kind(group, op);
		bytes = pick_bytes(group->job, op);
	} else {
		plan.cost_bytes = COST_BYTES;
	}
	if (bps_cut_make(&plan, bytes, call->number, call->slices, &op->cut) < 0)
		abort();
}

static void make_call(struct bps_sim_group *group, uint32_t number)
{
	struct bps_sim_call *call = &group->calls[number];
	struct bps_sim_job *job = group->job;
	struct bps_op op = { .events = &bps_sim_op_events };
	uint32_t m;

	call->group = group;
	call->number = number;
	call->shares = must(calloc(group->n_members, sizeof(*call->shares)));
	call->slices = must(calloc(group->n_servers, sizeof(*call->slices)));
	pick_op(call, &op);
	call->cut = op.cut;
	for (m = 0; m < group->n_members; m++) {
		struct bps_sim_share *share = &call->shares[m];

		share->op = op;
		share->op.owner = share;
		share->call = call;
		share->seat = &group->seats[m];
		share->landed = must(calloc(op.cut.n_parts, 1));
		if (!job->config.no_bytes)
			fill_share(job, share);
	}
	if (!job->config.no_bytes)
		expect(call);
}

/* Equal where time is measured; else some servers have little, or nothing, to sum. */
static void pick_weights(struct bps_sim_group *group)
{
	struct bps_sim_job *job = group->job;
	uint32_t left = BPS_SHARE_ONE, s;

	bps_plan_equal(group->n_servers, group->weights);
	if (job->config.op_bytes != 0 || below(job, 2) == 0)
		return;
	for (s = 0; s < group->n_servers; s++) {
		uint32_t most = s + 1 < group->n_servers ? left / 2 : left;

		group->weights[s] = below(job, 3) ? (uint32_t)below(job, most + 1) : 0;
		if (s + 1 == group->n_servers)
			group->weights[s] = left;
		left -= group->weights[s];
	}
}

static void make_group(struct bps_sim_job *job, uint32_t number)
{
	struct bps_sim_group *group = &job->groups[number];
	bool colocated = job->config.servers == NULL;
	uint32_t i;

	group->job = job;
	snprintf(group->name, sizeof(group->name), "comm%u", number);
	group->members =
		some_of(job, job->config.n_members, number == 0, &group->n_members);
	if (colocated) {
		group->servers = must(calloc(group->n_members, sizeof(*group->servers)));
		group->n_servers = group->n_members;
		memcpy(group->servers, group->members,
		       group->n_members * sizeof(*group->servers));
	} else {
		group->servers = some_of(job, job->config.n_servers, number % 2 == 0,
		                         &group->n_servers);
	}
	make_seats(group, number);
	group->weights = must(calloc(group->n_servers, sizeof(*group->weights)));
	pick_weights(group);
	group->calls = must(calloc(job->config.n_calls, sizeof(*group->calls)));
	for (i = 0; i < job->config.n_calls; i++)
		make_call(group, i);
}

static void make_servers(struct bps_sim_job *job)
{
	const struct bps_server_config config = {
		.host = "h",
		.memory_bytes = UINT64_MAX,
		.n_reducers = 1,
		.max_slots = job->config.n_slots,
		.quiet = true,
		.kernel = job->config.kernel,
	};
	char name[32];
	uint32_t i;

	job->servers =
		must(calloc(job->config.n_servers, sizeof(struct bps_sim_server *)));
	for (i = 0; i < job->config.n_servers; i++) {
		snprintf(name, sizeof(name), "colocated%u", i);
		job->servers[i] =
			job->config.servers
				? job->config.servers[i]
				: bps_sim_server_new(job->sim, job->members[i].node, name,
		                                     &config);
	}
}

struct bps_sim_job *bps_sim_job_new(struct bps_sim *sim,
                                    const struct bps_sim_job_config *config)
{
	struct bps_sim_job *job = must(calloc(1, sizeof(*job)));
	uint32_t i;

	job->sim = sim;
	job->config = *config;
	if (!config->servers)
		job->config.n_servers = config->n_members;
	bps_prng_init(&job->prng, bps_prng_u64(bps_sim_prng(sim)));
	bps_prng_fill(&job->prng, job->id, sizeof(job->id));
	job->members = must(calloc(config->n_members, sizeof(*job->members)));
	for (i = 0; i < config->n_members; i++) {
		struct bps_sim_member *member = &job->members[i];

		member->job = job;
		member->number = i;
		member->node = bps_sim_node(sim, &config->nic);
		member->first_rank = job->n_ranks;
		member->n_ranks = 1 + (uint32_t)below(job, config->max_ranks);
		job->n_ranks += member->n_ranks;
	}
	make_servers(job);
	job->groups = must(calloc(config->n_groups, sizeof(*job->groups)));
	for (i = 0; i < config->n_groups; i++)
		make_group(job, i);
	return job;
}

/* -- the end -- */

static void free_group(struct bps_sim_group *group)
{
	uint32_t i, m;

	for (i = 0; i < group->job->config.n_calls; i++) {
		struct bps_sim_call *call = &group->calls[i];

		for (m = 0; m < group->n_members; m++) {
			free(call->shares[m].input);
			free(call->shares[m].output);
			free(call->shares[m].landed);
		}
		free(call->shares);
		free(call->expected);
		free(call->slices);
	}
	free(group->calls);
	free(group->seats);
	free(group->leaders);
	free(group->members);
	free(group->servers);
	free(group->weights);
}

void bps_sim_job_free(struct bps_sim_job *job)
{
	uint32_t i;

	if (!job)
		return;
	for (i = 0; i < job->config.n_members; i++) {
		if (job->members[i].client)
			bps_client_close(job->members[i].client);
		bps_client_free(job->members[i].client);
	}
	for (i = 0; i < job->config.n_servers && !job->config.servers; i++)
		bps_sim_server_free(job->servers[i]);
	for (i = 0; i < job->config.n_groups; i++)
		free_group(&job->groups[i]);
	free(job->servers);
	free(job->members);
	free(job->groups);
	free(job);
}
