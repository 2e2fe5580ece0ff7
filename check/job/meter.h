/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine and the one server that it exchanges bytes with, over all network cards that
 * lead there. One thread at a time.
 */
#pragma once

#include <pthread.h>

#include "check/job/impl.h"
#include "engine/engine.h"

struct bps_meter {
	struct bps_engine *engine; /* NULL: there is no exchange */
	uint64_t least_ns;         /* set by the caller: how long to look */
	uint64_t bytes_per_s;      /* what was seen, one way; 0: it failed, see reason */
	struct bps_reason reason;
	uint32_t enough;  /* bps_meter_keep() ends soon; set by any thread */
	pthread_t thread; /* the caller's */
};

/* What all meters of a job have in common. */
struct bps_meter_job {
	uint8_t id[16];
	uint32_t n_peers; /* meters of all boxes */
	struct bps_netif cards[BPS_NETIF_MAX];
	int n_cards; /* of this box, that may be used */
};

/**
 * bps_meter_carry() - start a server in this process, on all cards.
 * @ret_addr: where it is reached; bytes 0 on failure
 * Return: 0; a negative errno. The caller stops *@ret, which is NULL on failure.
 */
int bps_meter_carry(const struct bps_meter_job *job, struct bps_engine **ret,
                    struct bps_addr *ret_addr);

/**
 * bps_meter_start() - connect to the server called @name at one of @addrs.
 * @peer: below job->n_peers, of this meter alone
 * Return: 0; a negative errno, and meter->reason may say more; there is no engine then.
 */
int bps_meter_start(const struct bps_meter_job *job, struct bps_meter *meter,
                    uint32_t peer, const char *name, const struct bps_addr *addrs,
                    int n_addrs);

/** bps_meter_run() - a thread's function: exchange bytes; @meter has an engine. */
void *bps_meter_run(void *meter);

/** bps_meter_keep() - a thread's function: the same again and again, until meter->enough
 * is set or one fails. */
void *bps_meter_keep(void *meter);

/** bps_meter_bytes() - what has come in so far, or gone out where that is less; meanwhile
 * a thread may keep exchanging. */
uint64_t bps_meter_bytes(const struct bps_meter *meter);

/** bps_meter_stop() - one without engine is fine. */
void bps_meter_stop(struct bps_meter *meter);
