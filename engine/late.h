/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sleep of a rank inside a collective call, while other ranks of its box have not
 * come that far. Who does not move is named for people: a rank that has not come to the
 * call, or one that came and is stopped. A rank that waits as well moves, so those that
 * are held up themselves are not named. For the thread that is inside the call.
 */
#pragma once

#include "base/event.h"
#include "engine/stage.h"

struct bps_late {
	const char *call; /* "MPI_Allreduce" */
	const char *comm; /* "MPI_COMM_WORLD" */
	uint32_t n_ranks; /* of the box */
	uint32_t rank;    /* this one */
	uint64_t *turns;  /* of its waiting; in the shared memory */
	uint64_t *seen;   /* [n_ranks]: for bps_late_wait() alone */
	/* What changes as @rank works or waits: its turns and all else that it counts. */
	uint64_t (*moves)(void *owner, uint32_t rank);
	bool (*has_left)(void *owner, uint32_t rank); /* this call */
	bool (*has_work)(void *owner);                /* this rank, or it is over */
	void *owner;
};

/**
 * bps_late_wait() - until there is work; whoever makes some sets @event. After
 * wait->warn_ns, and as long again, the first rank that moves warns for the whole box of
 * those that did not in the latter half of that time.
 */
void bps_late_wait(const struct bps_late *late, struct bps_event *event,
                   const struct bps_stage_wait *wait);
