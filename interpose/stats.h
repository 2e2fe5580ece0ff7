/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many calls and bytes were taken and passed, and why. Counted always; printed at
 * MPI_Finalize when BPSMPI_STATS=1.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/types.h"
#include "interpose/cost.h"
#include "interpose/route.h"

struct bps_count {
	uint64_t calls, bytes;
};
/* Of the thread of MPI_Init, and of all others together. */
extern struct bps_count bps_stats_own[BPS_N_COLLS][BPS_N_ROUTES];
extern struct bps_count bps_stats_others[BPS_N_COLLS][BPS_N_ROUTES];
extern __thread bool bps_stats_first;

/**
 * bps_stats_count() - one call of @bytes bytes went by @route. Any thread. Two atomic
 * additions would take longer than all the rest of a call that passes, so one thread does
 * without.
 */
static inline void bps_stats_count(enum bps_coll coll, enum bps_route route,
                                   uint64_t bytes)
{
	struct bps_count *own = &bps_stats_own[coll][route];
	struct bps_count *others = &bps_stats_others[coll][route];

	if (bps_stats_first) {
		bps_store_relaxed(&own->calls, own->calls + 1);
		bps_store_relaxed(&own->bytes, own->bytes + bytes);
	} else {
		bps_add_relaxed(&others->calls, 1);
		bps_add_relaxed(&others->bytes, bytes);
	}
}

/** bps_stats_time() - a call that was taken took @ns. */
void bps_stats_time(enum bps_coll coll, uint64_t ns);
/**
 * bps_stats_learnt() - print what was learnt of the communicator @name; of one that comes
 * after many others, nothing.
 */
void bps_stats_learnt(const char *name, const struct bps_cost *cost);
/** bps_stats_crossed() - this rank took @bytes from one memory node to another. */
void bps_stats_crossed(uint64_t bytes);
/**
 * bps_stats_print_nodes() - a line on that, if there was any; all communicators are gone.
 * @node: this rank's; BPS_NUMA_NONE: not known
 */
void bps_stats_print_nodes(uint32_t node);
/** bps_stats_print() - this rank's lines. */
void bps_stats_print(void);
