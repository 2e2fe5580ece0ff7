/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/event.h"
#include "engine/kernels/kernels.h"
#include "engine/late.h"
#include "transport/memory.h"

#define LINE        64u
#define PAGE        4096u
#define MAX_RANKS   4096u
#define MAX_SLOTS   65536u
#define MAX_RING    (1ull << 40)
#define STAGE_MAGIC 0x67617473u

struct rank_counters {
	_Alignas(LINE) uint64_t entered; /* calls begun */
	uint64_t staged;
	_Alignas(LINE) uint64_t copied;
};

struct slot_flags {
	_Alignas(LINE) uint64_t summed;
	uint64_t done;
};

/* The beginning of the shared memory; counters, flags and buffers follow. */
struct shared {
	uint32_t magic;
	struct bps_stage_shape shape;
	_Alignas(LINE) struct bps_event event;
	_Alignas(LINE) uint32_t engine_sleeps;
	uint32_t failed; /* set after reason */
	uint32_t told;
	struct bps_reason reason;
};

/* Where things lie, from the start of the shared memory. */
struct layout {
	size_t ranks, slots, push, result, input, end;
};

struct bps_stage {
	struct bps_stage_shape shape;
	uint32_t n_slots, slot_bytes; /* of a ring, now */
	struct shared *shared;
	struct layout layout;
	struct rank_counters *ranks;
	struct slot_flags *slots;
	uint32_t rank;
	int wake_fd;
	uint64_t base; /* first position of this call */
	uint64_t n_calls;
	uint64_t all_copied; /* every rank has copied what is below; may lag behind */
};

/* -- the shared memory -- */

static int lay_out(const struct bps_stage_shape *shape, struct layout *ret)
{
	size_t ring = shape->ring_bytes;

	if (shape->n_ranks < 1 || shape->n_ranks > MAX_RANKS || shape->max_slots < 2 ||
	    shape->max_slots > MAX_SLOTS || ring % PAGE != 0 || ring == 0 ||
	    ring > MAX_RING)
		return -EINVAL;
	ret->ranks = (sizeof(struct shared) + LINE - 1) / LINE * LINE;
	ret->slots = ret->ranks + shape->n_ranks * sizeof(struct rank_counters);
	ret->push = ret->slots + shape->max_slots * sizeof(struct slot_flags);
	ret->push = (ret->push + PAGE - 1) / PAGE * PAGE;
	ret->result = ret->push + ring;
	ret->input = ret->result + ring;
	ret->end = ret->input;
	if (shape->n_ranks > 1 && (__builtin_mul_overflow(ring, shape->n_ranks, &ring) ||
	                           __builtin_add_overflow(ret->end, ring, &ret->end)))
		return -EOVERFLOW;
	return 0;
}

size_t bps_stage_bytes(const struct bps_stage_shape *shape)
{
	struct layout layout;

	return lay_out(shape, &layout) < 0 ? 0 : layout.end;
}

static struct bps_stage *stage_new(const struct bps_stage_shape *shape,
                                   const struct layout *layout, void *map)
{
	struct bps_stage *stage = calloc(1, sizeof(*stage));

	if (!stage)
		return NULL;
	stage->shape = *shape;
	stage->layout = *layout;
	stage->shared = map;
	stage->ranks = (void *)((char *)map + layout->ranks);
	stage->slots = (void *)((char *)map + layout->slots);
	stage->wake_fd = -1;
	return stage;
}

int bps_stage_create(const struct bps_stage_shape *shape, struct bps_stage **ret_stage,
                     int *ret_fd)
{
	struct layout layout;
	void *map;
	int fd, r;

	r = lay_out(shape, &layout);
	if (r < 0)
		return r;
	r = bps_memfd_new("bpsmpi-stage", layout.end, &fd, &map);
	if (r < 0)
		return r;
	*ret_stage = stage_new(shape, &layout, map);
	if (!*ret_stage) {
		munmap(map, layout.end);
		close(fd);
		return -ENOMEM;
	}
	(*ret_stage)->shared->magic = STAGE_MAGIC;
	(*ret_stage)->shared->shape = *shape;
	bps_event_init(&(*ret_stage)->shared->event);
	*ret_fd = fd;
	return 0;
}

int bps_stage_open(const struct bps_stage_shape *shape, int fd, uint32_t rank,
                   int wake_fd, struct bps_stage **ret_stage)
{
	struct layout layout;
	struct shared *map;
	int r;

	r = lay_out(shape, &layout);
	if (r < 0)
		return r;
	r = bps_memfd_map(fd, layout.end, (void **)&map);
	if (r < 0)
		return r;
	if (map->magic != STAGE_MAGIC || rank >= shape->n_ranks ||
	    memcmp(&map->shape, shape, sizeof(*shape)) != 0) {
		munmap(map, layout.end);
		return -EINVAL;
	}
	*ret_stage = stage_new(shape, &layout, map);
	if (!*ret_stage) {
		munmap(map, layout.end);
		return -ENOMEM;
	}
	(*ret_stage)->rank = rank;
	(*ret_stage)->wake_fd = wake_fd;
	return 0;
}

void bps_stage_set_wake_fd(struct bps_stage *stage, int wake_fd)
{
	stage->wake_fd = wake_fd;
}

void bps_stage_free(struct bps_stage *stage)
{
	if (!stage)
		return;
	munmap(stage->shared, stage->layout.end);
	free(stage);
}

static uint32_t slot_of(const struct bps_stage *stage, uint64_t position)
{
	return (uint32_t)(position % stage->n_slots);
}

static void *ring_at(struct bps_stage *stage, size_t ring, uint64_t position)
{
	return (char *)stage->shared + ring +
	       (size_t)slot_of(stage, position) * stage->slot_bytes;
}

static void *input_at(struct bps_stage *stage, uint32_t rank, uint64_t position)
{
	return ring_at(stage, stage->layout.input + rank * stage->shape.ring_bytes,
	               position);
}

/* -- the leader's engine -- */

uint64_t bps_stage_position(const struct bps_stage *stage)
{
	return stage->base;
}

uint64_t bps_stage_summed(const struct bps_stage *stage, uint64_t from, uint64_t to)
{
	/* Pairs with the release in publish_sum(): the push buffer is complete. */
	while (from < to &&
	       bps_load_acquire(&stage->slots[slot_of(stage, from)].summed) == from + 1)
		from++;
	return from;
}

void *bps_stage_push(struct bps_stage *stage, uint64_t position)
{
	return ring_at(stage, stage->layout.push, position);
}

void *bps_stage_result(struct bps_stage *stage, uint64_t position, uint64_t *ret_offset)
{
	char *result = ring_at(stage, stage->layout.result, position);

	*ret_offset = (uint64_t)(result - (char *)stage->shared);
	return result;
}

void bps_stage_done(struct bps_stage *stage, uint64_t position)
{
	/* Pairs with the acquire in copy_out(): the result is complete. */
	bps_store_release(&stage->slots[slot_of(stage, position)].done, position + 1);
	bps_event_notify(&stage->shared->event);
}

void bps_stage_fail(struct bps_stage *stage, const struct bps_reason *reason)
{
	if (bps_load_relaxed(&stage->shared->failed))
		return;
	stage->shared->reason = *reason;
	/* Pairs with the acquire in failed(): the reason is complete. */
	bps_store_release(&stage->shared->failed, 1);
	bps_event_notify(&stage->shared->event);
}

void bps_stage_engine_sleeps(struct bps_stage *stage, bool sleeps)
{
	bps_store_relaxed(&stage->shared->engine_sleeps, sleeps);
	/* Against the fence in wake_engine(): it sees the sleep, or we see the sum. */
	if (sleeps)
		bps_fence();
}

bool bps_stage_tell(struct bps_stage *stage)
{
	return bps_exchange(&stage->shared->told, 1u) == 0;
}

static void wake_engine(struct bps_stage *stage)
{
	const uint64_t one = 1;

	bps_fence();
	if (bps_load_relaxed(&stage->shared->engine_sleeps) &&
	    write(stage->wake_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: it is awake already */
}

/* -- one rank's way through a call -- */

/* How far this rank is; all in positions, up to end. */
struct walk {
	struct bps_stage *stage;
	const struct bps_stage_call *call;
	uint64_t end;
	uint64_t staged, summed, copied;
	const void **sources; /* n_ranks, for the kernel */
	bps_reduce_fn *reduce;
};

static uint32_t owner_of(const struct walk *walk, uint64_t position)
{
	const struct bps_stage_call *call = walk->call;

	if (call->coll == BPS_ALLREDUCE)
		return (uint32_t)(position % walk->stage->shape.n_ranks);
	return call->root >= 0 ? (uint32_t)call->root : 0;
}

static bool is_root(const struct walk *walk)
{
	return walk->call->coll == BPS_BCAST &&
	       walk->call->root == (int32_t)walk->stage->rank;
}

/* The bytes of @position in the user's buffers, and in the input and result slots. */
static void part_of(const struct walk *walk, uint64_t position, uint64_t *ret_offset,
                    uint32_t *ret_bytes)
{
	const struct bps_stage_call *call = walk->call;
	uint32_t nth = (uint32_t)(position - walk->stage->base);

	bps_cut_part(&call->cut, bps_cut_visit(&call->cut, call->start, nth), ret_offset,
	             ret_bytes);
	*ret_offset = bps_total_bytes(call->dtype, *ret_offset);
	*ret_bytes = (uint32_t)bps_total_bytes(call->dtype, *ret_bytes);
}

static bool slot_free(struct bps_stage *stage, uint64_t position)
{
	uint32_t n_slots = stage->n_slots;
	uint64_t least = UINT64_MAX;
	uint32_t r;

	if (position < stage->all_copied + n_slots)
		return true;
	for (r = 0; r < stage->shape.n_ranks; r++) {
		/* Pairs with the release in copy_out(): nobody reads the slot any more.
		 */
		uint64_t copied = bps_load_acquire(&stage->ranks[r].copied);

		if (copied < least)
			least = copied;
	}
	stage->all_copied = least;
	return position < least + n_slots;
}

static void publish_input(struct walk *walk, uint64_t staged)
{
	struct bps_stage *stage = walk->stage;

	walk->staged = staged;
	/* Pairs with the acquire in inputs_there(). */
	bps_store_release(&stage->ranks[stage->rank].staged, staged);
	bps_event_notify(&stage->shared->event);
}

/* Give my input to its owner, if that is another rank. */
static bool stage_input(struct walk *walk)
{
	struct bps_stage *stage = walk->stage;
	uint64_t offset;
	uint32_t bytes;

	if (walk->staged == walk->end || !slot_free(stage, walk->staged))
		return false;
	if (owner_of(walk, walk->staged) != stage->rank) {
		part_of(walk, walk->staged, &offset, &bytes);
		memcpy(input_at(stage, stage->rank, walk->staged),
		       (const char *)walk->call->input + offset, bytes);
	}
	publish_input(walk, walk->staged + 1);
	return true;
}

static bool inputs_there(const struct walk *walk, uint64_t position)
{
	struct bps_stage *stage = walk->stage;
	uint32_t r;

	if (walk->call->coll != BPS_ALLREDUCE)
		return true;
	for (r = 0; r < stage->shape.n_ranks; r++) {
		/* Pairs with the release in stage_input(): the input is complete. */
		if (r != stage->rank &&
		    bps_load_acquire(&stage->ranks[r].staged) <= position)
			return false;
	}
	return true;
}

static void publish_sum(struct walk *walk, uint64_t position)
{
	struct bps_stage *stage = walk->stage;
	struct slot_flags *slot = &stage->slots[slot_of(stage, position)];

	/* Pairs with the acquire in bps_stage_summed(). */
	bps_store_release(&slot->summed, position + 1);
	wake_engine(stage);
}

static void sum_into(struct walk *walk, uint64_t position, void *dst)
{
	struct bps_stage *stage = walk->stage;
	const struct bps_stage_call *call = walk->call;
	uint64_t offset;
	uint32_t bytes, r;

	part_of(walk, position, &offset, &bytes);
	if (call->coll == BPS_BCAST) {
		if (is_root(walk))
			memcpy(dst, (const char *)call->input + offset, bytes);
		return;
	}
	for (r = 0; r < stage->shape.n_ranks; r++)
		walk->sources[r] = r == stage->rank ? (const char *)call->input + offset
		                                    : input_at(stage, r, position);
	walk->reduce(dst, walk->sources, stage->shape.n_ranks,
	             bytes / bps_total_bytes(call->dtype, bps_dtype_bytes(call->dtype)));
}

/* Sum the next position that this rank owns. */
static bool sum_next(struct walk *walk)
{
	struct bps_stage *stage = walk->stage;
	uint64_t position = walk->summed;

	while (position < walk->end && owner_of(walk, position) != stage->rank)
		position++;
	walk->summed = position;
	if (position == walk->end || !slot_free(stage, position) ||
	    !inputs_there(walk, position))
		return false;
	sum_into(walk, position, bps_stage_push(stage, position));
	publish_sum(walk, position);
	walk->summed++;
	return true;
}

static bool copy_out(struct walk *walk)
{
	struct bps_stage *stage = walk->stage;
	const struct bps_stage_call *call = walk->call;
	uint64_t position = walk->copied, offset;
	bool from_push = call->coll == BPS_BCAST && call->root >= 0;
	uint32_t bytes;

	/* Pairs with the release in bps_stage_done(). */
	if (position == walk->end ||
	    bps_load_acquire(&stage->slots[slot_of(stage, position)].done) !=
	            position + 1)
		return false;
	part_of(walk, position, &offset, &bytes);
	if (!is_root(walk))
		memcpy((char *)call->output + offset,
		       ring_at(stage,
		               from_push ? stage->layout.push : stage->layout.result,
		               position),
		       bytes);
	walk->copied++;
	/* Pairs with the acquire in slot_free(). */
	bps_store_release(&stage->ranks[stage->rank].copied, walk->copied);
	bps_event_notify(&stage->shared->event);
	return true;
}

/* Results first: they free slots, and what is done need not be fetched again. */
static bool work(struct walk *walk)
{
	bool copied = copy_out(walk);
	bool summed = sum_next(walk);

	return stage_input(walk) || summed || copied;
}

/* Nothing but what work() looks at; used between announcing a sleep and sleeping. */
static bool has_work(struct walk *walk)
{
	struct bps_stage *stage = walk->stage;
	uint64_t g = walk->copied;

	if (bps_load_relaxed(&stage->shared->failed))
		return true;
	if (g < walk->end &&
	    bps_load_acquire(&stage->slots[slot_of(stage, g)].done) == g + 1)
		return true;
	if (walk->summed < walk->end && slot_free(stage, walk->summed) &&
	    inputs_there(walk, walk->summed))
		return true;
	return walk->staged < walk->end && slot_free(stage, walk->staged);
}

static bool failed(const struct bps_stage *stage, struct bps_reason *ret_reason)
{
	/* Pairs with the release in bps_stage_fail(). */
	if (!bps_load_acquire(&stage->shared->failed))
		return false;
	*ret_reason = stage->shared->reason;
	return true;
}

static bool has_come(const void *owner, uint32_t rank)
{
	const struct bps_stage *stage = owner;

	return bps_load_relaxed(&stage->ranks[rank].entered) >= stage->n_calls;
}

static void warn_late(const struct walk *walk, const struct bps_stage_wait *wait,
                      uint64_t waited_ns)
{
	const struct bps_stage *stage = walk->stage;
	const struct bps_late late = {
		.call = walk->call->name,
		.comm = walk->call->comm,
		.n_ranks = stage->shape.n_ranks,
		.rank = stage->rank,
		.has_come = has_come,
		.owner = stage,
	};

	bps_late_warn(&late, wait, waited_ns);
}

static void wait_for_work(struct walk *walk, const struct bps_stage_wait *wait)
{
	struct bps_event *event = &walk->stage->shared->event;
	uint64_t since_ns = bps_now_ns(), warned_ns = since_ns;
	uint64_t nap_ns = wait->idle(wait->owner);

	while (!has_work(walk)) {
		uint32_t seq = bps_event_prepare(event);
		uint64_t now_ns;

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

static bool all_out(struct bps_stage *stage)
{
	uint32_t r;

	for (r = 0; r < stage->shape.n_ranks; r++) {
		/* Pairs with the release in copy_out(): it reads no slot any more. */
		if (bps_load_acquire(&stage->ranks[r].copied) < stage->base)
			return false;
	}
	return true;
}

/* Other slots may lie where the last results are: not before every rank has them. */
static void wait_for_all(struct bps_stage *stage, const struct bps_stage_wait *wait)
{
	struct bps_event *event = &stage->shared->event;

	while (!all_out(stage) && !bps_load_relaxed(&stage->shared->failed)) {
		uint32_t seq = bps_event_prepare(event);

		if (all_out(stage) || bps_load_relaxed(&stage->shared->failed)) {
			bps_event_cancel(event);
			return;
		}
		bps_event_wait(event, seq, wait->idle(wait->owner));
	}
}

int bps_stage_divide(struct bps_stage *stage, uint32_t slot_bytes, uint32_t n_slots,
                     const struct bps_stage_wait *wait)
{
	const struct bps_stage_shape *shape = &stage->shape;

	if (slot_bytes == 0 || slot_bytes % LINE != 0)
		return -EINVAL;
	if (n_slots > shape->max_slots)
		n_slots = shape->max_slots;
	if (n_slots > shape->ring_bytes / slot_bytes)
		n_slots = (uint32_t)(shape->ring_bytes / slot_bytes);
	if (n_slots < 2)
		return -EINVAL;
	if (slot_bytes == stage->slot_bytes && n_slots == stage->n_slots)
		return 0;
	if (stage->base > 0)
		wait_for_all(stage, wait);
	stage->slot_bytes = slot_bytes;
	stage->n_slots = n_slots;
	return 0;
}

int bps_stage_run(struct bps_stage *stage, const struct bps_stage_call *call,
                  const struct bps_stage_wait *wait, struct bps_reason *ret_reason)
{
	struct walk walk = {
		.stage = stage,
		.call = call,
		.end = stage->base + call->cut.n_parts,
		.staged = stage->base,
		.summed = stage->base,
		.copied = stage->base,
		.reduce = bps_kernel_push(call->dtype, call->redop),
	};
	bool broken = false;

	walk.sources = malloc(stage->shape.n_ranks * sizeof(*walk.sources));
	if (!walk.sources) {
		ret_reason->error = -ENOMEM;
		snprintf(ret_reason->text, sizeof(ret_reason->text), "out of memory");
		return -ENOMEM;
	}
	bps_store_relaxed(&stage->ranks[stage->rank].entered, ++stage->n_calls);
	if (call->coll != BPS_ALLREDUCE || stage->shape.n_ranks == 1)
		publish_input(&walk, walk.end); /* nobody waits for an input of mine */
	while (walk.copied < walk.end && !broken) {
		if (work(&walk))
			continue; /* of a failed call too: its results may be there */
		broken = failed(stage, ret_reason);
		if (!broken)
			wait_for_work(&walk, wait);
	}
	free(walk.sources);
	stage->base = walk.end;
	return broken ? ret_reason->error : 0;
}
