/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halves [-t] [-d] BOXES: sums of 16-bit floats by an operation of the program's own, as
 * Horovod has them, checked bit for bit. BOXES: ranks of each box in order, "2,1,2".
 * -t: the sums of the boxes are rounded first. -d: the last rank's operation truncates,
 * in a job whose sums are exact.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../jobs/halves.h"
#include "job.h"

#define MAX_BOXES 16
#define MOST      700001

static int boxes[MAX_BOXES], n_boxes;
static bool twice, disagree;

static void sum_f16(void *in, void *inout, int *count, MPI_Datatype *type)
{
	uint16_t *a = in, *b = inout;

	(void)type;
	for (int i = 0; i < *count; i++)
		b[i] = f16_sum(a[i], b[i], disagree && job_rank == job_size - 1);
}

static void sum_bf16(void *in, void *inout, int *count, MPI_Datatype *type)
{
	uint16_t *a = in, *b = inout;

	(void)type;
	for (int i = 0; i < *count; i++)
		b[i] = bf16_of(bf16_value(a[i]) + bf16_value(b[i]));
}

/* Whole numbers whose sums need no rounding. */
static uint16_t whole(int rank, int i, uint32_t call)
{
	return f16_of_steps(
		(int64_t)(job_input(rank, (uint64_t)i, call) % 32) * (1 << 24), 0, false);
}

static uint16_t input(enum half half, int rank, int i, uint32_t call)
{
	return disagree ? whole(rank, i, call)
	                : half_input(half, rank, (uint64_t)i, call);
}

static uint16_t expected(enum half half, int i, uint32_t call)
{
	int64_t steps = 0;

	if (twice)
		return half_total_twice(half, boxes, n_boxes, (uint64_t)i, call);
	if (!disagree)
		return half_total(half, job_size, (uint64_t)i, call);
	for (int rank = 0; rank < job_size; rank++)
		steps += f16_steps(whole(rank, i, call));
	return f16_of_steps(steps, 0, false);
}

/* How many elements are not as rounded once: there must be some where it is twice. */
static int n_differ;

static void check(enum half half, const uint16_t *out, int count, uint32_t call)
{
	for (int i = 0; i < count; i++) {
		uint16_t want = expected(half, i, call);

		n_differ +=
			twice && want != half_total(half, job_size, (uint64_t)i, call);
		if (out[i] == want)
			continue;
		job_fail("call %u: element %d of %d is %04x, not %04x", call, i, count,
		         out[i], want);
		return;
	}
}

/* In place on some ranks only. */
static void one(enum half half, MPI_Datatype type, MPI_Op op, int count, uint32_t call)
{
	uint16_t *in = malloc(2 * (size_t)count), *out = malloc(2 * (size_t)count);
	bool in_place = (job_rank + (int)call) % 3 == 0;

	for (int i = 0; i < count; i++)
		(in_place ? out : in)[i] = input(half, job_rank, i, call);
	MPI_Allreduce(in_place ? MPI_IN_PLACE : in, out, count, type, op, MPI_COMM_WORLD);
	if (!disagree && 2 * (uint64_t)count >= job_threshold)
		job_n_allreduce++;
	check(half, out, count, call);
	free(in);
	free(out);
}

int main(int argc, char **argv)
{
	const int counts[] = { 131072, 140009, MOST };
	MPI_Datatype type;
	MPI_Op f16, bf16;
	int option;
	char *at;

	job_begin(&argc, &argv);
	while ((option = getopt(argc, argv, "td")) > 0) {
		twice = twice || option == 't';
		disagree = disagree || option == 'd';
	}
	for (at = argv[optind]; at && n_boxes < MAX_BOXES; at = strchr(at, ',')) {
		at += *at == ',';
		boxes[n_boxes++] = atoi(at);
	}
	MPI_Type_contiguous(2, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	MPI_Op_create(sum_f16, 1, &f16);
	MPI_Op_create(sum_bf16, 1, &bf16);
	for (uint32_t call = 0; call < 6; call++) {
		one(HALF_F16, type, f16, counts[call % 3], call);
		if (!disagree)
			one(HALF_BF16, type, bf16, counts[call % 3], call);
	}
	if (twice && n_differ == 0)
		job_fail("rounding twice made no difference");
	MPI_Op_free(&f16);
	MPI_Op_free(&bf16);
	MPI_Type_free(&type);
	return job_end();
}
