/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The summation server: connections, jobs and windows here, keys in engine/reducer.h.
 * State machines without thread, clock or socket. A peer belongs to the loop of its
 * connection for life and a key to one reducer; what passes between them are arrivals,
 * handed over through struct bps_server_ops: a direct call where one thread does it all
 * (a colocated server, the simulator), a letter where loops and reducers are threads
 * (engine/serverd.h). Only the table of jobs is shared, under the server's lock.
 *
 * A member is granted the window that it asked for, at most max_slots, and
 * BPS_SPARE_SLOTS more: whose windows are full of different ops, each waiting for the
 * others', can still push the oldest part of so many groups (engine/push.c). Their
 * pages are not touched until then.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "engine/kernels/kernels.h"
#include "engine/reducer.h"
#include "transport/loop.h"
#include "transport/transport.h"

struct bps_server;

/* Slots beyond the window: groups that can be in the midst of ops at once, less one. */
#define BPS_SPARE_SLOTS 7u

enum bps_arrival_kind {
	BPS_ARRIVAL_PUSH, /* to the reducer and back: a member's part, then its answer */
	BPS_ARRIVAL_PING, /* to the reducer and back: who is missing from a key? */
	BPS_ARRIVAL_CANCEL, /* to a reducer: a member says that its group is finished */
	BPS_ARRIVAL_PURGE,  /* to a reducer: a job is over, forget its keys */
	BPS_ARRIVAL_LOST,   /* to a peer's loop: another peer of its job is gone */
};

/* What an answer's bytes lie in while answers are on the wire; the last user releases. */
struct bps_hold {
	uint32_t refs; /* bps_fetch_add/sub */
	void (*release)(struct bps_hold *hold);
};

/*
 * What passes between a peer and a reducer. A PUSH lies in its window slot and a PING in
 * its peer for ever; the other kinds are allocated, and freed by the last to have them.
 * Whoever has it owns it.
 */
struct bps_arrival {
	struct bps_mail mail; /* for the way between threads */
	enum bps_arrival_kind kind;
	bool busy; /* not free for the next PUSH or PING */
	struct bps_peer *peer;
	struct bps_job *job;
	struct bps_arrival *next_come; /* the reducer's: who came next to the same key */
	struct bps_wire_hdr hdr;       /* of the message; LOST: peer */
	void *data;                    /* hdr.payload_bytes bytes */
	/* the answer, filled by the reducer */
	bool failed; /* ERROR with text, not ANSWER */
	const void *answer;
	uint32_t answer_bytes;
	char *text; /* malloc'ed: ERROR's text, also CANCEL's; PONG's members */
	struct bps_hold *hold; /* put when the answer is out; NULL: none */
	struct bps_hold own;   /* where this arrival's data is the answer (broadcast) */
	struct bps_send send;
};

/* One connection of a member. Owner: the thread of its loop. */
struct bps_peer {
	struct bps_server *server;
	struct bps_job *job;   /* NULL before its HELLO */
	struct bps_list link;  /* among its job's, under the server's lock */
	struct bps_list all;   /* among the server's, likewise */
	struct bps_loop *loop; /* NULL where no letters are sent */
	struct bps_conn *conn; /* NULL when it is over */
	uint32_t refs;         /* atomic: the connection, arrivals, letters to it */
	uint32_t world_rank, connection; /* a rank may have several */
	bool said_bye;
	bool pushed; /* anything, ever */
	uint32_t n_slots, slot_bytes;
	uint8_t *window;           /* n_slots * slot_bytes */
	struct bps_arrival *slots; /* n_slots */
	struct bps_arrival ping;
	uint8_t control[BPS_WIRE_CTL_PAYLOAD];
	struct bps_send welcome;
	uint8_t greeting[BPS_WIRE_GREETING_BYTES]; /* HELLO's payload, then WELCOME's */
	char host[BPS_WIRE_HOST_CHARS];
};

struct bps_server_ops {
	/* hand @arrival to reducer number @reducer: bps_reducer_take() */
	void (*to_reducer)(struct bps_server *server, uint32_t reducer,
	                   struct bps_arrival *arrival);
	/* hand @arrival to its peer's thread: bps_peer_take() */
	void (*to_peer)(struct bps_server *server, struct bps_arrival *arrival);
};

struct bps_server_config {
	const char *host;      /* for WELCOME and messages; copied */
	uint64_t memory_bytes; /* bound on windows and sums of all jobs */
	uint32_t n_reducers;
	uint32_t max_slots; /* bound on the window a member is granted, in slots */
	bool quiet;         /* inside a job: say nothing of peers that come and go */
	/* where it can be reached: into @ret, at most @max, how many; NULL: not said */
	int (*addrs)(void *owner, struct bps_card_addr *ret, int max);
	/* what sums; NULL: bps_kernel() */
	bps_reduce_fn *(*kernel)(enum bps_dtype dtype, enum bps_redop redop);
};

/**
 * bps_server_new() - @ops NULL: everything on the calling thread. @ops and @reducers are
 * borrowed. Return: 0 and a server owned by the caller, -ENOMEM or -EIO.
 */
int bps_server_new(const struct bps_server_config *config,
                   const struct bps_server_ops *ops, void *owner,
                   struct bps_server **ret_server);
/**
 * bps_server_charge() - what a member of a job of @n_peers ranks counts for, against
 * memory_bytes, with a connection of @n_slots slots, spare ones not counted.
 */
uint64_t bps_server_charge(uint32_t n_slots, uint32_t slot_bytes, uint32_t n_peers);

/** bps_server_free() - takes NULL. Every connection was closed or went down before. */
void bps_server_free(struct bps_server *server);
void *bps_server_owner(const struct bps_server *server);
struct bps_reducer *bps_server_reducer(struct bps_server *server, uint32_t reducer);

/**
 * bps_server_accept() - consumes @conn, an accepted connection; on @loop's thread.
 * @loop may be NULL where no letters are sent. Return: 0 or -ENOMEM (it is closed then).
 */
int bps_server_accept(struct bps_server *server, struct bps_loop *loop,
                      struct bps_conn *conn);

/**
 * bps_server_close_peers() - close every connection of @loop, on its thread; the jobs
 * end. The transport still gives back what is under way.
 */
void bps_server_close_peers(struct bps_server *server, const struct bps_loop *loop);

/**
 * bps_server_each() - call @fn for each connection of @loop, on its thread; it asks
 * nothing of @server.
 */
void bps_server_each(struct bps_server *server, const struct bps_loop *loop,
                     void (*fn)(void *arg, const struct bps_conn *conn), void *arg);

/** bps_peer_take() - on the peer's thread: answer, or drop, what a reducer gave back. */
void bps_peer_take(struct bps_arrival *arrival);

/**
 * bps_server_n_jobs() - jobs that have a connection; any thread.
 */
uint32_t bps_server_n_jobs(struct bps_server *server);
/** bps_server_n_peers() - peers that have a connection or something under way; any
 * thread. */
uint32_t bps_server_n_peers(struct bps_server *server);

/* What a server counted since its start, for its closing line; relaxed, any thread. */
struct bps_server_counters {
	uint64_t n_jobs, n_peers, n_pushes, n_answers, n_push_bytes, n_answer_bytes;
	uint64_t n_refused;
};
struct bps_server_counters *bps_server_counters(struct bps_server *server);

/* Bytes; any thread. */
struct bps_server_memory {
	uint64_t used_bytes; /* charged for the peers there are, <= memory_bytes */
	uint64_t peak_bytes; /* the most there was of it */
	uint64_t sum_bytes;  /* of it: buffers of sums that were needed so far */
};
void bps_server_memory(struct bps_server *server, struct bps_server_memory *ret_memory);
/** bps_server_n_keys() - open keys; where everything is on the calling thread. */
uint32_t bps_server_n_keys(struct bps_server *server);

/* -- for engine/reducer.c -- */

/** bps_hold_get(), bps_hold_put() - any thread; the last put releases. */
void bps_hold_get(struct bps_hold *hold);
void bps_hold_put(struct bps_hold *hold);
/** bps_server_to_peer() - give @arrival back; any thread. */
void bps_server_to_peer(struct bps_server *server, struct bps_arrival *arrival);
/** bps_job_put() - drop a reference to a job; any thread. */
void bps_job_put(struct bps_server *server, struct bps_job *job);
/** bps_job_pool() - buffers of one partition each for the sums of @job. */
struct bps_pool *bps_job_pool(struct bps_job *job);
/** bps_server_kernel() - what sums; NULL when there is none. */
bps_reduce_fn *bps_server_kernel(const struct bps_server *server, uint8_t dtype,
                                 uint8_t redop);
