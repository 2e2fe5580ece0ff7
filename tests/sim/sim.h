/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network and a clock that are pretended: one process, one thread, virtual time in ns,
 * a seed. The engine runs on it through the same seam as on TCP (transport/transport.h),
 * and what it does is a function of the seed: the same seed, the same run, event by
 * event.
 *
 * A node has a NIC with a bandwidth each way. A message leaves through its sender's NIC,
 * in order of sending over all connections; flies for the delay of the link; waits in the
 * queue before its receiver's NIC, and is lost where that is full; comes again after a
 * retransmission timeout. A connection delivers its messages in order, whatever was lost.
 *
 * What the transport may do, it does: done() comes early or late, a header and its
 * payload arrive apart, down() comes before or after what is given back. What the caller
 * may not do ends the program with a line.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "transport/transport.h"

struct bps_sim;
struct bps_sim_node;

struct bps_sim_config {
	uint64_t seed;
	uint64_t delay_ns;  /* of a link between two nodes, one way */
	uint64_t jitter_ns; /* up to so much more for each message */
	uint32_t loss_ppm;  /* messages lost for no reason, of a million */
	uint64_t rto_ns;    /* a lost message comes again after this, doubled each time */
	uint64_t keepalive_ns; /* connections of a silent node end after this; 0: never */
	uint32_t split_percent; /* messages whose payload comes later than their header */
	bool no_bytes;          /* payloads take their time but are not moved */
	bool trace;             /* a line for each event on standard error */
	/* Messages go as packets of TCP (net.h); loss_ppm and rto_ns are not used then.
	 */
	bool tcp;
	bool reno;                /* its windows follow Reno, not cubic */
	uint32_t segment_packets; /* packets of one fate, for speed; 0: 1 */
	uint32_t n_turns;         /* connections of a thread that send at once; 0: 2 */
	uint64_t message_ns;      /* of its node's thread, to send or receive a message */
	uint64_t kib_ns;          /* and for each KiB of it */
};

struct bps_sim_nic {
	uint64_t bits_per_s;      /* each way; 0: no limit */
	uint64_t queue_bytes;     /* before it, on the way in; 0: no limit */
	uint64_t burst_bytes;     /* with tcp: sent at once after idleness, as tbf does */
	uint64_t out_queue_bytes; /* with tcp: on the way out; 0: no limit */
};

/* What a run took. */
struct bps_sim_stats {
	uint64_t n_events, n_messages, n_bytes, n_lost;
	uint64_t n_packets, n_resent, n_timeouts; /* with tcp: of data */
	uint64_t n_refused; /* times that the sender's own queue was full */
	uint64_t hash;      /* of every event: runs of one seed have the same */
};

struct bps_sim *bps_sim_new(const struct bps_sim_config *config);
/** bps_sim_free() - takes NULL. Connections that are left go down first. */
void bps_sim_free(struct bps_sim *sim);

uint64_t bps_sim_now(const struct bps_sim *sim);
struct bps_prng *bps_sim_prng(struct bps_sim *sim);
const struct bps_sim_stats *bps_sim_stats(const struct bps_sim *sim);
/** bps_sim_trace() - a line of the test's own in the trace. */
void bps_sim_trace(struct bps_sim *sim, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** bps_sim_node() - a new node; lives as long as @sim. */
struct bps_sim_node *bps_sim_node(struct bps_sim *sim, const struct bps_sim_nic *nic);

/**
 * bps_sim_connect() - dial from one node to another; from a node to itself costs nothing.
 * @accept: consumes the connection's other end, when it is there; runs at @to.
 * Return: this end, on its way up.
 */
struct bps_conn *bps_sim_connect(struct bps_sim_node *from, struct bps_sim_node *to,
                                 void (*accept)(void *owner, struct bps_conn *conn),
                                 void *owner);

/**
 * bps_sim_at() - call @fn at @at_ns, or as soon after as @node runs (NULL: at no node).
 * Not if the node crashed.
 */
void bps_sim_at(struct bps_sim *sim, struct bps_sim_node *node, uint64_t at_ns,
                void (*fn)(void *arg), void *arg);

/** bps_sim_step() - the next event. Return: false when there is none. */
bool bps_sim_step(struct bps_sim *sim);
/** bps_sim_run() - events up to @until_ns. */
void bps_sim_run(struct bps_sim *sim, uint64_t until_ns);

/** bps_sim_crash() - @node's processes end: its connections are reset, at both ends. */
void bps_sim_crash(struct bps_sim_node *node);
/** bps_sim_silence() - nothing goes to or from @node any more; false: it does again. */
void bps_sim_silence(struct bps_sim_node *node, bool silent);
/** bps_sim_end_silence() - nodes that are silent now crash. */
void bps_sim_end_silence(struct bps_sim *sim);
/** bps_sim_stall() - @node does nothing until @until_ns; what arrives waits. */
void bps_sim_stall(struct bps_sim_node *node, uint64_t until_ns);
/** bps_sim_charge() - what the current event did took its node so long. */
void bps_sim_charge(struct bps_sim *sim, uint64_t ns);
