/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What server.c (the table of jobs and peers) and peer.c (the conversation with one
 * member) share.
 */
#pragma once

#include <pthread.h>

#include "engine/hash.h"
#include "engine/pool.h"
#include "engine/server.h"

/* One training job: the peers that know the same 16 bytes. */
struct bps_job {
	UT_hash_handle hh;
	uint8_t id[16];
	uint32_t n_peers_max; /* world size */
	uint32_t slot_bytes;
	struct bps_pool *pool;
	struct bps_list peers; /* with a connection */
	uint32_t refs;         /* peers of any state, purges under way */
	bool over;             /* its last peer left: not in the table any more */
};

struct bps_server {
	struct bps_server_config config;
	char host[BPS_WIRE_HOST_CHARS];
	uint64_t number; /* random, of this server: never 0 */
	const struct bps_server_ops *ops;
	void *owner;
	struct bps_reducer **reducers;
	pthread_mutex_t lock;  /* all below, and each job's peers and refs */
	struct bps_list peers; /* with a connection, of any job or none yet */
	uint32_t n_peers;      /* in memory: with a connection, or something under way */
	struct bps_job *jobs;
	uint64_t used_bytes, peak_bytes;
	struct bps_server_counters counters; /* relaxed atomics */
};

/* -- server.c -- */

/** bps_server_add_peer() - a connection was accepted. */
void bps_server_add_peer(struct bps_server *server, struct bps_peer *peer);
/** bps_server_drop_peer() - the last reference to @peer is gone: end what it was charged.
 */
void bps_server_drop_peer(struct bps_server *server, struct bps_peer *peer);

/** bps_server_left() - bytes of memory that new peers may still be granted. */
uint64_t bps_server_left(struct bps_server *server);

/**
 * bps_server_join() - make @peer, whose rank and window are set, one of its job's.
 * Return: 0 with peer->job set, or -ECONNREFUSED with the reason as @text.
 */
int bps_server_join(struct bps_peer *peer, const struct bps_wire_hello *hello, char *text,
                    size_t bytes);

/**
 * bps_server_leave() - the connection of @peer is over: in order, or @lost, which the
 * others of its job are told. A job without connections is over.
 */
void bps_server_leave(struct bps_peer *peer, bool lost);

/* -- peer.c -- */

/** bps_peer_notice() - an allocated arrival that holds a reference to @peer, or NULL. */
struct bps_arrival *bps_peer_notice(struct bps_peer *peer, enum bps_arrival_kind kind);
/** bps_peer_close() - end its connection in order, and leave. */
void bps_peer_close(struct bps_peer *peer);
