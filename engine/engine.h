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
	bool local;                    /* the one that this process carries */
	uint32_t n_connections;        /* to it; where it is local, there is one */
};

/** bps_engine_start() - Return: 0 and a running engine; a negative errno (logged). */
int bps_engine_start(const struct bps_engine_config *config,
                     struct bps_engine **ret_engine);

/**
 * bps_engine_stop() - takes NULL. Goodbyes are said and waited for, at most a few
 * seconds; then the thread is joined. Stages that joined are free to be freed after this.
 */
void bps_engine_stop(struct bps_engine *engine);

/**
 * bps_engine_serve() - carry a server, on @addr (port 0: any).
 * Return: 0 with the address in *@ret_addr; a negative errno (logged).
 */
int bps_engine_serve(struct bps_engine *engine, const struct bps_addr *addr,
                     struct bps_addr *ret_addr);

/**
 * bps_engine_connect() - greet @servers, which get the numbers 0 to @n - 1: make as many
 * connections to each as it says, or close what there is beyond that. Before any group
 * has joined. Waits until each one has granted a window or failed.
 * Return: 0; the first error, with its reason in *@ret_reason.
 */
int bps_engine_connect(struct bps_engine *engine, const struct bps_engine_server *servers,
                       uint32_t n, struct bps_reason *ret_reason);

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

/** bps_engine_wake_fd() - wakes the engine; for the stages of the box's other ranks. */
int bps_engine_wake_fd(const struct bps_engine *engine);
