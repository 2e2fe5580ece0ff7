/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators in one box: each rank is a process of its own here, as in a job. The
 * expected values are worked out element by element, in rank order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/inbox.h"

#define GUARD       0x5a
#define GUARD_BYTES 64u
#define MAX_RANKS   7

#define SHAPE(ranks, slots, bytes)                                             \
	{                                                                      \
		.n_ranks = (ranks), .n_slots = (slots), .slot_bytes = (bytes), \
	}

/* What the ranks of one box do, and where. */
struct box {
	struct bps_inbox_shape shape;
	int fd;
	struct bps_inbox *first; /* rank 0's, made before the others fork off */
	int (*run)(struct box *box, struct bps_inbox *inbox, uint32_t rank);
	bool stops; /* run_late(): a rank stops, else it is late */
};

/* Longer than a rank lives: whoever is not woken does not wake up. */
static uint64_t sleep_on(void *owner)
{
	(void)owner;
	return 100 * BPS_NS_PER_S;
}

static uint64_t nap(void *owner)
{
	(void)owner;
	return 5 * BPS_NS_PER_MS;
}

static void describe(void *owner, uint32_t rank, char *buf, size_t bytes)
{
	(void)owner;
	snprintf(buf, bytes, "rank %u", rank);
}

static const struct bps_stage_wait waiting = {
	.idle = sleep_on,
	.describe = describe,
	.warn_ns = 60 * BPS_NS_PER_S,
};

/* -- ranks as processes -- */

static int run_rank(struct box *box, uint32_t rank)
{
	struct bps_inbox *inbox = box->first;

	alarm(30);
	if (rank > 0 && bps_inbox_open(&box->shape, box->fd, rank, &inbox) < 0)
		return 99;
	return box->run(box, inbox, rank);
}

/* The test's own process is no rank; each rank's status is 0 or says what is wrong. */
static void run_box(struct box *box)
{
	pid_t pids[MAX_RANKS];
	uint32_t r;
	int status;

	assert_true(box->shape.n_ranks <= MAX_RANKS);
	assert_int_equal(bps_inbox_create(&box->shape, &box->first, &box->fd), 0);
	for (r = 0; r < box->shape.n_ranks; r++) {
		pids[r] = fork();
		assert_true(pids[r] >= 0);
		if (pids[r] == 0)
			_exit(run_rank(box, r));
	}
	for (r = 0; r < box->shape.n_ranks; r++) {
		assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
		if (status != 0)
			fail_msg("%u ranks, %u slots of %u: rank %u ended with %d",
			         box->shape.n_ranks, box->shape.n_slots,
			         box->shape.slot_bytes, r, status);
	}
	close(box->fd);
	bps_inbox_free(box->first);
}

/* -- buffers with guards, at any address -- */

struct buffer {
	unsigned char *memory, *at;
	size_t bytes;
};

static struct buffer buffer_new(size_t bytes, size_t offset)
{
	struct buffer buffer = { malloc(bytes + offset + 2 * GUARD_BYTES), NULL, bytes };

	if (!buffer.memory)
		_exit(98);
	memset(buffer.memory, GUARD, bytes + offset + 2 * GUARD_BYTES);
	buffer.at = buffer.memory + GUARD_BYTES + offset;
	return buffer;
}

/* Whether nothing was written around it; it is freed. */
static bool buffer_intact(struct buffer *buffer)
{
	bool intact = true;
	size_t i;

	for (i = 0; i < GUARD_BYTES; i++)
		intact = intact && buffer->at[-1 - (ptrdiff_t)i] == GUARD &&
		         buffer->at[buffer->bytes + i] == GUARD;
	free(buffer->memory);
	return intact;
}

/* Sums of floats whose bits depend on the order, of up to MAX_RANKS. */
static float input_of(uint32_t rank, uint64_t call, size_t i)
{
	uint32_t mixed = (uint32_t)(i * 2654435761u + rank * 40503u + call * 97u);

	return (float)(int32_t)mixed / (float)(1u << (mixed % 29));
}

static bool allreduce_f32(struct bps_inbox *inbox, const struct box *box, uint32_t rank,
                          uint64_t nth, size_t count, bool in_place)
{
	size_t bytes = count * sizeof(float), i;
	struct buffer in = buffer_new(bytes, nth * 4 % 61), out;
	struct bps_inbox_call call = { .coll = BPS_ALLREDUCE,
		                       .dtype = BPS_F32,
		                       .redop = BPS_SUM,
		                       .bytes = bytes,
		                       .name = "sum",
		                       .comm = "test" };
	struct bps_reason reason;
	bool right = true;
	uint32_t r;

	out = buffer_new(bytes, (nth * 12 + rank) % 67);
	for (i = 0; i < count; i++) {
		float x = input_of(rank, nth, i);

		memcpy(in.at + i * sizeof(x), &x, sizeof(x));
	}
	call.input = in.at;
	call.output = in_place ? in.at : out.at;
	if (bps_inbox_run(inbox, &call, &waiting, &reason) < 0)
		return false;
	for (i = 0; i < count && right; i++) {
		float want = input_of(0, nth, i), mine = input_of(rank, nth, i);

		for (r = 1; r < box->shape.n_ranks; r++)
			want += input_of(r, nth, i);
		right = !memcmp((char *)call.output + i * sizeof(want), &want,
		                sizeof(want));
		if (!in_place)
			right = right &&
			        !memcmp(in.at + i * sizeof(mine), &mine, sizeof(mine));
	}
	right = buffer_intact(&in) && right;
	return buffer_intact(&out) && right;
}

static unsigned char byte_of(uint64_t call, size_t i)
{
	return (unsigned char)((i * 2654435761u + call * 40503u) >> 11);
}

static bool bcast(struct bps_inbox *inbox, const struct box *box, uint32_t rank,
                  uint64_t nth, size_t bytes)
{
	struct buffer data = buffer_new(bytes, nth * 7 % 65);
	struct bps_inbox_call call = { .coll = BPS_BCAST,
		                       .bytes = bytes,
		                       .input = data.at,
		                       .output = data.at,
		                       .name = "broadcast",
		                       .comm = "test" };
	struct bps_reason reason;
	bool right = true;
	size_t i;

	call.root = (uint32_t)(nth % box->shape.n_ranks);
	for (i = 0; i < bytes && rank == call.root; i++)
		data.at[i] = byte_of(nth, i);
	if (bps_inbox_run(inbox, &call, &waiting, &reason) < 0)
		return false;
	for (i = 0; i < bytes && right; i++)
		right = data.at[i] == byte_of(nth, i);
	return buffer_intact(&data) && right;
}

/* -- right answers -- */

static int run_sizes(struct box *box, struct bps_inbox *inbox, uint32_t rank)
{
	size_t slot = box->shape.slot_bytes / 4;
	const size_t counts[] = { 1,
		                  2,
		                  15,
		                  16,
		                  17,
		                  100,
		                  slot - 1,
		                  slot,
		                  slot + 1,
		                  slot * box->shape.n_slots + 3,
		                  slot * box->shape.n_slots * 3 - 5 };
	uint64_t nth = 0;
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		if (!allreduce_f32(inbox, box, rank, nth++, counts[i], false))
			return (int)(1 + i);
		if (!allreduce_f32(inbox, box, rank, nth++, counts[i], true))
			return (int)(21 + i);
		if (!bcast(inbox, box, rank, nth++, counts[i] * 4 - 3))
			return (int)(41 + i);
	}
	return 0;
}

static void test_sizes(void **state)
{
	static const uint32_t ranks[] = { 1, 2, 3, 4, 7 };
	static const struct bps_inbox_shape shapes[] = {
		{ .n_slots = 2, .slot_bytes = 64 },
		{ .n_slots = 3, .slot_bytes = 4096 },
		{ .n_slots = 8, .slot_bytes = 65536 },
	};
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		for (k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
			struct box box = { .shape = shapes[k], .run = run_sizes };

			box.shape.n_ranks = ranks[i];
			run_box(&box);
		}
	}
}

/* Long enough to be written past the caches, and at addresses of no alignment. */
static int run_large(struct box *box, struct bps_inbox *inbox, uint32_t rank)
{
	if (!allreduce_f32(inbox, box, rank, 1, 1500001, false))
		return 1;
	if (!allreduce_f32(inbox, box, rank, 2, 1500001, true))
		return 2;
	return bcast(inbox, box, rank, 3, 5000003) ? 0 : 3;
}

static void test_large(void **state)
{
	struct box box = { .run = run_large };

	(void)state;
	bps_inbox_plan(2, SIZE_MAX, &box.shape);
	run_box(&box);
	bps_inbox_plan(3, SIZE_MAX, &box.shape);
	run_box(&box);
}

/* bfloat16 1 + 2^-8 + 2^-8: in 16 bits each sum would be a tie, and round back to 1. */
static int run_half(struct box *box, struct bps_inbox *inbox, uint32_t rank)
{
	enum { N = 5000 };
	static uint16_t in[N], out[N];
	struct bps_inbox_call call = { .coll = BPS_ALLREDUCE,
		                       .dtype = BPS_BF16,
		                       .redop = BPS_SUM,
		                       .bytes = sizeof(in),
		                       .input = in,
		                       .output = out,
		                       .name = "sum",
		                       .comm = "test" };
	struct bps_reason reason;
	size_t i;

	(void)box;
	for (i = 0; i < N; i++)
		in[i] = rank == 0 ? 0x3f80 : 0x3b80;
	if (bps_inbox_run(inbox, &call, &waiting, &reason) < 0)
		return 1;
	for (i = 0; i < N; i++) {
		if (out[i] != 0x3f81)
			return 2;
	}
	return 0;
}

static void test_half(void **state)
{
	struct box box = { .shape = SHAPE(3, 4, 4096), .run = run_half };

	(void)state;
	run_box(&box);
}

/* Ranks that come late and go early: slots are used again while others still read. */
static int run_skewed(struct box *box, struct bps_inbox *inbox, uint32_t rank)
{
	uint64_t nth;

	for (nth = 0; nth < 300; nth++) {
		if ((nth + rank) % 17 == 0)
			usleep(300);
		if (nth % 3 == 0 ? !allreduce_f32(inbox, box, rank, nth, 40, nth & 1)
		                 : !bcast(inbox, box, rank, nth, 130))
			return 1 + (int)(nth % 90);
	}
	return 0;
}

static void test_skewed(void **state)
{
	struct box box = { .shape = SHAPE(5, 2, 64), .run = run_skewed };

	(void)state;
	run_box(&box);
}

/* -- what goes wrong -- */

/* All are told the same, in later calls too. */
static int check_failed(struct box *box, struct bps_inbox *inbox,
                        const struct bps_inbox_call *call, const char *part)
{
	struct bps_reason reason = { 0 }, again = { 0 };
	int error = bps_inbox_run(inbox, call, &waiting, &reason);

	(void)box;
	if (error != -EPROTO || reason.error != error || !strstr(reason.text, part))
		return 1;
	if (bps_inbox_run(inbox, call, &waiting, &again) != -EPROTO ||
	    strcmp(again.text, reason.text) != 0)
		return 2;
	return 0;
}

static int run_counts_differ(struct box *box, struct bps_inbox *inbox, uint32_t rank)
{
	float data[100] = { 0 };
	const struct bps_inbox_call call = { .coll = BPS_ALLREDUCE,
		                             .dtype = BPS_F32,
		                             .redop = BPS_SUM,
		                             .world_rank = 10 + rank,
		                             .bytes = rank == 1 ? 396 : 400,
		                             .input = data,
		                             .output = data,
		                             .name = "sum",
		                             .comm = "test" };

	return check_failed(box, inbox, &call, "MPI_Allreduce of 396 bytes");
}

static int run_ops_differ(struct box *box, struct bps_inbox *inbox, uint32_t rank)
{
	float data[100] = { 0 };
	const struct bps_inbox_call call = { .coll = BPS_ALLREDUCE,
		                             .dtype = BPS_F32,
		                             .redop = rank == 2 ? BPS_MAX : BPS_SUM,
		                             .world_rank = 10 + rank,
		                             .bytes = 400,
		                             .input = data,
		                             .output = data,
		                             .name = "sum",
		                             .comm = "test" };

	return check_failed(box, inbox, &call, "rank 12");
}

/* A leaf that expects less than the root sends; the root may have left already. */
static int run_bcast_differs(struct box *box, struct bps_inbox *inbox, uint32_t rank)
{
	static char data[500];
	const struct bps_inbox_call call = { .coll = BPS_BCAST,
		                             .bytes = rank == 1 ? 400 : 500,
		                             .input = data,
		                             .output = data,
		                             .name = "broadcast",
		                             .comm = "test" };
	struct bps_reason reason = { 0 };
	int error;

	(void)box;
	do {
		error = bps_inbox_run(inbox, &call, &waiting, &reason);
	} while (error == 0); /* the root, as long as there are slots */
	return error == -EPROTO && strstr(reason.text, "400 bytes") ? 0 : 1;
}

static void test_differ(void **state)
{
	struct box box = { .shape = SHAPE(3, 4, 4096) };

	(void)state;
	box.run = run_counts_differ;
	run_box(&box);
	box.run = run_ops_differ;
	run_box(&box);
	box.run = run_bcast_differs;
	run_box(&box);
}

/* Once, while others wait: as good as stopped. */
static uint64_t stop(void *owner)
{
	bool *stopped = owner;

	if (!*stopped)
		usleep(300000);
	*stopped = true;
	return nap(owner);
}

/* Rank 1 comes late; or rank 2 does, a little, while rank 1 is stopped inside the call.
 */
static int run_late(struct box *box, struct bps_inbox *inbox, uint32_t rank)
{
	struct bps_stage_wait impatient = waiting;
	bool stopped = false;
	float data[4] = { 1, 2, 3, 4 };
	const struct bps_inbox_call call = { .coll = BPS_ALLREDUCE,
		                             .dtype = BPS_F32,
		                             .redop = BPS_SUM,
		                             .bytes = sizeof(data),
		                             .input = data,
		                             .output = data,
		                             .name = "MPI_Allreduce",
		                             .comm = "test" };
	struct bps_reason reason;
	char lines[4096] = "";
	int fds[2], n;

	impatient.idle = nap;
	impatient.owner = &stopped;
	impatient.warn_ns = 20 * BPS_NS_PER_MS;
	if (pipe(fds) < 0)
		return 1;
	bps_log_set_fd(fds[1]);
	if (rank == 1 && box->stops)
		impatient.idle = stop;
	if (rank == (box->stops ? 2 : 1))
		usleep(box->stops ? 50000 : 200000);
	if (bps_inbox_run(inbox, &call, &impatient, &reason) < 0 || data[3] != 12)
		return 2;
	if (rank != 0)
		return 0; /* rank 0, the first that is here, speaks */
	n = (int)read(fds[0], lines, sizeof(lines) - 1);
	return n > 0 && strstr(lines, "MPI_Allreduce on test has waited") &&
	                       strstr(lines, "s for rank 1;")
	               ? 0
	               : 3;
}

static void test_late(void **state)
{
	static const uint32_t group_of[] = { 0, 1, 0 };
	static const uint32_t nodes[] = { BPS_NUMA_NONE, BPS_NUMA_NONE };
	static const struct bps_levels levels = { .n_groups = 2,
		                                  .group_of = group_of,
		                                  .nodes = nodes };
	struct box box = { .shape = SHAPE(3, 4, 4096), .run = run_late };

	(void)state;
	run_box(&box);
	box.stops = true;
	run_box(&box);
	box.shape.levels = &levels;
	run_box(&box);
	box.stops = false;
	run_box(&box);
}

static void test_tell(void **state)
{
	const struct bps_inbox_shape shape = SHAPE(2, 2, 64);
	struct bps_inbox *a, *b;
	int fd;

	(void)state;
	assert_int_equal(bps_inbox_create(&shape, &a, &fd), 0);
	assert_int_equal(bps_inbox_open(&shape, fd, 1, &b), 0);
	assert_true(bps_inbox_tell(b));
	assert_false(bps_inbox_tell(a));
	assert_false(bps_inbox_tell(b));
	close(fd);
	bps_inbox_free(a);
	bps_inbox_free(b);
	bps_inbox_free(NULL);
}

static void test_shapes(void **state)
{
	const struct bps_inbox_shape good = SHAPE(2, 4, 4096);
	struct bps_inbox_shape shape;
	struct bps_inbox *inbox = NULL, *other;
	int fd;

	(void)state;
	for (uint32_t n = 1; n <= 4096; n *= 4) {
		bps_inbox_plan(n, 64u << 20, &shape);
		assert_int_equal(shape.n_ranks, n);
		assert_in_range(bps_inbox_bytes(&shape), 1, 64u << 20);
	}
	assert_int_equal(bps_inbox_bytes(&(struct bps_inbox_shape)SHAPE(0, 4, 64)), 0);
	assert_int_equal(bps_inbox_bytes(&(struct bps_inbox_shape)SHAPE(2, 1, 64)), 0);
	assert_int_equal(bps_inbox_bytes(&(struct bps_inbox_shape)SHAPE(2, 4, 65)), 0);
	assert_int_equal(bps_inbox_bytes(&(struct bps_inbox_shape)SHAPE(2, 4, 0)), 0);
	assert_int_equal(
		bps_inbox_create(&(struct bps_inbox_shape)SHAPE(2, 4, 65), &inbox, &fd),
		-EINVAL);
	assert_int_equal(bps_inbox_create(&good, &inbox, &fd), 0);
	shape = good;
	shape.n_slots = 3;
	assert_int_equal(bps_inbox_open(&shape, fd, 1, &other), -EINVAL);
	assert_int_equal(bps_inbox_open(&good, fd, 2, &other), -EINVAL);
	close(fd);
	bps_inbox_free(inbox);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes), cmocka_unit_test(test_tell),
		cmocka_unit_test(test_sizes),  cmocka_unit_test(test_large),
		cmocka_unit_test(test_half),   cmocka_unit_test(test_skewed),
		cmocka_unit_test(test_differ), cmocka_unit_test(test_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
