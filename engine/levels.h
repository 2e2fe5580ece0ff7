/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The levels of a box with several memory nodes: the ranks of a node are a group. They
 * sum among themselves first, then one partial of each group goes to another node, and
 * one total comes back, from which the whole group copies. So each byte goes from node to
 * node once each way for each group but one.
 */
#pragma once

#include <stdint.h>

#include "base/numa.h"

/*
 * What the maker of a stage says of its box; to the other ranks the shared memory says
 * it. Borrowed during the call. NULL in its place is one group on no known node.
 */
struct bps_levels {
	uint32_t n_groups;        /* 1 to the number of ranks */
	const uint32_t *group_of; /* [n_ranks], by index in the box; each group has one */
	/*
	 * [n_groups], the system's numbers. BPS_NUMA_NONE: of ranks that may run
	 * anywhere; in a box among several each of them takes the totals itself.
	 */
	const uint32_t *nodes;
	/*
	 * Of a box among several: the group that makes the box's sums, and the node on
	 * which these and the totals lie. BPS_NUMA_NONE: home's.
	 */
	uint32_t home, wire_node;
};
