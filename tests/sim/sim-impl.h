/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What sim.c (time and nodes) and wire.c (messages and connections) share.
 */
#pragma once

#include "tests/sim/sim.h"

struct bps_sim_event {
	uint64_t at_ns, order;
	struct bps_sim_node *node; /* where it happens; NULL: nowhere */
	void (*fn)(void *arg);
	void *arg;
};

struct bps_sim {
	struct bps_sim_config config;
	struct bps_prng prng;
	uint64_t now_ns, order;
	struct bps_sim_event *heap;
	size_t n_heap, heap_room;
	struct bps_list nodes, ends;
	struct bps_sim_node *current;
	struct bps_sim_stats stats;
	uint32_t n_nodes, n_ends;
};

/* Connections of a thread that send large messages; see net-socket.c. */
struct bps_sim_turns {
	struct bps_list waiting;
	unsigned n_sending;
};

struct bps_sim_node {
	struct bps_list link;
	struct bps_sim *sim;
	struct bps_sim_nic nic;
	uint32_t number;
	uint64_t out_free_ns, in_free_ns; /* when its NIC is idle again */
	uint64_t stalled_ns;              /* until then */
	uint64_t silent_since_ns;
	bool crashed, silent;
	/* with config.tcp */
	struct bps_sim_packet *out_first, *out_last; /* in its NIC's queue */
	uint64_t out_bytes;
	struct bps_sim_turns turns[2];
};

/* A message on its way; freed when it has left its queue and no event is left. */
struct bps_sim_msg {
	struct bps_list link; /* in its sender's flight */
	struct bps_sim_end *from;
	struct bps_wire_hdr hdr;
	struct bps_send *send; /* NULL: done, or the end of the stream */
	uint8_t *bytes;        /* copy of the payload, from done on */
	void *dst;
	uint32_t refs, n_tries;
	uint64_t sent_ns; /* when its last byte left */
	uint64_t end_seq; /* with config.tcp: where it ends in the stream; 0: not yet */
	bool fin, arrived, late, placed, complete;
};

/* One end of a connection. */
struct bps_sim_end {
	struct bps_conn conn;
	struct bps_list link;
	struct bps_sim *sim;
	struct bps_sim_node *node;
	struct bps_sim_end *peer;
	struct bps_list flight; /* struct bps_sim_msg, in order, until it was delivered */
	bool up, closed;        /* closed: the owner has let go */
	bool over;              /* nothing leaves or arrives any more */
	uint32_t number, n_tries;
	uint64_t dialed_ns;
	int error;
	void (*accept)(void *owner, struct bps_conn *conn);
	void *accept_owner;
	struct bps_sim_flow *flow; /* with config.tcp, between two nodes */
};

/* -- sim.c -- */

/** bps_sim_mix() - make @value part of the hash of the run. */
void bps_sim_mix(struct bps_sim *sim, uint64_t value);
/** bps_sim_misuse() - the engine did what no user of a transport may. */
void bps_sim_misuse(const char *what) __attribute__((noreturn));
/** bps_sim_must() - memory there must be. */
void *bps_sim_must(void *memory);
/** bps_sim_up_to() - a random number from 0 to @most. */
uint64_t bps_sim_up_to(struct bps_sim *sim, uint64_t most);

/* -- wire.c -- */

/** bps_sim_end_down() - the end of @end, if it is not over yet. */
void bps_sim_end_down(struct bps_sim_end *end, int error);
/** bps_sim_end_reset_at() - the same later, by a reset or a timeout. */
void bps_sim_end_reset_at(struct bps_sim_end *end, uint64_t at_ns, int error);
/** bps_sim_drop_event() - @event will not happen: let go of what it holds. */
void bps_sim_drop_event(const struct bps_sim_event *event);
