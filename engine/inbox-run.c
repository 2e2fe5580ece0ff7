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

/* Summed and handed on in blocks that stay in the first-level cache. */
#define BLOCK_BYTES 4096u
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

/* How far this rank is; all in chunks, from begin to end. */
struct walk {
	struct bps_inbox *inbox;
	const struct bps_inbox_call *call;
	uint64_t begin, end;
	uint64_t staged, summed, copied;
	uint64_t chunk_bytes; /* of all but the last one */
	bps_reduce_fn *reduce;
	bps_copy_fn *copy_in, *copy_out;
	bool is_root;
};

/* A stretch of bytes; offset is in the user's buffers. */
struct stretch {
	uint64_t offset;
	size_t bytes;
};

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

static struct stretch chunk_of(const struct walk *walk, uint64_t g)
{
	uint64_t offset = (g - walk->begin) * walk->chunk_bytes;
	uint64_t left = walk->call->bytes - offset;

	return (struct stretch){ offset,
		                 left < walk->chunk_bytes ? left : walk->chunk_bytes };
}

/* The piece that @rank owns, from the start of the chunk. May be empty. */
static struct stretch piece_of(const struct walk *walk, const struct stretch *chunk,
                               uint32_t rank)
{
	size_t each =
		div_up(div_up(chunk->bytes, walk->inbox->shape.n_ranks), BPS_INBOX_LINE) *
		BPS_INBOX_LINE;
	size_t begin = rank * each, end = begin + each;

	if (begin > chunk->bytes)
		begin = chunk->bytes;
	if (end > chunk->bytes)
		end = chunk->bytes;
	return (struct stretch){ begin, end - begin };
}

/* The slot in which the owner @rank of a piece leaves its sum. */
static unsigned char *sum_slot(const struct walk *walk, uint32_t rank, uint64_t g)
{
	return bps_inbox_slot(walk->inbox, (rank + 1) % walk->inbox->shape.n_ranks, g);
}

/* -- whether all ranks mean the same -- */

static void write_hdr(const struct walk *walk, struct bps_wire_hdr *hdr)
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
static bool agrees(const struct walk *walk, uint32_t rank)
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

static bool all_agree(const struct walk *walk)
{
	uint32_t r;

	for (r = 0; r < walk->inbox->shape.n_ranks; r++) {
		if (r != walk->inbox->rank && !agrees(walk, r))
			return false;
	}
	return true;
}

/* -- what can be done, and doing it -- */

static bool can_stage(const struct walk *walk)
{
	uint32_t n_slots = walk->inbox->shape.n_slots;

	return walk->staged < walk->end &&
	       (walk->staged < n_slots ||
	        bps_inbox_all(walk->inbox, BPS_COPIED, walk->staged - n_slots));
}

static bool can_sum(const struct walk *walk)
{
	return walk->call->coll == BPS_ALLREDUCE && walk->summed < walk->staged &&
	       bps_inbox_all(walk->inbox, BPS_STAGED, walk->summed);
}

static bool can_copy(const struct walk *walk)
{
	struct bps_inbox *inbox = walk->inbox;

	if (walk->call->coll == BPS_ALLREDUCE)
		return walk->copied < walk->summed &&
		       bps_inbox_all(inbox, BPS_SUMMED, walk->copied);
	/* Pairs with the release in bps_inbox_publish(): the root's slot is complete. */
	return !walk->is_root && walk->copied < walk->end &&
	       bps_load_acquire(&inbox->counts[walk->call->root].of[BPS_STAGED]) >
	               walk->copied;
}

/* Into my slot goes what others own; of a broadcast, all. */
static void stage(struct walk *walk)
{
	struct bps_inbox *inbox = walk->inbox;
	uint64_t g = walk->staged++;
	struct stretch chunk = chunk_of(walk, g);
	struct stretch own = { chunk.bytes, 0 };
	unsigned char *slot = bps_inbox_slot(inbox, inbox->rank, g);
	const char *input = (const char *)walk->call->input + chunk.offset;
	size_t behind;

	if (g == walk->begin)
		write_hdr(walk, bps_inbox_hdr(inbox, inbox->rank, g));
	if (!walk->is_root)
		own = piece_of(walk, &chunk, inbox->rank);
	behind = own.offset + own.bytes;
	walk->copy_in(slot, input, own.offset);
	walk->copy_in(slot + behind, input + behind, chunk.bytes - behind);
	bps_inbox_publish(inbox, BPS_STAGED, walk->staged);
	if (!walk->is_root)
		return;
	walk->copied = walk->staged; /* a root has nothing more to do with it */
	bps_inbox_publish(inbox, BPS_COPIED, walk->copied);
}

static void sum_piece(const struct walk *walk, uint64_t g, const struct stretch *chunk,
                      const struct stretch *piece)
{
	struct bps_inbox *inbox = walk->inbox;
	const struct bps_inbox_call *call = walk->call;
	size_t at, n, element = bps_dtype_bytes(call->dtype);
	size_t end = piece->offset + piece->bytes;
	unsigned char *sum = sum_slot(walk, inbox->rank, g);
	uint32_t r;

	for (at = piece->offset; at < end; at += n) {
		n = end - at < BLOCK_BYTES ? end - at : BLOCK_BYTES;
		for (r = 0; r < inbox->shape.n_ranks; r++)
			inbox->sources[r] = r == inbox->rank
			                            ? (const unsigned char *)call->input +
			                                      chunk->offset + at
			                            : bps_inbox_slot(inbox, r, g) + at;
		walk->reduce(sum + at, inbox->sources, inbox->shape.n_ranks, n / element);
		walk->copy_out((char *)call->output + chunk->offset + at, sum + at, n);
	}
}

static void sum(struct walk *walk)
{
	uint64_t g = walk->summed;
	struct stretch chunk = chunk_of(walk, g);
	struct stretch piece = piece_of(walk, &chunk, walk->inbox->rank);

	if (g == walk->begin && !all_agree(walk))
		return;
	sum_piece(walk, g, &chunk, &piece);
	walk->summed++;
	bps_inbox_publish(walk->inbox, BPS_SUMMED, walk->summed);
}

static void copy_sums(const struct walk *walk, uint64_t g, const struct stretch *chunk)
{
	char *output = (char *)walk->call->output + chunk->offset;
	uint32_t r;

	for (r = 0; r < walk->inbox->shape.n_ranks; r++) {
		struct stretch piece = piece_of(walk, chunk, r);

		if (r != walk->inbox->rank)
			walk->copy_out(output + piece.offset,
			               sum_slot(walk, r, g) + piece.offset, piece.bytes);
	}
}

static void copy(struct walk *walk)
{
	const struct bps_inbox_call *call = walk->call;
	uint64_t g = walk->copied;
	struct stretch chunk = chunk_of(walk, g);

	if (call->coll == BPS_ALLREDUCE)
		copy_sums(walk, g, &chunk);
	else if (g == walk->begin && !agrees(walk, call->root))
		return;
	else
		walk->copy_out((char *)call->output + chunk.offset,
		               bps_inbox_slot(walk->inbox, call->root, g), chunk.bytes);
	walk->copied++;
	bps_inbox_publish(walk->inbox, BPS_COPIED, walk->copied);
}

/* Results first: they free slots, and what is in the cache need not be fetched again. */
static bool work(struct walk *walk)
{
	if (can_copy(walk))
		copy(walk);
	else if (can_sum(walk))
		sum(walk);
	else if (can_stage(walk))
		stage(walk);
	else
		return false;
	return true;
}

/* Nothing but what work() looks at, and whether all is over. */
static bool has_work(const struct walk *walk)
{
	return bps_load_relaxed(&walk->inbox->shared->failed) == 2 || can_copy(walk) ||
	       can_sum(walk) || can_stage(walk);
}

/* -- waiting -- */

static bool has_come(const void *owner, uint32_t rank)
{
	const struct bps_inbox *inbox = owner;

	return bps_load_relaxed(&inbox->counts[rank].of[BPS_ENTERED]) >= inbox->n_calls;
}

static void warn_late(const struct walk *walk, const struct bps_stage_wait *wait,
                      uint64_t waited_ns)
{
	const struct bps_inbox *inbox = walk->inbox;
	const struct bps_late late = {
		.call = walk->call->name,
		.comm = walk->call->comm,
		.n_ranks = inbox->shape.n_ranks,
		.rank = inbox->rank,
		.has_come = has_come,
		.owner = inbox,
	};

	bps_late_warn(&late, wait, waited_ns);
}

/* A short wait without a sleep; true: there is work. */
static bool poll(const struct walk *walk)
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

static void wait_for_work(const struct walk *walk, const struct bps_stage_wait *wait)
{
	struct bps_event *event = &walk->inbox->shared->event;
	uint64_t since_ns, warned_ns, nap_ns, now_ns;

	bps_inbox_say(walk->inbox);
	if (poll(walk))
		return;
	nap_ns = wait->idle(wait->owner);
	since_ns = warned_ns = bps_now_ns();
	while (!has_work(walk)) {
		uint32_t seq = bps_event_prepare(event);

		if (has_work(walk)) {
			bps_event_cancel(event);
			return;
		}
		bps_event_wait(event, seq, nap_ns);
		nap_ns = wait->idle(wait->owner);
		now_ns = bps_now_ns();
		if (now_ns - warned_ns < wait->warn_ns)
			continue;
		warn_late(walk, wait, now_ns - since_ns);
		warned_ns = now_ns;
	}
}

/* -- a call -- */

static uint64_t max_chunk(const struct bps_inbox *inbox,
                          const struct bps_inbox_call *call)
{
	uint64_t chunk = call->bytes / BCAST_CHUNKS, most = inbox->shape.slot_bytes / 2;

	if (call->coll == BPS_ALLREDUCE)
		return inbox->shape.slot_bytes;
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

static void begin(struct walk *walk)
{
	struct bps_inbox *inbox = walk->inbox;
	uint64_t bytes = walk->call->bytes;
	uint64_t n_chunks = div_up(bytes, max_chunk(inbox, walk->call));

	if (inbox->n_calls++ == 0)
		first_call(inbox);
	bps_store_relaxed(&inbox->counts[inbox->rank].of[BPS_ENTERED], inbox->n_calls);
	if (n_chunks > 0)
		walk->chunk_bytes =
			div_up(div_up(bytes, n_chunks), BPS_INBOX_LINE) * BPS_INBOX_LINE;
	/* Rounding up may have made the last one needless. */
	walk->end = walk->begin + (n_chunks ? div_up(bytes, walk->chunk_bytes) : 0);
}

static void check(struct bps_inbox *inbox, const struct walk *walk)
{
	const struct bps_inbox_call *call = walk->call;
	struct bps_reason reason;

	if (call->coll == BPS_BCAST ? call->root < inbox->shape.n_ranks
	                            : walk->reduce != NULL)
		return;
	bps_reason_set(&reason, -EINVAL, "%s on %s: there is no such operation or root",
	               call->name, call->comm);
	bps_inbox_fail(inbox, &reason);
}

int bps_inbox_run(struct bps_inbox *inbox, const struct bps_inbox_call *call,
                  const struct bps_stage_wait *wait, struct bps_reason *ret_reason)
{
	struct walk walk = {
		.inbox = inbox,
		.call = call,
		.begin = inbox->base,
		.staged = inbox->base,
		.summed = inbox->base,
		.copied = inbox->base,
		.reduce = bps_kernel(call->dtype, call->redop),
		.copy_in = bps_copy(false),
		.copy_out = bps_copy(call->coll == BPS_ALLREDUCE &&
		                     call->bytes >= PAST_CACHE_BYTES),
		.is_root = call->coll == BPS_BCAST && call->root == inbox->rank,
	};
	int error = 0;

	begin(&walk);
	if (call->coll == BPS_BCAST && !walk.is_root)
		walk.staged = walk.end; /* nobody waits for mine */
	check(inbox, &walk);
	while (walk.copied < walk.end && error == 0) {
		error = bps_inbox_failed(inbox, ret_reason);
		if (error == 0 && !work(&walk))
			wait_for_work(&walk, wait);
	}
	bps_copy_fence();
	bps_inbox_say(inbox);
	inbox->base = walk.end;
	return error;
}
