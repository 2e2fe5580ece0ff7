/* SPDX-License-Identifier: BSD-3-Clause */
/* What stage.c (the memory, the engine's side) and stage-run.c (a call) share. */
#pragma once

#include "base/event.h"
#include "engine/groups.h"
#include "engine/stage.h"

#define BPS_STAGE_LINE 64u

struct bps_stage_counters {
	_Alignas(BPS_STAGE_LINE) uint64_t staged;
	uint64_t turns; /* of waiting, see engine/late.h */
	_Alignas(BPS_STAGE_LINE) uint64_t copied;
};

struct bps_stage_flags {
	_Alignas(BPS_STAGE_LINE) uint64_t summed;
	uint64_t done;
};

/* Of a group's slot. */
struct bps_stage_near {
	_Alignas(BPS_STAGE_LINE) uint64_t gathered;
	uint64_t relayed;
};

/* The beginning of the shared memory; counters, flags, levels and buffers follow. */
struct bps_stage_shared {
	uint32_t magic;
	uint32_t n_ranks, max_slots, n_groups, n_near;
	uint64_t ring_bytes;
	_Alignas(BPS_STAGE_LINE) struct bps_event event;
	_Alignas(BPS_STAGE_LINE) uint32_t engine_sleeps;
	uint32_t failed; /* set after reason */
	uint32_t told;
	struct bps_reason reason;
};

/* Where things lie, from the start of the shared memory. */
struct bps_stage_layout {
	size_t ranks, slots, nears, levels, push, result, near, input, end;
};

struct bps_stage {
	struct bps_stage_shape shape;
	uint32_t n_slots, slot_bytes; /* of a ring, now */
	struct bps_stage_shared *shared;
	struct bps_stage_layout layout;
	struct bps_groups *groups;
	struct bps_stage_counters *ranks; /* [n_ranks] */
	struct bps_stage_flags *slots;    /* [max_slots] */
	struct bps_stage_near *nears;     /* [n_near][max_slots] */
	const void **sources;             /* [n_ranks + n_groups], for the kernel */
	uint32_t rank;
	int wake_fd;
	uint64_t *seen;      /* [n_ranks], for engine/late.h */
	uint64_t base;       /* first position of this call */
	uint64_t all_copied; /* every rank has copied what is below; may lag behind */
};

static inline uint32_t bps_stage_slot(const struct bps_stage *stage, uint64_t position)
{
	return (uint32_t)(position % stage->n_slots);
}

/** bps_stage_at() - the slot of @position in the ring at @ring. */
static inline char *bps_stage_at(const struct bps_stage *stage, size_t ring,
                                 uint64_t position)
{
	return (char *)stage->shared + ring +
	       (size_t)bps_stage_slot(stage, position) * stage->slot_bytes;
}

/** bps_stage_input() - the input slot of @rank for @position. */
static inline char *bps_stage_input(const struct bps_stage *stage, uint32_t rank,
                                    uint64_t position)
{
	return bps_stage_at(stage, stage->layout.input + rank * stage->shape.ring_bytes,
	                    position);
}

/**
 * bps_stage_near() - the slot of @group for @position: its partial, later its copy of the
 * result. Twice as long as others: partials of 16-bit floats are fp32.
 */
static inline char *bps_stage_near(const struct bps_stage *stage, uint32_t group,
                                   uint64_t position)
{
	return (char *)stage->shared + stage->layout.near +
	       2 * (group * stage->shape.ring_bytes +
	            (size_t)bps_stage_slot(stage, position) * stage->slot_bytes);
}

/** bps_stage_near_flags() - what is in that slot. */
static inline struct bps_stage_near *
bps_stage_near_flags(const struct bps_stage *stage, uint32_t group, uint64_t position)
{
	return &stage->nears[(size_t)group * stage->shape.max_slots +
	                     bps_stage_slot(stage, position)];
}

/** bps_stage_moves() - whatever @rank does in this stage changes it. */
uint64_t bps_stage_moves(const struct bps_stage *stage, uint32_t rank);

/** bps_stage_free_for() - whether nobody needs the slot of @position any more. */
bool bps_stage_free_for(struct bps_stage *stage, uint64_t position);

/** bps_stage_wake_engine() - a sum is there. */
void bps_stage_wake_engine(struct bps_stage *stage);
