/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators in one box with several memory nodes: right answers, the same bits on all
 * ranks, and how many bytes go from node to node.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/inbox.h"
#include "ranks.h"

#define N_KINDS(kinds) (sizeof(kinds) / sizeof((kinds)[0]))

/* What the ranks of one box do. */
struct job {
	const struct ranks_box *box;
	struct bps_inbox_shape shape;
	struct bps_inbox *first, *inboxes[RANKS_MOST];
	int fd;
	int (*run)(struct job *job, struct bps_inbox *inbox, uint32_t rank);
	float *outputs[RANKS_MOST];
};

static int run_rank(void *owner, uint32_t rank)
{
	struct job *job = owner;

	return job->run(job, job->inboxes[rank], rank);
}

static void run_job(struct job *job)
{
	uint32_t r;

	job->shape.n_ranks = job->box->n_ranks;
	job->shape.levels = &job->box->levels;
	assert_int_equal(bps_inbox_create(&job->shape, &job->inboxes[0], &job->fd), 0);
	job->shape.levels = NULL;
	for (r = 1; r < job->box->n_ranks; r++)
		assert_int_equal(
			bps_inbox_open(&job->shape, job->fd, r, &job->inboxes[r]), 0);
	ranks_run(job->box, run_rank, job);
}

static void end_job(struct job *job)
{
	uint32_t r;

	for (r = 0; r < job->box->n_ranks; r++)
		bps_inbox_free(job->inboxes[r]);
	close(job->fd);
	ranks_unmap();
}

static int sum_floats(const struct job *job, struct bps_inbox *inbox, uint32_t rank,
                      uint64_t nth, size_t count, float *in, float *out)
{
	const struct bps_inbox_call call = { .coll = BPS_ALLREDUCE,
		                             .dtype = BPS_F32,
		                             .redop = BPS_SUM,
		                             .bytes = count * sizeof(float),
		                             .input = in,
		                             .output = out,
		                             .name = "sum",
		                             .comm = "test" };
	struct bps_reason reason;
	uint32_t g;
	size_t i;

	for (i = 0; i < count; i++)
		in[i] = ranks_float(rank, nth, i);
	if (bps_inbox_run(inbox, &call, &ranks_wait, &reason) < 0)
		return 1;
	for (i = 0; i < count; i++) {
		bool right = false;

		for (g = 0; g < job->box->levels.n_groups; g++) {
			float want = ranks_float_sum(job->box, g, nth, i);

			right = right || !memcmp(&out[i], &want, sizeof(want));
		}
		if (!right || (in != out && in[i] != ranks_float(rank, nth, i)))
			return 2;
	}
	return 0;
}

static unsigned char byte_of(uint64_t nth, size_t i)
{
	return (unsigned char)((i * 2654435761u + nth * 40503u) >> 11);
}

static int broadcast(struct bps_inbox *inbox, uint32_t rank, uint32_t root, uint64_t nth,
                     size_t bytes)
{
	unsigned char *data = calloc(1, bytes + 1);
	const struct bps_inbox_call call = { .coll = BPS_BCAST,
		                             .root = root,
		                             .bytes = bytes,
		                             .input = data,
		                             .output = data,
		                             .name = "broadcast",
		                             .comm = "test" };
	struct bps_reason reason;
	int status = 0;
	size_t i;

	for (i = 0; i < bytes && rank == root; i++)
		data[i] = byte_of(nth, i);
	if (bps_inbox_run(inbox, &call, &ranks_wait, &reason) < 0)
		status = 3;
	for (i = 0; i < bytes && status == 0; i++)
		status = data[i] == byte_of(nth, i) ? 0 : 4;
	if (data[bytes] != 0)
		status = 5;
	free(data);
	return status;
}

/* -- right answers -- */

/* Pieces that are empty, one element, more chunks than slots; ranks come and go. */
static int run_sizes(struct job *job, struct bps_inbox *inbox, uint32_t rank)
{
	size_t slot = job->shape.slot_bytes / 4;
	const size_t counts[] = { 1,
		                  0,
		                  2,
		                  15,
		                  16,
		                  17,
		                  100,
		                  slot - 1,
		                  slot,
		                  slot + 1,
		                  slot * job->shape.n_slots * 2 + 3 };
	size_t most = counts[N_KINDS(counts) - 1], i;
	float *in = malloc(most * sizeof(*in)), *out = malloc(most * sizeof(*out));
	uint32_t seed = rank, n = job->box->n_ranks;
	int status = 0;

	for (i = 0; i < 3 * N_KINDS(counts) && status == 0; i++) {
		size_t count = counts[i / 3];

		ranks_dawdle(&seed);
		if (i % 3 < 2)
			status = sum_floats(job, inbox, rank, i, count, in,
			                    i % 3 ? in : out);
		else
			status = broadcast(inbox, rank, (uint32_t)i % n, i,
			                   count ? count * 4 - 3 : 0);
		if (status)
			status += 10 * (int)i;
	}
	free(in);
	free(out);
	return status;
}

static void test_sizes(void **state)
{
	static const struct bps_inbox_shape shapes[] = {
		{ .n_slots = 2, .slot_bytes = 192 },
		{ .n_slots = 3, .slot_bytes = 4096 },
		{ .n_slots = 8, .slot_bytes = 16384 },
	};
	size_t i, k;

	(void)state;
	for (i = 0; i < ranks_n_boxes; i++) {
		for (k = 0; k < N_KINDS(shapes); k++) {
			struct job job = { .box = &ranks_boxes[i],
				           .shape = shapes[k],
				           .run = run_sizes };

			run_job(&job);
			end_job(&job);
		}
	}
}

/* Every operation in a type of its own, and all 16-bit floats. */
static const struct {
	enum bps_dtype dtype;
	enum bps_redop redop;
} kinds[] = {
	{ BPS_I8, BPS_SUM },   { BPS_U16, BPS_PROD },   { BPS_F32, BPS_MIN },
	{ BPS_F64, BPS_MAX },  { BPS_BOOL8, BPS_LAND }, { BPS_I32, BPS_LOR },
	{ BPS_I64, BPS_LXOR }, { BPS_BYTE, BPS_BAND },  { BPS_U32, BPS_BOR },
	{ BPS_U64, BPS_BXOR }, { BPS_F16, BPS_SUM },    { BPS_F16, BPS_PROD },
	{ BPS_F16, BPS_MAX },  { BPS_BF16, BPS_SUM },   { BPS_BF16, BPS_PROD },
	{ BPS_BF16, BPS_MIN }, { BPS_C64, BPS_SUM },    { BPS_C128, BPS_SUM },
};

static int run_kind(struct bps_inbox *inbox, const struct job *job, uint32_t rank,
                    size_t kind, size_t count)
{
	enum bps_dtype dtype = kinds[kind].dtype;
	enum bps_redop redop = kinds[kind].redop;
	size_t bytes = count * bps_dtype_bytes(dtype), i;
	char *in = malloc(bytes), *out = malloc(bytes);
	const struct bps_inbox_call call = { .coll = BPS_ALLREDUCE,
		                             .dtype = dtype,
		                             .redop = redop,
		                             .bytes = bytes,
		                             .input = in,
		                             .output = out,
		                             .name = "MPI_Allreduce",
		                             .comm = "test" };
	struct bps_reason reason;
	int status = 0;

	for (i = 0; i < count; i++)
		ranks_put(in, dtype, i, ranks_value(redop, rank, i));
	if (bps_inbox_run(inbox, &call, &ranks_wait, &reason) < 0)
		status = 1;
	for (i = 0; i < count && status == 0; i++)
		status = ranks_holds(out, dtype, i,
		                     ranks_fold(redop, job->box->n_ranks, i))
		                 ? 0
		                 : 2;
	free(in);
	free(out);
	return status;
}

static int run_kinds(struct job *job, struct bps_inbox *inbox, uint32_t rank)
{
	size_t k;

	for (k = 0; k < N_KINDS(kinds); k++) {
		int status = run_kind(inbox, job, rank, k, 3001);

		if (status == 0)
			status = run_kind(inbox, job, rank, k, 5);
		if (status)
			return 10 * (int)k + status;
	}
	return 0;
}

static void test_kinds(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ranks_n_boxes; i++) {
		struct job job = { .box = &ranks_boxes[i],
			           .shape = { .n_slots = 4, .slot_bytes = 4096 },
			           .run = run_kinds };

		run_job(&job);
		end_job(&job);
	}
}

/*
 * bfloat16: 1 of rank 0, 2^-9 of the three others, of which two are in its group: their
 * partial would be a tie, and rounded to 1.
 */
static int run_half(struct job *job, struct bps_inbox *inbox, uint32_t rank)
{
	enum { N = 5000 };
	uint16_t in[N], out[N];
	const struct bps_inbox_call call = { .coll = BPS_ALLREDUCE,
		                             .dtype = BPS_BF16,
		                             .redop = BPS_SUM,
		                             .bytes = sizeof(in),
		                             .input = in,
		                             .output = out,
		                             .name = "sum",
		                             .comm = "test" };
	struct bps_reason reason;
	size_t i;

	(void)job;
	for (i = 0; i < N; i++)
		in[i] = rank == 0 ? 0x3f80 : 0x3b00;
	if (bps_inbox_run(inbox, &call, &ranks_wait, &reason) < 0)
		return 1;
	for (i = 0; i < N; i++) {
		if (out[i] != 0x3f81) /* 1 + 3/512, rounded to 1 + 4/512 */
			return 2;
	}
	return 0;
}

static void test_half(void **state)
{
	struct job job = { .box = &ranks_boxes[7],
		           .shape = { .n_slots = 4, .slot_bytes = 4096 },
		           .run = run_half };

	(void)state;
	assert_string_equal(job.box->name, "3+1");
	run_job(&job);
	end_job(&job);
}

/* The same bits on all ranks, and again the next time. */
static int run_bits(struct job *job, struct bps_inbox *inbox, uint32_t rank)
{
	enum { N = 20011 };
	float *in = malloc(N * sizeof(*in)), *again = malloc(N * sizeof(*in));
	int status;

	job->outputs[rank] = malloc(N * sizeof(*in));
	status = sum_floats(job, inbox, rank, 7, N, in, job->outputs[rank]);
	if (status == 0)
		status = sum_floats(job, inbox, rank, 7, N, in, again);
	if (status == 0 && memcmp(again, job->outputs[rank], N * sizeof(*in)) != 0)
		status = 3;
	free(in);
	free(again);
	return status;
}

static void test_bits(void **state)
{
	size_t i;
	uint32_t r;

	(void)state;
	for (i = 0; i < ranks_n_boxes; i++) {
		struct job job = { .box = &ranks_boxes[i],
			           .shape = { .n_slots = 4, .slot_bytes = 8192 },
			           .run = run_bits };

		run_job(&job);
		for (r = 0; r < job.box->n_ranks; r++)
			assert_memory_equal(job.outputs[r], job.outputs[0], 20011 * 4);
		for (r = 0; r < job.box->n_ranks; r++)
			free(job.outputs[r]);
		end_job(&job);
	}
}

/* -- what crosses -- */

static uint64_t crossed(const struct job *job, uint32_t from, uint32_t to)
{
	uint64_t sum = 0;
	uint32_t r;

	for (r = 0; r < job->box->n_ranks; r++)
		sum += bps_inbox_crossed(job->inboxes[r], from, to);
	return sum;
}

static uint64_t crossed_all(const struct job *job)
{
	uint64_t sum = 0;
	uint32_t a, b;

	for (a = 0; a < job->box->levels.n_groups; a++) {
		assert_int_equal(crossed(job, a, a), 0);
		for (b = 0; b < job->box->levels.n_groups; b++)
			sum += crossed(job, a, b);
	}
	return sum;
}

enum { ODD = 12345 };

static int run_one_sum(struct job *job, struct bps_inbox *inbox, uint32_t rank)
{
	float data[ODD];

	return sum_floats(job, inbox, rank, 1, ODD, data, data);
}

static void test_sum_crosses(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ranks_n_boxes; i++) {
		struct job job = { .box = &ranks_boxes[i],
			           .shape = { .n_slots = 4, .slot_bytes = 4096 },
			           .run = run_one_sum };
		uint32_t n = job.box->levels.n_groups;

		run_job(&job);
		assert_int_equal(crossed_all(&job), 2 * (n - 1) * ODD * 4);
		if (n == 2) { /* each byte once each way */
			assert_int_equal(crossed(&job, 0, 1), ODD * 4);
			assert_int_equal(crossed(&job, 1, 0), ODD * 4);
		}
		assert_int_equal(crossed(&job, 0, n + 1), 0);
		end_job(&job);
	}
}

static int run_one_half(struct job *job, struct bps_inbox *inbox, uint32_t rank)
{
	return run_kind(inbox, job, rank, 10, ODD);
}

/* Partials of 16-bit floats are twice as long, but where they are one rank's input. */
static void test_half_crosses(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ranks_n_boxes; i++) {
		struct job job = { .box = &ranks_boxes[i],
			           .shape = { .n_slots = 4, .slot_bytes = 4096 },
			           .run = run_one_half };
		uint32_t n = job.box->levels.n_groups, n_alone = 0, g;

		for (g = 0; g < n; g++)
			n_alone += ranks_size(job.box, g) == 1;
		run_job(&job);
		if (n_alone == n)
			assert_int_equal(crossed_all(&job), 2 * (n - 1) * ODD * 2);
		else if (n_alone == 0)
			assert_int_equal(crossed_all(&job), 3 * (n - 1) * ODD * 2);
		end_job(&job);
	}
}

static int run_one_bcast(struct job *job, struct bps_inbox *inbox, uint32_t rank)
{
	return broadcast(inbox, rank, job->box->n_ranks - 1, 1, ODD);
}

static void test_bcast_crosses(void **state)
{
	size_t i;
	uint32_t g;

	(void)state;
	for (i = 0; i < ranks_n_boxes; i++) {
		struct job job = { .box = &ranks_boxes[i],
			           .shape = { .n_slots = 4, .slot_bytes = 4096 },
			           .run = run_one_bcast };
		uint32_t n = job.box->levels.n_groups;
		uint32_t from = job.box->group_of[job.box->n_ranks - 1];

		run_job(&job);
		for (g = 0; g < n; g++)
			assert_int_equal(crossed(&job, from, g), g == from ? 0 : ODD);
		assert_int_equal(crossed_all(&job), (n - 1) * ODD);
		end_job(&job);
	}
}

/* -- memory -- */

static int run_nothing(struct job *job, struct bps_inbox *inbox, uint32_t rank)
{
	(void)job, (void)inbox, (void)rank;
	return 0;
}

/* Each rank's slots are asked for on its node, in whole pages that are nobody else's. */
static void test_placed(void **state)
{
	const struct ranks_box *box = &ranks_boxes[9];
	struct job job = { .box = box,
		           .shape = { .n_slots = 3, .slot_bytes = 4096 + 64 },
		           .run = run_nothing };
	uint32_t r;

	(void)state;
	ranks_forget(0);
	run_job(&job);
	assert_int_equal(ranks_n_placed, box->n_ranks);
	for (r = 0; r < box->n_ranks; r++) {
		const struct ranks_placed *placed = &ranks_placed[r];

		assert_int_equal((uintptr_t)placed->from % 4096, 0);
		assert_int_equal(placed->bytes, 4 * 4096);
		assert_int_equal(placed->node, box->nodes[box->group_of[r]]);
		if (r > 0)
			assert_ptr_equal(placed->from, placed[-1].from + 4 * 4096);
	}
	end_job(&job);
}

/* Containers may forbid it: then it works all the same. */
static void test_not_placed(void **state)
{
	struct job job = { .box = &ranks_boxes[9],
		           .shape = { .n_slots = 3, .slot_bytes = 4096 },
		           .run = run_one_sum };

	(void)state;
	ranks_forget(-EPERM);
	run_job(&job);
	assert_int_equal(ranks_n_placed, job.box->n_ranks);
	end_job(&job);
	ranks_forget(0);
}

/* -- what goes wrong -- */

static int run_counts_differ(struct job *job, struct bps_inbox *inbox, uint32_t rank)
{
	float data[3000] = { 0 };
	const struct bps_inbox_call call = {
		.coll = BPS_ALLREDUCE,
		.dtype = BPS_F32,
		.redop = BPS_SUM,
		.world_rank = 10 + rank,
		.bytes = rank + 1 == job->box->n_ranks ? 12000 : 400,
		.input = data,
		.output = data,
		.name = "sum",
		.comm = "test",
	};
	struct bps_reason reason = { 0 };

	if (bps_inbox_run(inbox, &call, &ranks_wait, &reason) != -EPROTO)
		return 1;
	return strstr(reason.text, "MPI_Allreduce of 12000 bytes") ? 0 : 2;
}

/* A leaf on another node than the root's expects less. */
static int run_bcast_differs(struct job *job, struct bps_inbox *inbox, uint32_t rank)
{
	char data[500] = { 0 };
	const struct bps_inbox_call call = {
		.coll = BPS_BCAST,
		.root = 0,
		.bytes = rank + 1 == job->box->n_ranks ? 400 : 500,
		.input = data,
		.output = data,
		.name = "broadcast",
		.comm = "test",
	};
	struct bps_reason reason = { 0 };
	int error;

	do {
		error = bps_inbox_run(inbox, &call, &ranks_wait, &reason);
	} while (error == 0); /* the root, as long as there are slots */
	return error == -EPROTO && strstr(reason.text, "400 bytes") ? 0 : 1;
}

static int run_no_such(struct job *job, struct bps_inbox *inbox, uint32_t rank)
{
	float data[4] = { 0 };
	const struct bps_inbox_call call = { .coll = BPS_ALLREDUCE,
		                             .dtype = BPS_F32,
		                             .redop = BPS_BXOR,
		                             .bytes = sizeof(data),
		                             .input = data,
		                             .output = data,
		                             .name = "MPI_Allreduce",
		                             .comm = "test" };
	struct bps_reason reason = { 0 };

	(void)job, (void)rank;
	if (bps_inbox_run(inbox, &call, &ranks_wait, &reason) != -EINVAL)
		return 1;
	return strstr(reason.text, "no such operation") ? 0 : 2;
}

static void test_failures(void **state)
{
	int (*const runs[])(struct job *, struct bps_inbox *,
	                    uint32_t) = { run_counts_differ, run_bcast_differs,
		                          run_no_such };
	size_t i;

	(void)state;
	for (i = 0; i < N_KINDS(runs); i++) {
		struct job job = { .box = &ranks_boxes[5],
			           .shape = { .n_slots = 2, .slot_bytes = 4096 },
			           .run = runs[i] };

		run_job(&job);
		end_job(&job);
	}
}

static void test_refused(void **state)
{
	const uint32_t lonely[] = { 0, 0 }, wild[] = { 0, 2 }, nodes[] = { 0, 1 };
	struct bps_levels levels = { .n_groups = 2, .group_of = lonely, .nodes = nodes };
	struct bps_inbox_shape shape = {
		.n_ranks = 2, .n_slots = 2, .slot_bytes = 4096, .levels = &levels
	};
	struct bps_inbox *inbox;
	int fd;

	(void)state;
	assert_int_equal(bps_inbox_create(&shape, &inbox, &fd), -EINVAL);
	levels.group_of = wild;
	assert_int_equal(bps_inbox_create(&shape, &inbox, &fd), -EINVAL);
	levels.n_groups = 3;
	assert_int_equal(bps_inbox_create(&shape, &inbox, &fd), -EINVAL);
	levels.n_groups = 0;
	assert_int_equal(bps_inbox_bytes(&shape), 0);
	levels.n_groups = 2;
	shape.slot_bytes = 128;
	assert_int_equal(bps_inbox_bytes(&shape), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),         cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_half),          cmocka_unit_test(test_bits),
		cmocka_unit_test(test_sum_crosses),   cmocka_unit_test(test_half_crosses),
		cmocka_unit_test(test_bcast_crosses), cmocka_unit_test(test_placed),
		cmocka_unit_test(test_not_placed),    cmocka_unit_test(test_failures),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
