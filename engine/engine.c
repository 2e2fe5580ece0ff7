/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/engine-impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "engine/cards.h"
#include "transport/loop.h"

#define TICK_NS    (200 * BPS_NS_PER_MS)
#define GOODBYE_NS (3 * BPS_NS_PER_S)
#define HELLO_NS   (10 * BPS_NS_PER_S)

/* An op on its way; freed when it is finished. */
struct net_op {
	struct bps_mail mail;
	struct bps_op op;
	struct bps_engine *engine;
	struct bps_engine_group *group;
	struct bps_list link;      /* among the group's, while it may have more to push */
	uint64_t base;             /* its first position in the stage */
	struct bps_slice slices[]; /* of its cut */
};

/* -- calls from other threads -- */

/* Lies on the stack of the caller, which waits until it is done. */
struct call {
	struct bps_mail mail;
	void (*fn)(struct bps_engine *engine, void *arg);
	struct bps_engine *engine;
	void *arg;
	bool done;
};

static void call_run(struct bps_mail *mail)
{
	struct call *call = BPS_CONTAINER_OF(mail, struct call, mail);
	struct bps_engine *engine = call->engine;

	call->fn(engine, call->arg);
	pthread_mutex_lock(&engine->lock);
	call->done = true;
	pthread_cond_broadcast(&engine->done);
	pthread_mutex_unlock(&engine->lock);
}

void bps_engine_call(struct bps_engine *engine,
                     void (*fn)(struct bps_engine *engine, void *arg), void *arg)
{
	struct call call = {
		.mail.fn = call_run, .fn = fn, .engine = engine, .arg = arg
	};

	bps_loop_post(engine->loop, &call.mail);
	pthread_mutex_lock(&engine->lock);
	while (!call.done)
		pthread_cond_wait(&engine->done, &engine->lock);
	pthread_mutex_unlock(&engine->lock);
}

/* -- ops -- */

static bool is_bcast_root(const struct bps_op *op)
{
	return op->coll == BPS_BCAST && op->group->member == op->root;
}

static const void *op_source(struct bps_op *op, uint64_t position)
{
	struct net_op *net = op->owner;

	if (op->coll == BPS_BCAST && !is_bcast_root(op))
		return NULL;
	return bps_stage_push(net->group->stage, net->base + position);
}

static void *op_place(struct bps_op *op, uint64_t position, uint32_t *ret_region,
                      uint64_t *ret_offset)
{
	struct net_op *net = op->owner;

	if (is_bcast_root(op))
		return NULL;
	*ret_region = net->group->region;
	return bps_stage_result(net->group->stage, net->base + position, ret_offset);
}

static void op_landed(struct bps_op *op, uint64_t position)
{
	struct net_op *net = op->owner;

	bps_stage_done(net->group->stage, net->base + position);
}

static void op_finished(struct bps_op *op, const struct bps_reason *reason)
{
	struct net_op *net = op->owner;

	if (reason) {
		net->group->broken = true;
		bps_stage_fail(net->group->stage, reason);
	}
	bps_list_remove(&net->link);
	free(net);
}

static const struct bps_op_events op_events = {
	.source = op_source,
	.place = op_place,
	.landed = op_landed,
	.finished = op_finished,
};

static void op_begin(struct bps_mail *mail)
{
	struct net_op *net = BPS_CONTAINER_OF(mail, struct net_op, mail);
	struct bps_engine_group *group = net->group;
	struct bps_reason reason;
	int r;

	bps_list_push_back(&group->ops, &net->link);
	r = bps_op_start(net->engine->client, &group->group, &net->op, bps_now_ns());
	if (r == 0)
		return;
	reason = group->group.broken;
	if (reason.error == 0) {
		reason.error = r;
		snprintf(reason.text, sizeof(reason.text), "%s", strerror(-r));
	}
	op_finished(&net->op, &reason);
}

void bps_engine_submit(struct bps_engine *engine, struct bps_engine_group *group,
                       const struct bps_stage_call *call, uint16_t root)
{
	const struct bps_reason no_memory = { -ENOMEM, "out of memory" };
	size_t bytes = call->cut.n_slices * sizeof(struct bps_slice);
	struct net_op *net = calloc(1, sizeof(*net) + bytes);

	if (!net) {
		bps_stage_fail(group->stage, &no_memory);
		return;
	}
	net->mail.fn = op_begin;
	net->engine = engine;
	net->group = group;
	net->base = bps_stage_position(group->stage);
	net->op.coll = call->coll;
	net->op.dtype = call->dtype;
	net->op.redop = call->redop;
	net->op.root = root;
	net->op.window = call->window;
	memcpy(net->slices, call->cut.slices, bytes);
	net->op.cut = call->cut;
	net->op.cut.slices = net->slices;
	net->op.events = &op_events;
	net->op.owner = net;
	bps_loop_post(engine->loop, &net->mail);
}

/* -- the thread -- */

/* Tell the client what the ranks have summed. Return: whether there was anything. */
static bool poll_group(struct bps_engine *engine, struct bps_engine_group *group)
{
	struct net_op *net, *following;
	bool any = false;

	BPS_LIST_FOREACH_SAFE(net, following, &group->ops, link)
	{
		uint64_t from = net->base + net->op.n_ready;
		uint64_t end = net->base + net->op.cut.n_parts;
		uint64_t to = bps_stage_summed(group->stage, from, end);

		if (to == from)
			break;
		any = true;
		if (to == end)
			bps_list_remove(&net->link);
		bps_op_ready(engine->client, &net->op, to - net->base);
		if (to < end)
			break;
	}
	return any;
}

static bool poll_groups(struct bps_engine *engine)
{
	struct bps_engine_group *group;
	bool any = false;

	BPS_LIST_FOREACH(group, &engine->groups, link)
	{
		if (poll_group(engine, group))
			any = true;
	}
	return any;
}

static void announce_sleep(struct bps_engine *engine, bool sleeps)
{
	struct bps_engine_group *group;

	BPS_LIST_FOREACH(group, &engine->groups, link)
	{
		if (!bps_list_empty(&group->ops))
			bps_stage_engine_sleeps(group->stage, sleeps);
	}
}

static void tick(struct bps_engine *engine)
{
	uint64_t now_ns = bps_now_ns();

	if (now_ns - engine->ticked_ns < TICK_NS)
		return;
	engine->ticked_ns = now_ns;
	bps_client_tick(engine->client, now_ns);
}

static void turn(struct bps_engine *engine)
{
	uint64_t timeout_ns;

	poll_groups(engine);
	tick(engine);
	announce_sleep(engine, true);
	timeout_ns = bps_client_busy(engine->client) ? TICK_NS : UINT64_MAX;
	if (poll_groups(engine))
		timeout_ns = 0;
	bps_loop_turn(engine->loop, timeout_ns);
	announce_sleep(engine, false);
}

static bool at_rest(const struct bps_engine *engine)
{
	return bps_client_closed(engine->client) &&
	       (!engine->server || bps_server_n_peers(engine->server) == 0);
}

static bool is_idle(const struct bps_engine *engine)
{
	return bps_loop_idle(engine->loop);
}

static void turn_until(struct bps_engine *engine,
                       bool (*is_so)(const struct bps_engine *engine))
{
	uint64_t deadline_ns = bps_now_ns() + GOODBYE_NS;

	while (!is_so(engine) && bps_now_ns() < deadline_ns)
		bps_loop_turn(engine->loop, TICK_NS / 10);
}

/*
 * Let goodbyes and what else is queued go out, ours and the other leaders', and let the
 * connections end, which takes until the peers have ended theirs.
 */
static void say_goodbye(struct bps_engine *engine)
{
	int i;

	bps_client_close(engine->client);
	turn_until(engine, at_rest);
	if (engine->server)
		bps_server_close_peers(engine->server, engine->loop);
	turn_until(engine, at_rest);
	for (i = 0; i < engine->n_listeners; i++)
		bps_tcp_listener_close(engine->listeners[i]);
	turn_until(engine, is_idle);
}

static void *engine_main(void *arg)
{
	struct bps_engine *engine = arg;

	if (engine->config.cpus)
		(void)bps_cpuset_bind(engine->config.cpus);
	while (!engine->stopping)
		turn(engine);
	say_goodbye(engine);
	return NULL;
}

static void do_stop(struct bps_engine *engine, void *arg)
{
	(void)arg;
	engine->stopping = true;
}

static void engine_free(struct bps_engine *engine)
{
	bps_client_free(engine->client);
	bps_server_free(engine->server);
	bps_loop_free(engine->loop);
	pthread_mutex_destroy(&engine->lock);
	pthread_cond_destroy(&engine->done);
	free(engine);
}

static uint64_t clock_ns(void *owner)
{
	(void)owner;
	return bps_now_ns();
}

int bps_engine_start(const struct bps_engine_config *config,
                     struct bps_engine **ret_engine)
{
	struct bps_engine *engine = calloc(1, sizeof(*engine));
	int r;

	if (!engine)
		return -ENOMEM;
	engine->config = *config;
	engine->config.client.clock = clock_ns;
	if (config->cpus) {
		engine->cpus = *config->cpus;
		engine->config.cpus = &engine->cpus;
	}
	bps_list_init(&engine->groups);
	pthread_mutex_init(&engine->lock, NULL);
	pthread_cond_init(&engine->done, NULL);
	r = bps_loop_new(&engine->loop);
	if (r == 0)
		r = bps_client_new(&engine->config.client, &engine->client);
	if (r == 0)
		r = bps_thread_start("bpsmpi-engine", engine_main, engine, -1,
		                     &engine->thread);
	if (r < 0) {
		bps_error("cannot start the engine: %s", strerror(-r));
		engine_free(engine);
		return r;
	}
	*ret_engine = engine;
	return 0;
}

void bps_engine_stop(struct bps_engine *engine)
{
	if (!engine)
		return;
	bps_engine_call(engine, do_stop, NULL);
	bps_thread_join(engine->thread);
	engine_free(engine);
}

static void do_bind(struct bps_engine *engine, void *arg)
{
	(void)engine;
	(void)bps_cpuset_bind(arg);
}

void bps_engine_bind(struct bps_engine *engine, const struct bps_cpuset *cpus)
{
	struct bps_cpuset own = *cpus;

	bps_engine_call(engine, do_bind, &own);
}

int bps_engine_wake_fd(const struct bps_engine *engine)
{
	return bps_loop_wake_fd(engine->loop);
}

/* -- the server it carries -- */

static void accepted(void *owner, int fd, const struct bps_addr *peer)
{
	struct bps_engine *engine = owner;
	struct bps_conn *conn;

	(void)peer;
	if (bps_tcp_adopt(engine->loop, fd, HELLO_NS, NULL, NULL, &conn) == 0)
		bps_server_accept(engine->server, engine->loop, conn);
}

static int listening(void *owner, struct bps_card_addr *ret, int max)
{
	const struct bps_engine *engine = owner;
	struct bps_addr addrs[BPS_ENGINE_MAX_ADDRS];
	int i;

	for (i = 0; i < engine->n_listeners; i++)
		addrs[i] = *bps_tcp_listener_addr(engine->listeners[i]);
	return bps_cards_listening(addrs, engine->n_listeners, ret, max);
}

struct serve {
	const struct bps_addr *addrs;
	int n_addrs;
	int r;
};

static void do_serve(struct bps_engine *engine, void *arg)
{
	struct serve *serve = arg;
	const struct bps_server_config config = {
		.host = engine->config.client.host,
		.memory_bytes = engine->config.server_memory_bytes,
		.n_reducers = 1,
		.max_slots = engine->config.client.n_slots,
		.quiet = true,
		.addrs = listening,
	};
	int *n = &engine->n_listeners;

	serve->r = bps_server_new(&config, NULL, engine, &engine->server);
	while (serve->r == 0 && *n < serve->n_addrs) {
		serve->r = bps_tcp_listen(engine->loop, &serve->addrs[*n], accepted,
		                          engine, &engine->listeners[*n]);
		*n += serve->r == 0;
	}
}

int bps_engine_serve(struct bps_engine *engine, const struct bps_addr *addrs, int n_addrs,
                     struct bps_addr *ret_addr)
{
	struct serve serve = { .addrs = addrs, .n_addrs = n_addrs };

	bps_engine_call(engine, do_serve, &serve);
	if (serve.r == 0)
		*ret_addr = *bps_tcp_listener_addr(engine->listeners[0]);
	return serve.r;
}

struct listeners {
	struct bps_addr *ret;
	uint32_t n, max;
};

static void do_listening(struct bps_engine *engine, void *arg)
{
	struct listeners *listeners = arg;
	int i;

	for (i = 0; i < engine->n_listeners && listeners->n < listeners->max; i++)
		listeners->ret[listeners->n++] =
			*bps_tcp_listener_addr(engine->listeners[i]);
}

uint32_t bps_engine_listening(struct bps_engine *engine, struct bps_addr *ret,
                              uint32_t max)
{
	struct listeners listeners = { .ret = ret, .max = max };

	bps_engine_call(engine, do_listening, &listeners);
	return listeners.n;
}

/* -- groups -- */

struct join {
	struct bps_engine_group *group;
	int r;
	bool free;
};

static void do_join(struct bps_engine *engine, void *arg)
{
	struct join *join = arg;
	struct bps_engine_group *group = join->group;
	uint32_t s;

	bps_list_init(&group->ops);
	group->broken = false;
	for (s = 0; s < group->group.n_servers && join->r == 0; s++)
		join->r =
			bps_client_status(engine->client, group->group.servers[s], NULL);
	if (join->r == 0)
		join->r = bps_group_join(engine->client, &group->group);
	if (join->r == 0)
		bps_list_push_back(&engine->groups, &group->link);
}

int bps_engine_join(struct bps_engine *engine, struct bps_engine_group *group)
{
	struct join join = { .group = group };

	bps_engine_call(engine, do_join, &join);
	return join.r;
}

static void do_leave(struct bps_engine *engine, void *arg)
{
	struct join *join = arg;

	bps_list_remove(&join->group->link);
	bps_group_leave(engine->client, &join->group->group);
	join->free = !join->group->broken;
}

bool bps_engine_leave(struct bps_engine *engine, struct bps_engine_group *group)
{
	struct join join = { .group = group };

	bps_engine_call(engine, do_leave, &join);
	return join.free;
}
