/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A06: zero counts, NULL buffers, empty types and what MPI forbids. What is legal and
 * empty succeeds; what is not gives the error class that the MPI library gives.
 */
#include "tests/jobs/job.h"

#include <stdlib.h>
#include <string.h>

#define BIG (1 << 20)

static int class_of(int rc)
{
	int class = -1;

	MPI_Error_class(rc, &class);
	return class;
}

static void legal(void)
{
	MPI_Request request;
	MPI_Datatype empty;
	int x = 7;

	MPI_Type_contiguous(0, MPI_INT, &empty);
	MPI_Type_commit(&empty);
	BPS_CHECK(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == 0,
	          "empty allreduce");
	BPS_CHECK(MPI_Iallreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
	                         &request) == 0,
	          "empty iallreduce");
	BPS_CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == 0, "wait");
	BPS_CHECK(MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD) == 0, "empty bcast");
	BPS_CHECK(MPI_Bcast(&x, 5, empty, 0, MPI_COMM_WORLD) == 0,
	          "bcast of empty types");
	BPS_CHECK(x == 7, "a bcast of nothing wrote something");
	MPI_Type_free(&empty);
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, 0, NULL);
	bps_test_expect(BPS_TEST_BCAST, 2, 0, NULL);
}

/* The classes that Open MPI was measured to give, whoever carries the call. */
static void forbidden(int count)
{
	uint64_t bytes = (uint64_t)count * sizeof(int);
	int *a = calloc((size_t)count, sizeof(*a)),
	    *b = calloc((size_t)count, sizeof(*b));
	int rc;

	a[0] = 1;
	rc = MPI_Allreduce(a, a, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	BPS_CHECK(class_of(rc) == MPI_ERR_BUFFER, "aliased buffers: class %d",
	          class_of(rc));
	BPS_CHECK(a[0] == 1, "a refused call was carried out");
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, bytes, "aliased");
	rc = MPI_Allreduce(a, b, count, MPI_FLOAT, MPI_BAND, MPI_COMM_WORLD);
	BPS_CHECK(class_of(rc) == MPI_ERR_OP, "BAND of floats: class %d", class_of(rc));
	rc = MPI_Allreduce(a, b, count, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD);
	BPS_CHECK(class_of(rc) == MPI_ERR_OP, "MPI_OP_NULL: class %d", class_of(rc));
	bps_test_expect(BPS_TEST_ALLREDUCE, 2, bytes, "type-or-op");
	rc = MPI_Bcast(a, count, MPI_INT, 1000, MPI_COMM_WORLD);
	BPS_CHECK(class_of(rc) == MPI_ERR_ROOT, "root 1000: class %d", class_of(rc));
	rc = MPI_Bcast(a, count, MPI_INT, -1, MPI_COMM_WORLD);
	BPS_CHECK(class_of(rc) == MPI_ERR_ROOT, "root -1: class %d", class_of(rc));
	rc = MPI_Bcast(MPI_IN_PLACE, count, MPI_INT, 0, MPI_COMM_WORLD);
	BPS_CHECK(class_of(rc) == MPI_ERR_ARG, "bcast in place: class %d", class_of(rc));
	bps_test_expect(BPS_TEST_BCAST, 3, bytes, "invalid");
	rc = MPI_Bcast(a, count, MPI_INT, 0, MPI_COMM_NULL);
	BPS_CHECK(class_of(rc) == MPI_ERR_COMM, "MPI_COMM_NULL: class %d", class_of(rc));
	bps_test_expect(BPS_TEST_BCAST, 1, bytes, "invalid");
	free(a);
	free(b);
}

static void negative(void)
{
	int a = 1, b = 2, rc;

	rc = MPI_Allreduce(&a, &b, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	BPS_CHECK(class_of(rc) == MPI_ERR_COUNT, "count -1: class %d", class_of(rc));
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, 0, NULL);
	rc = MPI_Bcast(&a, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD);
	BPS_CHECK(class_of(rc) == MPI_ERR_TYPE, "null type: class %d", class_of(rc));
	bps_test_expect(BPS_TEST_BCAST, 1, 0, NULL);
}

/* After all that the communicator works. */
static void still_works(void)
{
	float *recv = malloc(BIG * sizeof(*recv));

	bps_test_floats(NULL, recv, BIG, MPI_COMM_WORLD, bps_test_rank, bps_test_size, 1);
	bps_test_expect(BPS_TEST_ALLREDUCE, 1, BIG * sizeof(*recv), NULL);
	free(recv);
}

int main(int argc, char **argv)
{
	bps_test_init(&argc, &argv, MPI_THREAD_SINGLE);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	legal();
	forbidden(10);
	forbidden(BIG);
	negative();
	still_works();
	return bps_test_end();
}
