/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator's servers, its plan (interpose/tune.h) and the shape of its stage.
 */
#pragma once

#include "interpose/comm.h"

/** bps_comm_plan() - fill what comm.h says is planned; its members are known. */
int bps_comm_plan(const struct bps_job *job, struct bps_comm *comm);
/**
 * bps_comm_predict() - where the user said how fast the links are, tell comm->cost what
 * that means; else calls that might be slower than the MPI library's are tried.
 */
void bps_comm_predict(const struct bps_job *job, const struct bps_comm *comm);
/** bps_comm_divide() - cut the new stage's rings into slots. Every rank's. */
int bps_comm_divide(const struct bps_comm *comm);
/** bps_comm_plan_free() - Idempotent. */
void bps_comm_plan_free(struct bps_comm *comm);

/**
 * bps_comm_cut() - cut the next op; before some ops all ranks exchange what they saw and
 * change the plan. Every rank of the communicator calls it, inside the same call.
 * @root: of a broadcast, the member.
 * Return: 0; a negative errno; -EIO where the exchange failed.
 */
int bps_comm_cut(const struct bps_job *job, const struct bps_comm *comm,
                 enum bps_coll coll, uint32_t root, uint64_t bytes,
                 struct bps_cut *ret_cut, uint32_t *ret_window);
