/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many calls and bytes were taken and passed, and why. Counted always, by relaxed
 * atomics; printed at MPI_Finalize when BPSMPI_STATS=1.
 */
#pragma once

#include <stdint.h>

#include "base/types.h"
#include "interpose/cost.h"
#include "interpose/route.h"

/** bps_stats_count() - one call of @bytes bytes went by @route. Any thread. */
void bps_stats_count(enum bps_coll coll, enum bps_route route, uint64_t bytes);
/** bps_stats_time() - a call that was taken took @ns. */
void bps_stats_time(enum bps_coll coll, uint64_t ns);
/**
 * bps_stats_learnt() - print what was learnt of the communicator @name; of one that comes
 * after many others, nothing.
 */
void bps_stats_learnt(const char *name, const struct bps_cost *cost);
/** bps_stats_print() - this rank's lines. */
void bps_stats_print(void);
