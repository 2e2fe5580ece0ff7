/* SPDX-License-Identifier: BSD-3-Clause */
/* What inbox.c (the memory) and inbox-run.c (a call) share. */
#pragma once

#include "base/cpuset.h"
#include "base/event.h"
#include "engine/inbox.h"
#include "transport/wire.h"

#define BPS_INBOX_LINE 64u

/* What is counted of a rank; in chunks, but for the calls. */
enum bps_inbox_count { BPS_ENTERED, BPS_STAGED, BPS_SUMMED, BPS_COPIED, BPS_N_COUNTS };

struct bps_inbox_counts {
	_Alignas(BPS_INBOX_LINE) uint64_t of[BPS_N_COUNTS];
};

/* The beginning of the shared memory; counts, headers and slots follow. */
struct bps_inbox_shared {
	uint32_t magic;
	struct bps_inbox_shape shape;
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
	unsigned char *slots;            /* [n_ranks][n_slots] */
	const void **sources;            /* [n_ranks], for the kernel */
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
	size_t nth = (size_t)rank * inbox->shape.n_slots + chunk % inbox->shape.n_slots;

	return inbox->slots + nth * inbox->shape.slot_bytes;
}

/** bps_inbox_all() - whether every rank's count is above @chunk. */
bool bps_inbox_all(struct bps_inbox *inbox, enum bps_inbox_count count, uint64_t chunk);

/** bps_inbox_publish() - this rank's count is @value now. */
void bps_inbox_publish(struct bps_inbox *inbox, enum bps_inbox_count count,
                       uint64_t value);

/** bps_inbox_say() - wake those who sleep, if a count moved that they may wait for. */
void bps_inbox_say(struct bps_inbox *inbox);

/** bps_inbox_fail() - the communicator is finished, for the first reason given. */
void bps_inbox_fail(struct bps_inbox *inbox, const struct bps_reason *reason);

/** bps_inbox_failed() - 0, or the errno of *@ret_reason. */
int bps_inbox_failed(const struct bps_inbox *inbox, struct bps_reason *ret_reason);
