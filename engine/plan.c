/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/plan.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* Below this a message's fixed costs outweigh what a further server brings. */
#define MIN_PART_BYTES 4096u
/* Of a message on the wire beside its payload: our header, and the packets' share. */
#define MESSAGE_BYTES 128u

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

static uint64_t square_root(uint64_t x)
{
	uint64_t root = 0, bit = 1ull << 31;

	for (; bit > 0; bit >>= 1) {
		if ((root | bit) <= x / (root | bit))
			root |= bit;
	}
	return root;
}

void bps_plan_equal(uint32_t n_servers, uint32_t *ret_weights)
{
	uint32_t s;

	for (s = 0; s < n_servers; s++)
		ret_weights[s] = BPS_SHARE_ONE / n_servers +
		                 (s < BPS_SHARE_ONE % n_servers);
}

static uint32_t largest_weight(const struct bps_plan *plan)
{
	uint32_t most = 0, s;

	for (s = 0; s < plan->n_servers; s++) {
		if (plan->weights[s] > most)
			most = plan->weights[s];
	}
	return most;
}

static uint64_t units_of(uint64_t bytes)
{
	return bytes / BPS_CUT_UNIT;
}

/*
 * With parts of p bytes at the server with the largest share w, a round is p / w bytes:
 * filling and draining cost that, and messages p-th parts of the op's. The sum is least
 * for p^2 = w * op * cost of a message.
 */
uint32_t bps_plan_partition(const struct bps_plan *plan, uint64_t op_bytes)
{
	uint64_t share = op_bytes / BPS_SHARE_ONE * largest_weight(plan) +
	                 op_bytes % BPS_SHARE_ONE * largest_weight(plan) / BPS_SHARE_ONE;
	uint64_t cost = MESSAGE_BYTES + plan->cost_bytes, part;

	part = share > UINT64_MAX / cost ? UINT32_MAX : square_root(share * cost);
	if (part < MIN_PART_BYTES)
		part = MIN_PART_BYTES;
	return part < plan->max_bytes ? (uint32_t)part : plan->max_bytes;
}

/* A slice for each server that has a share; all alike, if @equal. */
static uint32_t slice_all(const struct bps_plan *plan, struct bps_slice *slices,
                          bool equal)
{
	uint32_t n = 0, end = 0, s;

	for (s = 0; s < plan->n_servers; s++) {
		if (plan->weights[s] == 0)
			continue;
		end += plan->weights[s];
		slices[n++] = (struct bps_slice){ s, end };
	}
	for (s = 0; equal && s < n; s++)
		slices[s].end = (uint32_t)((uint64_t)BPS_SHARE_ONE * (s + 1) / n);
	return n;
}

/* Keep @n of @of slices, beginning at another one each @turn. */
static void slice_some(struct bps_slice *slices, uint32_t of, uint32_t n, uint64_t turn)
{
	uint32_t first = (uint32_t)(turn % of), i, j, kept = 0;

	/* In order of servers: the chosen are first, first + 1, ... around the end. */
	for (i = 0; i < of; i++) {
		j = (i + of - first) % of;
		if (j >= n)
			continue;
		slices[kept].server = slices[i].server;
		kept++;
	}
	for (i = 0; i < n; i++)
		slices[i].end = (uint32_t)((uint64_t)BPS_SHARE_ONE * (i + 1) / n);
}

/* Rounds in which no part is larger than @part_units, which are at least 8. */
static uint64_t count_rounds(const struct bps_cut *cut, uint64_t n_units,
                             uint64_t part_units)
{
	uint32_t largest = 0, begin = 0, i;

	for (i = 0; i < cut->n_slices; i++) {
		if (cut->slices[i].end - begin > largest)
			largest = cut->slices[i].end - begin;
		begin = cut->slices[i].end;
	}
	return div_up(n_units,
	              (part_units - 1) * BPS_SHARE_ONE / largest + cut->n_slices);
}

static uint64_t crumb_units(const struct bps_plan *plan)
{
	return units_of(plan->max_bytes / 2 < MIN_PART_BYTES ? plan->max_bytes / 2
	                                                     : MIN_PART_BYTES);
}

static bool is_sound(const struct bps_plan *plan, uint64_t op_bytes)
{
	return op_bytes > 0 && plan->n_servers > 0 && largest_weight(plan) > 0 &&
	       plan->max_bytes >= BPS_CUT_MIN_PARTITION;
}

int bps_cut_make(const struct bps_plan *plan, uint64_t op_bytes, uint64_t turn,
                 struct bps_slice *slices, struct bps_cut *ret_cut)
{
	uint64_t n_units = div_up(op_bytes, BPS_CUT_UNIT), n_rounds, whole;
	struct bps_cut cut = { .op_bytes = op_bytes, .slices = slices };
	uint64_t part_units;

	if (!is_sound(plan, op_bytes))
		return -EINVAL;
	part_units = units_of(bps_plan_partition(plan, op_bytes));
	cut.n_slices = slice_all(plan, slices, false);
	n_rounds = count_rounds(&cut, n_units, part_units);
	whole = n_units / crumb_units(plan);
	if (whole < cut.n_slices) { /* one round of fewer, larger than crumbs */
		whole = whole > 0 ? whole : 1;
		slice_some(slices, cut.n_slices, (uint32_t)whole, turn);
		cut.n_slices = (uint32_t)whole;
		n_rounds = 1;
	} else if (n_units / n_rounds < cut.n_slices) { /* too uneven for such parts */
		slice_all(plan, slices, true);
		n_rounds = count_rounds(&cut, n_units, part_units);
	}
	if (n_rounds * cut.n_slices > UINT32_MAX)
		return -EOVERFLOW;
	cut.n_rounds = (uint32_t)n_rounds;
	cut.n_parts = cut.n_rounds * cut.n_slices;
	*ret_cut = cut;
	return 0;
}

/* The unit that round @round begins with; the first rounds are a unit longer. */
static uint64_t round_start(const struct bps_cut *cut, uint64_t round)
{
	uint64_t n_units = div_up(cut->op_bytes, BPS_CUT_UNIT);
	uint64_t longer = n_units % cut->n_rounds;

	return n_units / cut->n_rounds * round + (round < longer ? round : longer);
}

/* Every slice has a unit of its own, and its share of the others. */
static uint64_t slice_start(const struct bps_cut *cut, uint64_t round_units,
                            uint32_t slice)
{
	uint64_t end = slice == 0 ? 0 : cut->slices[slice - 1].end;

	return slice + (round_units - cut->n_slices) * end / BPS_SHARE_ONE;
}

void bps_cut_part(const struct bps_cut *cut, uint32_t part, uint64_t *ret_offset,
                  uint32_t *ret_bytes)
{
	uint32_t round = part / cut->n_slices, slice = part % cut->n_slices;
	uint64_t begin = round_start(cut, round);
	uint64_t units = round_start(cut, (uint64_t)round + 1) - begin;
	uint64_t start = (begin + slice_start(cut, units, slice)) * BPS_CUT_UNIT;
	uint64_t end = (begin + slice_start(cut, units, slice + 1)) * BPS_CUT_UNIT;

	*ret_offset = start;
	*ret_bytes = (uint32_t)((end < cut->op_bytes ? end : cut->op_bytes) - start);
}

uint32_t bps_cut_server(const struct bps_cut *cut, uint32_t part)
{
	return cut->slices[part % cut->n_slices].server;
}

uint32_t bps_cut_visit(const struct bps_cut *cut, uint32_t start, uint32_t position)
{
	uint32_t n = cut->n_slices, in_round = position % n;

	return position - in_round + (uint32_t)(((uint64_t)in_round + start) % n);
}

uint64_t bps_cut_position(const struct bps_cut *cut, uint32_t start, uint32_t slice,
                          uint32_t round)
{
	uint32_t n = cut->n_slices;

	return (uint64_t)round * n + (slice + n - start % n) % n;
}
