/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What engine.c (the thread, ops, groups), engine-servers.c and probe.c share.
 */
#pragma once

#include <pthread.h>

#include "base/list.h"
#include "engine/client-impl.h"
#include "engine/engine.h"
#include "engine/server.h"
#include "transport/loop.h"

struct bps_engine {
	struct bps_engine_config config;
	struct bps_cpuset cpus; /* where config.cpus points to */
	struct bps_loop *loop;
	struct bps_client *client;
	struct bps_server *server; /* NULL: none is carried */
	struct bps_tcp_listener *listeners[BPS_ENGINE_MAX_ADDRS];
	int n_listeners;
	uint32_t n_servers;     /* that were greeted */
	struct bps_list groups; /* struct bps_engine_group */
	uint64_t ticked_ns;
	pthread_t thread;
	bool stopping;
	pthread_mutex_t lock; /* of every struct call's done */
	pthread_cond_t done;
};

/** bps_engine_call() - run @fn on the engine thread, and wait for it. */
void bps_engine_call(struct bps_engine *engine,
                     void (*fn)(struct bps_engine *engine, void *arg), void *arg);
