/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the ranks of a communicator of several boxes have agreed on for its next ops:
 * which share each server sums, and how large partitions are.
 *
 * It begins with a model: shares by the bandwidths of boxes and servers
 * (engine/shares.h), partitions by the bandwidth and the number of boxes
 * (docs/flow-control.md). Every few calls the ranks find the greatest of what each of
 * them saw, in a small op of the engine at the beginning of a call that they are all in;
 * from the same numbers each computes the same next plan. So a plan changes between the
 * same two ops everywhere.
 *
 * A communicator is used by one thread at a time, and so is this.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/client.h"
#include "engine/plan.h"
#include "engine/shares.h"

struct bps_tune;

struct bps_tune_config {
	struct bps_shares_in links; /* arrays of this communicator's, borrowed */
	uint32_t n_servers;         /* dedicated, and where boxes carry one, theirs */
	uint32_t largest_bytes;     /* a partition may be */
	bool pinned;                /* and is, because the user said so */
	uint32_t window;            /* partitions, because the user said so; 0: not */
	uint32_t n_connections;     /* of a member to a server, in all; 0: 1 */
	uint32_t n_rails;           /* that these take; 0: 1 */
};

/**
 * bps_tune_new() - @config: copied, its arrays are borrowed until bps_tune_free().
 * Return: 0, or a negative errno.
 */
int bps_tune_new(const struct bps_tune_config *config, struct bps_tune **ret_tune);
/** bps_tune_free() - takes NULL. */
void bps_tune_free(struct bps_tune *tune);

/**
 * bps_tune_cut() - how the next op is cut. @root: of a broadcast, the member.
 * The cut's slices are borrowed until the next call. @ret_window: partitions that may be
 * unanswered at a server.
 */
int bps_tune_cut(struct bps_tune *tune, enum bps_coll coll, uint32_t root, uint64_t bytes,
                 struct bps_cut *ret_cut, uint32_t *ret_window);

/**
 * bps_tune_partition() - the largest partition until the next exchange;
 * bps_tune_most() - the largest there will ever be.
 */
uint32_t bps_tune_partition(const struct bps_tune *tune);
uint32_t bps_tune_most(const struct bps_tune *tune);

/** bps_tune_s_per_byte() - what an allreduce takes at least, by its plan. */
double bps_tune_s_per_byte(const struct bps_tune *tune);

/** bps_tune_due() - count a call; whether it begins with an exchange. */
bool bps_tune_due(struct bps_tune *tune);

/** bps_tune_n_words() - how many numbers an exchange with @n_servers compares. */
uint32_t bps_tune_n_words(uint32_t n_servers);

/** bps_tune_took() - an op of @bytes took @ns on this rank; not those of exchanges. */
void bps_tune_took(struct bps_tune *tune, uint64_t bytes, uint64_t ns);

/**
 * bps_tune_report() - a rank's part in an exchange.
 * @loads: since the beginning, of each server; NULL: this rank leads nothing.
 * @ret_words: bps_tune_n_words()
 */
void bps_tune_report(struct bps_tune *tune, const struct bps_load *loads,
                     int64_t *ret_words);

/**
 * bps_tune_agree() - @words: the greatest of all ranks. The next plan.
 * Return: whether servers have other shares.
 */
bool bps_tune_agree(struct bps_tune *tune, const int64_t *words);
