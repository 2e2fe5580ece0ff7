/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine of one process: a thread with a loop, the client that pushes what this
 * process leads, and, where no servers are named, the server that it carries. Started
 * when the process first leads something; asleep in epoll when there is nothing to do.
 *
 * The functions here are called by the threads of the application; what they ask for
 * happens on the engine thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cpuset.h"
#include "engine/client.h"
#include "engine/stage.h"
#include "transport/reach.h"
#include "transport/tcp.h"

struct bps_engine;

struct bps_engine_config {
	struct bps_client_config client;
	uint64_t server_memory_bytes;
	uint64_t retry_ns; /* how long a server that does not answer is tried */
	const struct bps_cpuset *cpus; /* of its thread, copied; NULL: its starter's */
};

/* One server of the job. */
struct bps_engine_server {
	const char *name;             /* for messages */
	const struct bps_addr *addrs; /* tried in turn */
	int n_addrs;
	const struct bps_addr *source; /* of the connections; NULL: by route */
	const struct bps_rail *rails; /* instead of both, taken in turn; each was tried */
	uint32_t n_rails;             /* 0: none is known yet */
	bool carried;                 /* it is part of another process of the job */
	bool local;                   /* the one that this process carries */
	uint32_t n_connections;       /* on each rail; where it is local, there is one */
};

/* A rail to a server that is to be tried. */
struct bps_engine_trial {
	uint32_t server; /* its number */
	const char *name;
	struct bps_rail rail;
	/* error 0: it carries; -ETIMEDOUT: nothing arrives, -EMSGSIZE: no large packets
	 */
	struct bps_reason reason;
	uint32_t connection; /* the engine's */
};

/* A server and its first connection. */
struct bps_engine_answer {
	uint64_t id; /* random, one a server: the same for all who reach it */
	struct bps_addr here, there; /* bytes 0: there is no network between the two */
	struct bps_card_addr
		addrs[BPS_WIRE_MAX_ADDRS]; /* where it says that it listens */
	uint32_t n_addrs;
};

/* The ways to a server. */
struct bps_engine_ways {
	struct bps_rail first; /* of the first connection; to.bytes 0: of no network */
	bool keeps_first;      /* it is one of those that there should be */
	struct bps_rail others[BPS_REACH_MAX_RAILS];
	uint32_t n_others;
};

/* What one network card of this box carried. */
struct bps_engine_card {
	char name[IF_NAMESIZE];
	uint32_t n_connections; /* of the client, and of the server that it carries */
	uint64_t sent_bytes, received_bytes;
};

/** bps_engine_start() - Return: 0 and a running engine; a negative errno (logged). */
int bps_engine_start(const struct bps_engine_config *config,
                     struct bps_engine **ret_engine);

/**
 * bps_engine_stop() - takes NULL. Goodbyes are said and waited for, at most a few
 * seconds; then the thread is joined. Stages that joined are free to be freed after this.
 */
void bps_engine_stop(struct bps_engine *engine);

#define BPS_ENGINE_MAX_ADDRS 16

/**
 * bps_engine_serve() - carry a server, on @addrs (1 to BPS_ENGINE_MAX_ADDRS; port 0:
 * any). Return: 0 with the first address in *@ret_addr; a negative errno (logged).
 */
int bps_engine_serve(struct bps_engine *engine, const struct bps_addr *addrs, int n_addrs,
                     struct bps_addr *ret_addr);

/** bps_engine_listening() - where that server listens, ports filled in. @ret: room for
 * @max. Return: how many, 0 where there is none. */
uint32_t bps_engine_listening(struct bps_engine *engine, struct bps_addr *ret,
                              uint32_t max);

/**
 * bps_engine_connect() - greet @servers, which get the numbers 0 to @n - 1: make as many
 * connections to each as it says, or close what there is beyond that. Before any group
 * has joined. Waits until each one has granted a window or failed.
 * Return: 0; the first error, with its reason in *@ret_reason.
 */
int bps_engine_connect(struct bps_engine *engine, const struct bps_engine_server *servers,
                       uint32_t n, struct bps_reason *ret_reason);

/** bps_engine_ask() - what is known of server @server, which has granted a window. */
void bps_engine_ask(struct bps_engine *engine, uint32_t server,
                    struct bps_engine_answer *ret_answer);

/**
 * bps_engine_ways() - how @n_cards addresses of this box reach server @server, which has
 * granted a window, by the addresses that it tells: bps_reach_rails().
 */
void bps_engine_ways(struct bps_engine *engine, uint32_t server,
                     const struct bps_netif *cards, int n_cards,
                     struct bps_engine_ways *ret);

/**
 * bps_engine_try() - have one more connection on each of @n rails to servers that have
 * granted a window. Waits until each is granted one or has failed, or @patience_ns are
 * over; those that are not open then are closed, and trial.reason says why.
 */
void bps_engine_try(struct bps_engine *engine, struct bps_engine_trial *trials,
                    uint32_t n, uint64_t patience_ns);

/** bps_engine_trial_why() - why it failed while another way to that server did not, and
 * what to do; borrowed while @trial lives. */
const char *bps_engine_trial_why(const struct bps_engine_trial *trial);

/** bps_engine_drop() - bps_client_drop() of the first connection to @server. */
void bps_engine_drop(struct bps_engine *engine, uint32_t server);

/**
 * bps_engine_cards() - what each network card carried so far, connections that are closed
 * not counted. @ret: room for @max. Return: how many.
 */
uint32_t bps_engine_cards(struct bps_engine *engine, struct bps_engine_card *ret,
                          uint32_t max);

/**
 * bps_engine_probe() - how fast this process and @server exchange bytes, both ways at
 * once, when nothing else is on the way: by ops of a group of one member.
 * @least_ns: how long to look at least, unless 64 MiB have gone by.
 * Return: 0 with the lesser of the two rates in *@ret_bytes_per_s; a negative errno with
 * its reason.
 */
int bps_engine_probe(struct bps_engine *engine, uint32_t server, uint64_t least_ns,
                     uint64_t *ret_bytes_per_s, struct bps_reason *ret_reason);

/** bps_engine_load() - bps_client_load() of @n servers. */
void bps_engine_load(struct bps_engine *engine, const uint32_t *servers, uint32_t n,
                     struct bps_load *ret_loads);

/* A group that this process leads, and its stage. Owned by the caller. */
struct bps_engine_group {
	struct bps_group group; /* filled as engine/client.h says */
	struct bps_stage *stage;
	uint32_t region; /* names the stage on the wire */
	/* the engine's */
	struct bps_list link;
	struct bps_list ops;
	bool broken; /* the stage's memory stays until the engine stops */
};

/** bps_engine_join() - Return: 0; a negative errno, also where one of its servers died.
 */
int bps_engine_join(struct bps_engine *engine, struct bps_engine_group *group);
/**
 * bps_engine_leave() - no op of @group is unfinished, or it is broken. Return: true when
 * the stage may be freed now; false: not before bps_engine_stop().
 */
bool bps_engine_leave(struct bps_engine *engine, struct bps_engine_group *group);

/**
 * bps_engine_submit() - the group's next op, whose parts lie in the stage from
 * bps_stage_position() on. @call: as given to bps_stage_run(); copied. @root: broadcast:
 * the member that has the data. A failure reaches the ranks through the stage.
 */
void bps_engine_submit(struct bps_engine *engine, struct bps_engine_group *group,
                       const struct bps_stage_call *call, uint16_t root);

/** bps_engine_bind() - let its thread run on @cpus alone; what fails is logged. */
void bps_engine_bind(struct bps_engine *engine, const struct bps_cpuset *cpus);

/** bps_engine_wake_fd() - wakes the engine; for the stages of the box's other ranks. */
int bps_engine_wake_fd(const struct bps_engine *engine);
