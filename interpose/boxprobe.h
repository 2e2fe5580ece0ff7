/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks share a box: those to which one rank can hand its shared memory. Names,
 * host ids and boot ids only say whom to try.
 */
#pragma once

#include "interpose/job.h"

/**
 * bps_boxprobe() - collective over MPI_COMM_WORLD, in MPI_Init. Fills job->fd_sock, the
 * shared job->page, and *@ret_root, the lowest rank of this rank's box.
 * Return: 0; a negative errno (logged), on this rank alone: it goes on to take part in
 * the job's other collectives, with its error on its card.
 */
int bps_boxprobe(struct bps_job *job, uint32_t *ret_root);

/** bps_boxprobe_name() - the fdpass name of @world_rank. */
void bps_boxprobe_name(const struct bps_job *job, uint32_t world_rank, char *buf,
                       size_t bytes);
