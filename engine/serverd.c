/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/serverd.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/event.h"
#include "base/log.h"
#include "base/mpsc.h"
#include "base/thread.h"
#include "engine/cards.h"
#include "transport/ratelimit.h"
#include "transport/tcp.h"

struct loop_thread {
	struct bps_serverd *serverd;
	struct bps_loop *loop;
	struct bps_cpuset cpus;
	uint32_t node; /* BPS_MACHINE_NONE: any */
	pthread_t thread;
	bool started;
	struct bps_ratelimit limit; /* its own thread's */
};

struct reducer_thread {
	struct bps_serverd *serverd;
	struct bps_reducer *reducer;
	struct bps_cpuset cpus;
	pthread_t thread;
	bool started;
	struct bps_mpsc queue; /* of struct bps_arrival, by mail.node */
	struct bps_event event;
	uint32_t stopping; /* atomic: end once the queue is empty */
};

struct bps_serverd {
	struct bps_server *server;
	uint32_t n_loops, n_reducers;
	struct loop_thread *loops;
	struct reducer_thread *reducers;
	/* the first loop's, once it runs */
	struct bps_tcp_listener *listeners[BPS_SERVERD_MAX_ADDRS];
	struct bps_addr addrs[BPS_SERVERD_MAX_ADDRS]; /* theirs, ports filled in */
	int n_addrs;
	uint32_t next_loop; /* gets the next newcomer, if it is near enough */
	struct bps_serverd_card *cards;
	uint32_t n_cards;
	uint32_t max_connections;
	uint32_t n_newcomers; /* atomic: on their way to their loop */
};

/* Reducers: a queue and a thread each. */

static void to_reducer(struct bps_server *server, uint32_t reducer,
                       struct bps_arrival *arrival)
{
	struct bps_serverd *serverd = bps_server_owner(server);
	struct reducer_thread *thread = &serverd->reducers[reducer];

	if (bps_mpsc_push(&thread->queue, &arrival->mail.node))
		bps_event_notify(&thread->event);
}

static void reducer_sleep(struct reducer_thread *thread)
{
	uint32_t seq = bps_event_prepare(&thread->event);

	/* Pairs with the store in stop_reducers(). */
	if (!bps_mpsc_empty(&thread->queue) || bps_load_acquire(&thread->stopping))
		bps_event_cancel(&thread->event);
	else
		(void)bps_event_wait(&thread->event, seq, BPS_FOREVER_NS);
}

static void reducer_take(struct reducer_thread *thread, struct bps_mpsc_node *node)
{
	struct bps_mpsc_node *next;

	for (; node; node = next) {
		next = node->next;
		bps_reducer_take(thread->reducer,
		                 BPS_CONTAINER_OF(node, struct bps_arrival, mail.node));
	}
}

static void *reducer_main(void *arg)
{
	struct reducer_thread *thread = arg;
	struct bps_mpsc_node *node;
	bool stopping;

	(void)bps_cpuset_bind(&thread->cpus);
	for (;;) {
		/* First, so that what was queued before it is found; pairs with the store
		 * in stop_reducers(). */
		stopping = bps_load_acquire(&thread->stopping);
		node = bps_mpsc_pop_all(&thread->queue);
		if (node)
			reducer_take(thread, node);
		else if (stopping)
			return NULL;
		else
			reducer_sleep(thread);
	}
}

/*
 * Bound to the CPUs of a node together, not to one each: on a machine with other work a
 * thread that may run on one CPU alone was seen to wait seconds for it while another was
 * idle.
 */
static int start_reducers(struct bps_serverd *serverd)
{
	char name[24];
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < serverd->n_reducers; i++) {
		struct reducer_thread *thread = &serverd->reducers[i];

		thread->serverd = serverd;
		thread->reducer = bps_server_reducer(serverd->server, i);
		snprintf(name, sizeof(name), "bps-sum-%u", i);
		r = bps_thread_start(name, reducer_main, thread, -1, &thread->thread);
		thread->started = r == 0;
	}
	return r;
}

/* Nothing is queued any more that was not queued before this call. */
static void stop_reducers(struct bps_serverd *serverd)
{
	for (uint32_t i = 0; serverd->reducers && i < serverd->n_reducers; i++) {
		struct reducer_thread *thread = &serverd->reducers[i];

		if (!thread->started)
			continue;
		/* Release: pairs with the loads in reducer_main() and reducer_sleep(). */
		bps_store_release(&thread->stopping, 1u);
		bps_event_notify(&thread->event);
		bps_thread_join(thread->thread);
	}
}

/* Loops, and what is asked of them by letter. */

static void take_answer(struct bps_mail *mail)
{
	bps_peer_take(BPS_CONTAINER_OF(mail, struct bps_arrival, mail));
}

static void to_peer(struct bps_server *server, struct bps_arrival *arrival)
{
	(void)server;
	arrival->mail.fn = take_answer;
	bps_loop_post(arrival->peer->loop, &arrival->mail);
}

static const struct bps_server_ops ops = {
	.to_reducer = to_reducer,
	.to_peer = to_peer,
};

/* A call of @fn on a loop's thread, that its caller waits for. */
struct call {
	struct bps_mail mail;
	void (*fn)(struct loop_thread *loop);
	struct loop_thread *loop;
	sem_t done;
};

static void take_call(struct bps_mail *mail)
{
	struct call *call = BPS_CONTAINER_OF(mail, struct call, mail);

	call->fn(call->loop);
	sem_post(&call->done);
}

static void call_loop(struct loop_thread *loop, void (*fn)(struct loop_thread *loop))
{
	struct call call = { .mail.fn = take_call, .fn = fn, .loop = loop };

	if (!loop->started) {
		fn(loop);
		return;
	}
	sem_init(&call.done, 0, 0);
	bps_loop_post(loop->loop, &call.mail);
	while (sem_wait(&call.done) < 0)
		; /* EINTR: the caller's thread may take signals */
	sem_destroy(&call.done);
}

/* After the stop, what was closed still comes to its end by turns. */
static void *loop_main(void *arg)
{
	struct loop_thread *loop = arg;
	int r;

	(void)bps_cpuset_bind(&loop->cpus);
	r = bps_loop_run(loop->loop);
	if (r == 0)
		r = bps_loop_turn(loop->loop, 0);
	while (r == 0 && !bps_loop_idle(loop->loop))
		r = bps_loop_turn(loop->loop, UINT64_MAX);
	if (r < 0)
		bps_error("a loop of the server gave up: %s", strerrordesc_np(-r));
	return NULL;
}

/* The first one last: it accepts, and the others are there for what it deals out. */
static int start_loops(struct bps_serverd *serverd)
{
	char name[24];
	int r = 0;

	for (uint32_t i = serverd->n_loops; r == 0 && i-- > 0;) {
		struct loop_thread *loop = &serverd->loops[i];

		snprintf(name, sizeof(name), "bps-loop-%u", i);
		r = bps_thread_start(name, loop_main, loop, -1, &loop->thread);
		loop->started = r == 0;
	}
	return r;
}

static void stop_loops(struct bps_serverd *serverd)
{
	for (uint32_t i = 0; serverd->loops && i < serverd->n_loops; i++) {
		struct loop_thread *loop = &serverd->loops[i];

		if (loop->started) {
			bps_loop_stop(loop->loop);
			bps_thread_join(loop->thread);
		}
		bps_loop_free(loop->loop);
	}
}

/* Newcomers: accepted by the first loop, adopted by the one whose turn it is. */

struct newcomer {
	struct bps_mail mail;
	struct loop_thread *loop;
	int fd;
};

static void adopt(struct bps_mail *mail)
{
	struct newcomer *newcomer = BPS_CONTAINER_OF(mail, struct newcomer, mail);
	struct loop_thread *loop = newcomer->loop;
	struct bps_conn *conn;
	int r;

	r = bps_tcp_adopt(loop->loop, newcomer->fd, BPS_SERVERD_HELLO_NS, NULL, NULL,
	                  &conn);
	if (r == 0)
		r = bps_server_accept(loop->serverd->server, loop->loop, conn);
	bps_add_relaxed(&loop->serverd->n_newcomers, -1);
	if (r < 0 && bps_ratelimit_hit(&loop->limit, bps_loop_now(loop->loop)))
		bps_warn("closed a new connection: %s", strerrordesc_np(-r));
	free(newcomer);
}

static void turn_away(struct loop_thread *loop, const struct bps_addr *peer)
{
	uint32_t n = bps_ratelimit_hit(&loop->limit, bps_loop_now(loop->loop));
	char text[BPS_ADDR_CHARS];

	if (n)
		bps_warn(
			"turned away %s, one of %u since the last such line: there are too "
			"many connections; start the server with a larger "
			"--max-connections",
			bps_addr_format(peer, text, sizeof(text)), n);
}

/* The node of the card that a connection came by; BPS_MACHINE_NONE: not known. */
static uint32_t node_of(const struct bps_serverd *serverd, int fd)
{
	struct bps_addr here = { .bytes = sizeof(here.storage) };

	if (serverd->n_cards == 0 || getsockname(fd, &here.sa, &here.bytes) < 0)
		return BPS_MACHINE_NONE;
	bps_addr_set_port(&here, 0);
	for (uint32_t i = 0; i < serverd->n_cards; i++) {
		if (bps_addr_equal(&serverd->cards[i].addr, &here))
			return serverd->cards[i].node;
	}
	return BPS_MACHINE_NONE;
}

/* The next loop on @node, or else the next one. */
static struct loop_thread *choose_loop(struct bps_serverd *serverd, uint32_t node)
{
	uint32_t first = serverd->next_loop, n = serverd->n_loops, i = 0;

	while (i < n && serverd->loops[(first + i) % n].node != node)
		i++;
	i = (first + i % n) % n;
	serverd->next_loop = (i + 1) % n;
	return &serverd->loops[i];
}

static bool is_full(struct bps_serverd *serverd)
{
	return bps_server_n_peers(serverd->server) +
	               bps_load_relaxed(&serverd->n_newcomers) >=
	       serverd->max_connections;
}

static void on_accepted(void *owner, int fd, const struct bps_addr *peer)
{
	struct bps_serverd *serverd = owner;
	struct newcomer *newcomer;

	if (is_full(serverd)) {
		turn_away(&serverd->loops[0], peer);
		close(fd);
		return;
	}
	newcomer = malloc(sizeof(*newcomer));
	if (!newcomer) {
		close(fd);
		return;
	}
	newcomer->mail.fn = adopt;
	newcomer->loop = choose_loop(serverd, node_of(serverd, fd));
	newcomer->fd = fd;
	bps_add_relaxed(&serverd->n_newcomers, 1);
	bps_loop_post(newcomer->loop->loop, &newcomer->mail);
}

/* The port that a first address of port 0 got holds for the others too. */
static int listen_all(struct bps_serverd *serverd,
                      const struct bps_serverd_config *config)
{
	uint16_t port = 0;
	int r;

	for (int i = 0; i < config->n_addrs; i++) {
		struct bps_addr addr = config->addrs[i];

		if (bps_addr_port(&addr) == 0)
			bps_addr_set_port(&addr, port);
		r = bps_tcp_listen(serverd->loops[0].loop, &addr, on_accepted, serverd,
		                   &serverd->listeners[i]);
		if (r < 0)
			return r;
		serverd->addrs[i] = *bps_tcp_listener_addr(serverd->listeners[i]);
		serverd->n_addrs = i + 1;
		port = bps_addr_port(&serverd->addrs[i]);
	}
	return 0;
}

static void close_listeners(struct loop_thread *loop)
{
	struct bps_serverd *serverd = loop->serverd;

	for (int i = 0; i < BPS_SERVERD_MAX_ADDRS; i++) {
		bps_tcp_listener_close(serverd->listeners[i]);
		serverd->listeners[i] = NULL;
	}
}

static void close_peers(struct loop_thread *loop)
{
	bps_server_close_peers(loop->serverd->server, loop->loop);
}

/* Any loop's thread: listeners stay while peers come. */
static int listening(void *owner, struct bps_card_addr *ret, int max)
{
	const struct bps_serverd *serverd = owner;

	return bps_cards_listening(serverd->addrs, serverd->n_addrs, ret, max);
}

/* Life. */

static int make_server(struct bps_serverd *serverd,
                       const struct bps_serverd_config *config)
{
	struct bps_server_config server = {
		.host = config->host,
		.memory_bytes = config->memory_bytes,
		.n_reducers = serverd->n_reducers,
		.max_slots = config->max_slots,
		.quiet = config->quiet,
		.addrs = listening,
	};

	return bps_server_new(&server, &ops, serverd, &serverd->server);
}

static void place(struct bps_serverd *serverd, const struct bps_serverd_config *config)
{
	const struct bps_place_server *loops = config->loops,
				      *reducers = config->reducers;

	for (uint32_t i = 0; i < serverd->n_loops; i++) {
		serverd->loops[i].cpus = loops ? loops->cpus[i] : *config->cpus;
		serverd->loops[i].node = loops ? loops->node[i] : BPS_MACHINE_NONE;
	}
	for (uint32_t i = 0; i < serverd->n_reducers; i++)
		serverd->reducers[i].cpus = reducers ? reducers->cpus[i] : *config->cpus;
	serverd->n_cards = config->n_cards;
	for (uint32_t i = 0; i < config->n_cards; i++)
		serverd->cards[i] = config->cards[i];
}

static int make(struct bps_serverd *serverd, const struct bps_serverd_config *config)
{
	int r = 0;

	serverd->loops = calloc(serverd->n_loops, sizeof(*serverd->loops));
	serverd->reducers = calloc(serverd->n_reducers, sizeof(*serverd->reducers));
	serverd->cards = calloc(config->n_cards + 1, sizeof(*serverd->cards));
	if (!serverd->loops || !serverd->reducers || !serverd->cards)
		return -ENOMEM;
	place(serverd, config);
	for (uint32_t i = 0; i < serverd->n_loops; i++) {
		serverd->loops[i].serverd = serverd;
		if (r == 0)
			r = bps_loop_new(&serverd->loops[i].loop);
	}
	return r < 0 ? r : make_server(serverd, config);
}

static int start(struct bps_serverd *serverd, const struct bps_serverd_config *config)
{
	int r;

	r = make(serverd, config);
	if (r < 0) {
		bps_error("the server cannot start: %s", strerrordesc_np(-r));
		return r;
	}
	r = listen_all(serverd, config);
	if (r == 0)
		r = start_reducers(serverd);
	return r < 0 ? r : start_loops(serverd);
}

int bps_serverd_start(const struct bps_serverd_config *config,
                      struct bps_serverd **ret_serverd)
{
	struct bps_serverd *serverd = calloc(1, sizeof(*serverd));
	int r;

	if (!serverd)
		return -ENOMEM;
	serverd->max_connections = config->max_connections;
	serverd->n_loops = config->loops ? config->loops->n_threads : config->n_loops;
	serverd->n_reducers = config->reducers     ? config->reducers->n_threads
	                      : config->n_reducers ? config->n_reducers
	                                           : bps_cpuset_n_threads(config->cpus);
	r = start(serverd, config);
	if (r < 0) {
		bps_serverd_stop(serverd);
		return r;
	}
	*ret_serverd = serverd;
	return 0;
}

void bps_serverd_drain(struct bps_serverd *serverd)
{
	call_loop(&serverd->loops[0], close_listeners);
}

/* What one loop has sent may free what another loop's peer holds: all must be through. */
static void wait_for_peers(struct bps_server *server)
{
	const struct timespec pause = { .tv_nsec = BPS_NS_PER_MS };

	while (bps_server_n_peers(server) > 0)
		nanosleep(&pause, NULL);
}

/*
 * In the order in which things flow, so that nothing comes after its receiver: newcomers,
 * then messages, then what the reducers have, then what the loops still send.
 */
void bps_serverd_stop(struct bps_serverd *serverd)
{
	if (!serverd)
		return;
	if (serverd->server) {
		bps_serverd_drain(serverd);
		for (uint32_t i = 0; i < serverd->n_loops; i++)
			call_loop(&serverd->loops[i], close_peers);
	}
	stop_reducers(serverd);
	if (serverd->server)
		wait_for_peers(serverd->server);
	stop_loops(serverd);
	bps_server_free(serverd->server);
	free(serverd->reducers);
	free(serverd->loops);
	free(serverd->cards);
	free(serverd);
}

const struct bps_addr *bps_serverd_addr(const struct bps_serverd *serverd, int n)
{
	return serverd->listeners[n] ? bps_tcp_listener_addr(serverd->listeners[n])
	                             : NULL;
}

uint32_t bps_serverd_n_reducers(const struct bps_serverd *serverd)
{
	return serverd->n_reducers;
}

struct bps_server *bps_serverd_server(const struct bps_serverd *serverd)
{
	return serverd->server;
}
