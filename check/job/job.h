/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bpsmpi-check as the program of an MPI job: all ranks look at where they are, rank 0
 * prints what they saw.
 */
#pragma once

#include <stdbool.h>

#include "check/check.h"

/** bps_job_launched() - whether a launcher started this process as one of a job's ranks.
 */
bool bps_job_launched(void);

/** bps_job_is_first() - whether that launcher calls this process rank 0. */
bool bps_job_is_first(void);

/**
 * bps_check_job() - the report on a job: its boxes, alike ones folded, its servers, its
 * plan, and what is wrong. Every rank calls it.
 *
 * Return: rank 0's status, on all ranks; BPS_CHECK_CANNOT on a rank that found no MPI
 * library, which has said so: its launcher ends the others.
 */
int bps_check_job(const struct bps_check_options *options);
