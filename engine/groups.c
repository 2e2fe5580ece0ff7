/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/groups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/log.h"

void bps_groups_write(const struct bps_levels *levels, uint32_t n_ranks, uint32_t *words)
{
	static const uint32_t none = BPS_NUMA_NONE;
	uint32_t n_groups = bps_levels_n_groups(levels);

	words[0] = n_groups;
	words[1] = levels ? levels->home : 0;
	words[2] = levels ? levels->wire_node : none;
	if (levels)
		memcpy(words + 3, levels->group_of, n_ranks * sizeof(*words));
	else
		memset(words + 3, 0, n_ranks * sizeof(*words));
	memcpy(words + 3 + n_ranks, levels ? levels->nodes : &none,
	       n_groups * sizeof(*words));
}

static bool are_sound(const struct bps_groups *groups)
{
	uint32_t i;

	for (i = 0; i < groups->n_ranks; i++) {
		if (groups->group_of[i] >= groups->n_groups)
			return false;
	}
	return groups->home < groups->n_groups && groups->rank < groups->n_ranks;
}

/* The group that lives where the box's sums lie; home, where nothing else is known. */
static uint32_t find_wire(const struct bps_groups *groups)
{
	uint32_t node = groups->nodes[groups->home], g;

	if (groups->wire_node == BPS_NUMA_NONE || groups->wire_node == node)
		return groups->home;
	for (g = 0; g < groups->n_groups; g++) {
		if (groups->nodes[g] == groups->wire_node)
			return g;
	}
	return node == BPS_NUMA_NONE ? groups->home : groups->n_groups;
}

/* All that follows from who is in which group. Return: whether each group has a rank. */
static bool find_members(struct bps_groups *groups)
{
	uint32_t n = 0, g, r, i;

	for (g = 0; g < groups->n_groups; g++) {
		groups->first[g] = n;
		for (r = 0; r < groups->n_ranks; r++) {
			if (groups->group_of[r] == g)
				groups->members[n++] = r;
		}
		groups->first[g + 1] = n;
		if (n == groups->first[g])
			return false;
		for (i = groups->first[g]; i < n; i++)
			groups->next[groups->members[i]] = bps_groups_member(
				groups, g, (uint64_t)i - groups->first[g] + 1);
	}
	groups->mine = groups->group_of[groups->rank];
	while (bps_groups_member(groups, groups->mine, groups->nth) != groups->rank)
		groups->nth++;
	return true;
}

static struct bps_groups *groups_new(uint32_t n_ranks, uint32_t n_groups)
{
	size_t n_crossed = ((size_t)n_groups + 1) * (n_groups + 1);
	size_t n_words = (size_t)3 * n_ranks + 2 * ((size_t)n_groups + 1);
	struct bps_groups *groups =
		calloc(1, sizeof(*groups) + n_crossed * 8 + n_words * 4);

	if (!groups)
		return NULL;
	groups->n_ranks = n_ranks;
	groups->n_groups = n_groups;
	groups->crossed = (void *)(groups + 1);
	groups->group_of = (void *)(groups->crossed + n_crossed);
	groups->members = groups->group_of + n_ranks;
	groups->next = groups->members + n_ranks;
	groups->first = groups->next + n_ranks;
	groups->nodes = groups->first + n_groups + 1;
	return groups;
}

int bps_groups_read(const uint32_t *words, uint32_t n_ranks, uint32_t n_groups,
                    uint32_t rank, struct bps_groups **ret)
{
	struct bps_groups *groups;

	if (n_groups < 1 || n_groups > n_ranks || words[0] != n_groups)
		return -EINVAL;
	groups = groups_new(n_ranks, n_groups);
	if (!groups)
		return -ENOMEM;
	groups->rank = rank;
	groups->home = words[1];
	groups->wire_node = words[2];
	memcpy(groups->group_of, words + 3, n_ranks * sizeof(*words));
	memcpy(groups->nodes, words + 3 + n_ranks, n_groups * sizeof(*words));
	if (!are_sound(groups) || !find_members(groups)) {
		bps_groups_free(groups);
		return -EINVAL;
	}
	groups->wire = find_wire(groups);
	*ret = groups;
	return 0;
}

void bps_groups_free(struct bps_groups *groups)
{
	free(groups);
}

uint64_t bps_groups_crossed(const struct bps_groups *groups, uint32_t from, uint32_t to)
{
	size_t n = (size_t)groups->n_groups + 1, i;
	uint64_t sum = 0;

	for (i = 0; i < n * n; i++) {
		if ((from == BPS_GROUPS_ALL || from == i / n) &&
		    (to == BPS_GROUPS_ALL || to == i % n))
			sum += groups->crossed[i];
	}
	return sum;
}

bool bps_groups_place(void *from, size_t bytes, uint32_t node)
{
	static uint32_t told;
	int error;

	if (node == BPS_NUMA_NONE || bytes == 0)
		return true;
	error = bps_numa_place(from, bytes, node);
	if (error < 0 && !bps_exchange(&told, 1u))
		bps_debug(
			"memory cannot be placed on node %u: %s; it lies on the node of "
			"the rank that uses it first",
			node, strerror(-error));
	return error == 0;
}
