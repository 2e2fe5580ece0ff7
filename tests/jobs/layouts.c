/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A03: broadcasts whose root and leaves give another count and datatype for the same
 * bytes. All ranks must decide alike, and what lies between the elements stays untouched.
 */
#include "tests/jobs/job.h"

#include <stdio.h>
#include <stdlib.h>

#define UNTOUCHED (-99)

static int n_ints = 1000000;
static int *buf; /* 2 * n_ints */

/* How one rank sees n_ints ints. */
struct view {
	MPI_Datatype type;
	int count;
	size_t stride, block; /* in ints: blocks of @block ints, one each @stride */
};

enum { PLAIN, TENS, VECTOR, WHOLE, SPARSE, N_VIEWS };

static struct view view_make(int kind)
{
	struct view view = { MPI_INT, n_ints, 1, 1 };

	switch (kind) {
	case TENS:
		view.count = n_ints / 10;
		MPI_Type_contiguous(10, MPI_INT, &view.type);
		break;
	case VECTOR:
		view = (struct view){ MPI_INT, 1, 200, 100 };
		MPI_Type_vector(n_ints / 100, 100, 200, MPI_INT, &view.type);
		break;
	case WHOLE:
		view.count = 1;
		MPI_Type_contiguous(n_ints, MPI_INT, &view.type);
		break;
	case SPARSE:
		view = (struct view){ MPI_INT, n_ints, 2, 1 };
		MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &view.type);
		break;
	}
	if (view.type != MPI_INT)
		MPI_Type_commit(&view.type);
	return view;
}

static size_t place(const struct view *view, size_t i)
{
	return i / view->block * view->stride + i % view->block;
}

static void check(const struct view *view, int seed, const char *what)
{
	size_t n = 2 * (size_t)n_ints, i, gaps = 0;

	for (i = 0; i < (size_t)n_ints; i++) {
		int *x = &buf[place(view, i)];

		if (*x != (int)i + seed) {
			bps_test_fail("%s: element %zu is %d", what, i, *x);
			return;
		}
		*x = UNTOUCHED;
	}
	for (i = 0; i < n; i++)
		gaps += buf[i] != UNTOUCHED;
	BPS_CHECK(gaps == 0, "%s: %zu ints beside the data were written", what, gaps);
}

static void bcast(int root, int root_kind, int leaf_kind)
{
	struct view view = view_make(bps_test_rank == root ? root_kind : leaf_kind);
	int seed = root * 1000 + root_kind * 10 + leaf_kind;
	char what[64];
	size_t i;

	snprintf(what, sizeof(what), "root %d as %d, leaves as %d", root, root_kind,
	         leaf_kind);
	for (i = 0; i < 2 * (size_t)n_ints; i++)
		buf[i] = UNTOUCHED;
	for (i = 0; bps_test_rank == root && i < (size_t)n_ints; i++)
		buf[place(&view, i)] = (int)i + seed;
	MPI_Bcast(buf, view.count, view.type, root, MPI_COMM_WORLD);
	check(&view, seed, what);
	bps_test_expect(BPS_TEST_BCAST, 1, (uint64_t)n_ints * sizeof(int), NULL);
	if (view.type != MPI_INT)
		MPI_Type_free(&view.type);
}

int main(int argc, char **argv)
{
	bps_test_init(&argc, &argv, MPI_THREAD_SINGLE);
	if (bps_test_long)
		n_ints *= 10;
	buf = malloc(2 * (size_t)n_ints * sizeof(*buf));
	bcast(0, PLAIN, TENS);
	bcast(bps_test_size - 1, VECTOR, PLAIN);
	bcast(1, WHOLE, SPARSE);
	bcast(bps_test_size - 1, SPARSE, VECTOR);
	n_ints = 100000;
	for (int root = 0; root < bps_test_size; root++) {
		bcast(root, VECTOR, PLAIN);
		bcast(root, PLAIN, PLAIN);
	}
	n_ints = 100;
	bcast(1, VECTOR, TENS);
	free(buf);
	return bps_test_end();
}
