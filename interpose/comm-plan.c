/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm-plan.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "interpose/servers.h"
#include "transport/memory.h"

#define MIN_SLOTS 4u
#define MAX_SLOTS 512u
/*
 * A ring's slots, of each server and rail, and where they are few, of each connection:
 * what the windows hold, and what waits on both sides.
 */
#define ROOMY_SLOTS 12u
#define TIGHT_SLOTS 4u
/* A ring that is larger leaves the cache, and makes do with fewer slots. */
#define ROOMY_BYTES (2u << 20)
#define PAGE        4096u
/* Of a call of ours, beside the links: docs/performance.md, "What a byte costs". */
#define LATENCY_S       500e-6
#define CORE_S_PER_BYTE 1.5e-9

/* The servers that sum for it: the dedicated ones, and those of its own boxes. */
static int choose_servers(const struct bps_job *job, struct bps_comm *comm)
{
	uint32_t k = job->hosts.n_hosts, n = comm->members.n_members, i;
	bool carried = bps_servers_carried(job);

	comm->n_servers = k + (carried ? n : 0);
	comm->servers = calloc(k + n, sizeof(*comm->servers));
	comm->rates = calloc(n, sizeof(*comm->rates));
	comm->colocated = calloc(n, sizeof(*comm->colocated));
	if (!comm->servers || !comm->rates || !comm->colocated)
		return -ENOMEM;
	for (i = 0; i < k; i++)
		comm->servers[i] = i;
	for (i = 0; i < n; i++) {
		comm->servers[k + i] = k + comm->members.box[i];
		comm->rates[i] = job->rates.boxes[comm->members.box[i]];
		comm->colocated[i] = carried;
	}
	return 0;
}

uint32_t bps_comm_most_local(const struct bps_comm *comm)
{
	uint32_t most = 1, m;

	for (m = 0; m < comm->members.n_members; m++) {
		if (comm->members.n_local[m] > most)
			most = comm->members.n_local[m];
	}
	return most;
}

/* Fewer slots than servers would hang: each server may wait for another part. */
static uint32_t least_slots(const struct bps_comm *comm)
{
	return comm->n_servers > MIN_SLOTS ? comm->n_servers : MIN_SLOTS;
}

/* The largest partition that leaves room for three more communicators. */
static uint32_t largest_partition(const struct bps_job *job, const struct bps_comm *comm)
{
	uint64_t rings = 2 + bps_comm_most_local(comm);
	uint64_t room = job->config.staging_bytes / 4 / rings / least_slots(comm);
	uint32_t slot = bps_servers_slot_bytes(job);

	if (room > slot)
		return slot;
	return room > BPS_CUT_MIN_PARTITION ? (uint32_t)room / BPS_CUT_UNIT * BPS_CUT_UNIT
	                                    : BPS_CUT_MIN_PARTITION;
}

static int make_tune(const struct bps_job *job, struct bps_comm *comm)
{
	const struct bps_tune_config config = {
		.links = {
			.box_bytes_per_s = comm->rates,
			.server_bytes_per_s = job->rates.servers,
			.colocated = comm->colocated,
			.n_boxes = comm->members.n_members,
			.n_servers = job->hosts.n_hosts,
		},
		.n_servers = comm->n_servers,
		.largest_bytes = largest_partition(job, comm),
		.pinned = job->config.partition_bytes > 0,
		.window = job->config.window_bytes > 0 ? bps_servers_window(job) : 0,
		.n_connections = bps_servers_lanes(job),
		.n_rails = job->n_rails,
	};
	uint32_t n_words = bps_tune_n_words(comm->n_servers);

	comm->words = calloc(n_words, sizeof(*comm->words));
	comm->loads = calloc(comm->n_servers, sizeof(*comm->loads));
	if (!comm->words || !comm->loads)
		return -ENOMEM;
	return bps_tune_new(&config, &comm->tune);
}

static uint64_t ring_bytes(uint64_t slots, uint64_t part)
{
	return (slots * part + PAGE - 1) / PAGE * PAGE;
}

static void choose_shape(const struct bps_job *job, struct bps_comm *comm)
{
	uint32_t part = bps_tune_most(comm->tune), least = least_slots(comm);
	uint64_t slots = (uint64_t)comm->n_servers * job->n_rails * ROOMY_SLOTS, tight;
	struct bps_stage_shape fullest = { .n_ranks = bps_comm_most_local(comm) };

	if (slots * part > ROOMY_BYTES)
		slots = ROOMY_BYTES / part;
	tight = (uint64_t)comm->n_servers * bps_servers_lanes(job) * TIGHT_SLOTS;
	slots = slots > tight ? slots : tight;
	slots = slots > MAX_SLOTS ? MAX_SLOTS : slots;
	slots = slots > least ? slots : least;
	do {
		fullest.max_slots = (uint32_t)slots;
		fullest.ring_bytes = ring_bytes(slots, part);
		slots /= 2;
	} while (slots >= least &&
	         bps_stage_bytes(&fullest) > job->config.staging_bytes / 4);
	comm->shape = fullest;
	comm->shape.n_ranks = comm->members.n_local[comm->member];
}

int bps_comm_plan(const struct bps_job *job, struct bps_comm *comm)
{
	int error;

	comm->shape.n_ranks = comm->members.n_local[comm->member];
	if (comm->members.n_members == 1) {
		bps_inbox_plan(comm->shape.n_ranks, job->config.staging_bytes / 4,
		               &comm->inbox_shape);
		return 0;
	}
	error = choose_servers(job, comm);
	if (error == 0)
		error = make_tune(job, comm);
	if (error == 0)
		choose_shape(job, comm);
	return error;
}

int bps_comm_divide(const struct bps_comm *comm, const struct bps_stage_call *call,
                    const struct bps_stage_wait *wait)
{
	return bps_stage_divide(comm->stage, bps_tune_partition(comm->tune),
	                        comm->shape.max_slots, call, wait);
}

/* Boxes must send this much together, whatever the algorithm, and each its own result. */
static double least_s_per_byte(const struct bps_comm *comm)
{
	uint32_t n = comm->members.n_members, i;
	double sum = 0, slowest = comm->rates[0], together;

	for (i = 0; i < n; i++) {
		sum += comm->rates[i];
		slowest = comm->rates[i] < slowest ? comm->rates[i] : slowest;
	}
	together = 2.0 * (n - 1) / sum;
	return together > 1 / slowest ? together : 1 / slowest;
}

void bps_comm_predict(const struct bps_job *job, const struct bps_comm *comm)
{
	struct bps_cost_model model;

	if (!comm->tune || !comm->cost || job->config.bandwidth[0] == '\0')
		return;
	model = (struct bps_cost_model){
		.own_latency_s = LATENCY_S,
		.own_s_per_byte = bps_tune_s_per_byte(comm->tune) + CORE_S_PER_BYTE,
		.native_s_per_byte_least = least_s_per_byte(comm),
	};
	bps_cost_predict(comm->cost, BPS_ALLREDUCE, &model);
}

void bps_comm_plan_free(struct bps_comm *comm)
{
	bps_tune_free(comm->tune);
	free(comm->servers);
	free(comm->rates);
	free(comm->colocated);
	free(comm->words);
	free(comm->loads);
	comm->tune = NULL;
	comm->servers = NULL;
	comm->rates = NULL;
	comm->colocated = NULL;
	comm->words = NULL;
	comm->loads = NULL;
}

/* -- exchanges -- */

uint64_t bps_comm_report(const struct bps_comm *comm)
{
	if (comm->engine)
		bps_engine_load(comm->engine, comm->servers, comm->n_servers,
		                comm->loads);
	bps_tune_report(comm->tune, comm->engine ? comm->loads : NULL, comm->words);
	return bps_tune_n_words(comm->n_servers) * sizeof(*comm->words);
}

int bps_comm_agree(const struct bps_comm *comm, const struct bps_stage_call *call,
                   const struct bps_stage_wait *wait)
{
	uint32_t part = bps_tune_partition(comm->tune);
	bool changed = bps_tune_agree(comm->tune, comm->words);

	if (comm->rank == 0 && (changed || part != bps_tune_partition(comm->tune)))
		bps_debug("%s: partitions of %u bytes%s", comm->name,
		          bps_tune_partition(comm->tune),
		          changed ? ", other shares" : "");
	return bps_comm_divide(comm, call, wait);
}
