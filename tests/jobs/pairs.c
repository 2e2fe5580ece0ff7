/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A08: MINLOC and MAXLOC on every pair type, padding and all. They pass, and are right; a
 * broadcast of them is taken.
 */
#include "tests/jobs/job.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MOST   1000
#define GUARD  64
#define STRIDE 32 /* the largest pair */

#define PAIR(name, type_) \
	struct name {     \
		type_ v;  \
		int at;   \
	}
PAIR(pair_float, float);
PAIR(pair_double, double);
PAIR(pair_long, long);
PAIR(pair_int, int);
PAIR(pair_short, short);
PAIR(pair_ldouble, long double);

/* Any pair type as a long double and an int. */
#define ACCESS(name)                                                            \
	static void put_##name(void *p, int i, long double v, int at)           \
	{                                                                       \
		((struct name *)p)[i].v = (__typeof__(((struct name *)p)->v))v; \
		((struct name *)p)[i].at = at;                                  \
	}                                                                       \
	static bool is_##name(const void *p, int i, long double v, int at)      \
	{                                                                       \
		return (long double)((const struct name *)p)[i].v == v &&       \
		       ((const struct name *)p)[i].at == at;                    \
	}
ACCESS(pair_float)
ACCESS(pair_double)
ACCESS(pair_long)
ACCESS(pair_int)
ACCESS(pair_short)
ACCESS(pair_ldouble)

struct kind {
	const char *name;
	MPI_Datatype type;
	size_t bytes, extent;
	void (*put)(void *p, int i, long double v, int at);
	bool (*is)(const void *p, int i, long double v, int at);
};

#define KIND(mpi, value, name)                                                           \
	{                                                                                \
#mpi, mpi, sizeof(value) + sizeof(int), sizeof(struct name), put_##name, \
			is_##name                                                        \
	}

/* Some are the same on all ranks, so that the lowest index must win. */
static int value(int rank, int i)
{
	return i % 3 == 0 ? 5 : (i * 31 + rank * 17) % 97 - 40;
}

static void want(bool max, int i, int *ret_value, int *ret_at)
{
	*ret_value = value(0, i);
	*ret_at = 0;
	for (int rank = 1; rank < bps_test_size; rank++) {
		int v = value(rank, i);

		if (max ? v > *ret_value : v < *ret_value) {
			*ret_value = v;
			*ret_at = rank;
		}
	}
}

static void check(const struct kind *kind, const unsigned char *recv, int count, bool max)
{
	size_t bytes = (size_t)count * kind->extent;

	for (int i = 0; i < count; i++) {
		int v, at;

		want(max, i, &v, &at);
		if (kind->is(recv, i, v, at))
			continue;
		bps_test_fail("%s, element %d of %d is wrong", kind->name, i, count);
		break;
	}
	for (size_t i = 0; i < GUARD; i++)
		BPS_CHECK(recv[bytes + i] == 0xa5, "%s: written behind the buffer",
		          kind->name);
}

static void allreduce(const struct kind *kind, int count, bool max, int how)
{
	static unsigned char send[MOST * STRIDE + GUARD], recv[MOST * STRIDE + GUARD];
	bool flat = kind->bytes == kind->extent;
	MPI_Op op = max ? MPI_MAXLOC : MPI_MINLOC;
	MPI_Request request;

	memset(send, 0xa5, sizeof(send));
	memset(recv, 0xa5, sizeof(recv));
	for (int i = 0; i < count; i++)
		kind->put(how == 0 ? send : recv, i, value(bps_test_rank, i),
		          bps_test_rank);
	if (how == 2) {
		MPI_Iallreduce(MPI_IN_PLACE, recv, count, kind->type, op, MPI_COMM_WORLD,
		               &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	} else {
		MPI_Allreduce(how == 0 ? send : MPI_IN_PLACE, recv, count, kind->type, op,
		              MPI_COMM_WORLD);
		bps_test_expect(BPS_TEST_ALLREDUCE, 1,
		                flat ? (uint64_t)count * kind->bytes : 0, "type-or-op");
	}
	check(kind, recv, count, max);
}

static void bcast(const struct kind *kind, int root)
{
	static unsigned char buf[MOST * STRIDE + GUARD];

	memset(buf, 0xa5, sizeof(buf));
	for (int i = 0; bps_test_rank == root && i < MOST; i++) {
		int v, at;

		want(true, i, &v, &at);
		kind->put(buf, i, v, at);
	}
	MPI_Bcast(buf, MOST, kind->type, root, MPI_COMM_WORLD);
	check(kind, buf, MOST, true);
	bps_test_expect(BPS_TEST_BCAST, 1, MOST * kind->bytes, NULL);
}

int main(int argc, char **argv)
{
	const struct kind kinds[] = {
		KIND(MPI_FLOAT_INT, float, pair_float),
		KIND(MPI_DOUBLE_INT, double, pair_double),
		KIND(MPI_LONG_INT, long, pair_long),
		KIND(MPI_2INT, int, pair_int),
		KIND(MPI_SHORT_INT, short, pair_short),
		KIND(MPI_LONG_DOUBLE_INT, long double, pair_ldouble),
	};

	bps_test_init(&argc, &argv, MPI_THREAD_SINGLE);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (int how = 0; how < 3; how++) {
			allreduce(&kinds[k], 1, true, how);
			allreduce(&kinds[k], MOST, true, how);
			allreduce(&kinds[k], MOST, false, how);
		}
		bcast(&kinds[k], (int)k % bps_test_size);
	}
	return bps_test_end();
}
