/* SPDX-License-Identifier: BSD-3-Clause */
/* What inbox.c (the memory), inbox-run.c (a call) and inbox-steps.c (the work) share. */
#pragma once

#include "base/cpuset.h"
#include "base/event.h"
#include "engine/groups.h"
#include "engine/inbox.h"
#include "engine/mix.h"
#include "transport/wire.h"

#define BPS_INBOX_LINE 64u

/* What is counted of a rank: chunks, but for calls and, see engine/late.h, turns. */
enum bps_inbox_count {
	BPS_LEFT,
	BPS_TURNS,
	BPS_STAGED,
	BPS_GATHERED,
	BPS_SUMMED,
	BPS_RELAYED,
	BPS_COPIED,
	BPS_N_COUNTS
};

struct bps_inbox_counts {
	_Alignas(BPS_INBOX_LINE) uint64_t of[BPS_N_COUNTS];
};

/* The beginning of the shared memory; counts, levels, headers and slots follow. */
struct bps_inbox_shared {
	uint32_t magic;
	uint32_t n_ranks, n_slots, slot_bytes, n_groups;
	bool placed;            /* the slots, as the levels want it */
	struct bps_cpuset cpus; /* where the ranks may run, all together */
	_Alignas(BPS_INBOX_LINE) struct bps_event event;
	_Alignas(BPS_INBOX_LINE)
		uint32_t failed; /* 1: somebody writes reason; 2: it is there */
	uint32_t told;
	struct bps_reason reason;
};

struct bps_inbox {
	struct bps_inbox_shape shape;
	size_t bytes;
	struct bps_inbox_shared *shared;
	struct bps_inbox_counts *counts; /* [n_ranks] */
	struct bps_wire_hdr *hdrs;       /* [n_ranks][n_slots], see bps_inbox_hdr() */
	unsigned char *slots;            /* [n_ranks] rings of n_slots */
	size_t ring_bytes;               /* whole pages */
	const void **sources;            /* [n_ranks + n_groups], for the kernel */
	uint64_t *seen;                  /* [n_ranks], for engine/late.h */
	struct bps_groups *groups;
	uint32_t rank;
	uint64_t n_calls;
	uint64_t base; /* first chunk of the next call */
	bool crowded;  /* more ranks than CPUs; known from the first call on */
	bool unsaid;   /* counters moved, sleepers were not told */
	uint64_t least[BPS_N_COUNTS]; /* all ranks are that far; may lag behind */
};

/**
 * bps_inbox_hdr() - what @rank says of the call that begins with @chunk; written before
 * that chunk counts as staged, good until the slot is used again.
 */
static inline struct bps_wire_hdr *bps_inbox_hdr(const struct bps_inbox *inbox,
                                                 uint32_t rank, uint64_t chunk)
{
	return &inbox->hdrs[(size_t)rank * inbox->shape.n_slots +
	                    chunk % inbox->shape.n_slots];
}

/** bps_inbox_slot() - the slot of @rank for @chunk. */
static inline unsigned char *bps_inbox_slot(const struct bps_inbox *inbox, uint32_t rank,
                                            uint64_t chunk)
{
	size_t nth = (size_t)(chunk % inbox->shape.n_slots);

	return inbox->slots + rank * inbox->ring_bytes + nth * inbox->shape.slot_bytes;
}

/** bps_inbox_look() - bps_inbox_all(), where the last look did not tell. */
bool bps_inbox_look(struct bps_inbox *inbox, enum bps_inbox_count count, uint64_t chunk);

/**
 * bps_inbox_all() - whether every rank's count is above @chunk: of what is handed over
 * inside a group (staged, relayed), every rank's of this group.
 */
static inline bool bps_inbox_all(struct bps_inbox *inbox, enum bps_inbox_count count,
                                 uint64_t chunk)
{
	return inbox->least[count] > chunk || bps_inbox_look(inbox, count, chunk);
}

/** bps_inbox_publish() - this rank's count is @value now. */
void bps_inbox_publish(struct bps_inbox *inbox, enum bps_inbox_count count,
                       uint64_t value);

/** bps_inbox_say() - wake those who sleep, if a count moved that they may wait for. */
void bps_inbox_say(struct bps_inbox *inbox);

/** bps_inbox_fail() - the communicator is finished, for the first reason given. */
void bps_inbox_fail(struct bps_inbox *inbox, const struct bps_reason *reason);

/** bps_inbox_failed() - 0, or the errno of *@ret_reason. */
int bps_inbox_failed(const struct bps_inbox *inbox, struct bps_reason *ret_reason);

/* How far this rank is in a call; in chunks, from begin to end. */
struct bps_inbox_walk {
	struct bps_inbox *inbox;
	const struct bps_inbox_call *call;
	uint64_t begin, end;
	uint64_t chunk_bytes; /* of all but the last one */
	uint32_t piece;       /* what a rank owns of a chunk; of a broadcast all of it */
	const struct bps_inbox_step *steps; /* [n_steps], in order */
	uint32_t n_steps;
	uint64_t done[BPS_N_COUNTS]; /* chunks, by step */
	struct bps_mix mix;
	bps_copy_fn *copy_in, *copy_out;
	bool is_root;
};

/* A piece of work on chunk @chunk, once the step before it is done by all it concerns. */
struct bps_inbox_step {
	enum bps_inbox_count counts; /* what it adds to */
	void (*take)(const struct bps_inbox_walk *walk, uint64_t chunk);
};

/* What can be done to a chunk; inbox.h says what they do. */
void bps_inbox_stage(const struct bps_inbox_walk *walk, uint64_t chunk);
void bps_inbox_gather(const struct bps_inbox_walk *walk, uint64_t chunk);
void bps_inbox_sum(const struct bps_inbox_walk *walk, uint64_t chunk);
void bps_inbox_relay(const struct bps_inbox_walk *walk, uint64_t chunk);
void bps_inbox_copy(const struct bps_inbox_walk *walk, uint64_t chunk);
/** bps_inbox_give() - a broadcast's root stages all. */
void bps_inbox_give(const struct bps_inbox_walk *walk, uint64_t chunk);

/** bps_inbox_most() - the largest chunk of an allreduce. */
uint64_t bps_inbox_most(const struct bps_inbox_walk *walk);
