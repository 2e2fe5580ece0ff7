/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes that cross from node to node, as the engine moves them. */
#include <stdlib.h>
#include <string.h>

#include "topology/placement.h"

#define NONE BPS_MACHINE_NONE

/* Adds to what goes @from one node @to another, where both are known. */
static void add(const struct bps_placement *plan, uint32_t from, uint32_t to,
                uint64_t bytes, uint64_t *ret)
{
	if (from != NONE && to != NONE && from != to)
		ret[(size_t)from * plan->machine->n_nodes + to] += bytes;
}

/* Where the @nth piece begins. */
static uint64_t begin_of(const struct bps_placement *plan, uint32_t nth, uint64_t bytes)
{
	return bytes / plan->n_ranks * nth + bytes % plan->n_ranks * nth / plan->n_ranks;
}

static void count_alone(const struct bps_placement *plan, uint64_t bytes, uint64_t *ret)
{
	uint32_t nth = 0;

	for (uint32_t a = 0; a < plan->n_groups; a++) {
		uint32_t here = plan->groups[a].node, n = plan->groups[a].n_ranks;
		uint64_t owned =
			begin_of(plan, nth + n, bytes) - begin_of(plan, nth, bytes);

		for (uint32_t b = 0; b < plan->n_groups; b++) {
			add(plan, plan->groups[b].node, here, owned, ret);
			add(plan, here, plan->groups[b].node, owned, ret);
		}
		nth += n;
	}
}

/* To the cards and back; the last one has what rounding leaves. */
static void count_cards(const struct bps_placement *plan, uint64_t bytes, uint64_t *ret)
{
	uint64_t sent = 0;
	double share = 0;

	for (uint32_t i = 0; i < plan->n_rails; i++) {
		uint32_t card = plan->machine->nics[plan->rails[i].nic].at.node;
		uint64_t upto = bytes;

		share += plan->rails[i].share;
		if (i + 1 < plan->n_rails && share < 1)
			upto = (uint64_t)((double)bytes * share);
		add(plan, plan->wire_node, card, upto - sent, ret);
		add(plan, card, plan->wire_node, upto - sent, ret);
		sent = upto;
	}
}

static void count_boxes(const struct bps_placement *plan, uint64_t bytes, uint64_t *ret)
{
	for (uint32_t g = 0; g < plan->n_groups; g++) {
		add(plan, plan->groups[g].node, plan->groups[plan->home].node, bytes,
		    ret);
		add(plan, plan->wire_node, plan->groups[g].node, bytes, ret);
	}
	count_cards(plan, bytes, ret);
}

void bps_place_crossings(const struct bps_placement *placement, uint64_t bytes,
                         bool alone, uint64_t *ret)
{
	size_t n = placement->machine->n_nodes;

	memset(ret, 0, n * n * sizeof(*ret));
	if (alone)
		count_alone(placement, bytes, ret);
	else
		count_boxes(placement, bytes, ret);
}
