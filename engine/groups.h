/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The groups of a box's ranks (engine/levels.h) as one of the ranks uses them. Belongs to
 * the thread that is inside the communicator's collective; only what has crossed changes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/levels.h"

struct bps_groups {
	uint32_t n_ranks, n_groups;
	uint32_t home, wire_node; /* as struct bps_levels has them */
	uint32_t rank, mine;      /* this rank and its group */
	uint32_t nth;             /* of this rank among those of its group */
	/*
	 * The group on whose node the box's sums and totals lie; n_groups: on a node that
	 * no group has.
	 */
	uint32_t wire;
	uint32_t *group_of; /* [n_ranks] */
	uint32_t *nodes;    /* [n_groups] */
	uint32_t *members;  /* [n_ranks]: by group, then by rank */
	uint32_t *first;    /* [n_groups + 1]: where a group's members begin */
	uint32_t *next;     /* [n_ranks]: the one behind it in its group, around */
	uint64_t *crossed;  /* [n_groups + 1][n_groups + 1], bytes from, to */
};

/** bps_groups_words() - how many words bps_groups_write() writes. */
static inline size_t bps_groups_words(uint32_t n_ranks, uint32_t n_groups)
{
	return (size_t)3 + n_ranks + n_groups;
}

/** bps_levels_n_groups() - of @levels, which may be NULL. */
static inline uint32_t bps_levels_n_groups(const struct bps_levels *levels)
{
	return levels ? levels->n_groups : 1;
}

/** bps_groups_write() - put @levels, or NULL, where other ranks find them. */
void bps_groups_write(const struct bps_levels *levels, uint32_t n_ranks, uint32_t *words);

/**
 * bps_groups_read() - what bps_groups_write() left in @words, for @rank of @n_ranks.
 * @n_groups: as many as there are words for
 * Return: 0; -EINVAL: a rank is in no group, or a group has none; -ENOMEM. The caller
 * owns *@ret until bps_groups_free().
 */
int bps_groups_read(const uint32_t *words, uint32_t n_ranks, uint32_t n_groups,
                    uint32_t rank, struct bps_groups **ret);
/** bps_groups_free() - takes NULL. */
void bps_groups_free(struct bps_groups *groups);

/** bps_groups_size() - how many ranks @group has. */
static inline uint32_t bps_groups_size(const struct bps_groups *groups, uint32_t group)
{
	return groups->first[group + 1] - groups->first[group];
}

/** bps_groups_member() - the @nth rank of @group, around. */
static inline uint32_t bps_groups_member(const struct bps_groups *groups, uint32_t group,
                                         uint64_t nth)
{
	return groups
	        ->members[groups->first[group] + nth % bps_groups_size(groups, group)];
}

/**
 * bps_groups_count() - this rank read or wrote @bytes that went from the memory of one
 * group to that of another; groups->wire counts as one. Within a group nothing is
 * counted.
 */
static inline void bps_groups_count(struct bps_groups *groups, uint32_t from, uint32_t to,
                                    uint64_t bytes)
{
	if (from != to)
		groups->crossed[(size_t)from * (groups->n_groups + 1) + to] += bytes;
}

#define BPS_GROUPS_ALL UINT32_MAX

/**
 * bps_groups_crossed() - what was counted; 0 where there is no such group. Of all groups
 * where @from or @to is BPS_GROUPS_ALL.
 */
uint64_t bps_groups_crossed(const struct bps_groups *groups, uint32_t from, uint32_t to);

/**
 * bps_groups_place() - put pages of shared memory that nobody has touched on @node, if
 * that is known. Return: whether it is as wanted; the first time in a process that it is
 * not, a line says why.
 */
bool bps_groups_place(void *from, size_t bytes, uint32_t node);
