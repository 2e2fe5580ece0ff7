/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A box among several: what its ranks push, what they take, and how many bytes go from
 * node to node. The engine is a thread of the test, which looks at each sum and answers
 * with data of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "engine/stage.h"
#include "ranks.h"

#define RING      (64u << 10)
#define SLOT      4096u
#define N_SERVERS 2u
#define ELSEWHERE 77u /* a node that no group has */

/* One call. */
struct op {
	enum bps_coll coll;
	enum bps_dtype dtype;
	enum bps_redop redop;
	int32_t root;
	size_t count; /* elements; of a broadcast bytes */
	uint32_t slot_bytes, n_slots;
};

struct job {
	const struct ranks_box *box;
	struct bps_levels levels;
	struct bps_stage_shape shape;
	struct bps_stage *stages[RANKS_MOST];
	int fd, wake_fd;
	const struct op *ops;
	uint32_t n_ops;
	struct bps_slice slices[N_SERVERS];
	sem_t given;         /* counts the calls that the engine was given */
	uint64_t n_answered; /* positions, of all ops; atomic */
	int wrong;           /* what the engine found; 0: nothing */
	int fails_at;        /* the op that the engine gives up; -1: none */
};

static bool is_half(enum bps_dtype dtype)
{
	return dtype == BPS_F16_WIDE || dtype == BPS_BF16_WIDE;
}

/* The type that inputs and totals have. */
static enum bps_dtype narrow(enum bps_dtype dtype)
{
	if (dtype == BPS_F16_WIDE)
		return BPS_F16;
	return dtype == BPS_BF16_WIDE ? BPS_BF16 : dtype;
}

static size_t total_bytes(const struct op *op)
{
	return op->coll == BPS_BCAST ? op->count
	                             : op->count * bps_dtype_bytes(narrow(op->dtype));
}

static size_t op_bytes(const struct op *op)
{
	return total_bytes(op) * (is_half(op->dtype) ? 2 : 1);
}

static struct bps_cut cut_of(struct job *job, uint32_t nth, struct bps_slice *slices)
{
	static const uint32_t weights[N_SERVERS] = { BPS_SHARE_ONE / 2,
		                                     BPS_SHARE_ONE / 2 };
	const struct bps_plan plan = { .n_servers = N_SERVERS,
		                       .weights = weights,
		                       .max_bytes = job->ops[nth].slot_bytes,
		                       .cost_bytes = 200 };
	struct bps_cut cut = { 0 };

	if (op_bytes(&job->ops[nth]) > 0)
		(void)bps_cut_make(&plan, op_bytes(&job->ops[nth]), 0, slices, &cut);
	return cut;
}

static unsigned char byte_of(uint32_t nth, size_t i)
{
	return (unsigned char)((i * 2654435761u + nth * 40503u) >> 11);
}

/* -- the engine -- */

static bool sum_is_right(const struct job *job, uint32_t nth, const char *push,
                         size_t offset, size_t bytes)
{
	const struct op *op = &job->ops[nth];
	enum bps_dtype dtype = is_half(op->dtype) ? BPS_F32 : op->dtype;
	size_t element = bps_dtype_bytes(dtype), i;
	float want;

	for (i = 0; i < bytes / element; i++) {
		size_t at = offset / element + i;

		if (op->dtype != BPS_F32 || op->redop != BPS_SUM) {
			if (!ranks_holds(push, dtype, i,
			                 ranks_fold(op->redop, job->box->n_ranks, at)))
				return false;
			continue;
		}
		want = ranks_float_sum(job->box, job->levels.home, nth, at);
		if (memcmp(push + i * 4, &want, 4) != 0)
			return false;
	}
	return true;
}

static void answer(struct job *job, uint32_t nth, const struct bps_cut *cut,
                   uint64_t base, uint64_t position)
{
	const struct op *op = &job->ops[nth];
	const char *push = bps_stage_push(job->stages[0], position);
	uint32_t bytes;
	uint64_t offset, where;
	char *result;
	size_t i;

	bps_cut_part(cut, bps_cut_visit(cut, 1, (uint32_t)(position - base)), &offset,
	             &bytes);
	if (op->coll == BPS_ALLREDUCE && !sum_is_right(job, nth, push, offset, bytes))
		job->wrong = 100 + (int)nth;
	for (i = 0; op->coll == BPS_BCAST && op->root >= 0 && i < bytes; i++) {
		if ((unsigned char)push[i] != byte_of(nth, offset + i))
			job->wrong = 200 + (int)nth;
	}
	if (op->coll == BPS_ALLREDUCE || op->root < 0) {
		result = bps_stage_result(job->stages[0], position, &where);
		offset = bps_total_bytes(op->dtype, offset);
		bytes = (uint32_t)bps_total_bytes(op->dtype, bytes);
		for (i = 0; i < bytes; i++)
			result[i] = (char)byte_of(nth, offset + i);
	}
	bps_add_relaxed(&job->n_answered, 1u); /* seen by who sees the next */
	bps_stage_done(job->stages[0], position);
}

/* Until a position from @from on is summed; as the engine sleeps. */
static uint64_t wait_for_sum(struct job *job, uint64_t from, uint64_t end)
{
	struct bps_stage *stage = job->stages[0];
	uint64_t to = bps_stage_summed(stage, from, end), one;
	struct pollfd pollfd = { .fd = job->wake_fd, .events = POLLIN };

	while (to == from) {
		bps_stage_engine_sleeps(stage, true);
		to = bps_stage_summed(stage, from, end);
		if (to == from && poll(&pollfd, 1, -1) > 0)
			(void)!read(job->wake_fd, &one, sizeof(one));
		bps_stage_engine_sleeps(stage, false);
	}
	return to;
}

static void *run_engine(void *arg)
{
	const struct bps_reason reason = { -EIO, "the server is gone" };
	struct job *job = arg;
	uint64_t base = 0, from, to;
	uint32_t nth, seed = 1;

	for (nth = 0; nth < job->n_ops; nth++) {
		struct bps_slice slices[N_SERVERS];
		struct bps_cut cut = cut_of(job, nth, slices);

		sem_wait(&job->given);
		if (job->fails_at == (int)nth) {
			usleep(2000);
			bps_stage_fail(job->stages[0], &reason);
			return NULL;
		}
		for (from = base; from < base + cut.n_parts; from = to) {
			uint64_t position;

			to = wait_for_sum(job, from, base + cut.n_parts);
			ranks_dawdle(&seed);
			for (position = to; position-- > from;) /* not in order */
				answer(job, nth, &cut, base, position);
		}
		base += cut.n_parts;
	}
	return NULL;
}

/* -- ranks -- */

static void fill(const struct job *job, uint32_t nth, uint32_t rank, char *input)
{
	const struct op *op = &job->ops[nth];
	size_t i;

	for (i = 0; i < op->count; i++) {
		float x = ranks_float(rank, nth, i);

		if (op->coll == BPS_BCAST)
			input[i] = (char)byte_of(nth, i);
		else if (op->dtype == BPS_F32 && op->redop == BPS_SUM)
			memcpy(input + i * 4, &x, 4);
		else
			ranks_put(input, narrow(op->dtype), i,
			          ranks_value(op->redop, rank, i));
	}
}

static int run_op(struct job *job, uint32_t rank, uint32_t nth, char *input, char *output)
{
	const struct op *op = &job->ops[nth];
	struct bps_slice slices[N_SERVERS];
	struct bps_stage_call call = { .coll = op->coll,
		                       .dtype = op->dtype,
		                       .redop = op->redop,
		                       .cut = cut_of(job, nth, slices),
		                       .start = 1,
		                       .root = op->root,
		                       .input = input,
		                       .output = output,
		                       .name = "MPI_Allreduce",
		                       .comm = "test" };
	struct bps_reason reason = { 0 };
	size_t i;
	int r;

	if (bps_stage_divide(job->stages[rank], op->slot_bytes, op->n_slots, &call,
	                     &ranks_wait) < 0)
		return 1;
	if (rank == 0)
		sem_post(&job->given);
	r = bps_stage_run(job->stages[rank], &call, &ranks_wait, &reason);
	if (job->fails_at == (int)nth)
		return r == -EIO && strstr(reason.text, "is gone") ? 0 : 2;
	if (r < 0)
		return 3;
	/* The push slots may be used again, and the group be left, from here on. */
	if (bps_load_relaxed(&job->n_answered) < bps_stage_position(job->stages[rank]))
		return 6;
	for (i = 0; (int32_t)rank != op->root && i < total_bytes(op); i++) {
		if ((unsigned char)output[i] != byte_of(nth, i))
			return 4;
	}
	return output[total_bytes(op)] == 'e' ? 0 : 5;
}

static int run_rank(void *owner, uint32_t rank)
{
	struct job *job = owner;
	uint32_t seed = rank, nth;
	int status = 0;

	for (nth = 0; nth < job->n_ops && status == 0; nth++) {
		size_t bytes = total_bytes(&job->ops[nth]);
		char *input = malloc(bytes + 1), *output = malloc(bytes + 1);

		fill(job, nth, rank, input);
		output[bytes] = 'e';
		ranks_dawdle(&seed);
		status = run_op(job, rank, nth, input, output);
		if (status)
			status += 10 * (int)nth;
		free(input);
		free(output);
		if (job->fails_at == (int)nth)
			break;
	}
	return status;
}

static void open_job(struct job *job)
{
	uint32_t r;

	job->wake_fd = eventfd(0, EFD_CLOEXEC);
	sem_init(&job->given, 0, 0);
	job->shape = (struct bps_stage_shape){ .n_ranks = job->box->n_ranks,
		                               .max_slots = RING / SLOT,
		                               .ring_bytes = RING,
		                               .levels = &job->levels };
	assert_int_equal(bps_stage_create(&job->shape, &job->stages[0], &job->fd), 0);
	job->shape.levels = NULL;
	bps_stage_set_wake_fd(job->stages[0], job->wake_fd);
	for (r = 1; r < job->box->n_ranks; r++)
		assert_int_equal(bps_stage_open(&job->shape, job->fd, r, job->wake_fd,
		                                &job->stages[r]),
		                 0);
}

static void run_job(struct job *job)
{
	pthread_t engine;

	open_job(job);
	assert_int_equal(pthread_create(&engine, NULL, run_engine, job), 0);
	ranks_run(job->box, run_rank, job);
	pthread_join(engine, NULL);
	assert_int_equal(job->wrong, 0);
}

static void end_job(struct job *job)
{
	uint32_t r;

	for (r = 0; r < job->box->n_ranks; r++)
		bps_stage_free(job->stages[r]);
	close(job->fd);
	close(job->wake_fd);
	sem_destroy(&job->given);
	ranks_unmap();
}

/*
 * Run @ops in each box, with each group at home, and with the sums on its node, on
 * another group's, and on that of none; then look at what happened.
 */
static void run_everywhere(const struct op *ops, uint32_t n_ops,
                           void (*look)(struct job *job))
{
	size_t i;
	uint32_t k;

	for (i = 0; i < ranks_n_boxes; i++) {
		const struct ranks_box *box = &ranks_boxes[i];
		uint32_t n = box->levels.n_groups;

		for (k = 0; k < n + 2; k++) {
			struct job job = { .box = box,
				           .levels = box->levels,
				           .ops = ops,
				           .n_ops = n_ops,
				           .fails_at = -1 };

			job.levels.home = k % n;
			if (k > 0)
				job.levels.wire_node = k > n ? ELSEWHERE : box->nodes[0];
			run_job(&job);
			if (look)
				look(&job);
			end_job(&job);
		}
	}
}

/* -- right answers -- */

#define SUM(type, n, ...)                                        \
	{                                                        \
		BPS_ALLREDUCE, type, BPS_SUM, -1, n, __VA_ARGS__ \
	}

static void test_sums(void **state)
{
	static const struct op ops[] = {
		SUM(BPS_F32, 20011, 4096, 16),
		SUM(BPS_F32, 1, 4096, 16),
		SUM(BPS_F32, 0, 4096, 16),
		SUM(BPS_F32, 9001, 512, 2),
		SUM(BPS_F16_WIDE, 10007, 4096, 4),
		SUM(BPS_BF16_WIDE, 33, 4096, 4),
		SUM(BPS_F16, 10007, 4096, 3),
		SUM(BPS_C128, 777, 1024, 8),
		{ BPS_ALLREDUCE, BPS_F16_WIDE, BPS_PROD, -1, 5001, 4096, 16 },
		{ BPS_ALLREDUCE, BPS_BF16, BPS_PROD, -1, 5001, 4096, 16 },
		{ BPS_ALLREDUCE, BPS_F16, BPS_MAX, -1, 5001, 4096, 16 },
		{ BPS_ALLREDUCE, BPS_U8, BPS_LXOR, -1, 30001, 4096, 16 },
		{ BPS_ALLREDUCE, BPS_I64, BPS_MIN, -1, 4001, 4096, 16 },
		{ BPS_ALLREDUCE, BPS_BYTE, BPS_BAND, -1, 1, 4096, 16 },
	};

	(void)state;
	run_everywhere(ops, sizeof(ops) / sizeof(ops[0]), NULL);
}

#define BCAST(from, n, ...)                                                     \
	{                                                                       \
		BPS_BCAST, BPS_DTYPE_NONE, BPS_REDOP_NONE, from, n, __VA_ARGS__ \
	}

/* From elsewhere, and from the first rank, with sums between them. */
static void test_broadcasts(void **state)
{
	static const struct op ops[] = {
		BCAST(-1, 50021, 4096, 4),   BCAST(0, 50021, 4096, 4),
		SUM(BPS_F32, 3001, 4096, 4), BCAST(0, 1, 4096, 4),
		BCAST(-1, 3, 4096, 4),       SUM(BPS_F32, 3001, 512, 2),
		BCAST(0, 9001, 512, 2),      BCAST(0, 0, 512, 2),
		BCAST(-1, 9001, 512, 2),
	};

	(void)state;
	run_everywhere(ops, sizeof(ops) / sizeof(ops[0]), NULL);
}

static void test_every_root(void **state)
{
	uint32_t root, i;

	(void)state;
	for (root = 0; root < ranks_boxes[9].n_ranks; root++) {
		const struct op op = BCAST((int32_t)root, 20011, 4096, 4);
		struct op ops[8];
		struct job job = { .box = &ranks_boxes[9],
			           .levels = ranks_boxes[9].levels,
			           .ops = ops,
			           .n_ops = 8,
			           .fails_at = -1 };

		for (i = 0; i < 8; i++)
			ops[i] = op;
		job.levels.wire_node = job.box->nodes[root % 3];
		run_job(&job);
		end_job(&job);
	}
}

/* -- what crosses -- */

/* The group on whose node the sums lie, or the number of groups. */
static uint32_t wire_of(const struct job *job)
{
	uint32_t g;

	if (job->levels.wire_node == BPS_NUMA_NONE)
		return job->levels.home;
	for (g = 0; g < job->levels.n_groups; g++) {
		if (job->box->nodes[g] == job->levels.wire_node)
			break;
	}
	return g;
}

/* What all ranks took from one to the other is @want. */
static void assert_crossed(const struct job *job, uint32_t from, uint32_t to,
                           uint64_t want)
{
	uint64_t sum = 0;
	uint32_t r;

	for (r = 0; r < job->box->n_ranks; r++)
		sum += bps_stage_crossed(job->stages[r], from, to);
	if (sum != want)
		fail_msg("%s, home %u, wire %u: %llu bytes from %u to %u, not %llu",
		         job->box->name, job->levels.home, wire_of(job),
		         (unsigned long long)sum, from, to, (unsigned long long)want);
}

/* Of one sum: partials to home, the sum to the wire, the total to all others. */
static void look_at_sum(struct job *job)
{
	uint32_t wire = wire_of(job), home = job->levels.home, a, b;
	const struct op *op = &job->ops[0];
	uint64_t total = total_bytes(op);

	for (a = 0; a <= job->levels.n_groups; a++) {
		for (b = 0; b <= job->levels.n_groups; b++) {
			bool wide = op->dtype != BPS_F32 && a < job->levels.n_groups &&
			            ranks_size(job->box, a) > 1;
			uint64_t want = 0;

			if (a == b) {
				assert_crossed(job, a, b, 0);
				continue;
			}
			if (b == home && a < job->levels.n_groups)
				want += wide ? 2 * total : total;
			if (a == home && b == wire)
				want += op_bytes(op);
			if (a == wire && b < job->levels.n_groups)
				want += total;
			assert_crossed(job, a, b, want);
		}
	}
}

static void test_sum_crosses(void **state)
{
	static const struct op f32[] = { SUM(BPS_F32, 20011, 4096, 4) };
	static const struct op wide[] = { SUM(BPS_F16_WIDE, 20011, 4096, 4) };
	static const struct op half[] = { SUM(BPS_BF16, 20011, 4096, 4) };

	(void)state;
	run_everywhere(f32, 1, look_at_sum);
	run_everywhere(wide, 1, look_at_sum);
	run_everywhere(half, 1, look_at_sum);
}

/* Once to the wire, and once from there to each group but the root's. */
static void look_at_bcast(struct job *job)
{
	uint32_t wire = wire_of(job), n = job->levels.n_groups, a, b;
	uint32_t root = job->ops[0].root < 0 ? wire : job->box->group_of[0];

	for (a = 0; a <= n; a++) {
		for (b = 0; b <= n; b++) {
			bool goes = a != b && ((a == root && b == wire) ||
			                       (a == wire && b < n && b != root));

			assert_crossed(job, a, b, goes ? total_bytes(job->ops) : 0);
		}
	}
}

static void test_bcast_crosses(void **state)
{
	static const struct op from_here[] = { BCAST(0, 54321, 4096, 4) };
	static const struct op from_afar[] = { BCAST(-1, 54321, 4096, 4) };

	(void)state;
	run_everywhere(from_here, 1, look_at_bcast);
	run_everywhere(from_afar, 1, look_at_bcast);
}

/* Ranks that may run anywhere take the totals themselves, wherever these lie. */
static void test_no_node(void **state)
{
	static const struct op ops[] = { SUM(BPS_F32, 20011, 4096, 4) };
	struct ranks_box box = ranks_boxes[6];
	struct job job = { .box = &box, .ops = ops, .n_ops = 1, .fails_at = -1 };

	(void)state;
	assert_string_equal(box.name, "1+3");
	box.nodes[1] = BPS_NUMA_NONE;
	job.levels = box.levels;
	job.levels.nodes = box.nodes;
	run_job(&job);
	assert_crossed(&job, 0, 1, 3 * total_bytes(ops));
	assert_crossed(&job, 1, 0, total_bytes(ops));
	end_job(&job);
	box.nodes[0] = BPS_NUMA_NONE;
	box.levels.n_groups = job.levels.n_groups = 1;
	memset(box.group_of, 0, sizeof(box.group_of));
	job.levels.group_of = box.group_of;
	job.levels.wire_node = ELSEWHERE;
	run_job(&job);
	assert_crossed(&job, 0, 1, 0);
	assert_crossed(&job, 1, 0, 0);
	end_job(&job);
}

/* -- memory and failures -- */

/* Sums and totals at the wire, a ring of each rank and one of each group on its node. */
static void test_placed(void **state)
{
	const struct ranks_box *box = &ranks_boxes[9];
	struct job job = { .box = box, .levels = box->levels };
	uint64_t bytes = 0;
	uint32_t i;

	(void)state;
	job.levels.wire_node = ELSEWHERE;
	ranks_forget(0);
	open_job(&job);
	assert_int_equal(ranks_n_placed, 1 + 3 + 8);
	for (i = 0; i < ranks_n_placed; i++) {
		const struct ranks_placed *placed = &ranks_placed[i];

		assert_int_equal((uintptr_t)placed->from % 4096, 0);
		assert_int_equal(placed->bytes, i < 4 ? 2 * RING : RING);
		bytes += placed->bytes;
		if (i > 0)
			assert_ptr_equal(placed->from,
			                 placed[-1].from + placed[-1].bytes);
		if (i == 0)
			assert_int_equal(placed->node, ELSEWHERE);
		else
			assert_int_equal(
				placed->node,
				box->nodes[i < 4 ? i - 1 : box->group_of[i - 4]]);
	}
	job.shape.levels = &job.levels;
	assert_in_range(bps_stage_bytes(&job.shape), bytes, bytes + RING);
	end_job(&job);
}

/* Where all is on one node, there is nothing more than there ever was. */
static void test_one_node(void **state)
{
	struct job job = { .box = &ranks_boxes[1], .levels = ranks_boxes[1].levels };
	size_t bytes;

	(void)state;
	open_job(&job);
	bytes = bps_stage_bytes(&job.shape);
	assert_in_range(bytes, 5 * RING, 5 * RING + 16384);
	job.shape.levels = &job.levels;
	assert_int_equal(bps_stage_bytes(&job.shape), bytes);
	job.levels.wire_node = job.box->nodes[0];
	assert_int_equal(bps_stage_bytes(&job.shape), bytes);
	end_job(&job);
}

static void test_fails(void **state)
{
	static const struct op ops[] = { SUM(BPS_F32, 20011, 4096, 4),
		                         SUM(BPS_F32, 20011, 4096, 4) };
	struct job job = { .box = &ranks_boxes[9],
		           .levels = ranks_boxes[9].levels,
		           .ops = ops,
		           .n_ops = 2,
		           .fails_at = 1 };

	(void)state;
	run_job(&job);
	assert_true(bps_stage_tell(job.stages[1]));
	assert_false(bps_stage_tell(job.stages[0]));
	end_job(&job);
}

static void test_no_such(void **state)
{
	static const struct op ops[] = { SUM(BPS_F32, 100, 4096, 4) };
	struct job job = { .box = &ranks_boxes[0],
		           .levels = ranks_boxes[0].levels,
		           .ops = ops };
	struct bps_slice slices[N_SERVERS];
	float data[100] = { 0 };
	struct bps_stage_call call = { .coll = BPS_ALLREDUCE,
		                       .dtype = BPS_F32,
		                       .redop = BPS_BXOR,
		                       .cut = cut_of(&job, 0, slices),
		                       .root = -1,
		                       .input = data,
		                       .output = data,
		                       .name = "MPI_Allreduce",
		                       .comm = "test" };
	struct bps_reason reason = { 0 };

	(void)state;
	open_job(&job);
	assert_int_equal(bps_stage_divide(job.stages[0], 4096, 4, NULL, NULL), 0);
	assert_int_equal(bps_stage_run(job.stages[0], &call, &ranks_wait, &reason),
	                 -EINVAL);
	assert_non_null(strstr(reason.text, "no such operation"));
	call.redop = BPS_SUM; /* it is finished */
	assert_int_equal(bps_stage_run(job.stages[0], &call, &ranks_wait, &reason),
	                 -EINVAL);
	end_job(&job);
}

static void test_refused(void **state)
{
	const uint32_t lonely[] = { 1, 1 }, nodes[] = { 0, 1 };
	struct bps_levels levels = { .n_groups = 2, .group_of = lonely, .nodes = nodes };
	struct bps_stage_shape shape = {
		.n_ranks = 2, .max_slots = 4, .ring_bytes = 4096, .levels = &levels
	};
	struct bps_stage *stage, *other;
	int fd;

	(void)state;
	assert_int_equal(bps_stage_create(&shape, &stage, &fd), -EINVAL);
	levels.n_groups = 3;
	assert_int_equal(bps_stage_create(&shape, &stage, &fd), -EINVAL);
	shape.levels = NULL;
	assert_int_equal(bps_stage_create(&shape, &stage, &fd), 0);
	assert_int_equal(bps_stage_open(&shape, fd, 2, -1, &other), -EINVAL);
	shape.max_slots = 5;
	assert_int_equal(bps_stage_open(&shape, fd, 1, -1, &other), -EINVAL);
	close(fd);
	bps_stage_free(stage);
	ranks_unmap();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),          cmocka_unit_test(test_broadcasts),
		cmocka_unit_test(test_every_root),    cmocka_unit_test(test_sum_crosses),
		cmocka_unit_test(test_bcast_crosses), cmocka_unit_test(test_no_node),
		cmocka_unit_test(test_placed),        cmocka_unit_test(test_one_node),
		cmocka_unit_test(test_fails),         cmocka_unit_test(test_no_such),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
