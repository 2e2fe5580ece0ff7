/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/plan.h"

#include <errno.h>
#include <stddef.h>

/* Below this a message's fixed costs outweigh what a further server brings. */
#define MIN_PART_BYTES 4096u
/*
 * Filling and draining the pipe costs one round, a part for each server, so an op wants
 * many rounds, as long as headers and system calls for a part stay small against it.
 */
#define ROUNDS           32u
#define SMALL_PART_BYTES 8192u

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* How many parts: even over the servers, unless that makes crumbs. */
static uint64_t count_parts(uint64_t op_bytes, uint64_t part_bytes, uint32_t n_servers)
{
	uint64_t least = div_up(op_bytes, part_bytes);
	uint64_t even = div_up(least, n_servers) * n_servers;
	uint64_t crumb =
		part_bytes / 2 < MIN_PART_BYTES ? part_bytes / 2 : MIN_PART_BYTES;
	uint64_t whole = op_bytes / crumb;

	if (even <= whole)
		return even;
	return whole > least ? whole : least;
}

int bps_cut_make(uint64_t op_bytes, uint32_t partition_bytes, uint32_t n_servers,
                 struct bps_cut *ret_cut)
{
	uint64_t part_bytes = partition_bytes - partition_bytes % BPS_CUT_UNIT;
	uint64_t n_units = div_up(op_bytes, BPS_CUT_UNIT);
	uint64_t n_parts;

	if (op_bytes == 0 || part_bytes < BPS_CUT_MIN_PARTITION || n_servers == 0)
		return -EINVAL;
	n_parts = count_parts(op_bytes, part_bytes, n_servers);
	if (n_parts > UINT32_MAX)
		return -EOVERFLOW;
	*ret_cut = (struct bps_cut){
		.op_bytes = op_bytes,
		.n_parts = (uint32_t)n_parts,
		.n_servers = n_servers,
		.units = n_units / n_parts,
		.n_longer = (uint32_t)(n_units % n_parts),
	};
	return 0;
}

uint32_t bps_plan_partition(uint64_t op_bytes, uint32_t max_bytes, uint32_t n_servers)
{
	uint64_t part = op_bytes / n_servers / ROUNDS;

	if (part < SMALL_PART_BYTES)
		part = SMALL_PART_BYTES;
	return part < max_bytes ? (uint32_t)part : max_bytes;
}

static uint64_t part_start(const struct bps_cut *cut, uint64_t part)
{
	uint64_t longer = part < cut->n_longer ? part : cut->n_longer;
	uint64_t start = (part * cut->units + longer) * BPS_CUT_UNIT;

	return start < cut->op_bytes ? start : cut->op_bytes;
}

void bps_cut_part(const struct bps_cut *cut, uint32_t part, uint64_t *ret_offset,
                  uint32_t *ret_bytes)
{
	uint64_t start = part_start(cut, part);

	*ret_offset = start;
	*ret_bytes = (uint32_t)(part_start(cut, (uint64_t)part + 1) - start);
}

uint32_t bps_plan_server(const struct bps_cut *cut, uint64_t op, uint32_t part)
{
	return (uint32_t)((part + op % cut->n_servers) % cut->n_servers);
}

/*
 * A round is one part for each server; within it the visits are turned by @start. An op
 * with fewer parts than servers is one short round.
 */
static uint32_t round_parts(const struct bps_cut *cut)
{
	return cut->n_parts < cut->n_servers ? cut->n_parts : cut->n_servers;
}

uint32_t bps_plan_part(const struct bps_cut *cut, uint32_t start, uint32_t position)
{
	uint32_t size = round_parts(cut);
	uint32_t in_round = position % size;

	return position - in_round + (uint32_t)(((uint64_t)in_round + start) % size);
}

uint64_t bps_plan_position(const struct bps_cut *cut, uint64_t op, uint32_t start,
                           uint32_t server, uint32_t nth)
{
	uint32_t size = round_parts(cut);
	uint32_t k = cut->n_servers;
	uint32_t part = (uint32_t)((server + k - op % k) % k);

	if (part >= size)
		return cut->n_parts;
	return (uint64_t)nth * size + (part + size - start % size) % size;
}
