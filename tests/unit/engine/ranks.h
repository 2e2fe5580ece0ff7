/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks of a box as threads that share one mapping, so that a sanitizer sees all that
 * they do to it; their groups; and small whole numbers in any type, whose sums are exact.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/types.h"
#include "engine/levels.h"
#include "engine/stage.h"

#define RANKS_MOST 8

/* A box; nodes are numbers of the test's, nobody needs to have them. */
struct ranks_box {
	const char *name;
	uint32_t n_ranks;
	uint32_t group_of[RANKS_MOST];
	struct bps_levels levels; /* its arrays are filled by ranks_box_fill() */
	uint32_t nodes[RANKS_MOST];
};

/** ranks_boxes - boxes of one to three groups, even and uneven. */
extern struct ranks_box ranks_boxes[];
extern const size_t ranks_n_boxes;

/** ranks_size() - of group @group. */
uint32_t ranks_size(const struct ranks_box *box, uint32_t group);

/**
 * ranks_run() - run @fn for each rank, each in a thread; its status is 0 or says what is
 * wrong, and then the test fails and names it.
 */
void ranks_run(const struct ranks_box *box, int (*fn)(void *owner, uint32_t rank),
               void *owner);

/** ranks_dawdle() - now and then sleep for a moment. @seed: changes. */
void ranks_dawdle(uint32_t *seed);

/** ranks_unmap() - end the mapping; before the next one is made. */
void ranks_unmap(void);

/** ranks_wait - sleeps that only a wake-up ends before the test does. */
extern const struct bps_stage_wait ranks_wait;

/* -- placing, as it is asked for -- */

struct ranks_placed {
	const char *from;
	size_t bytes;
	uint32_t node;
};
/** ranks_placed - what was placed since ranks_forget(). */
extern struct ranks_placed ranks_placed[64];
extern uint32_t ranks_n_placed;
/** ranks_forget() - start anew. @error: what placing says from now on; 0: it works. */
void ranks_forget(int error);

/* -- values -- */

/* The sum, product ... of up to RANKS_MOST values is a whole number of 0 to 255. */
uint32_t ranks_value(enum bps_redop redop, uint32_t rank, size_t i);
uint32_t ranks_fold(enum bps_redop redop, uint32_t n_ranks, size_t i);
/** ranks_put() - write @value as element @i; its complex part is the same. */
void ranks_put(void *at, enum bps_dtype dtype, size_t i, uint32_t value);
/** ranks_holds() - whether element @i is @value, bit by bit. */
bool ranks_holds(const void *at, enum bps_dtype dtype, size_t i, uint32_t value);

/** ranks_float() - floats whose sums have other bits in another order. */
float ranks_float(uint32_t rank, uint64_t call, size_t i);
/**
 * ranks_float_sum() - group @first in rank order, then the sums of the others in the
 * order of groups.
 */
float ranks_float_sum(const struct ranks_box *box, uint32_t first, uint64_t call,
                      size_t i);
