/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/plan.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* Below this a message's fixed costs outweigh what a further server brings. */
#define MIN_PART_BYTES 4096u
/* Of a message on the wire beside its payload: our header, and the packets' share. */
#define MESSAGE_BYTES 384u

/* What a server is to get of a round at least. */
#define LEAST_UNITS 4u
/* Of so many, the first and the last are half as long: the pipe fills and drains sooner.
 */
#define TAPERED_ROUNDS 4u

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
		ret_weights[s] =
			BPS_SHARE_ONE / n_servers + (s < BPS_SHARE_ONE % n_servers);
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
	uint64_t cost = (uint64_t)MESSAGE_BYTES + plan->cost_bytes, part;

	part = share > UINT64_MAX / cost ? UINT32_MAX : square_root(share * cost);
	if (part < MIN_PART_BYTES)
		part = MIN_PART_BYTES;
	return part < plan->max_bytes ? (uint32_t)part : plan->max_bytes;
}

/* The ends of @n slices whose lengths are weights, of BPS_SHARE_ONE. */
static void end_slices(struct bps_slice *slices, uint32_t n)
{
	uint64_t total = 0, sum = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		total += slices[i].end;
	for (i = 0; i < n; i++) {
		sum += slices[i].end;
		slices[i].end = (uint32_t)(sum * BPS_SHARE_ONE / total);
	}
}

/*
 * A slice for each server whose share of a round is worth a message; the least part of a
 * round is a third of @round_units.
 */
static uint32_t slice_all(const struct bps_plan *plan, uint64_t round_units,
                          struct bps_slice *slices)
{
	uint32_t n = 0, s;

	for (s = 0; s < plan->n_servers; s++) {
		if (plan->weights[s] * round_units / BPS_SHARE_ONE >= LEAST_UNITS)
			slices[n++] = (struct bps_slice){ s, plan->weights[s] };
	}
	end_slices(slices, n);
	return n;
}

/* One for each of @n servers of those that have a share, others each @turn. */
static void slice_some(const struct bps_plan *plan, uint32_t n_active, uint32_t n,
                       uint64_t turn, struct bps_slice *slices)
{
	uint32_t first = (uint32_t)(turn % n_active), kept = 0, i = 0, s;

	/* In order of servers: the chosen are first, first + 1, ... around the end. */
	for (s = 0; s < plan->n_servers; s++) {
		if (plan->weights[s] == 0)
			continue;
		if ((i++ + n_active - first) % n_active < n)
			slices[kept++] = (struct bps_slice){ s, 1 };
	}
	end_slices(slices, n);
}

/* Rounds in which no part is larger than @part_units. */
static uint64_t count_rounds(const struct bps_cut *cut, uint64_t n_units,
                             uint64_t part_units)
{
	uint32_t largest = 0, begin = 0, i;
	uint64_t n_rounds;

	for (i = 0; i < cut->n_slices; i++) {
		if (cut->slices[i].end - begin > largest)
			largest = cut->slices[i].end - begin;
		begin = cut->slices[i].end;
	}
	n_rounds = div_up(n_units, part_units * BPS_SHARE_ONE / largest);
	return n_rounds + 1 >= TAPERED_ROUNDS ? n_rounds + 1 : n_rounds;
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

static uint32_t count_active(const struct bps_plan *plan)
{
	uint32_t n = 0, s;

	for (s = 0; s < plan->n_servers; s++)
		n += plan->weights[s] > 0;
	return n;
}

int bps_cut_make(const struct bps_plan *plan, uint64_t op_bytes, uint64_t turn,
                 struct bps_slice *slices, struct bps_cut *ret_cut)
{
	uint64_t n_units = div_up(op_bytes, BPS_CUT_UNIT), n_rounds = 1, whole;
	struct bps_cut cut = { .op_bytes = op_bytes, .slices = slices };
	uint64_t part_units, round_units;
	uint32_t n_active;

	if (!is_sound(plan, op_bytes))
		return -EINVAL;
	n_active = count_active(plan);
	whole = n_units / crumb_units(plan);
	if (whole < n_active) { /* one round of fewer parts, larger than crumbs */
		cut.n_slices = whole > 0 ? (uint32_t)whole : 1;
		slice_some(plan, n_active, cut.n_slices, turn, slices);
	} else {
		part_units = units_of(bps_plan_partition(plan, op_bytes));
		round_units = part_units * BPS_SHARE_ONE / largest_weight(plan);
		cut.n_slices = slice_all(
			plan, round_units < n_units ? round_units : n_units, slices);
		n_rounds = count_rounds(&cut, n_units, part_units);
	}
	if (n_rounds > UINT32_MAX / cut.n_slices)
		return -EOVERFLOW;
	cut.n_rounds = (uint32_t)n_rounds;
	cut.n_parts = cut.n_rounds * cut.n_slices;
	*ret_cut = cut;
	return 0;
}

/* The unit that round @round begins with: the first and the last are half a round. */
static uint64_t round_start(const struct bps_cut *cut, uint64_t round)
{
	uint64_t n_units = div_up(cut->op_bytes, BPS_CUT_UNIT);
	uint64_t halves = 2 * (uint64_t)cut->n_rounds, at = 2 * round;

	if (cut->n_rounds >= TAPERED_ROUNDS) {
		halves -= 2;
		at -= round > 0;
		at -= round == cut->n_rounds;
	}
	return (uint64_t)((unsigned __int128)n_units * at / halves);
}

/* Of BPS_SHARE_ONE, another in each round, whatever else goes in steps. */
static uint32_t dither(uint32_t round)
{
	uint32_t x = round * 0x85ebca6bu;

	x ^= x >> 15;
	x *= 0x2c1b3c6du;
	x ^= x >> 12;
	return x % BPS_SHARE_ONE;
}

/*
 * The unit of round @round that slice @slice begins with. What rounding takes from a
 * slice in one round it gives back in another.
 */
static uint64_t slice_start(const struct bps_cut *cut, uint32_t round,
                            uint64_t round_units, uint32_t slice)
{
	if (slice == 0)
		return 0;
	return (round_units * cut->slices[slice - 1].end + dither(round)) / BPS_SHARE_ONE;
}

void bps_cut_part(const struct bps_cut *cut, uint32_t part, uint64_t *ret_offset,
                  uint32_t *ret_bytes)
{
	uint32_t round = part / cut->n_slices, slice = part % cut->n_slices;
	uint64_t begin = round_start(cut, round);
	uint64_t units = round_start(cut, (uint64_t)round + 1) - begin;
	uint64_t start = (begin + slice_start(cut, round, units, slice)) * BPS_CUT_UNIT;
	uint64_t end = (begin + slice_start(cut, round, units, slice + 1)) * BPS_CUT_UNIT;

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
