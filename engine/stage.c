/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "engine/late.h"
#include "engine/stage-impl.h"
#include "transport/memory.h"

#define LINE        BPS_STAGE_LINE
#define PAGE        4096u
#define MAX_RANKS   4096u
#define MAX_SLOTS   65536u
#define MAX_RING    (1ull << 40)
#define STAGE_MAGIC 0x67617473u

/* -- the shared memory -- */

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* Add room for @n rings of @bytes at *@end. Return: whether that is a number. */
static bool add_rings(size_t *end, uint32_t n, size_t bytes)
{
	return !__builtin_mul_overflow(bytes, n, &bytes) &&
	       !__builtin_add_overflow(*end, bytes, end);
}

static int lay_out(const struct bps_stage_shape *shape, uint32_t n_near,
                   struct bps_stage_layout *ret)
{
	size_t ring = shape->ring_bytes, words;

	if (shape->n_ranks < 1 || shape->n_ranks > MAX_RANKS || shape->max_slots < 2 ||
	    shape->max_slots > MAX_SLOTS || ring % PAGE != 0 || ring == 0 ||
	    ring > MAX_RING || n_near > shape->n_ranks)
		return -EINVAL;
	words = bps_groups_words(shape->n_ranks, shape->n_ranks) * sizeof(uint32_t);
	ret->ranks = round_up(sizeof(struct bps_stage_shared), LINE);
	ret->slots = ret->ranks + shape->n_ranks * sizeof(struct bps_stage_counters);
	ret->nears = ret->slots + shape->max_slots * sizeof(struct bps_stage_flags);
	ret->levels = ret->nears +
	              (size_t)n_near * shape->max_slots * sizeof(struct bps_stage_near);
	ret->push = round_up(ret->levels + words, PAGE);
	ret->result = ret->push + ring;
	ret->near = ret->result + ring;
	ret->input = ret->near;
	if (!add_rings(&ret->input, n_near, 2 * ring))
		return -EOVERFLOW;
	ret->end = ret->input;
	if (shape->n_ranks > 1 && !add_rings(&ret->end, shape->n_ranks, ring))
		return -EOVERFLOW;
	return 0;
}

/* Near rings. Where all is on one node, or nobody knows, there is no need. */
static uint32_t count_near(const struct bps_levels *levels)
{
	uint32_t n_groups = bps_levels_n_groups(levels);

	if (n_groups != 1)
		return n_groups;
	return levels && levels->nodes[0] != BPS_NUMA_NONE &&
	       levels->wire_node != BPS_NUMA_NONE &&
	       levels->wire_node != levels->nodes[0];
}

size_t bps_stage_bytes(const struct bps_stage_shape *shape)
{
	struct bps_stage_layout layout;

	return lay_out(shape, count_near(shape->levels), &layout) < 0 ? 0 : layout.end;
}

/* Consumes @map, on failure too. */
static int stage_new(const struct bps_stage_shape *shape,
                     const struct bps_stage_layout *layout, void *map, uint32_t rank,
                     struct bps_stage **ret_stage)
{
	struct bps_stage *stage = calloc(1, sizeof(*stage));
	char *from = map;
	int r = -ENOMEM;

	if (!stage) {
		bps_region_free(map, layout->end);
		return r;
	}
	stage->shape = *shape;
	stage->shape.levels = NULL;
	stage->layout = *layout;
	stage->shared = map;
	stage->ranks = (void *)(from + layout->ranks);
	stage->slots = (void *)(from + layout->slots);
	stage->nears = (void *)(from + layout->nears);
	stage->rank = rank;
	stage->wake_fd = -1;
	stage->sources = calloc(2 * (size_t)shape->n_ranks, sizeof(void *));
	stage->seen = calloc(shape->n_ranks, sizeof(*stage->seen));
	if (stage->sources && stage->seen)
		r = bps_groups_read((void *)(from + layout->levels), shape->n_ranks,
		                    stage->shared->n_groups, rank, &stage->groups);
	if (r < 0) {
		bps_stage_free(stage);
		return r;
	}
	*ret_stage = stage;
	return 0;
}

/* Each rank's inputs and what a group has near lie on their node, the rest at the wire.
 */
static void place(const struct bps_stage *stage)
{
	const struct bps_groups *groups = stage->groups;
	const struct bps_stage_layout *layout = &stage->layout;
	uint32_t wire = groups->wire_node, i;
	char *from = (char *)stage->shared;
	size_t ring = stage->shape.ring_bytes;

	if (wire == BPS_NUMA_NONE)
		wire = groups->nodes[groups->home];
	bps_groups_place(from + layout->push, 2 * ring, wire);
	for (i = 0; i < stage->shared->n_near; i++)
		bps_groups_place(from + layout->near + 2 * ring * i, 2 * ring,
		                 groups->nodes[i]);
	for (i = 0; groups->n_ranks > 1 && i < groups->n_ranks; i++)
		bps_groups_place(from + layout->input + ring * i, ring,
		                 groups->nodes[groups->group_of[i]]);
}

int bps_stage_create(const struct bps_stage_shape *shape, struct bps_stage **ret_stage,
                     int *ret_fd)
{
	struct bps_stage_shared *shared;
	struct bps_stage_layout layout;
	uint32_t n_near = count_near(shape->levels);
	void *map;
	int fd, r;

	r = bps_levels_n_groups(shape->levels) > shape->n_ranks
	            ? -EINVAL
	            : lay_out(shape, n_near, &layout);
	if (r < 0)
		return r;
	r = bps_memfd_new("bpsmpi-stage", layout.end, &fd, &map);
	if (r < 0)
		return r;
	shared = map;
	shared->magic = STAGE_MAGIC;
	shared->n_ranks = shape->n_ranks;
	shared->max_slots = shape->max_slots;
	shared->ring_bytes = shape->ring_bytes;
	shared->n_groups = bps_levels_n_groups(shape->levels);
	shared->n_near = n_near;
	bps_groups_write(shape->levels, shape->n_ranks,
	                 (void *)((char *)map + layout.levels));
	bps_event_init(&shared->event);
	r = stage_new(shape, &layout, map, 0, ret_stage);
	if (r < 0) {
		close(fd);
		return r;
	}
	place(*ret_stage);
	*ret_fd = fd;
	return 0;
}

/* What the beginning of the leader's memory says. Return: 0; -EINVAL: something else. */
static int look(const struct bps_stage_shape *shape, int fd, uint32_t *ret_n_near)
{
	struct bps_stage_shared *shared;
	void *map;
	int r = bps_memfd_map(fd, sizeof(*shared), &map);

	if (r < 0)
		return r;
	shared = map;
	if (shared->magic != STAGE_MAGIC || shared->n_ranks != shape->n_ranks ||
	    shared->max_slots != shape->max_slots ||
	    shared->ring_bytes != shape->ring_bytes)
		r = -EINVAL;
	*ret_n_near = shared->n_near;
	bps_region_free(map, sizeof(*shared));
	return r;
}

int bps_stage_open(const struct bps_stage_shape *shape, int fd, uint32_t rank,
                   int wake_fd, struct bps_stage **ret_stage)
{
	struct bps_stage_layout layout;
	uint32_t n_near;
	void *map;
	int r;

	if (rank >= shape->n_ranks)
		return -EINVAL;
	r = look(shape, fd, &n_near);
	if (r == 0)
		r = lay_out(shape, n_near, &layout);
	if (r == 0)
		r = bps_memfd_map(fd, layout.end, &map);
	if (r == 0)
		r = stage_new(shape, &layout, map, rank, ret_stage);
	if (r == 0)
		(*ret_stage)->wake_fd = wake_fd;
	return r;
}

void bps_stage_set_wake_fd(struct bps_stage *stage, int wake_fd)
{
	stage->wake_fd = wake_fd;
}

void bps_stage_free(struct bps_stage *stage)
{
	if (!stage)
		return;
	bps_region_free(stage->shared, stage->layout.end);
	bps_groups_free(stage->groups);
	free(stage->sources);
	free(stage->seen);
	free(stage);
}

uint64_t bps_stage_crossed(const struct bps_stage *stage, uint32_t from, uint32_t to)
{
	return bps_groups_crossed(stage->groups, from, to);
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
	       bps_load_acquire(&stage->slots[bps_stage_slot(stage, from)].summed) ==
	               from + 1)
		from++;
	return from;
}

void *bps_stage_push(struct bps_stage *stage, uint64_t position)
{
	return bps_stage_at(stage, stage->layout.push, position);
}

void *bps_stage_result(struct bps_stage *stage, uint64_t position, uint64_t *ret_offset)
{
	char *result = bps_stage_at(stage, stage->layout.result, position);

	*ret_offset = (uint64_t)(result - (char *)stage->shared);
	return result;
}

void bps_stage_done(struct bps_stage *stage, uint64_t position)
{
	/* Pairs with the acquire in copy_out(): the result is complete. */
	bps_store_release(&stage->slots[bps_stage_slot(stage, position)].done,
	                  position + 1);
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
	/* Against the fence in bps_stage_wake_engine(): it sees the sleep, or we see the
	 * sum. */
	if (sleeps)
		bps_fence();
}

bool bps_stage_tell(struct bps_stage *stage)
{
	return bps_exchange(&stage->shared->told, 1u) == 0;
}

void bps_stage_wake_engine(struct bps_stage *stage)
{
	const uint64_t one = 1;

	bps_fence();
	if (bps_load_relaxed(&stage->shared->engine_sleeps) &&
	    write(stage->wake_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: it is awake already */
}

/* -- slots -- */

bool bps_stage_free_for(struct bps_stage *stage, uint64_t position)
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

uint64_t bps_stage_moves(const struct bps_stage *stage, uint32_t rank)
{
	const struct bps_stage_counters *counters = &stage->ranks[rank];

	return bps_load_relaxed(&counters->staged) + bps_load_relaxed(&counters->turns) +
	       bps_load_relaxed(&counters->copied);
}

/* -- another division -- */

static uint64_t moves(void *owner, uint32_t rank)
{
	return bps_stage_moves(owner, rank);
}

/* Pairs with the release in copy_out(): it reads no slot any more. */
static bool is_out(void *owner, uint32_t rank)
{
	const struct bps_stage *stage = owner;

	return bps_load_acquire(&stage->ranks[rank].copied) >= stage->base;
}

static bool all_out(void *owner)
{
	const struct bps_stage *stage = owner;
	uint32_t r;

	if (bps_load_relaxed(&stage->shared->failed))
		return true;
	for (r = 0; r < stage->shape.n_ranks; r++) {
		if (!is_out(owner, r))
			return false;
	}
	return true;
}

/* Other slots may lie where the last results are: not before every rank has them. */
static void wait_for_all(struct bps_stage *stage, const struct bps_stage_call *call,
                         const struct bps_stage_wait *wait)
{
	const struct bps_late late = {
		.call = call->name,
		.comm = call->comm,
		.n_ranks = stage->shape.n_ranks,
		.rank = stage->rank,
		.turns = &stage->ranks[stage->rank].turns,
		.seen = stage->seen,
		.moves = moves,
		.has_left = is_out,
		.has_work = all_out,
		.owner = stage,
	};

	bps_late_wait(&late, &stage->shared->event, wait);
}

int bps_stage_divide(struct bps_stage *stage, uint32_t slot_bytes, uint32_t n_slots,
                     const struct bps_stage_call *call, const struct bps_stage_wait *wait)
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
		wait_for_all(stage, call, wait);
	stage->slot_bytes = slot_bytes;
	stage->n_slots = n_slots;
	return 0;
}
