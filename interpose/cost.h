/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which way the calls of a communicator go: ours or the MPI library's, whichever is
 * faster. Learnt for each collective and each size class, a power of two of bytes, by
 * trying both.
 *
 * A series of trials: a call each way that does not count (cold caches, connections that
 * are not open yet), then pairs of calls, ours and the library's, until it is clear which
 * is faster. Later series, ever rarer, find out whether that has changed; together they
 * cost BPS_COST_SHARE of the time at most.
 *
 * All ranks must decide alike at the same call. So nothing here depends on anything but
 * the number of calls and their total bytes, which are equal on all ranks, and on times
 * that were agreed: before each trial that counts, and before the call after the last
 * one, the ranks take the maximum over them of how long the trial before took. They leave
 * that exchange nearly together, so the maximum is the time from a common start until the
 * last rank has its result, whichever rank that is (the root of a broadcast is done
 * early), and a rank that comes late to the call is charged to neither way.
 *
 * Pure: no clock and no MPI. Belongs to the thread that is in a collective on the
 * communicator; MPI allows one at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/types.h"

/* Class c holds the sizes from 2^c bytes to below 2^(c+1); the last one all above. */
#define BPS_COST_CLASSES   40
#define BPS_COST_MAX_PAIRS 7
/* Of the time, for all series after the first. */
#define BPS_COST_SHARE 0.02
/* Where all ranks of the job share a box, smaller calls are worth trying too. */
#define BPS_COST_ONE_BOX_BYTES (UINT64_C(4) << 10)
/* How long a call took that failed. */
#define BPS_COST_FAILED_NS INT64_MAX

enum bps_cost_way { BPS_COST_NATIVE, BPS_COST_OWN, BPS_COST_N_WAYS };

/* What is known before any call. Equal on all ranks of the communicator. */
struct bps_cost_model {
	double own_latency_s;
	double own_s_per_byte;
	double native_s_per_byte_least; /* no algorithm of the library can need less */
};

struct bps_cost_class {
	enum bps_cost_way way; /* of the calls that are no trials */
	bool trying;           /* a series is under way */
	bool decided;          /* way is the result of one */
	uint32_t step;         /* trials of this series so far */
	uint32_t missed;       /* calls since the last trial, of other sizes */
	uint32_t
		confirmed; /* series that ended without a change, since the last change */
	uint64_t n_calls;
	uint64_t rest;                      /* calls before the next series */
	uint64_t bytes;                     /* about the size of this series' calls */
	int64_t took_ns;                    /* the last trial, on this rank */
	int64_t learnt_ns[BPS_COST_N_WAYS]; /* in the last series that ended */
	int64_t agreed_ns[BPS_COST_N_WAYS][BPS_COST_MAX_PAIRS]; /* in this series */
};

/*
 * What is learnt apart: each collective, by its number; and allreduces of 16-bit floats,
 * that the library does by operations of the application, in a time of their own.
 */
#define BPS_COST_HALVES BPS_N_COLLS
#define BPS_COST_N_ROWS (BPS_N_COLLS + 1)

/* Of one communicator. All zero: nothing is known, and the library's way is the way. */
struct bps_cost {
	struct bps_cost_class classes[BPS_COST_N_ROWS][BPS_COST_CLASSES];
};

/**
 * bps_cost_least_bytes() - the smallest call that is looked at more closely.
 * @one_box: all ranks of the job are in one box.
 */
uint64_t bps_cost_least_bytes(const struct bps_config *config, bool one_box);

/**
 * bps_cost_predict() - before the first call: use @model of @coll's times. Classes in
 * which it is sure that ours is faster need no trials first.
 */
void bps_cost_predict(struct bps_cost *cost, enum bps_coll coll,
                      const struct bps_cost_model *model);

/** bps_cost_class() - what is known of calls of row @row with @bytes bytes. */
struct bps_cost_class *bps_cost_class(struct bps_cost *cost, uint32_t row,
                                      uint64_t bytes);

/**
 * bps_cost_asks() - whether, before a call of @bytes, all ranks are to agree on the
 * maximum of their class->took_ns and tell it to bps_cost_agreed(). Equal on all ranks.
 */
bool bps_cost_asks(const struct bps_cost_class *class, uint64_t bytes);

/** bps_cost_agreed() - @ns: the maximum. Returns whether that ended a series. */
bool bps_cost_agreed(struct bps_cost_class *class, int64_t ns);

/**
 * bps_cost_next() - which way a call of @bytes goes; equal on all ranks.
 * @ret_trial: whether to put into class->took_ns how long it took on this rank.
 */
enum bps_cost_way bps_cost_next(struct bps_cost_class *class, uint64_t bytes,
                                bool *ret_trial);

/**
 * bps_cost_format() - what was learnt of row @row: "4K-256K native (1.2-1.9x), 1M own
 * (1.8x)", with how many times as long the other way took.
 * Returns whether there was anything to say.
 */
bool bps_cost_format(const struct bps_cost *cost, uint32_t row, char *ret_text,
                     size_t text_bytes);
