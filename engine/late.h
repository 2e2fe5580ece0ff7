/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sleep of a rank inside a collective call, while other ranks of its box have not
 * come that far; who has not come to the call at all is named for people. For the thread
 * that is inside the call.
 */
#pragma once

#include "base/event.h"
#include "engine/stage.h"

struct bps_late {
	const char *call;                             /* "MPI_Allreduce" */
	const char *comm;                             /* "MPI_COMM_WORLD" */
	uint32_t n_ranks;                             /* of the box */
	uint32_t rank;                                /* this one */
	bool (*has_come)(void *owner, uint32_t rank); /* to this call */
	bool (*has_work)(void *owner);                /* this rank, or it is over */
	void *owner;
};

/**
 * bps_late_wait() - until there is work; whoever makes some sets @event. The first rank
 * that is here warns for the whole box.
 */
void bps_late_wait(const struct bps_late *late, struct bps_event *event,
                   const struct bps_stage_wait *wait);
