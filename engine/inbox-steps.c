/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank does with a chunk. A group is the ranks of a memory node. */
#include <string.h>

#include "engine/inbox-impl.h"

/* Summed and handed on in blocks that stay in the first-level cache. */
#define BLOCK_BYTES 4096u

_Static_assert(BLOCK_BYTES <= BPS_MIX_BYTES, "a block is summed in one call");

/*
 * Offsets below are from the start of the chunk, but for .offset: short, since they are
 * divided a lot.
 */
struct chunk {
	uint64_t nth;
	uint64_t offset; /* in the user's buffers */
	uint32_t bytes;
};

struct range {
	uint32_t begin, end;
};

/* -- who does what -- */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Of so many bytes for each of @n, the most that one has: whole lines, never none. */
static uint32_t part(uint32_t bytes, uint32_t n)
{
	uint32_t each = bytes / n + (bytes % n != 0);
	uint32_t lines = (each + BPS_INBOX_LINE - 1) / BPS_INBOX_LINE;

	return lines > 0 ? lines * BPS_INBOX_LINE : BPS_INBOX_LINE;
}

static bool is_bcast(const struct bps_inbox_walk *walk)
{
	return walk->call->coll == BPS_BCAST;
}

static struct chunk chunk_of(const struct bps_inbox_walk *walk, uint64_t nth)
{
	uint64_t offset = (nth - walk->begin) * walk->chunk_bytes;
	uint64_t left = walk->call->bytes - offset;

	if (left > walk->chunk_bytes)
		left = walk->chunk_bytes;
	return (struct chunk){ nth, offset, (uint32_t)left };
}

/* What the ranks of @group own: they have the sum of it first, or the root has it. */
static struct range owned_by(const struct bps_inbox_walk *walk, const struct chunk *chunk,
                             uint32_t group)
{
	const struct bps_groups *groups = walk->inbox->groups;

	if (is_bcast(walk))
		return (struct range){ 0, groups->group_of[walk->call->root] == group
			                          ? chunk->bytes
			                          : 0 };
	return (struct range){
		least(groups->first[group] * walk->piece, chunk->bytes),
		least(groups->first[group + 1] * walk->piece, chunk->bytes),
	};
}

/* What this rank has to do of what the ranks of another @group own. */
static struct range my_share(const struct bps_inbox_walk *walk, const struct chunk *chunk,
                             uint32_t group)
{
	const struct bps_groups *groups = walk->inbox->groups;
	struct range all = owned_by(walk, chunk, group);
	uint32_t each = part(all.end - all.begin, bps_groups_size(groups, groups->mine));

	return (struct range){ least(all.begin + groups->nth * each, all.end),
		               least(all.begin + (groups->nth + 1) * each, all.end) };
}

/*
 * The rank of @group that makes byte @at of what the group has of the sum: its owner, or
 * who has to take it over from another group. @ret_end: where its part ends.
 */
static uint32_t maker_of(const struct bps_inbox_walk *walk, const struct chunk *chunk,
                         uint32_t group, uint32_t at, uint32_t *ret_end)
{
	const struct bps_groups *groups = walk->inbox->groups;
	uint32_t piece = at / walk->piece, each;
	uint32_t owner = is_bcast(walk) ? walk->call->root : groups->members[piece];
	struct range all;

	if (groups->group_of[owner] == group) {
		*ret_end = least((piece + 1) * walk->piece, chunk->bytes);
		return owner;
	}
	all = owned_by(walk, chunk, groups->group_of[owner]);
	each = part(all.end - all.begin, bps_groups_size(groups, group));
	at = (at - all.begin) / each;
	*ret_end = least(all.begin + (at + 1) * each, all.end);
	return groups->members[groups->first[group] + at];
}

/* -- where it lies -- */

/* The slot with what @maker has of the sum. */
static unsigned char *sum_slot(const struct bps_inbox_walk *walk, uint32_t maker,
                               uint64_t nth)
{
	const struct bps_inbox *inbox = walk->inbox;

	return bps_inbox_slot(inbox, is_bcast(walk) ? maker : inbox->groups->next[maker],
	                      nth);
}

/*
 * The partial of @group from byte @at on, by @maker: where it will have the sum, since
 * nobody needs both; but in fp32 behind the inputs in its own slot.
 */
static unsigned char *partial_at(const struct bps_inbox_walk *walk, uint32_t group,
                                 uint32_t maker, uint64_t nth, uint32_t at)
{
	if (bps_mix_scale(&walk->mix, group) == 1)
		return sum_slot(walk, maker, nth) + at;
	return bps_inbox_slot(walk->inbox, maker, nth) + bps_inbox_most(walk) + 2ul * at;
}

uint64_t bps_inbox_most(const struct bps_inbox_walk *walk)
{
	uint64_t slot = walk->inbox->shape.slot_bytes;

	return walk->mix.wide ? slot / 3 / BPS_INBOX_LINE * BPS_INBOX_LINE : slot;
}

/* The inputs of this rank's group, as sources of a sum. Return: how many. */
static uint32_t find_inputs(const struct bps_inbox_walk *walk, const struct chunk *chunk,
                            uint32_t at)
{
	struct bps_inbox *inbox = walk->inbox;
	const struct bps_groups *groups = inbox->groups;
	const uint32_t *members = groups->members + groups->first[groups->mine];
	uint32_t n = bps_groups_size(groups, groups->mine), i;

	for (i = 0; i < n; i++) {
		uint32_t r = members[i];

		inbox->sources[i] = r == inbox->rank
		                            ? (const unsigned char *)walk->call->input +
		                                      chunk->offset + at
		                            : bps_inbox_slot(inbox, r, chunk->nth) + at;
	}
	return n;
}

/*
 * The other groups' partials, as further sources from @n on; they are read.
 * Return: up to where, at most @end, they all lie in one stretch.
 */
static uint32_t find_partials(const struct bps_inbox_walk *walk,
                              const struct chunk *chunk, uint32_t at, uint32_t end,
                              uint32_t n)
{
	struct bps_groups *groups = walk->inbox->groups;
	uint32_t g, stop;

	if (groups->n_groups == 1)
		return end;
	for (g = 0; g < groups->n_groups; g++) {
		uint32_t maker;

		if (g == groups->mine)
			continue;
		maker = maker_of(walk, chunk, g, at, &stop);
		end = least(end, stop);
		walk->inbox->sources[n++] = partial_at(walk, g, maker, chunk->nth, at);
	}
	for (g = 0; g < groups->n_groups; g++)
		bps_groups_count(groups, g, groups->mine,
		                 (uint64_t)(end - at) * bps_mix_scale(&walk->mix, g));
	return end;
}

/* -- the steps -- */

/* Into my slot goes what others of my group make. */
void bps_inbox_stage(const struct bps_inbox_walk *walk, uint64_t nth)
{
	struct bps_inbox *inbox = walk->inbox;
	struct chunk chunk = chunk_of(walk, nth);
	unsigned char *slot = bps_inbox_slot(inbox, inbox->rank, nth);
	const char *input = (const char *)walk->call->input + chunk.offset;
	uint32_t from, at = 0, end;

	while (at < chunk.bytes) {
		from = at;
		while (at < chunk.bytes && maker_of(walk, &chunk, inbox->groups->mine, at,
		                                    &end) != inbox->rank)
			at = end;
		walk->copy_in(slot + from, input + from, at - from);
		if (at < chunk.bytes)
			at = end;
	}
}

void bps_inbox_give(const struct bps_inbox_walk *walk, uint64_t nth)
{
	struct chunk chunk = chunk_of(walk, nth);

	walk->copy_in(sum_slot(walk, walk->inbox->rank, nth),
	              (const char *)walk->call->input + chunk.offset, chunk.bytes);
}

void bps_inbox_gather(const struct bps_inbox_walk *walk, uint64_t nth)
{
	const struct bps_inbox *inbox = walk->inbox;
	const struct bps_groups *groups = inbox->groups;
	struct chunk chunk = chunk_of(walk, nth);
	uint32_t g;

	for (g = 0; g < groups->n_groups; g++) {
		struct range share;

		if (g == groups->mine)
			continue;
		share = my_share(walk, &chunk, g);
		if (share.begin == share.end)
			continue;
		find_inputs(walk, &chunk, share.begin);
		bps_mix_near(
			&walk->mix,
			partial_at(walk, groups->mine, inbox->rank, nth, share.begin),
			inbox->sources, share.end - share.begin);
	}
}

void bps_inbox_sum(const struct bps_inbox_walk *walk, uint64_t nth)
{
	const struct bps_inbox *inbox = walk->inbox;
	const struct bps_groups *groups = inbox->groups;
	struct chunk chunk = chunk_of(walk, nth);
	uint32_t at = (groups->first[groups->mine] + groups->nth) * walk->piece;
	uint32_t end, stop;
	unsigned char *sum = sum_slot(walk, inbox->rank, nth);
	char *output = (char *)walk->call->output + chunk.offset;

	for (end = least(at + walk->piece, chunk.bytes); at < end; at = stop) {
		uint32_t n = find_inputs(walk, &chunk, at);

		stop = find_partials(walk, &chunk, at, least(at + BLOCK_BYTES, end), n);
		bps_mix_all(&walk->mix, sum + at, inbox->sources, stop - at);
		walk->copy_out(output + at, sum + at, stop - at);
	}
}

/* From another group's slot into mine, for my group, and to my output. */
static void take_over(const struct bps_inbox_walk *walk, const struct chunk *chunk,
                      const unsigned char *from, uint32_t at, uint32_t end)
{
	const struct bps_groups *groups = walk->inbox->groups;
	unsigned char *slot = sum_slot(walk, groups->rank, chunk->nth);
	bool alone = bps_groups_size(groups, groups->mine) == 1;
	char *output = (char *)walk->call->output + chunk->offset;
	uint32_t n;

	for (; at < end; at += n) {
		n = least(BLOCK_BYTES, end - at);
		if (!alone)
			walk->copy_in(slot + at, from + at, n);
		walk->copy_out(output + at, (alone ? from : slot) + at, n);
	}
}

void bps_inbox_relay(const struct bps_inbox_walk *walk, uint64_t nth)
{
	struct bps_groups *groups = walk->inbox->groups;
	struct chunk chunk = chunk_of(walk, nth);
	uint32_t g, at, stop;

	for (g = 0; g < groups->n_groups; g++) {
		struct range share;

		if (g == groups->mine)
			continue;
		share = my_share(walk, &chunk, g);
		for (at = share.begin; at < share.end; at = stop) {
			uint32_t owner = maker_of(walk, &chunk, g, at, &stop);

			stop = least(stop, share.end);
			take_over(walk, &chunk, sum_slot(walk, owner, nth), at, stop);
			bps_groups_count(groups, g, groups->mine, stop - at);
		}
	}
}

/* What others of my group made of the sum. */
void bps_inbox_copy(const struct bps_inbox_walk *walk, uint64_t nth)
{
	const struct bps_inbox *inbox = walk->inbox;
	struct chunk chunk = chunk_of(walk, nth);
	char *output = (char *)walk->call->output + chunk.offset;
	uint32_t at, end;

	for (at = 0; at < chunk.bytes; at = end) {
		uint32_t maker = maker_of(walk, &chunk, inbox->groups->mine, at, &end);

		if (maker != inbox->rank)
			walk->copy_out(output + at, sum_slot(walk, maker, nth) + at,
			               end - at);
	}
}
