/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "engine/inbox-impl.h"
#include "transport/memory.h"

#define PAGE      4096u
#define MAX_RANKS 4096u
#define MAX_SLOTS 65536u
#define MAX_SLOT  (1u << 30)
#define MAGIC     0x6f626e69u

/* Few and small enough to stay in the cache, large against a hand-over: see
 * docs/performance.md. */
#define SLOTS          8u
#define SLOT_BYTES     (128u << 10)
#define MIN_SLOTS      2u
#define MIN_SLOT_BYTES 4096u
/* A slot holds an input and, in fp32, what is gathered of 16-bit floats. */
#define MIN_LEVELS_SLOT (3 * BPS_INBOX_LINE)

/* -- the shared memory -- */

/* Where things lie, from the start of the shared memory. */
struct layout {
	size_t counts, levels, hdrs, slots, ring, end;
};

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

static int lay_out(const struct bps_inbox_shape *shape, struct layout *ret)
{
	size_t n_slots = (size_t)shape->n_ranks * shape->n_slots, bytes;
	uint32_t n_groups = bps_levels_n_groups(shape->levels);

	if (shape->n_ranks < 1 || shape->n_ranks > MAX_RANKS ||
	    shape->n_slots < MIN_SLOTS || shape->n_slots > MAX_SLOTS ||
	    shape->slot_bytes == 0 || shape->slot_bytes > MAX_SLOT ||
	    shape->slot_bytes % BPS_INBOX_LINE != 0 || n_groups < 1 ||
	    n_groups > shape->n_ranks ||
	    (n_groups > 1 && shape->slot_bytes < MIN_LEVELS_SLOT))
		return -EINVAL;
	ret->counts = sizeof(struct bps_inbox_shared);
	ret->levels = ret->counts + shape->n_ranks * sizeof(struct bps_inbox_counts);
	/* As many groups as there can be: so only the memory itself needs to know. */
	bytes = bps_groups_words(shape->n_ranks, shape->n_ranks) * sizeof(uint32_t);
	ret->hdrs = ret->levels +
	            (bytes + BPS_INBOX_LINE - 1) / BPS_INBOX_LINE * BPS_INBOX_LINE;
	ret->slots = whole_pages(ret->hdrs + n_slots * sizeof(struct bps_wire_hdr));
	/* Of a rank; each can be on a node of its own. */
	ret->ring = whole_pages((size_t)shape->n_slots * shape->slot_bytes);
	if (__builtin_mul_overflow(ret->ring, shape->n_ranks, &bytes) ||
	    __builtin_add_overflow(ret->slots, bytes, &ret->end))
		return -EOVERFLOW;
	return 0;
}

size_t bps_inbox_bytes(const struct bps_inbox_shape *shape)
{
	struct layout layout;

	return lay_out(shape, &layout) < 0 ? 0 : layout.end;
}

void bps_inbox_plan(uint32_t n_ranks, size_t max_bytes, struct bps_inbox_shape *ret_shape)
{
	*ret_shape = (struct bps_inbox_shape){ .n_ranks = n_ranks,
		                               .n_slots = SLOTS,
		                               .slot_bytes = SLOT_BYTES };
	while (ret_shape->slot_bytes > MIN_SLOT_BYTES &&
	       bps_inbox_bytes(ret_shape) > max_bytes)
		ret_shape->slot_bytes /= 2;
	while (ret_shape->n_slots > MIN_SLOTS && bps_inbox_bytes(ret_shape) > max_bytes)
		ret_shape->n_slots /= 2;
}

/* -- life cycle -- */

/* Say where this rank may run: a set is made of words, so that nobody's is lost. */
static void add_cpus(struct bps_inbox *inbox)
{
	struct bps_cpuset mine;
	size_t i;

	if (bps_cpuset_allowed(&mine) < 0)
		return; /* then it counts as having none of its own */
	for (i = 0; i < BPS_CPU_MAX / 64; i++) {
		uint64_t *word = &inbox->shared->cpus.bits[i];
		uint64_t before = bps_load_relaxed(word);

		while (mine.bits[i] & ~before &&
		       !bps_compare_exchange(word, &before, before | mine.bits[i]))
			;
	}
}

/*
 * Take the pages now, in one call: else the first ops would, a fault for each 4 KiB.
 * Older kernels refuse, and then they do. Where the slots could not be placed, each rank
 * takes its own, and they lie on its node.
 */
static void take_pages(const struct bps_inbox *inbox)
{
#ifdef MADV_POPULATE_WRITE
	if (inbox->shared->placed)
		(void)madvise(inbox->shared, inbox->bytes, MADV_POPULATE_WRITE);
	else
		(void)madvise(bps_inbox_slot(inbox, inbox->rank, 0), inbox->ring_bytes,
		              MADV_POPULATE_WRITE);
#endif
}

/* Each rank's slots lie on its node. */
static bool place(const struct bps_inbox *inbox)
{
	const struct bps_groups *groups = inbox->groups;
	bool placed = true;
	uint32_t r;

	for (r = 0; r < groups->n_ranks; r++)
		placed = bps_groups_place(bps_inbox_slot(inbox, r, 0), inbox->ring_bytes,
		                          groups->nodes[groups->group_of[r]]) &&
		         placed;
	return placed;
}

/* Consumes @map, on failure too. */
static int inbox_new(const struct bps_inbox_shape *shape, const struct layout *layout,
                     void *map, uint32_t rank, struct bps_inbox **ret_inbox)
{
	struct bps_inbox *inbox = calloc(1, sizeof(*inbox));
	int r = -ENOMEM;

	if (inbox) {
		inbox->shape = *shape;
		inbox->shape.levels = NULL;
		inbox->bytes = layout->end;
		inbox->shared = map;
		inbox->counts = (void *)((char *)map + layout->counts);
		inbox->hdrs = (void *)((char *)map + layout->hdrs);
		inbox->slots = (unsigned char *)map + layout->slots;
		inbox->ring_bytes = layout->ring;
		inbox->rank = rank;
		inbox->sources = calloc(2 * (size_t)shape->n_ranks, sizeof(void *));
		inbox->seen = calloc(shape->n_ranks, sizeof(*inbox->seen));
		r = bps_groups_read((void *)((char *)map + layout->levels),
		                    shape->n_ranks, inbox->shared->n_groups, rank,
		                    &inbox->groups);
	}
	if (r < 0 || !inbox->sources || !inbox->seen) {
		bps_inbox_free(inbox);
		if (!inbox)
			bps_region_free(map, layout->end);
		return r < 0 ? r : -ENOMEM;
	}
	*ret_inbox = inbox;
	return 0;
}

/* The last step of making or opening one. */
static void settle(struct bps_inbox *inbox)
{
	take_pages(inbox);
	add_cpus(inbox);
}

int bps_inbox_create(const struct bps_inbox_shape *shape, struct bps_inbox **ret_inbox,
                     int *ret_fd)
{
	struct bps_inbox_shared *shared;
	struct layout layout;
	void *map;
	int fd, r;

	r = lay_out(shape, &layout);
	if (r < 0)
		return r;
	r = bps_memfd_new("bpsmpi-inbox", layout.end, &fd, &map);
	if (r < 0)
		return r;
	shared = map;
	shared->magic = MAGIC;
	shared->n_ranks = shape->n_ranks;
	shared->n_slots = shape->n_slots;
	shared->slot_bytes = shape->slot_bytes;
	shared->n_groups = bps_levels_n_groups(shape->levels);
	bps_groups_write(shape->levels, shape->n_ranks,
	                 (void *)((char *)map + layout.levels));
	bps_event_init(&shared->event);
	r = inbox_new(shape, &layout, map, 0, ret_inbox);
	if (r < 0) {
		close(fd);
		return r;
	}
	shared->placed = place(*ret_inbox);
	settle(*ret_inbox);
	*ret_fd = fd;
	return 0;
}

int bps_inbox_open(const struct bps_inbox_shape *shape, int fd, uint32_t rank,
                   struct bps_inbox **ret_inbox)
{
	struct bps_inbox_shape plain = *shape;
	struct bps_inbox_shared *shared;
	struct layout layout;
	void *map;
	int r;

	plain.levels = NULL;
	r = lay_out(&plain, &layout);
	if (r < 0)
		return r;
	r = bps_memfd_map(fd, layout.end, &map);
	if (r < 0)
		return r;
	shared = map;
	if (shared->magic != MAGIC || rank >= shape->n_ranks ||
	    shared->n_ranks != shape->n_ranks || shared->n_slots != shape->n_slots ||
	    shared->slot_bytes != shape->slot_bytes) {
		bps_region_free(map, layout.end);
		return -EINVAL;
	}
	r = inbox_new(&plain, &layout, map, rank, ret_inbox);
	if (r == 0)
		settle(*ret_inbox);
	return r;
}

void bps_inbox_free(struct bps_inbox *inbox)
{
	if (!inbox)
		return;
	bps_region_free(inbox->shared, inbox->bytes);
	bps_groups_free(inbox->groups);
	free(inbox->sources);
	free(inbox->seen);
	free(inbox);
}

uint64_t bps_inbox_crossed(const struct bps_inbox *inbox, uint32_t from, uint32_t to)
{
	return bps_groups_crossed(inbox->groups, from, to);
}

/* -- hand-over -- */

bool bps_inbox_look(struct bps_inbox *inbox, enum bps_inbox_count count, uint64_t chunk)
{
	const struct bps_groups *groups = inbox->groups;
	bool near = count == BPS_STAGED || count == BPS_RELAYED;
	uint32_t i = near ? groups->first[groups->mine] : 0;
	uint32_t end = near ? groups->first[groups->mine + 1] : groups->n_ranks;
	uint64_t least = UINT64_MAX;

	for (; i < end && least > chunk; i++) {
		/* Pairs with the release in bps_inbox_publish(): what is counted is
		 * complete, or read. */
		uint64_t value =
			bps_load_acquire(&inbox->counts[groups->members[i]].of[count]);

		if (value < least)
			least = value;
	}
	if (least > chunk)
		inbox->least[count] = least;
	return least > chunk;
}

void bps_inbox_publish(struct bps_inbox *inbox, enum bps_inbox_count count,
                       uint64_t value)
{
	/* Pairs with the acquire in bps_inbox_all(), and in the leaves' of a broadcast.
	 */
	bps_store_release(&inbox->counts[inbox->rank].of[count], value);
	inbox->unsaid = true;
	/* With a CPU for each, others can go on at once. In a crowd they can not: a
	 * wake-up for each step would cost more than the step. */
	if (!inbox->crowded)
		bps_inbox_say(inbox);
}

void bps_inbox_say(struct bps_inbox *inbox)
{
	if (inbox->unsaid)
		bps_event_notify(&inbox->shared->event);
	inbox->unsaid = false;
}

/* -- failure -- */

void bps_inbox_fail(struct bps_inbox *inbox, const struct bps_reason *reason)
{
	struct bps_inbox_shared *shared = inbox->shared;
	uint32_t none = 0;

	if (!bps_compare_exchange(&shared->failed, &none, 1u))
		return;
	shared->reason = *reason;
	/* Pairs with the acquire in bps_inbox_failed(): the reason is complete. */
	bps_store_release(&shared->failed, 2u);
	bps_event_notify(&shared->event);
}

int bps_inbox_failed(const struct bps_inbox *inbox, struct bps_reason *ret_reason)
{
	/* Pairs with the release in bps_inbox_fail(). */
	if (bps_load_acquire(&inbox->shared->failed) != 2)
		return 0;
	*ret_reason = inbox->shared->reason;
	return ret_reason->error;
}

bool bps_inbox_tell(struct bps_inbox *inbox)
{
	return bps_exchange(&inbox->shared->told, 1u) == 0;
}
