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
#define MAGIC     0x6f626e69u

/* Few and small enough to stay in the cache, large against a hand-over: see
 * docs/performance.md. */
#define SLOTS          8u
#define SLOT_BYTES     (128u << 10)
#define MIN_SLOTS      2u
#define MIN_SLOT_BYTES 4096u

/* -- the shared memory -- */

/* Where things lie, from the start of the shared memory. */
struct layout {
	size_t counts, hdrs, slots, end;
};

static int lay_out(const struct bps_inbox_shape *shape, struct layout *ret)
{
	size_t n_slots = (size_t)shape->n_ranks * shape->n_slots, bytes;

	if (shape->n_ranks < 1 || shape->n_ranks > MAX_RANKS ||
	    shape->n_slots < MIN_SLOTS || shape->n_slots > MAX_SLOTS ||
	    shape->slot_bytes == 0 || shape->slot_bytes % BPS_INBOX_LINE != 0)
		return -EINVAL;
	ret->counts = sizeof(struct bps_inbox_shared);
	ret->hdrs = ret->counts + shape->n_ranks * sizeof(struct bps_inbox_counts);
	ret->slots = ret->hdrs + n_slots * sizeof(struct bps_wire_hdr);
	ret->slots = (ret->slots + PAGE - 1) / PAGE * PAGE;
	if (__builtin_mul_overflow(n_slots, shape->slot_bytes, &bytes) ||
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
	*ret_shape = (struct bps_inbox_shape){ n_ranks, SLOTS, SLOT_BYTES };
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
 * Older kernels refuse, and then they do.
 */
static void take_pages(const struct bps_inbox *inbox)
{
#ifdef MADV_POPULATE_WRITE
	(void)madvise(inbox->shared, inbox->bytes, MADV_POPULATE_WRITE);
#endif
}

/* Consumes @map, on failure too. */
static int inbox_new(const struct bps_inbox_shape *shape, const struct layout *layout,
                     void *map, uint32_t rank, struct bps_inbox **ret_inbox)
{
	struct bps_inbox *inbox = calloc(1, sizeof(*inbox));
	const void **sources = calloc(shape->n_ranks, sizeof(*sources));

	if (!inbox || !sources) {
		free(inbox);
		free(sources);
		bps_region_free(map, layout->end);
		return -ENOMEM;
	}
	inbox->shape = *shape;
	inbox->bytes = layout->end;
	inbox->shared = map;
	inbox->counts = (void *)((char *)map + layout->counts);
	inbox->hdrs = (void *)((char *)map + layout->hdrs);
	inbox->slots = (unsigned char *)map + layout->slots;
	inbox->sources = sources;
	inbox->rank = rank;
	take_pages(inbox);
	add_cpus(inbox);
	*ret_inbox = inbox;
	return 0;
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
	shared->shape = *shape;
	bps_event_init(&shared->event);
	r = inbox_new(shape, &layout, map, 0, ret_inbox);
	if (r < 0) {
		close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

int bps_inbox_open(const struct bps_inbox_shape *shape, int fd, uint32_t rank,
                   struct bps_inbox **ret_inbox)
{
	struct bps_inbox_shared *shared;
	struct layout layout;
	void *map;
	int r;

	r = lay_out(shape, &layout);
	if (r < 0)
		return r;
	r = bps_memfd_map(fd, layout.end, &map);
	if (r < 0)
		return r;
	shared = map;
	if (shared->magic != MAGIC || rank >= shape->n_ranks ||
	    memcmp(&shared->shape, shape, sizeof(*shape)) != 0) {
		bps_region_free(map, layout.end);
		return -EINVAL;
	}
	return inbox_new(shape, &layout, map, rank, ret_inbox);
}

void bps_inbox_free(struct bps_inbox *inbox)
{
	if (!inbox)
		return;
	bps_region_free(inbox->shared, inbox->bytes);
	free(inbox->sources);
	free(inbox);
}

/* -- hand-over -- */

bool bps_inbox_all(struct bps_inbox *inbox, enum bps_inbox_count count, uint64_t chunk)
{
	uint64_t least = UINT64_MAX;
	uint32_t r;

	if (inbox->least[count] > chunk)
		return true;
	for (r = 0; r < inbox->shape.n_ranks && least > chunk; r++) {
		/* Pairs with the release in bps_inbox_publish(): what is counted is
		 * complete, or read. */
		uint64_t value = bps_load_acquire(&inbox->counts[r].of[count]);

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
