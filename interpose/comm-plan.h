/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator's servers, its plan (interpose/tune.h) and the shape of its stage.
 */
#pragma once

#include "interpose/comm.h"

/** bps_comm_plan() - fill what comm.h says is planned; its members are known. */
int bps_comm_plan(const struct bps_job *job, struct bps_comm *comm);
/**
 * bps_comm_most_local() - ranks in its fullest box: what all boxes agree on must suit
 * that one too.
 */
uint32_t bps_comm_most_local(const struct bps_comm *comm);
/**
 * bps_comm_predict() - where the user said how fast the links are, tell comm->cost what
 * that means; else calls that might be slower than the MPI library's are tried.
 */
void bps_comm_predict(const struct bps_job *job, const struct bps_comm *comm);
/** bps_comm_divide() - cut the stage's rings into slots, see bps_stage_divide(). */
int bps_comm_divide(const struct bps_comm *comm, const struct bps_stage_call *call,
                    const struct bps_stage_wait *wait);
/** bps_comm_plan_free() - Idempotent. */
void bps_comm_plan_free(struct bps_comm *comm);

/**
 * bps_comm_report() - what this rank saw, into comm->words; the ranks are to find the
 * greatest of each. Return: how many bytes that is.
 */
uint64_t bps_comm_report(const struct bps_comm *comm);
/**
 * bps_comm_agree() - comm->words are the greatest now, by @call: the plan of the next op,
 * the same on all ranks. Return: 0 or a negative errno.
 */
int bps_comm_agree(const struct bps_comm *comm, const struct bps_stage_call *call,
                   const struct bps_stage_wait *wait);
