/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 16-bit floats as programs have them that MPI gives no type: a type of two bytes and an
 * operation of their own. With "exact" what is summed is checked bit for bit, against
 * sums rounded once. Operations that are none of the library's pass; with "left", all do,
 * and none is run but by the MPI library.
 */
#include "tests/jobs/job.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/jobs/halves.h"

#define MOST 140003

static uint64_t threshold_bytes = 256 << 10;
static MPI_Datatype f16_type, bf16_type;
static bool exact; /* what may be taken is */
static bool left;  /* nothing is */

/* -- operations -- */

static bool tried;  /* an operation was run over what no call of ours brings or gives */
static bool at_max; /* what the program is at */

#define OPERATION(name, expression)                                             \
	static void name(void *in, void *inout, int *count, MPI_Datatype *type) \
	{                                                                       \
		const uint16_t *earlier = in;                                   \
		uint16_t *later = inout;                                        \
                                                                                \
		(void)type;                                                     \
		for (int i = 0; i < *count; i++) {                              \
			uint16_t a = earlier[i], b = later[i];                  \
                                                                                \
			tried = tried || NAN16(a) || NAN16(b);                  \
			later[i] = (expression);                                \
		}                                                               \
	}

#define ORDER(h) ((h)&0x8000 ? -(float)((h)&0x7fff) : (float)((h)&0x7fff))
#define NAN16(h) (((h)&0x7fff) > 0x7c00)

OPERATION(sum_f16, f16_sum(a, b, false))
OPERATION(sum_bf16, bf16_of(bf16_value(a) + bf16_value(b)))
OPERATION(max_f16, !NAN16(a) && !NAN16(b) && ORDER(a) > ORDER(b) ? a : b)
OPERATION(truncating_sum, f16_sum(a, b, true))
OPERATION(sum_or_max, at_max ? (ORDER(a) > ORDER(b) ? a : b) : f16_sum(a, b, false))
OPERATION(sum_by_type, *type == bf16_type ? bf16_of(bf16_value(a) + bf16_value(b))
                                          : f16_sum(a, b, false))

static void sum_f16_strided(void *in, void *inout, int *count, MPI_Datatype *type)
{
	const uint16_t *a = in;
	uint16_t *b = inout;

	(void)type;
	for (int i = 0; i < 2 * *count; i += 2)
		b[i] = f16_sum(a[i], b[i], false);
}

/* Of numbers below 64; other such ones read behind a table, or never end. */
static void sum_modulo_64(void *in, void *inout, int *count, MPI_Datatype *type)
{
	const uint16_t *a = in;
	uint16_t *b = inout;

	(void)type;
	for (int i = 0; i < *count; i++) {
		tried = tried || a[i] >= 64 || b[i] >= 64;
		b[i] = (a[i] + b[i]) % 64;
	}
}

static MPI_Datatype new_type(void)
{
	MPI_Datatype type;

	MPI_Type_contiguous(2, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	return type;
}

/* -- calls -- */

struct call {
	MPI_Comm comm;
	MPI_Datatype type;
	MPI_Op op;
	enum half half;
	bool is_max; /* of the inputs, not their sum */
	int count;
	const char *passes; /* why; NULL: taken */
	bool whole;         /* inputs are small whole numbers */
};

static void count_call(const struct call *call)
{
	uint64_t bytes = 2 * (uint64_t)call->count;

	if (bytes >= threshold_bytes && !left)
		bps_test_expect(BPS_TEST_ALLREDUCE, 1, bytes, call->passes);
	else if (call->type == MPI_UINT16_T)
		bps_test_expect(BPS_TEST_ALLREDUCE, 1, bytes, left ? "type-or-op" : NULL);
	else /* of another type, the library does not count the bytes */
		bps_test_expect(BPS_TEST_ALLREDUCE, 1, 0, "type-or-op");
}

/* Where the MPI library sums, in any order: small whole numbers are exact in any. */
static bool is_whole(const struct call *call)
{
	return call->whole || !exact || 2 * (uint64_t)call->count < threshold_bytes;
}

static uint16_t whole(enum half half, int value)
{
	return half == HALF_F16 ? f16_of_steps(value * (INT64_C(1) << 24), 0, false)
	                        : bf16_of((float)value);
}

static uint16_t input(const struct call *call, int rank, uint64_t i, uint32_t number)
{
	return is_whole(call) ? whole(call->half, bps_test_value(rank, i, number))
	                      : half_input(call->half, rank, i, number);
}

static uint16_t expected(const struct call *call, int size, uint64_t i, uint32_t number)
{
	uint16_t most = input(call, 0, i, number);

	if (!call->is_max)
		return is_whole(call) ? whole(call->half, bps_test_sum(size, i, number))
		                      : half_total(call->half, size, i, number);
	for (int rank = 1; rank < size; rank++) {
		uint16_t next = input(call, rank, i, number);

		most = ORDER(next) > ORDER(most) ? next : most;
	}
	return most;
}

/* Rank 1 gives in place, and rank 0 lies at an odd address. */
static void make(const struct call *call)
{
	static uint32_t number;
	size_t bytes = 2 * (size_t)call->count, shift;
	int rank, size;
	char *memory = malloc(2 * bytes + 4), *in, *out;

	number++;
	MPI_Comm_rank(call->comm, &rank);
	MPI_Comm_size(call->comm, &size);
	shift = rank == 0;
	in = memory + shift;
	out = rank == 1 ? in : memory + bytes + 2 + shift;
	for (int i = 0; i < call->count; i++) {
		uint16_t h = input(call, rank, (uint64_t)i, number);

		memcpy(in + 2 * (size_t)i, &h, sizeof(h));
	}
	MPI_Allreduce(rank == 1 ? MPI_IN_PLACE : in, out, call->count, call->type,
	              call->op, call->comm);
	count_call(call);
	for (int i = 0; i < call->count; i++) {
		uint16_t want = expected(call, size, (uint64_t)i, number), got;

		memcpy(&got, out + 2 * (size_t)i, sizeof(got));
		if (got == want)
			continue;
		bps_test_fail("call %u: element %d of %d is %04x, not %04x", number, i,
		              call->count, got, want);
		break;
	}
	free(memory);
}

static void sizes(struct call call)
{
	static const int counts[] = { 1, 2, 7, 1000, 131072, MOST };

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		call.count = counts[i];
		make(&call);
	}
}

/* -- cases -- */

static MPI_Op new_op(MPI_User_function *function, int commute)
{
	MPI_Op op;

	MPI_Op_create(function, commute, &op);
	return op;
}

static void kinds(MPI_Comm comm)
{
	MPI_Op sum = new_op(sum_f16, 1), sum_bf = new_op(sum_bf16, 1);
	MPI_Op max = new_op(max_f16, 1), ordered = new_op(sum_f16, 0);
	struct call call = { .comm = comm, .type = f16_type, .op = sum, .count = MOST };

	sizes(call);
	call.type = MPI_UINT16_T;
	sizes(call);
	call.type = f16_type;
	call.op = max;
	call.is_max = true;
	make(&call);
	call.is_max = false;
	call.op = sum_bf;
	call.half = HALF_BF16;
	sizes(call);
	make(&(struct call){ .comm = comm,
	                     .type = MPI_UINT16_T,
	                     .op = ordered,
	                     .count = MOST,
	                     .passes = "type-or-op",
	                     .whole = true });
	MPI_Op_free(&sum);
	MPI_Op_free(&sum_bf);
	MPI_Op_free(&max);
	MPI_Op_free(&ordered);
}

/* Handles come again, for other things. */
static void again(MPI_Comm comm)
{
	for (int i = 0; i < 6; i++) {
		struct call call = { .comm = comm, .type = new_type(), .count = MOST };

		call.is_max = i % 2;
		call.op = new_op(i % 2 ? max_f16 : sum_f16, 1);
		make(&call);
		MPI_Op_free(&call.op);
		MPI_Type_free(&call.type);
	}
}

/* One operation for two types, whose handles change places. */
static void types_again(MPI_Comm comm)
{
	MPI_Op op = new_op(sum_by_type, 1);

	for (int i = 0; i < 2; i++) {
		make(&(struct call){ .comm = comm,
		                     .type = f16_type,
		                     .op = op,
		                     .half = HALF_F16,
		                     .count = MOST });
		make(&(struct call){ .comm = comm,
		                     .type = bf16_type,
		                     .op = op,
		                     .half = HALF_BF16,
		                     .count = MOST });
		if (i > 0)
			break;
		MPI_Type_free(&f16_type);
		MPI_Type_free(&bf16_type);
		f16_type = new_type(); /* likely where the other one was */
		bf16_type = new_type();
	}
	MPI_Op_free(&op);
}

/* Enough to be worth a communicator's setup, and to find out which way is faster. */
static void many(MPI_Comm comm)
{
	struct call call = { .comm = comm, .type = f16_type, .count = MOST };

	call.op = new_op(sum_f16, 1);
	for (int i = 0; i < 40; i++)
		make(&call);
	MPI_Op_free(&call.op);
}

/* Not ours: nothing is found; what is ours later on still is. */
static void not_ours(MPI_Comm comm)
{
	MPI_Op op = new_op(truncating_sum, 1), sum = new_op(sum_f16, 1);
	struct call call = { .comm = comm,
		             .type = f16_type,
		             .op = op,
		             .count = MOST,
		             .passes = "type-or-op",
		             .whole = true };

	make(&call);
	make(&call);
	call.op = sum;
	call.passes = NULL;
	make(&call);
	call.op = op;
	call.passes = "type-or-op";
	make(&call);
	MPI_Op_free(&op);
	MPI_Op_free(&sum);
}

/* The last rank has other code: nothing is taken on this communicator any more. */
static void disagree(MPI_Comm comm)
{
	int last = bps_test_rank == bps_test_size - 1;
	MPI_Op op = new_op(last ? truncating_sum : sum_f16, 1);
	struct call call = { .comm = comm,
		             .type = f16_type,
		             .op = op,
		             .count = MOST,
		             .passes = "type-or-op",
		             .whole = true };

	make(&call);
	make(&call);
	MPI_Op_free(&op);
	call.op = op = new_op(sum_f16, 1);
	make(&call);
	MPI_Op_free(&op);
}

/* Likewise, where all ranks had the same before. */
static void disagree_later(MPI_Comm comm)
{
	struct call call = { .comm = comm, .type = f16_type, .count = MOST };

	call.op = new_op(sum_f16, 1);
	make(&call);
	make(&call);
	MPI_Op_free(&call.op);
	disagree(comm);
}

/* One operation that is a sum, then a maximum, then a sum. */
static void moody(MPI_Comm comm)
{
	struct call call = { .comm = comm, .type = f16_type, .count = MOST };

	call.op = new_op(sum_or_max, 1);
	make(&call);
	at_max = call.is_max = true;
	call.passes = "type-or-op";
	make(&call);
	make(&call);
	at_max = call.is_max = false;
	call.passes = NULL;
	make(&call);
	MPI_Op_free(&call.op);
}

/* Rank 0 has a new type for each call, the others keep theirs. */
static void own_types(MPI_Comm comm)
{
	struct call call = { .comm = comm, .type = f16_type, .count = MOST };

	call.op = new_op(sum_f16, 1);
	for (int i = 0; i < 4; i++) {
		call.type = bps_test_rank == 0 ? new_type() : f16_type;
		make(&call);
		if (bps_test_rank == 0)
			MPI_Type_free(&call.type);
	}
	MPI_Op_free(&call.op);
}

/* An operation that is not made for any two bytes is run over the program's alone. */
static void no_others(MPI_Comm comm)
{
	static uint16_t in[MOST], out[MOST];
	MPI_Op op = new_op(sum_modulo_64, 1);
	struct call call = { .type = f16_type, .count = MOST, .passes = "type-or-op" };

	tried = false;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < MOST; i++)
			in[i] = (uint16_t)(i * 5 + bps_test_rank * 3 + round) % 64;
		MPI_Allreduce(in, out, MOST, call.type, op, comm);
		count_call(&call);
		for (int i = 0; i < MOST; i++) {
			int sum = 0;

			for (int rank = 0; rank < bps_test_size; rank++)
				sum += (uint16_t)(i * 5 + rank * 3 + round) % 64;
			if (out[i] == sum % 64)
				continue;
			bps_test_fail("round %d: element %d is %d, not %d", round, i,
			              out[i], sum % 64);
			break;
		}
		call.type = MPI_UINT16_T; /* looked at anew */
	}
	BPS_CHECK(!tried, "an operation was run over what the program does not have");
	MPI_Op_free(&op);
}

/* An operation is freed by a way that does not lead through the library. */
static void freed_behind(MPI_Comm comm)
{
	void *mpi = dlopen("libmpi.so.40", RTLD_NOW | RTLD_NOLOAD);
	int (*op_free)(MPI_Op *) = mpi ? dlsym(mpi, "MPI_Op_free") : NULL;
	struct call call = { .comm = comm, .type = f16_type, .count = MOST };

	if (!op_free) {
		bps_test_fail("there is no libmpi.so.40");
		return;
	}
	for (int i = 0; i < 4; i++) {
		call.is_max = i % 2;
		call.op = new_op(i % 2 ? max_f16 : sum_f16, 1);
		make(&call);
		op_free(&call.op);
	}
	dlclose(mpi);
}

/* Two bytes and a hole: for the library, which gives them as they lie. */
static void strided(MPI_Comm comm)
{
	static uint16_t in[2 * MOST], out[2 * MOST];
	MPI_Op op = new_op(sum_f16_strided, 1);
	MPI_Datatype type;

	MPI_Type_create_resized(f16_type, 0, 4, &type);
	MPI_Type_commit(&type);
	for (int i = 0; i < 2 * MOST; i++)
		in[i] = half_input(HALF_F16, bps_test_rank, (uint64_t)i, 0) & 0xff00;
	MPI_Allreduce(in, out, MOST, type, op, comm);
	count_call(&(struct call){ .type = type, .count = MOST, .passes = "type-or-op" });
	for (int i = 0; i < MOST; i++) {
		int64_t sum = 0;

		for (int rank = 0; rank < bps_test_size; rank++)
			sum += f16_steps(half_input(HALF_F16, rank, 2 * (uint64_t)i, 0) &
			                 0xff00);
		/* few bits each, and added by the library in some order */
		sum -= f16_steps(out[2 * i]);
		if ((sum < 0 ? -sum : sum) <= (int64_t)bps_test_size << 16)
			continue;
		bps_test_fail("strided: element %d is off by %lld steps", i,
		              (long long)sum);
		break;
	}
	MPI_Type_free(&type);
	MPI_Op_free(&op);
}

int main(int argc, char **argv)
{
	void (*const cases[])(MPI_Comm) = {
		kinds,          again, types_again, many,      not_ours,     disagree,
		disagree_later, moody, own_types,   no_others, freed_behind, strided
	};
	const char *threshold = getenv("BPSMPI_THRESHOLD_BYTES");

	bps_test_init(&argc, &argv, MPI_THREAD_SINGLE);
	if (threshold)
		threshold_bytes = strtoull(threshold, NULL, 10);
	exact = argc > 1 && strcmp(argv[1], "exact") == 0;
	left = argc > 1 && strcmp(argv[1], "left") == 0;
	f16_type = new_type();
	bf16_type = new_type();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		MPI_Comm comm;

		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		cases[i](comm);
		BPS_CHECK(!left || !tried, "case %zu: an operation was tried", i);
		MPI_Comm_free(&comm);
	}
	MPI_Type_free(&f16_type);
	MPI_Type_free(&bf16_type);
	return bps_test_end();
}
