/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine-impl.h"
#include "transport/memory.h"

#define FIRST_BYTES  (64u << 10)
#define MOST_BYTES   (64u << 20)
#define LEAST_PART   (16u << 10)
#define MOST_PART    (256u << 10)
#define N_PARTS      16u
#define MANY_WINDOW  3u
#define LEAST_GROWTH 2u
#define MOST_GROWTH  16u
/* Groups of MPI communicators have smaller numbers. */
#define GROUP_BIT (1ull << 63)

/*
 * One exchange. Its group and op are the engine thread's; the caller waits for over.
 */
struct probe {
	struct bps_group group;
	struct bps_op op;
	struct bps_slice slice;
	uint32_t server, leader;
	uint32_t max_part;
	uint8_t *memory; /* 2 * max_part: what is sent, and where answers go */
	struct bps_engine *engine;
	uint64_t bytes;
	uint64_t begin_ns, end_ns; /* of what counts: after the first quarter */
	struct bps_reason reason;
	bool over;
};

static const void *probe_source(struct bps_op *op, uint64_t position)
{
	const struct probe *probe = op->owner;

	(void)position;
	return probe->memory;
}

static void *probe_place(struct bps_op *op, uint64_t position, uint32_t *ret_region,
                         uint64_t *ret_offset)
{
	const struct probe *probe = op->owner;

	(void)position;
	*ret_region = 0;
	*ret_offset = 0;
	return probe->memory + probe->max_part;
}

static void probe_landed(struct bps_op *op, uint64_t position)
{
	struct probe *probe = op->owner;

	(void)position;
	if (op->n_landed == op->cut.n_parts / 4)
		probe->begin_ns = bps_now_ns();
}

static void probe_finished(struct bps_op *op, const struct bps_reason *reason)
{
	struct probe *probe = op->owner;

	probe->end_ns = bps_now_ns();
	if (reason)
		probe->reason = *reason;
	pthread_mutex_lock(&probe->engine->lock);
	probe->over = true;
	pthread_cond_broadcast(&probe->engine->done);
	pthread_mutex_unlock(&probe->engine->lock);
}

static const struct bps_op_events probe_events = {
	.source = probe_source,
	.place = probe_place,
	.landed = probe_landed,
	.finished = probe_finished,
};

static void probe_fail(struct probe *probe, int error)
{
	probe->reason = probe->group.broken;
	if (probe->reason.error == 0)
		bps_reason_set(&probe->reason, error, "%s", strerror(-error));
	probe->over = true;
}

/* Some for each connection, so that all are at work together. */
static uint32_t choose_part(const struct probe *probe, uint32_t n_connections)
{
	uint64_t part = probe->bytes / N_PARTS / n_connections;

	part = part > LEAST_PART ? part : LEAST_PART;
	return part < probe->max_part ? (uint32_t)part : probe->max_part;
}

static void do_begin(struct bps_engine *engine, void *arg)
{
	struct probe *probe = arg;
	const uint32_t n = bps_client_n_connections(engine->client, probe->server);
	const uint32_t weight = BPS_SHARE_ONE;
	const struct bps_plan plan = {
		.n_servers = 1,
		.weights = &weight,
		.max_bytes = choose_part(probe, n > 0 ? n : 1),
		.cost_bytes = UINT32_MAX,
	};
	int r;

	probe->over = false;
	probe->op = (struct bps_op){
		.coll = BPS_ALLREDUCE,
		.dtype = BPS_BYTE,
		.redop = BPS_BOR,
		/* several fill a pipe with less of each */
		.window = n > 1 ? MANY_WINDOW * n : 0,
		.events = &probe_events,
		.owner = probe,
	};
	r = bps_cut_make(&plan, probe->bytes, 0, &probe->slice, &probe->op.cut);
	if (r == 0)
		r = bps_op_start(engine->client, &probe->group, &probe->op, bps_now_ns());
	if (r < 0) {
		probe_fail(probe, r);
		return;
	}
	bps_op_ready(engine->client, &probe->op, probe->op.cut.n_parts);
}

static void do_join(struct bps_engine *engine, void *arg)
{
	struct probe *probe = arg;
	int r = bps_group_join(engine->client, &probe->group);

	if (r < 0)
		bps_reason_set(&probe->reason, r, "%s", strerror(-r));
}

static void do_leave(struct bps_engine *engine, void *arg)
{
	struct probe *probe = arg;

	bps_group_leave(engine->client, &probe->group);
}

/* Exchange probe->bytes. */
static int exchange(struct bps_engine *engine, struct probe *probe)
{
	bps_engine_call(engine, do_begin, probe);
	pthread_mutex_lock(&engine->lock);
	while (!probe->over)
		pthread_cond_wait(&engine->done, &engine->lock);
	pthread_mutex_unlock(&engine->lock);
	return probe->reason.error;
}

/* More and more, until it takes long enough to be told from a burst. */
static int probe_run(struct bps_engine *engine, struct probe *probe, uint64_t least_ns,
                     uint64_t *ret_bytes_per_s)
{
	uint64_t ns, growth;
	int r;

	for (probe->bytes = FIRST_BYTES;; probe->bytes *= growth) {
		r = exchange(engine, probe);
		if (r < 0)
			return r;
		ns = probe->end_ns - probe->begin_ns + 1;
		if (ns >= least_ns || probe->bytes >= MOST_BYTES)
			break;
		growth = 1 + least_ns * 5 / 4 / ns;
		growth = growth > LEAST_GROWTH ? growth : LEAST_GROWTH;
		growth = growth < MOST_GROWTH ? growth : MOST_GROWTH;
	}
	*ret_bytes_per_s =
		(uint64_t)((double)probe->bytes * 0.75 / (double)ns * BPS_NS_PER_S);
	return 0;
}

int bps_engine_probe(struct bps_engine *engine, uint32_t server, uint64_t least_ns,
                     uint64_t *ret_bytes_per_s, struct bps_reason *ret_reason)
{
	uint32_t most = engine->config.client.slot_bytes;
	struct probe probe = {
		.engine = engine,
		.server = server,
		.leader = engine->config.client.peer,
		.group = {
			.id = GROUP_BIT | engine->config.client.peer,
			.n_members = 1,
			.n_servers = 1,
			.name = "a measurement of the network",
		},
	};
	void *memory;
	int r;

	most = most < MOST_PART ? most : MOST_PART;
	probe.group.servers = &probe.server;
	probe.group.leaders = &probe.leader;
	r = bps_region_alloc(2 * (size_t)most, &memory);
	if (r < 0) {
		bps_reason_set(ret_reason, r, "%s", strerror(-r));
		return r;
	}
	probe.memory = memory;
	probe.max_part = most;
	bps_engine_call(engine, do_join, &probe);
	if (probe.reason.error == 0) {
		probe_run(engine, &probe, least_ns, ret_bytes_per_s);
		bps_engine_call(engine, do_leave, &probe);
	}
	if (probe.reason.error == 0) /* else messages may still be under way to it */
		bps_region_free(memory, 2 * (size_t)most);
	*ret_reason = probe.reason;
	return probe.reason.error;
}
