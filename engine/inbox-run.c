/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's way through a call. */
#include "engine/inbox.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "engine/agree.h"
#include "engine/client-impl.h"
#include "engine/inbox-impl.h"
#include "engine/kernels/kernels.h"
#include "engine/late.h"

/* Allreduces from here on write their outputs past the cache: they would push out of it
 * what is still to be read. Broadcasts do not, they were slower at every size. */
#define PAST_CACHE_BYTES (4u << 20)
/* A broadcast's leaf can begin when the first chunk is there: an eighth of the op, but
 * not so small that a hand-over counts, nor so large as the slot: half of it was faster.
 */
#define MIN_BCAST_CHUNK 32768u
#define BCAST_CHUNKS    8u
/* How long to poll before sleeping, about what a sleep costs; how often to give the CPU
 * away in a crowd. */
#define POLL_NS  (10 * BPS_NS_PER_US)
#define N_POLLS  32
#define N_YIELDS 4

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* Of so many bytes for each of @n, the most that one has: whole lines. */
static uint64_t share(uint64_t bytes, uint64_t n)
{
	return div_up(div_up(bytes, n), BPS_INBOX_LINE) * BPS_INBOX_LINE;
}

/* -- what there is to do -- */

/* Of an allreduce, where all ranks live together and where not. */
static const struct bps_inbox_step together[] = {
	{ BPS_STAGED, bps_inbox_stage },
	{ BPS_SUMMED, bps_inbox_sum },
	{ BPS_COPIED, bps_inbox_copy },
};
static const struct bps_inbox_step by_levels[] = {
	{ BPS_STAGED, bps_inbox_stage }, { BPS_GATHERED, bps_inbox_gather },
	{ BPS_SUMMED, bps_inbox_sum },   { BPS_RELAYED, bps_inbox_relay },
	{ BPS_COPIED, bps_inbox_copy },
};
/* Of a broadcast: the root, who lives where it does, and who does not. */
static const struct bps_inbox_step at_root[] = { { BPS_STAGED, bps_inbox_give } };
static const struct bps_inbox_step near_root[] = { { BPS_COPIED, bps_inbox_copy } };
static const struct bps_inbox_step far_root[] = {
	{ BPS_RELAYED, bps_inbox_relay },
	{ BPS_COPIED, bps_inbox_copy },
};

#define STEPS(walk, list) \
	((walk)->steps = (list), (walk)->n_steps = sizeof(list) / sizeof((list)[0]))

static void choose_steps(struct bps_inbox_walk *walk)
{
	const struct bps_groups *groups = walk->inbox->groups;

	if (walk->call->coll == BPS_ALLREDUCE && groups->n_groups == 1)
		STEPS(walk, together);
	else if (walk->call->coll == BPS_ALLREDUCE)
		STEPS(walk, by_levels);
	else if (walk->is_root)
		STEPS(walk, at_root);
	else if (groups->group_of[walk->call->root] == groups->mine)
		STEPS(walk, near_root);
	else
		STEPS(walk, far_root);
}

static bool is_leaf(const struct bps_inbox_walk *walk)
{
	return walk->call->coll == BPS_BCAST && !walk->is_root;
}

/* -- whether all ranks mean the same -- */

static void write_hdr(const struct bps_inbox_walk *walk, struct bps_wire_hdr *hdr)
{
	const struct bps_inbox_call *call = walk->call;

	*hdr = (struct bps_wire_hdr){
		.op = walk->inbox->n_calls,
		.op_bytes = call->bytes,
		.coll = (uint8_t)call->coll,
		.peer = call->world_rank,
	};
	if (call->coll == BPS_BCAST) {
		hdr->root = (uint16_t)call->root;
	} else {
		hdr->dtype = (uint8_t)call->dtype;
		hdr->redop = (uint8_t)call->redop;
	}
}

/* Whether @rank, which has staged the first chunk, is in the same call; else all fail. */
static bool agrees(const struct bps_inbox_walk *walk, uint32_t rank)
{
	struct bps_reason reason = { .error = -EPROTO };
	struct bps_wire_hdr mine;

	write_hdr(walk, &mine);
	if (!bps_push_disagrees(bps_inbox_hdr(walk->inbox, rank, walk->begin), &mine,
	                        reason.text, sizeof(reason.text)))
		return true;
	bps_inbox_fail(walk->inbox, &reason);
	return false;
}

static bool all_agree(const struct bps_inbox_walk *walk)
{
	uint32_t r;

	for (r = 0; r < walk->inbox->shape.n_ranks; r++) {
		if (r != walk->inbox->rank && !agrees(walk, r))
			return false;
	}
	return true;
}

/* Whether the call is the others' too, when there is something of theirs to read. */
static bool meant(const struct bps_inbox_walk *walk, uint32_t step)
{
	if (walk->done[step] > walk->begin)
		return true;
	if (walk->steps[step].counts == BPS_SUMMED)
		return all_agree(walk);
	return step > 0 || !is_leaf(walk) || agrees(walk, walk->call->root);
}

/* -- what can be done, and doing it -- */

/* What the first step needs: a free slot, or what the root has given. */
static bool can_begin(const struct bps_inbox_walk *walk)
{
	struct bps_inbox *inbox = walk->inbox;
	uint64_t chunk = walk->done[0];
	uint32_t n_slots = inbox->shape.n_slots;

	if (chunk == walk->end)
		return false;
	/* Pairs with the release in bps_inbox_publish(): the root's slot is complete. */
	if (is_leaf(walk))
		return bps_load_acquire(&inbox->counts[walk->call->root].of[BPS_STAGED]) >
		       chunk;
	return chunk < n_slots || bps_inbox_all(inbox, BPS_COPIED, chunk - n_slots);
}

static bool can_take(const struct bps_inbox_walk *walk, uint32_t step)
{
	if (step == 0)
		return can_begin(walk);
	return walk->done[step] < walk->done[step - 1] &&
	       bps_inbox_all(walk->inbox, walk->steps[step - 1].counts, walk->done[step]);
}

static void take(struct bps_inbox_walk *walk, uint32_t step)
{
	const struct bps_inbox_step *what = &walk->steps[step];
	uint64_t chunk = walk->done[step];

	if (!meant(walk, step))
		return;
	if (chunk == walk->begin && step == 0 && !is_leaf(walk))
		write_hdr(walk, bps_inbox_hdr(walk->inbox, walk->inbox->rank, chunk));
	what->take(walk, chunk);
	walk->done[step]++;
	bps_inbox_publish(walk->inbox, what->counts, walk->done[step]);
	if (walk->is_root) /* it has nothing more to do with it */
		bps_inbox_publish(walk->inbox, BPS_COPIED, walk->done[step]);
}

/* Results first: they free slots, and what is in the cache need not be fetched again. */
static bool work(struct bps_inbox_walk *walk)
{
	uint32_t step;

	for (step = walk->n_steps; step-- > 0;) {
		if (can_take(walk, step)) {
			take(walk, step);
			return true;
		}
	}
	return false;
}

/* Nothing but what work() looks at, and whether all is over. */
static bool has_work(void *owner)
{
	const struct bps_inbox_walk *walk = owner;
	uint32_t step;

	for (step = walk->n_steps; step-- > 0;) {
		if (can_take(walk, step))
			return true;
	}
	return bps_load_relaxed(&walk->inbox->shared->failed) == 2;
}

/* -- waiting -- */

static uint64_t moves(void *owner, uint32_t rank)
{
	const struct bps_inbox *inbox = ((const struct bps_inbox_walk *)owner)->inbox;
	uint64_t sum = 0;
	int count;

	for (count = 0; count < BPS_N_COUNTS; count++)
		sum += bps_load_relaxed(&inbox->counts[rank].of[count]);
	return sum;
}

static bool has_left(void *owner, uint32_t rank)
{
	const struct bps_inbox *inbox = ((const struct bps_inbox_walk *)owner)->inbox;

	return bps_load_relaxed(&inbox->counts[rank].of[BPS_LEFT]) >= inbox->n_calls;
}

/* A short wait without a sleep; true: there is work. */
static bool poll(struct bps_inbox_walk *walk)
{
	uint64_t until_ns = bps_now_ns() + POLL_NS;
	int i;

	for (i = 0; walk->inbox->crowded && i < N_YIELDS; i++) {
		sched_yield();
		if (has_work(walk))
			return true;
	}
	while (!walk->inbox->crowded && bps_now_ns() < until_ns) {
		for (i = 0; i < N_POLLS; i++) {
			if (has_work(walk))
				return true;
			bps_cpu_relax();
		}
	}
	return false;
}

static void wait_for_work(struct bps_inbox_walk *walk, const struct bps_stage_wait *wait)
{
	const struct bps_late late = {
		.call = walk->call->name,
		.comm = walk->call->comm,
		.n_ranks = walk->inbox->shape.n_ranks,
		.rank = walk->inbox->rank,
		.turns = &walk->inbox->counts[walk->inbox->rank].of[BPS_TURNS],
		.seen = walk->inbox->seen,
		.moves = moves,
		.has_left = has_left,
		.has_work = has_work,
		.owner = walk,
	};

	bps_inbox_say(walk->inbox);
	if (!poll(walk))
		bps_late_wait(&late, &walk->inbox->shared->event, wait);
}

/* -- a call -- */

static uint64_t max_chunk(const struct bps_inbox_walk *walk)
{
	uint64_t chunk = walk->call->bytes / BCAST_CHUNKS;
	uint64_t most = walk->inbox->shape.slot_bytes / 2;

	if (walk->call->coll == BPS_ALLREDUCE)
		return bps_inbox_most(walk);
	if (chunk < MIN_BCAST_CHUNK)
		chunk = MIN_BCAST_CHUNK;
	return chunk < most ? chunk : most;
}

/* All ranks have opened it by now. */
static void first_call(struct bps_inbox *inbox)
{
	struct bps_cpuset cpus = inbox->shared->cpus;

	inbox->crowded = inbox->shape.n_ranks > bps_cpuset_n_threads(&cpus);
}

static void begin(struct bps_inbox_walk *walk)
{
	struct bps_inbox *inbox = walk->inbox;
	uint64_t bytes = walk->call->bytes;
	uint64_t n_chunks = div_up(bytes, max_chunk(walk));
	uint32_t step;

	if (inbox->n_calls++ == 0)
		first_call(inbox);
	if (n_chunks > 0)
		walk->chunk_bytes = share(bytes, n_chunks);
	walk->piece =
		(uint32_t)share(walk->chunk_bytes,
	                        walk->call->coll == BPS_BCAST ? 1 : inbox->shape.n_ranks);
	/* Rounding up may have made the last one needless. */
	walk->end = walk->begin + (n_chunks ? div_up(bytes, walk->chunk_bytes) : 0);
	for (step = 0; step < walk->n_steps; step++)
		walk->done[step] = walk->begin;
}

/* Whether there is such an operation, or such a root; else all fail. */
static bool check(struct bps_inbox_walk *walk)
{
	const struct bps_inbox_call *call = walk->call;
	struct bps_inbox *inbox = walk->inbox;
	struct bps_reason reason;

	if (call->coll == BPS_BCAST ? call->root < inbox->shape.n_ranks
	                            : bps_mix_make(inbox->groups, call->dtype,
	                                           call->redop, &walk->mix) == 0)
		return true;
	bps_reason_set(&reason, -EINVAL, "%s on %s: there is no such operation or root",
	               call->name, call->comm);
	bps_inbox_fail(inbox, &reason);
	return false;
}

static bool is_over(const struct bps_inbox_walk *walk)
{
	return walk->n_steps > 0 && walk->done[walk->n_steps - 1] == walk->end;
}

int bps_inbox_run(struct bps_inbox *inbox, const struct bps_inbox_call *call,
                  const struct bps_stage_wait *wait, struct bps_reason *ret_reason)
{
	struct bps_inbox_walk walk = {
		.inbox = inbox,
		.call = call,
		.begin = inbox->base,
		.copy_in = bps_copy(false),
		.copy_out = bps_copy(call->coll == BPS_ALLREDUCE &&
		                     call->bytes >= PAST_CACHE_BYTES),
		.is_root = call->coll == BPS_BCAST && call->root == inbox->rank,
	};
	int error = 0;

	if (check(&walk))
		choose_steps(&walk);
	begin(&walk);
	while (error == 0 && !is_over(&walk)) {
		error = bps_inbox_failed(inbox, ret_reason);
		if (error == 0 && !work(&walk))
			wait_for_work(&walk, wait);
	}
	bps_copy_fence();
	bps_store_relaxed(&inbox->counts[inbox->rank].of[BPS_LEFT], inbox->n_calls);
	bps_inbox_say(inbox);
	inbox->base = walk.end;
	return error;
}
