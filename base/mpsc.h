/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hands work to one thread from any number of threads, without a lock: many push, one
 * takes all that is there, oldest first. The links lie inside the work items; whoever
 * popped an item owns it. For the threads of one process (it stores pointers).
 *
 * It does not wake anyone: the push that found the queue empty says so, and that pusher
 * wakes the consumer (an eventfd, a bps_event).
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>

struct bps_mpsc_node {
	struct bps_mpsc_node *next;
};

/* All zero bytes are an empty queue. */
struct bps_mpsc {
	struct bps_mpsc_node *newest; /* a stack, turned over by the consumer */
};

/** bps_mpsc_init() - make an empty queue, before other threads know it. */
static inline void bps_mpsc_init(struct bps_mpsc *queue)
{
	queue->newest = NULL;
}

/**
 * bps_mpsc_push() - add one item; any thread.
 * @node: consumed: the pusher must not touch the item any more
 *
 * Returns true where the queue was empty before, so that the consumer may be asleep.
 */
static inline bool bps_mpsc_push(struct bps_mpsc *queue, struct bps_mpsc_node *node)
{
	struct bps_mpsc_node *newest = bps_load_relaxed(&queue->newest);

	do {
		node->next = newest;
		/* Release: pairs with the acquire of the exchange in bps_mpsc_pop_all().
		 */
	} while (!bps_compare_exchange(&queue->newest, &newest, node));
	return newest == NULL;
}

/** bps_mpsc_empty() - whether nothing waits at this moment; a hint. */
static inline bool bps_mpsc_empty(struct bps_mpsc *queue)
{
	return bps_load_relaxed(&queue->newest) == NULL;
}

/**
 * bps_mpsc_pop_all() - take everything; the consumer's thread only.
 *
 * Returns the oldest item, linked by next to the newest; NULL where there was none. A
 * node's next must be read before the item is freed or pushed elsewhere.
 */
static inline struct bps_mpsc_node *bps_mpsc_pop_all(struct bps_mpsc *queue)
{
	struct bps_mpsc_node *oldest = NULL;
	struct bps_mpsc_node *node;

	/* Acquire: pairs with the release of the exchange in bps_mpsc_push(). */
	node = bps_exchange(&queue->newest, (struct bps_mpsc_node *)NULL);
	while (node) {
		struct bps_mpsc_node *next = node->next;

		node->next = oldest;
		oldest = node;
		node = next;
	}
	return oldest;
}
