/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory nodes of a box: its ranks write on the box's page where they may run, its
 * leader makes the plan of the box (topology/placement.h) and writes there on which node
 * each is. All in MPI_Init, but for bps_nodes_levels().
 */
#pragma once

#include "engine/levels.h"
#include "interpose/job.h"

/** bps_nodes_announce() - write where this rank may run; the page is there. */
void bps_nodes_announce(struct bps_job *job);

/**
 * bps_nodes_place() - the leader's, when all ranks of its box have announced and, where
 * there are several boxes, when it knows its network cards: find the nodes and bind the
 * engine's thread near the cards. The others may look after the next collective.
 *
 * What cannot be found out is a debug line, and the box counts as one node.
 */
void bps_nodes_place(struct bps_job *job);

/** bps_nodes_of() - the node of @world_rank of this box; BPS_NUMA_NONE: not known. */
uint32_t bps_nodes_of(const struct bps_job *job, uint32_t world_rank);

/**
 * bps_nodes_levels() - how @n ranks of this box sum together.
 * @world_ranks: by index in the communicator's box
 * @alone: the communicator has no other box
 * @ret: NULL where levels make no difference; the caller ends it with free()
 * Return: 0 or -ENOMEM.
 */
int bps_nodes_levels(const struct bps_job *job, const uint32_t *world_ranks, uint32_t n,
                     bool alone, struct bps_levels **ret);
