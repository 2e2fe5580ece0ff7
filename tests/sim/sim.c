/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/sim-impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/sim/net.h"

/* -- time -- */

void bps_sim_misuse(const char *what)
{
	fprintf(stderr, "sim: the engine broke the transport's contract: %s\n", what);
	abort();
}

void *bps_sim_must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static bool before(const struct bps_sim_event *a, const struct bps_sim_event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

static void heap_add(struct bps_sim *sim, const struct bps_sim_event *event)
{
	size_t at = sim->n_heap++;

	if (sim->n_heap > sim->heap_room) {
		sim->heap_room = 2 * sim->heap_room + 64;
		sim->heap = bps_sim_must(
			reallocarray(sim->heap, sim->heap_room, sizeof(*sim->heap)));
	}
	while (at > 0 && before(event, &sim->heap[(at - 1) / 2])) {
		sim->heap[at] = sim->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	sim->heap[at] = *event;
}

static struct bps_sim_event heap_pop(struct bps_sim *sim)
{
	struct bps_sim_event first = sim->heap[0], last = sim->heap[--sim->n_heap];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < sim->n_heap) {
		if (child + 1 < sim->n_heap &&
		    before(&sim->heap[child + 1], &sim->heap[child]))
			child++;
		if (!before(&sim->heap[child], &last))
			break;
		sim->heap[at] = sim->heap[child];
		at = child;
	}
	sim->heap[at] = last;
	return first;
}

void bps_sim_at(struct bps_sim *sim, struct bps_sim_node *node, uint64_t at_ns,
                void (*fn)(void *arg), void *arg)
{
	const struct bps_sim_event event = {
		.at_ns = at_ns < sim->now_ns ? sim->now_ns : at_ns,
		.order = sim->order++,
		.node = node,
		.fn = fn,
		.arg = arg,
	};

	heap_add(sim, &event);
}

void bps_sim_mix(struct bps_sim *sim, uint64_t value)
{
	uint64_t hash = (sim->stats.hash ^ value) * 0x9e3779b97f4a7c15u;

	sim->stats.hash = hash ^ hash >> 29;
}

bool bps_sim_step(struct bps_sim *sim)
{
	struct bps_sim_event event;

	if (sim->n_heap == 0)
		return false;
	event = heap_pop(sim);
	sim->now_ns = event.at_ns;
	sim->stats.n_events++;
	if (event.node && event.node->crashed)
		return true;
	if (event.node && event.node->stalled_ns > sim->now_ns) {
		bps_sim_at(sim, event.node, event.node->stalled_ns, event.fn, event.arg);
		return true;
	}
	bps_sim_mix(sim, event.at_ns);
	sim->current = event.node;
	event.fn(event.arg);
	sim->current = NULL;
	return true;
}

void bps_sim_run(struct bps_sim *sim, uint64_t until_ns)
{
	while (sim->n_heap > 0 && sim->heap[0].at_ns <= until_ns)
		bps_sim_step(sim);
	if (sim->now_ns < until_ns)
		sim->now_ns = until_ns;
}

uint64_t bps_sim_up_to(struct bps_sim *sim, uint64_t most)
{
	return bps_prng_below(&sim->prng, most + 1);
}

void bps_sim_trace(struct bps_sim *sim, const char *format, ...)
{
	va_list args;

	if (!sim->config.trace)
		return;
	fprintf(stderr, "%12.6f ", (double)sim->now_ns * 1e-9);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

/* -- nodes -- */

struct bps_sim_node *bps_sim_node(struct bps_sim *sim, const struct bps_sim_nic *nic)
{
	struct bps_sim_node *node = bps_sim_must(calloc(1, sizeof(*node)));

	node->sim = sim;
	node->nic = *nic;
	node->number = sim->n_nodes++;
	bps_list_init(&node->turns[0].waiting);
	bps_list_init(&node->turns[1].waiting);
	bps_list_push_back(&sim->nodes, &node->link);
	return node;
}

void bps_sim_crash(struct bps_sim_node *node)
{
	struct bps_sim *sim = node->sim;
	struct bps_sim_end *end;

	bps_sim_trace(sim, "crash    n%u", node->number);
	node->crashed = true;
	BPS_LIST_FOREACH(end, &sim->ends, link)
	{
		if (end->over || (end->node != node && end->peer->node != node))
			continue;
		if (!end->conn.events && !end->closed)
			continue; /* a connection that was not accepted yet */
		bps_sim_end_reset_at(
			end, sim->now_ns + bps_sim_up_to(sim, 2 * sim->config.delay_ns),
			-ECONNRESET);
	}
}

/* Transports notice after a while, at both ends, that nothing gets through. */
static void give_up(void *arg)
{
	struct bps_sim_node *node = arg;
	struct bps_sim *sim = node->sim;
	struct bps_sim_end *end;

	if (!node->silent ||
	    sim->now_ns - node->silent_since_ns < sim->config.keepalive_ns)
		return;
	BPS_LIST_FOREACH(end, &sim->ends, link)
	{
		if (!end->up || (end->node != node && end->peer->node != node) ||
		    end->node == end->peer->node)
			continue;
		bps_sim_end_reset_at(end, sim->now_ns, -ETIMEDOUT);
	}
}

void bps_sim_silence(struct bps_sim_node *node, bool silent)
{
	struct bps_sim *sim = node->sim;

	bps_sim_trace(sim, "%s n%u", silent ? "silence " : "speaks  ", node->number);
	node->silent = silent;
	node->silent_since_ns = sim->now_ns;
	if (silent && sim->config.keepalive_ns > 0)
		bps_sim_at(sim, NULL, sim->now_ns + sim->config.keepalive_ns, give_up,
		           node);
}

void bps_sim_end_silence(struct bps_sim *sim)
{
	struct bps_sim_node *node;

	BPS_LIST_FOREACH(node, &sim->nodes, link)
	{
		if (node->silent)
			bps_sim_crash(node);
	}
}

void bps_sim_stall(struct bps_sim_node *node, uint64_t until_ns)
{
	bps_sim_trace(node->sim, "stall    n%u", node->number);
	node->stalled_ns = until_ns;
}

void bps_sim_charge(struct bps_sim *sim, uint64_t ns)
{
	struct bps_sim_node *node = sim->current;

	if (!node)
		return;
	if (node->stalled_ns < sim->now_ns)
		node->stalled_ns = sim->now_ns;
	node->stalled_ns += ns;
}

/* -- life -- */

struct bps_sim *bps_sim_new(const struct bps_sim_config *config)
{
	struct bps_sim *sim = bps_sim_must(calloc(1, sizeof(*sim)));

	sim->config = *config;
	if (sim->config.segment_packets == 0)
		sim->config.segment_packets = 1;
	if (sim->config.n_turns == 0)
		sim->config.n_turns = 2;
	bps_prng_init(&sim->prng, config->seed);
	bps_list_init(&sim->nodes);
	bps_list_init(&sim->ends);
	return sim;
}

static void drop_events(struct bps_sim *sim)
{
	while (sim->n_heap > 0) {
		struct bps_sim_event event = heap_pop(sim);

		bps_sim_drop_event(&event);
	}
}

void bps_sim_free(struct bps_sim *sim)
{
	struct bps_sim_node *node;
	struct bps_list *link;
	struct bps_sim_end *end;

	if (!sim)
		return;
	BPS_LIST_FOREACH(end, &sim->ends, link)
	bps_sim_end_down(end, -ECONNRESET);
	drop_events(sim);
	while ((link = bps_list_pop_front(&sim->ends))) {
		end = BPS_CONTAINER_OF(link, struct bps_sim_end, link);
		bps_sim_flow_free(end->flow);
		free(end);
	}
	while ((link = bps_list_pop_front(&sim->nodes))) {
		node = BPS_CONTAINER_OF(link, struct bps_sim_node, link);
		bps_sim_net_drop_node(node);
		free(node);
	}
	free(sim->heap);
	free(sim);
}

uint64_t bps_sim_now(const struct bps_sim *sim)
{
	return sim->now_ns;
}

struct bps_prng *bps_sim_prng(struct bps_sim *sim)
{
	return &sim->prng;
}

const struct bps_sim_stats *bps_sim_stats(const struct bps_sim *sim)
{
	return &sim->stats;
}
