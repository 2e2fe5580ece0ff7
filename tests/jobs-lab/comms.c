/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sub-communicators: every subset of the world, in both orders, one element and a few MB;
 * the same made and freed over and over; many alive at once, used in turn.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

#define MAX_RANKS 8
#define N_LIVE    40

static uint32_t call;

struct sub {
	MPI_Comm comm; /* MPI_COMM_NULL: this rank is not in it */
	int ranks[MAX_RANKS], n;
};

/* The ranks of @mask, rising or falling. Collective over the world. */
static struct sub sub_new(unsigned mask, bool falling)
{
	struct sub sub = { .n = 0 };
	int i, r;

	for (i = 0; i < job_size; i++) {
		r = falling ? job_size - 1 - i : i;
		if (mask >> r & 1)
			sub.ranks[sub.n++] = r;
	}
	MPI_Comm_split(MPI_COMM_WORLD, mask >> job_rank & 1 ? 0 : MPI_UNDEFINED,
	               falling ? -job_rank : job_rank, &sub.comm);
	return sub;
}

static void sub_free(struct sub *sub)
{
	if (sub->comm != MPI_COMM_NULL)
		MPI_Comm_free(&sub->comm);
}

static void sub_use(const struct sub *sub, int count)
{
	static const char *const names[] = { "int", "float", "double" };
	MPI_Datatype types[] = { MPI_INT, MPI_FLOAT, MPI_DOUBLE };
	uint32_t type = ++call % 3;

	if (sub->comm == MPI_COMM_NULL)
		return;
	if (job_allreduce(sub->comm, sub->ranks, sub->n, count, types[type], call))
		job_fail("allreduce of %d %ss over %d ranks", count, names[type], sub->n);
	if (job_bcast(sub->comm, sub->ranks, (int)(call % (uint32_t)sub->n), count, call))
		job_fail("bcast of %d ints over %d ranks", count, sub->n);
}

static void every_subset(void)
{
	static const int counts[] = { 1, 2, 3, 5, 7, 4099, 70001 };
	unsigned mask, all = (1u << job_size) - 1;
	size_t i;

	for (mask = 1; mask < 2 * (all + 1); mask++) {
		struct sub sub;

		if ((mask & all) == 0)
			continue;
		sub = sub_new(mask & all, mask > all);
		for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
			sub_use(&sub, counts[i]);
		if ((mask & all) == all)
			sub_use(&sub, 1000003);
		sub_free(&sub);
	}
}

static void again_and_again(int n)
{
	unsigned all = (1u << job_size) - 1;
	int i;

	for (i = 0; i < n; i++) {
		struct sub sub = sub_new((unsigned)i % all + 1, i & 1);

		sub_use(&sub, 66000);
		sub_free(&sub);
	}
}

static void many_at_once(void)
{
	struct sub subs[N_LIVE];
	unsigned all = (1u << job_size) - 1;
	int i, round;

	for (i = 0; i < N_LIVE; i++)
		subs[i] = sub_new((unsigned)i * 5 % all + 1, i & 1);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < N_LIVE; i++)
			sub_use(&subs[i * 7 % N_LIVE], 66000);
	}
	for (i = 0; i < N_LIVE; i += 2)
		sub_free(&subs[i]);
	for (i = 1; i < N_LIVE; i += 2)
		sub_use(&subs[i], 66000);
	for (i = 1; i < N_LIVE; i += 2)
		sub_free(&subs[i]);
}

int main(int argc, char **argv)
{
	job_begin(&argc, &argv);
	if (job_size > MAX_RANKS)
		job_fail("at most %d ranks", MAX_RANKS);
	else {
		every_subset();
		again_and_again(argc > 1 ? atoi(argv[1]) : 100);
		many_at_once();
	}
	return job_end();
}
