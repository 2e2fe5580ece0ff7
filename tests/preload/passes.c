/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What must pass to the MPI library, with the reason that is counted: intercommunicators,
 * communicators of one rank, user-defined operations, derived types, types that no two
 * machines agree on, and what MPI_Finalize itself calls. A broadcast takes any type.
 */
#include "tests/jobs/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N (1 << 20)

static int in[N], out[N];

static void fill(int value)
{
	for (int i = 0; i < N; i++) {
		in[i] = value;
		out[i] = -1;
	}
}

static void check(int want, const char *what)
{
	for (int i = 0; i < N; i++) {
		if (out[i] == want)
			continue;
		bps_test_fail("%s: element %d is %d, not %d", what, i, out[i], want);
		break;
	}
}

static void self(void)
{
	fill(5);
	MPI_Allreduce(in, out, N, MPI_INT, MPI_SUM, MPI_COMM_SELF);
	check(5, "MPI_COMM_SELF");
	MPI_Bcast(out, N, MPI_INT, 0, MPI_COMM_SELF);
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, sizeof(in), "single");
	bps_test_expect(BPS_TEST_BCAST, 1, sizeof(in), "single");
}

/* The even ranks and the odd ones: each side gets the other's sum. */
static void inter(void)
{
	int side = bps_test_rank % 2, want = 0, root;
	MPI_Comm local, both;

	MPI_Comm_split(MPI_COMM_WORLD, side, bps_test_rank, &local);
	MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - side, 7, &both);
	for (int r = 1 - side; r < bps_test_size; r += 2)
		want += r + 1;
	fill(bps_test_rank + 1);
	MPI_Allreduce(in, out, N, MPI_INT, MPI_SUM, both);
	check(want, "intercommunicator");
	root = side == 1 ? 0 : bps_test_rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
	MPI_Bcast(side ? out : in, N, MPI_INT, root, both);
	if (side)
		check(1, "broadcast over an intercommunicator");
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, sizeof(in), "intercomm");
	bps_test_expect(BPS_TEST_BCAST, 1, sizeof(in), "intercomm");
	MPI_Comm_free(&both);
	MPI_Comm_free(&local);
}

static void add(void *from, void *to, int *n, MPI_Datatype *type)
{
	int *a = from, *b = to, bytes;

	MPI_Type_size(*type, &bytes);
	for (int i = 0; i < *n * (bytes / 4); i++)
		b[i] += a[i];
}

/* Not commutative: the sum of rank times position. */
static void last(void *from, void *to, int *n, MPI_Datatype *type)
{
	(void)from, (void)to, (void)n, (void)type; /* the right operand stays */
}

static void operations(void)
{
	int sum = bps_test_size * (bps_test_size + 1) / 2;
	MPI_Datatype pairs;
	MPI_Op op;

	MPI_Op_create(add, 1, &op);
	fill(bps_test_rank + 1);
	MPI_Allreduce(in, out, N, MPI_INT, op, MPI_COMM_WORLD);
	check(sum, "user operation");
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, sizeof(in), "type-or-op");
	MPI_Type_contiguous(2, MPI_INT, &pairs);
	MPI_Type_commit(&pairs);
	fill(bps_test_rank + 1);
	MPI_Allreduce(in, out, N / 2, pairs, op, MPI_COMM_WORLD);
	check(sum, "user operation on a derived type");
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, 0, "type-or-op");
	MPI_Type_free(&pairs);
	MPI_Op_free(&op);
	MPI_Op_create(last, 0, &op);
	fill(bps_test_rank + 1);
	MPI_Allreduce(in, out, N, MPI_INT, op, MPI_COMM_WORLD);
	check(bps_test_size, "an operation that does not commute");
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, sizeof(in), "type-or-op");
	MPI_Op_free(&op);
}

static void types(void)
{
	static long double x[N / 8], y[N / 8];
	int sum = bps_test_size * (bps_test_size + 1) / 2;

	for (int i = 0; i < N / 8; i++)
		x[i] = bps_test_rank + 1;
	MPI_Allreduce(x, y, N / 8, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < N / 8; i++) {
		if (y[i] == (long double)sum)
			continue;
		bps_test_fail("long double element %d is wrong", i);
		break;
	}
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, sizeof(x), "type-or-op");
	MPI_Bcast(y, N / 8, MPI_LONG_DOUBLE, 0, MPI_COMM_WORLD);
	bps_test_expect(BPS_TEST_BCAST, 1, sizeof(x), NULL);
	fill(bps_test_rank == 1 ? 8 : 0);
	MPI_Bcast(in, N, MPI_CHAR, 1, MPI_COMM_WORLD);
	BPS_CHECK(in[0] == 8, "broadcast of MPI_CHAR");
	bps_test_expect(BPS_TEST_BCAST, 1, N, NULL);
}

/* And the same communicator carries what it should. */
static void sums(void)
{
	fill(bps_test_rank);
	MPI_Allreduce(in, out, N, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	check(bps_test_size - 1, "MPI_MAX");
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, sizeof(in), NULL);
}

/* Runs inside MPI_Finalize, when the library has stopped already. */
static int at_the_end(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm, (void)keyval, (void)value, (void)extra;
	fill(bps_test_rank);
	MPI_Allreduce(in, out, N, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (out[0] != bps_test_size - 1 || out[N - 1] != bps_test_size - 1)
		MPI_Abort(MPI_COMM_WORLD, 9);
	return MPI_SUCCESS;
}

static void ask_for_the_end(void)
{
	int keyval;

	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_the_end, &keyval, NULL);
	MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
}

int main(int argc, char **argv)
{
	bps_test_init(&argc, &argv, MPI_THREAD_SINGLE);
	sums();
	self();
	inter();
	operations();
	types();
	ask_for_the_end();
	sums();
	return bps_test_end();
}
