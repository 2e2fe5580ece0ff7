/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks of a box that have not come to a collective call, named for people. For the
 * thread that is inside the call.
 */
#pragma once

#include "engine/stage.h"

struct bps_late {
	const char *call; /* "MPI_Allreduce" */
	const char *comm; /* "MPI_COMM_WORLD" */
	uint32_t n_ranks; /* of the box */
	uint32_t rank;    /* this one */
	bool (*has_come)(const void *owner, uint32_t rank);
	const void *owner;
};

/**
 * bps_late_warn() - name those that have not come for @waited_ns; only the first that is
 * here does, for the whole box.
 */
void bps_late_warn(const struct bps_late *late, const struct bps_stage_wait *wait,
                   uint64_t waited_ns);
