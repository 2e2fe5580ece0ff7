/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One job on the simulator's TCP, and how long its calls take over the bound: to find
 * partitions and windows, docs/flow-control.md. Arguments are NAME=NUMBER:
 *
 *	n k             members, servers (0: colocated)
 *	part window     bytes of a partition at most; partitions unanswered a pair
 *	kib calls       of a call; how many of them (the last is timed)
 *	kbit queue      of each NIC; ms of queue before it on the way in
 *	out             ms of queue on the way out (0: no limit)
 *	delay jitter    us, one way; of a message's way up to its thread
 *	message kibns   ns of a thread for a message, and for each KiB of it
 *	reno segment    1: not cubic; packets of one fate, to save time
 *	cost            bytes that a message costs, for the plan; 0: partitions as given
 *	turns           connections of a thread that send at once
 *	burst           bytes that a NIC sends at once after idleness
 *	seed
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "tests/sim/job.h"

enum {
	N,
	K,
	PART,
	WINDOW,
	KIB,
	CALLS,
	KBIT,
	QUEUE,
	OUT,
	DELAY,
	JITTER,
	MESSAGE,
	KIBNS,
	RENO,
	SEGMENT,
	COST,
	TURNS,
	BURST,
	SEED,
	N_ARGS
};

static const char *const names[N_ARGS] = { "n",     "k",     "part",    "window",
	                                   "kib",   "calls", "kbit",    "queue",
	                                   "out",   "delay", "jitter",  "message",
	                                   "kibns", "reno",  "segment", "cost",
	                                   "turns", "burst", "seed" };
static uint64_t args[N_ARGS] = { 8,  8,    16384, 2, 16384, 3, 100000, 20, 0, 50,
	                         20, 5000, 100,   0, 1,     0, 2,      0,  1 };
/* What a stream gets of its link: the rest are the headers of its packets. */
#define GOODPUT (1448.0 / 1514)
#define CORE_NS 8 /* bytes a ns that a core sums */

static struct bps_sim *charged;

/* Sums are not made, but take their time. */
static void charge(void *dst, const void *const *src, unsigned n_src, size_t count)
{
	(void)dst;
	(void)src;
	bps_sim_charge(charged, (n_src + 1) * count * sizeof(float) / CORE_NS);
}

static bps_reduce_fn *charging_kernel(enum bps_dtype dtype, enum bps_redop redop)
{
	(void)dtype;
	(void)redop;
	return charge;
}

static void read_args(int argc, char **argv)
{
	int i, a;

	for (i = 1; i < argc; i++) {
		size_t name = strcspn(argv[i], "=");

		for (a = 0; a < N_ARGS; a++) {
			if (strlen(names[a]) == name && !strncmp(argv[i], names[a], name))
				break;
		}
		if (a == N_ARGS || argv[i][name] == '\0') {
			fprintf(stderr, "flow-sweep: what is %s?\n", argv[i]);
			exit(2);
		}
		args[a] = strtoull(argv[i] + name + 1, NULL, 10);
	}
}

static uint64_t queue_bytes(uint64_t ms)
{
	return args[KBIT] * ms / 8;
}

static double bound_s(void)
{
	double n = (double)args[N], k = (double)args[K];
	double units = k == 0 ? 2 * (n - 1) / n : k < n ? n / k : 1;

	return units * (double)args[KIB] * 1024 * 8 /
	       ((double)args[KBIT] * 1000 * GOODPUT);
}

/* Parts as large as args say, whatever the plan prefers for this size. */
static void cut_again(struct bps_sim_job *job, struct bps_sim_call *call)
{
	const struct bps_plan plan = {
		.n_servers = call->group->n_servers,
		.weights = call->group->weights,
		.max_bytes = (uint32_t)args[PART],
		.cost_bytes = args[COST] ? (uint32_t)args[COST] : 1u << 30,
	};
	uint32_t m;

	if (bps_cut_make(&plan, args[KIB] * 1024, call->number, call->slices,
	                 &call->cut) < 0)
		abort();
	for (m = 0; m < job->config.n_members; m++) {
		struct bps_sim_share *share = &call->shares[m];

		share->op.cut = call->cut;
		free(share->landed);
		share->landed = calloc(call->cut.n_parts, 1);
		if (!share->landed)
			abort();
	}
}

static struct bps_sim_job *make_job(struct bps_sim *sim, struct bps_sim_server **servers)
{
	const struct bps_sim_nic nic = {
		.bits_per_s = args[KBIT] * 1000,
		.queue_bytes = queue_bytes(args[QUEUE]),
		.burst_bytes = args[BURST],
		.out_queue_bytes = queue_bytes(args[OUT]),
	};
	const struct bps_sim_job_config config = {
		.n_members = (uint32_t)args[N],
		.n_servers = (uint32_t)args[K],
		.servers = args[K] ? servers : NULL,
		.nic = nic,
		.slot_bytes = (uint32_t)args[PART],
		.n_slots = (uint32_t)args[WINDOW],
		.max_ranks = 1,
		.n_groups = 1,
		.n_calls = (uint32_t)args[CALLS],
		.max_in_flight = 1,
		.op_bytes = args[KIB] * 1024,
		.gap_ns = 20000,
		.timeout_ns = 600 * BPS_NS_PER_S,
		.no_bytes = true,
		.kernel = charging_kernel,
	};
	const struct bps_server_config server = {
		.host = "h",
		.memory_bytes = UINT64_MAX,
		.n_reducers = 1,
		.max_slots = 64,
		.quiet = true,
		.kernel = charging_kernel,
	};
	struct bps_sim_job *job;
	uint32_t i;

	bps_sim_servers_new(sim, (uint32_t)args[K], &nic, &server, servers);
	job = bps_sim_job_new(sim, &config);
	for (i = 0; i < args[CALLS]; i++)
		cut_again(job, &job->groups[0].calls[i]);
	bps_sim_job_start(job);
	return job;
}

static double call_s(struct bps_sim_job *job, uint32_t call)
{
	uint64_t start_ns = UINT64_MAX, end_ns = 0;
	uint32_t m;

	for (m = 0; m < args[N]; m++) {
		const struct bps_sim_share *share = bps_sim_job_share(job, 0, call, m);

		if (share->start_ns < start_ns)
			start_ns = share->start_ns;
		if (share->end_ns > end_ns)
			end_ns = share->end_ns;
	}
	return (double)(end_ns - start_ns) * 1e-9;
}

static void report(struct bps_sim_job *job, double cpu_s)
{
	const struct bps_sim_stats *stats = bps_sim_stats(job->sim);
	uint32_t i;

	for (i = 0; i < N_ARGS; i++)
		printf("%s=%llu ", names[i], (unsigned long long)args[i]);
	printf("parts=%u ratio=%.4f first=%.4f s=%.4f resent%%=%.3f lost=%llu "
	       "timeouts=%llu refused=%llu packets=%llu events=%llu cpu=%.1f\n",
	       job->groups[0].calls[0].cut.n_parts,
	       call_s(job, (uint32_t)args[CALLS] - 1) / bound_s(),
	       call_s(job, 0) / bound_s(), call_s(job, (uint32_t)args[CALLS] - 1),
	       100.0 * (double)stats->n_resent / (double)stats->n_packets,
	       (unsigned long long)stats->n_lost, (unsigned long long)stats->n_timeouts,
	       (unsigned long long)stats->n_refused, (unsigned long long)stats->n_packets,
	       (unsigned long long)stats->n_events, cpu_s);
}

int main(int argc, char **argv)
{
	struct bps_sim_server **servers;
	struct bps_sim_config network;
	struct bps_sim_job *job;
	struct bps_sim *sim;
	uint32_t i;

	bps_log_set_level(BPS_LOG_ERROR);
	read_args(argc, argv);
	network = (struct bps_sim_config){
		.seed = args[SEED],
		.delay_ns = args[DELAY] * 1000,
		.jitter_ns = args[JITTER] * 1000,
		.no_bytes = true,
		.tcp = true,
		.reno = args[RENO] != 0,
		.segment_packets = (uint32_t)args[SEGMENT],
		.n_turns = (uint32_t)args[TURNS],
		.message_ns = args[MESSAGE],
		.kib_ns = args[KIBNS],
	};
	servers = calloc(args[K] + 1, sizeof(struct bps_sim_server *));
	if (!servers || args[N] < 2 || args[CALLS] < 1)
		return 2;
	charged = sim = bps_sim_new(&network);
	job = make_job(sim, servers);
	while (!bps_sim_job_done(job) && bps_sim_step(sim))
		;
	report(job, (double)clock() / CLOCKS_PER_SEC);
	bps_sim_free(sim);
	bps_sim_job_free(job);
	for (i = 0; i < args[K]; i++)
		bps_sim_server_free(servers[i]);
	free(servers);
	return bps_sim_failures() ? 1 : 0;
}
