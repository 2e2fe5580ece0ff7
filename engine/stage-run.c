/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's way through a call. A group is the ranks of a memory node. */
#include "engine/stage.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "engine/client-impl.h"
#include "engine/late.h"
#include "engine/mix.h"
#include "engine/stage-impl.h"

/* How far this rank is; all in positions, up to end. */
struct walk {
	struct bps_stage *stage;
	const struct bps_stage_call *call;
	uint64_t end;
	uint64_t staged, made, copied;
	struct bps_mix mix;
	bool direct; /* it copies the totals from where the engine puts them */
};

/* A position's bytes in the user's buffers, and in the input and result slots. */
struct part {
	uint64_t position, offset;
	uint32_t bytes;
};

/* -- who does what -- */

/* The rank of @group that gathers, sums or relays @position. */
static uint32_t maker_of(const struct walk *walk, uint32_t group, uint64_t position)
{
	const struct bps_groups *groups = walk->stage->groups;
	int32_t root = walk->call->root;

	if (walk->call->coll == BPS_BCAST && root >= 0 && groups->group_of[root] == group)
		return (uint32_t)root;
	return bps_groups_member(groups, group, position);
}

/* Whether this rank has something to make of the inputs of @position. */
static bool makes(const struct walk *walk, uint64_t position)
{
	const struct bps_stage *stage = walk->stage;
	int32_t root = walk->call->root;

	if (walk->call->coll == BPS_BCAST)
		return stage->rank == (root >= 0 ? (uint32_t)root : 0);
	return maker_of(walk, stage->groups->mine, position) == stage->rank;
}

static bool in_roots_box(const struct walk *walk)
{
	return walk->call->coll == BPS_BCAST && walk->call->root >= 0;
}

static bool is_root(const struct walk *walk)
{
	return walk->call->coll == BPS_BCAST &&
	       walk->call->root == (int32_t)walk->stage->rank;
}

static struct part part_of(const struct walk *walk, uint64_t position)
{
	const struct bps_stage_call *call = walk->call;
	uint32_t nth = (uint32_t)(position - walk->stage->base);
	struct part part = { .position = position };

	bps_cut_part(&call->cut, bps_cut_visit(&call->cut, call->start, nth),
	             &part.offset, &part.bytes);
	part.offset = bps_total_bytes(call->dtype, part.offset);
	part.bytes = (uint32_t)bps_total_bytes(call->dtype, part.bytes);
	return part;
}

/* -- staging -- */

static bool can_stage(const struct walk *walk)
{
	return walk->staged < walk->end && bps_stage_free_for(walk->stage, walk->staged);
}

static void publish_input(struct walk *walk, uint64_t staged)
{
	struct bps_stage *stage = walk->stage;

	walk->staged = staged;
	/* Pairs with the acquire in inputs_there(). */
	bps_store_release(&stage->ranks[stage->rank].staged, staged);
	bps_event_notify(&stage->shared->event);
}

/* Give my input to the one of my group that needs it, if that is another rank. */
static void stage_input(struct walk *walk)
{
	struct bps_stage *stage = walk->stage;

	if (!makes(walk, walk->staged)) {
		struct part part = part_of(walk, walk->staged);

		memcpy(bps_stage_input(stage, stage->rank, walk->staged),
		       (const char *)walk->call->input + part.offset, part.bytes);
	}
	publish_input(walk, walk->staged + 1);
}

/* -- gathering and summing -- */

static bool inputs_there(const struct walk *walk, uint64_t position)
{
	const struct bps_stage *stage = walk->stage;
	const struct bps_groups *groups = stage->groups;
	uint32_t i;

	for (i = groups->first[groups->mine]; i < groups->first[groups->mine + 1]; i++) {
		uint32_t r = groups->members[i];

		/* Pairs with the release in publish_input(): the input is complete. */
		if (r != stage->rank &&
		    bps_load_acquire(&stage->ranks[r].staged) <= position)
			return false;
	}
	return true;
}

static bool partials_there(const struct walk *walk, uint64_t position)
{
	const struct bps_groups *groups = walk->stage->groups;
	uint32_t g;

	for (g = 0; groups->mine == groups->home && g < groups->n_groups; g++) {
		/* Pairs with the release in gather(): the partial is complete. */
		if (g != groups->mine &&
		    bps_load_acquire(
			    &bps_stage_near_flags(walk->stage, g, position)->gathered) !=
		            position + 1)
			return false;
	}
	return true;
}

/* Looks for the next position that is this rank's to make, too. */
static bool can_make(struct walk *walk)
{
	while (walk->made < walk->end && !makes(walk, walk->made))
		walk->made++;
	if (walk->made == walk->end || !bps_stage_free_for(walk->stage, walk->made))
		return false;
	return walk->call->coll != BPS_ALLREDUCE ||
	       (inputs_there(walk, walk->made) && partials_there(walk, walk->made));
}

/* The sources of a sum from byte @at of @part on: my group's inputs, other's partials. */
static void find_sources(const struct walk *walk, const struct part *part, uint32_t at)
{
	struct bps_stage *stage = walk->stage;
	const struct bps_groups *groups = stage->groups;
	const uint32_t *members = groups->members + groups->first[groups->mine];
	uint32_t n = bps_groups_size(groups, groups->mine), i, g;

	for (i = 0; i < n; i++) {
		uint32_t r = members[i];

		stage->sources[i] =
			(r == stage->rank ? (const char *)walk->call->input + part->offset
		                          : bps_stage_input(stage, r, part->position)) +
			at;
	}
	for (g = 0; groups->mine == groups->home && g < groups->n_groups; g++) {
		if (g != groups->mine)
			stage->sources[n++] = bps_stage_near(stage, g, part->position) +
			                      (size_t)at * bps_mix_scale(&walk->mix, g);
	}
}

static void gather(const struct walk *walk, const struct part *part)
{
	struct bps_stage *stage = walk->stage;
	uint32_t mine = stage->groups->mine;

	find_sources(walk, part, 0);
	bps_mix_near(&walk->mix, bps_stage_near(stage, mine, part->position),
	             stage->sources, part->bytes);
	/* Pairs with the acquire in partials_there(). */
	bps_store_release(&bps_stage_near_flags(stage, mine, part->position)->gathered,
	                  part->position + 1);
	bps_event_notify(&stage->shared->event);
}

static void publish_sum(const struct walk *walk, uint64_t position)
{
	struct bps_stage *stage = walk->stage;

	/* Pairs with the acquire in bps_stage_summed(). */
	bps_store_release(&stage->slots[bps_stage_slot(stage, position)].summed,
	                  position + 1);
	bps_stage_wake_engine(stage);
}

/* In one go; where partials are fp32, in blocks that stay in the cache. */
static void sum(const struct walk *walk, const struct part *part)
{
	const struct bps_stage *stage = walk->stage;
	struct bps_groups *groups = stage->groups;
	uint32_t scale = bps_total_bytes(walk->call->dtype, 2) == 2 ? 1 : 2; /* wide */
	uint32_t most = walk->mix.wide ? BPS_MIX_BYTES : part->bytes, at, n, g;
	char *push = bps_stage_at(stage, stage->layout.push, part->position);

	for (at = 0; at < part->bytes; at += n) {
		n = part->bytes - at < most ? part->bytes - at : most;
		find_sources(walk, part, at);
		bps_mix_all(&walk->mix, push + (size_t)at * scale, stage->sources, n);
	}
	for (g = 0; g < groups->n_groups; g++)
		bps_groups_count(groups, g, groups->mine,
		                 (uint64_t)part->bytes * bps_mix_scale(&walk->mix, g));
	bps_groups_count(groups, groups->mine, groups->wire,
	                 (uint64_t)part->bytes * scale);
	publish_sum(walk, part->position);
}

/* This rank's group has @part in its near slot now. */
static void publish_relay(const struct walk *walk, const struct part *part)
{
	struct bps_stage *stage = walk->stage;

	/* Pairs with the acquire in can_copy(): the copy is complete. */
	bps_store_release(
		&bps_stage_near_flags(stage, stage->groups->mine, part->position)
			 ->relayed,
		part->position + 1);
	bps_event_notify(&stage->shared->event);
}

/* A broadcast's root gives its data; a leader says that there is room for it. */
static void give(const struct walk *walk, const struct part *part)
{
	struct bps_stage *stage = walk->stage;
	struct bps_groups *groups = stage->groups;
	const char *input = (const char *)walk->call->input + part->offset;

	if (is_root(walk)) {
		memcpy(bps_stage_at(stage, stage->layout.push, part->position), input,
		       part->bytes);
		bps_groups_count(groups, groups->mine, groups->wire, part->bytes);
	}
	publish_sum(walk, part->position);
	if (!is_root(walk) || walk->direct)
		return;
	memcpy(bps_stage_near(stage, groups->mine, part->position), input, part->bytes);
	publish_relay(walk, part);
}

static void make(struct walk *walk)
{
	const struct part part = part_of(walk, walk->made);
	const struct bps_groups *groups = walk->stage->groups;

	if (walk->call->coll == BPS_BCAST)
		give(walk, &part);
	else if (groups->mine == groups->home)
		sum(walk, &part);
	else
		gather(walk, &part);
	walk->made++;
}

/* -- relaying and copying -- */

static bool takes(const struct walk *walk, uint64_t position)
{
	const struct bps_stage *stage = walk->stage;

	return walk->direct ||
	       maker_of(walk, stage->groups->mine, position) == stage->rank;
}

static bool can_copy(const struct walk *walk)
{
	const struct bps_stage *stage = walk->stage;
	uint64_t position = walk->copied;
	bool taken;

	if (position == walk->end)
		return false;
	/* In the root's box too: until the servers have it, it is sent from the push
	 * slot. Pairs with the release in bps_stage_done(). */
	taken = takes(walk, position);
	if ((taken || in_roots_box(walk)) &&
	    bps_load_acquire(&stage->slots[bps_stage_slot(stage, position)].done) !=
	            position + 1)
		return false;
	if (taken)
		return true;
	/* Pairs with the release in publish_relay(). */
	return bps_load_acquire(
		       &bps_stage_near_flags(stage, stage->groups->mine, position)
				->relayed) == position + 1;
}

/* From where the engine has it; for my group too, if it has to go across. */
static const char *take(const struct walk *walk, const struct part *part)
{
	const struct bps_stage *stage = walk->stage;
	const struct bps_stage_layout *layout = &stage->layout;
	struct bps_groups *groups = stage->groups;
	bool from_push = in_roots_box(walk);
	char *near = bps_stage_near(stage, groups->mine, part->position);
	const char *from = bps_stage_at(stage, from_push ? layout->push : layout->result,
	                                part->position);

	bps_groups_count(groups, groups->wire, groups->mine, part->bytes);
	if (walk->direct)
		return from;
	memcpy(near, from, part->bytes);
	publish_relay(walk, part);
	return near;
}

static void copy_out(struct walk *walk)
{
	struct bps_stage *stage = walk->stage;
	const struct part part = part_of(walk, walk->copied);

	if (!is_root(walk)) {
		const char *from = takes(walk, part.position)
		                           ? take(walk, &part)
		                           : bps_stage_near(stage, stage->groups->mine,
		                                            part.position);

		memcpy((char *)walk->call->output + part.offset, from, part.bytes);
	}
	walk->copied++;
	/* Pairs with the acquire in bps_stage_free_for(). */
	bps_store_release(&stage->ranks[stage->rank].copied, walk->copied);
	bps_event_notify(&stage->shared->event);
}

/* Results first: they free slots, and what is done need not be fetched again. */
static bool work(struct walk *walk)
{
	bool copies = can_copy(walk), sums, stages;

	if (copies)
		copy_out(walk);
	sums = can_make(walk);
	if (sums)
		make(walk);
	stages = can_stage(walk);
	if (stages)
		stage_input(walk);
	return copies || sums || stages;
}

/* Nothing but what work() looks at; used between announcing a sleep and sleeping. */
static bool has_work(void *owner)
{
	struct walk *walk = owner;

	return bps_load_relaxed(&walk->stage->shared->failed) || can_copy(walk) ||
	       can_make(walk) || can_stage(walk);
}

/* -- waiting -- */

static bool failed(const struct bps_stage *stage, struct bps_reason *ret_reason)
{
	/* Pairs with the release in bps_stage_fail(). */
	if (!bps_load_acquire(&stage->shared->failed))
		return false;
	*ret_reason = stage->shared->reason;
	return true;
}

static uint64_t moves(void *owner, uint32_t rank)
{
	return bps_stage_moves(((const struct walk *)owner)->stage, rank);
}

static bool has_left(void *owner, uint32_t rank)
{
	const struct walk *walk = owner;

	return bps_load_relaxed(&walk->stage->ranks[rank].copied) >= walk->end;
}

static void wait_for_work(struct walk *walk, const struct bps_stage_wait *wait)
{
	const struct bps_late late = {
		.call = walk->call->name,
		.comm = walk->call->comm,
		.n_ranks = walk->stage->shape.n_ranks,
		.rank = walk->stage->rank,
		.turns = &walk->stage->ranks[walk->stage->rank].turns,
		.seen = walk->stage->seen,
		.moves = moves,
		.has_left = has_left,
		.has_work = has_work,
		.owner = walk,
	};

	bps_late_wait(&late, &walk->stage->shared->event, wait);
}

/* -- a call -- */

static int no_such(struct bps_stage *stage, const struct bps_stage_call *call,
                   struct bps_reason *ret_reason)
{
	bps_reason_set(ret_reason, -EINVAL, "%s on %s: there is no such operation",
	               call->name, call->comm);
	bps_stage_fail(stage, ret_reason);
	return -EINVAL;
}

int bps_stage_run(struct bps_stage *stage, const struct bps_stage_call *call,
                  const struct bps_stage_wait *wait, struct bps_reason *ret_reason)
{
	const struct bps_groups *groups = stage->groups;
	bool alone = bps_groups_size(groups, groups->mine) == 1, broken = false;
	struct walk walk = {
		.stage = stage,
		.call = call,
		.end = stage->base + call->cut.n_parts,
		.staged = stage->base,
		.made = stage->base,
		.copied = stage->base,
		.direct = alone || groups->wire == groups->mine ||
		          groups->nodes[groups->mine] == BPS_NUMA_NONE,
	};

	if (call->coll == BPS_ALLREDUCE &&
	    bps_mix_make(groups, call->dtype, call->redop, &walk.mix) < 0)
		return no_such(stage, call, ret_reason);
	if (call->coll != BPS_ALLREDUCE || alone)
		publish_input(&walk, walk.end); /* nobody waits for an input of mine */
	while (walk.copied < walk.end && !broken) {
		if (work(&walk))
			continue; /* of a failed call too: its results may be there */
		broken = failed(stage, ret_reason);
		if (!broken)
			wait_for_work(&walk, wait);
	}
	stage->base = walk.end;
	return broken ? ret_reason->error : 0;
}
