/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The summation server with threads: loops that talk to the network and reducers that
 * sum, around the state machines of engine/server.h. The first loop accepts; connections
 * are dealt to the loops in turn and stay there for life. Arrivals go from a loop to a
 * reducer's queue and come back as letters to the loop.
 *
 * Every thread is bound inside the given CPUs and sleeps when it has nothing to do. The
 * functions here belong to the thread that started the server, which is none of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/cpuset.h"
#include "engine/server.h"
#include "topology/placement.h"
#include "transport/addr.h"

#define BPS_SERVERD_MAX_ADDRS 16

/* The address of a network card, and the memory node near it as struct bps_place_server
 * has it. */
struct bps_serverd_card {
	struct bps_addr addr; /* port 0 */
	uint32_t node;
};

/* A connection whose first whole message is not there after this is closed. */
#define BPS_SERVERD_HELLO_NS (10 * BPS_NS_PER_S)

struct bps_serverd;

struct bps_serverd_config {
	const char *host; /* as in struct bps_server_config; copied */
	const struct bps_addr
		*addrs; /* to listen on; port 0: any free one, the same on all */
	int n_addrs;    /* 1 to BPS_SERVERD_MAX_ADDRS */
	const struct bps_cpuset *cpus; /* where threads may run; not empty; copied */
	uint32_t n_loops;              /* 1 or more */
	uint32_t n_reducers;           /* 0: as many as @cpus has room for busy threads */
	/*
	 * Where each thread runs, and so where the memory lies that it touches first;
	 * NULL: anywhere in @cpus. The number of threads is theirs then. A connection
	 * goes to a loop near the card that it came by, if there is one. All borrowed
	 * during the call.
	 */
	const struct bps_place_server *loops, *reducers;
	const struct bps_serverd_card *cards;
	uint32_t n_cards;
	uint64_t memory_bytes;    /* bound on windows and sums of all jobs */
	uint32_t max_slots;       /* bound on the window a member is granted, in slots */
	uint32_t max_connections; /* newcomers are closed while there are so many */
	bool quiet; /* inside a job: say nothing of peers that come and go */
};

/**
 * bps_serverd_start() - listen and serve. @config is borrowed during the call.
 *
 * Return: 0 and a server that the caller ends with bps_serverd_stop(); or a negative
 * errno, logged, with nothing left behind: -EADDRINUSE and its like name the address and
 * what to do.
 */
int bps_serverd_start(const struct bps_serverd_config *config,
                      struct bps_serverd **ret_serverd);

/**
 * bps_serverd_drain() - accept nobody any more; who is connected is served on.
 * Idempotent.
 */
void bps_serverd_drain(struct bps_serverd *serverd);

/**
 * bps_serverd_stop() - close every connection, end the threads, free. Takes NULL. Waits
 * until the closed connections have come to their end (transport/tcp.h).
 */
void bps_serverd_stop(struct bps_serverd *serverd);

/**
 * bps_serverd_addr() - number @n (0 to n_addrs - 1) of what it listens on, port filled
 * in. Borrowed until bps_serverd_drain(), NULL after it.
 */
const struct bps_addr *bps_serverd_addr(const struct bps_serverd *serverd, int n);
uint32_t bps_serverd_n_reducers(const struct bps_serverd *serverd);
/** bps_serverd_server() - for its counters and jobs; borrowed. */
struct bps_server *bps_serverd_server(const struct bps_serverd *serverd);
