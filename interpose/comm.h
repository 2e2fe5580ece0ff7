/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What we know of a communicator: cached on it as an attribute, so that it goes when the
 * communicator goes and a handle that is used again never finds it. Made inside the first
 * collective on it that routing would take, where all its ranks are at the same point.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/inbox.h"
#include "interpose/cost.h"
#include "interpose/job.h"
#include "interpose/route.h"
#include "interpose/tune.h"

struct bps_comm {
	struct bps_list link; /* in job->comms, under its lock */
	bps_handle handle;
	enum bps_route route; /* BPS_ROUTE_TAKE, or why every call passes */
	char name[64];
	uint32_t rank, size;
	struct bps_members members;
	uint32_t member;             /* index of this rank's box */
	uint32_t index;              /* of this rank within its box */
	uint32_t *world_ranks;       /* [size] */
	uint32_t *local_ranks;       /* of this box, world ranks, by index */
	struct bps_comm_card *cards; /* [size], for the setup */
	uint64_t young_bytes;        /* of its calls before the setup */
	uint32_t n_in_vain;          /* comparisons of late that found no operation */
	struct bps_cost *cost;       /* what was learnt; NULL but in mode auto */
	struct bps_stage_shape shape;
	struct bps_stage *stage; /* NULL where all ranks are in one box; there: */
	struct bps_inbox_shape inbox_shape;
	struct bps_inbox *inbox; /* else NULL */
	uint64_t staging_bytes;  /* counted on the box's page; the leader's */
	/* planned, interpose/comm-plan.h; the tables are NULL where one box is alone */
	uint32_t n_servers;
	uint32_t *servers; /* the servers that sum for it, as the job numbers them */
	double *rates;     /* of its boxes, bytes a second */
	bool *colocated;   /* of its boxes: whether it carries a server */
	struct bps_tune *tune;
	int64_t *words;         /* what an exchange compares */
	struct bps_load *loads; /* [n_servers] */
	/* the leader's, where there is more than one box */
	struct bps_engine *engine;
	struct bps_engine_group group;
	uint32_t *leaders; /* [n_members], world ranks */
	bool joined;       /* the engine knows the group */
	bool kept;         /* freed, but the engine may still touch the stage */
};

/**
 * bps_comm_find() - the same before any setup: what is known of @handle without asking
 * other ranks. NULL: no memory.
 */
struct bps_comm *bps_comm_find(struct bps_job *job, bps_handle handle);

/**
 * bps_comm_get() - what we know of @handle, for a call of @bytes bytes on it. Sets it up
 * in its first call, or in mode auto when its calls have carried some MiB: collective
 * over the communicator then. Never NULL; its route says whether calls are taken.
 */
const struct bps_comm *bps_comm_get(struct bps_job *job, bps_handle handle,
                                    uint64_t bytes);

/** bps_comm_init() - make the attribute's key. Return: 0 or -EIO. */
int bps_comm_init(struct bps_job *job);
/**
 * bps_comm_deinit() - in MPI_Finalize: leave the communicators that were not freed.
 * bps_comm_sweep() frees them, once the engine has stopped.
 */
void bps_comm_deinit(struct bps_job *job);
void bps_comm_sweep(struct bps_job *job);
