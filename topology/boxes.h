/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks share a box (one kernel, one shared memory), and what follows from it for a
 * communicator: its members, in summing order, and who leads each. Pure functions of what
 * is equal on all ranks, so every rank computes the same.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The boxes of MPI_COMM_WORLD, in the order of their lowest ranks. */
struct bps_boxes {
	uint32_t n_ranks, n_boxes;
	uint32_t *box_of; /* [n_ranks] */
	uint32_t *leader; /* [n_boxes]: the lowest rank */
};

/**
 * bps_boxes_make() - @root_of: for each of @n_ranks ranks the lowest rank of its box.
 * Return: 0; -EINVAL for roots that contradict each other; -ENOMEM. The caller frees
 * *@ret with bps_boxes_free().
 */
int bps_boxes_make(const uint32_t *root_of, uint32_t n_ranks, struct bps_boxes *ret);
void bps_boxes_free(struct bps_boxes *boxes);

/* A communicator, box by box. */
struct bps_members {
	uint32_t n_ranks, n_members;
	uint32_t *member_of; /* [n_ranks]: of each rank of the communicator */
	uint32_t *index_of;  /* [n_ranks]: its index within its box, in rank order */
	uint32_t *leader;    /* [n_members]: the lowest rank, in the communicator */
	uint32_t *box;       /* [n_members]: which box of the world it is */
	uint32_t *n_local;   /* [n_members]: ranks there */
};

/**
 * bps_members_make() - @world_ranks: the world rank of each of @n_ranks ranks of the
 * communicator, all below boxes->n_ranks. Members are in the order of their leaders.
 * Return: 0; -EINVAL; -ENOMEM. The caller frees *@ret with bps_members_free().
 */
int bps_members_make(const struct bps_boxes *boxes, const uint32_t *world_ranks,
                     uint32_t n_ranks, struct bps_members *ret);
void bps_members_free(struct bps_members *members);

/** bps_ranks_format() - "0-3,7" for the @n rising numbers at @ranks; returns @buf. */
char *bps_ranks_format(const uint32_t *ranks, uint32_t n, char *buf, size_t bytes);
