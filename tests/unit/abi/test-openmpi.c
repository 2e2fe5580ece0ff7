/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program linked to the real Open MPI: the handles that we see are those of mpi.h, and
 * each type has the class and the size that the standard and the library give it.
 * Built as PIE and not: then the linker copies the handles into the program.
 */
#include "abi/abi.h"

#include <errno.h>
#include <mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct bps_mpi *mpi;

/* what: s(igned), u(nsigned), f(loating), c(omplex), b(ool), y (byte), - (not ours) */
static const struct {
	const char *name;
	bps_handle handle;
	enum bps_type_class class;
	char what;
} types[] = {
#define T(name, class, what)                                       \
	{                                                          \
#name, (bps_handle)(name), BPS_CLASS_##class, what \
	}
	T(MPI_INT, C_INT, 's'),
	T(MPI_LONG, C_INT, 's'),
	T(MPI_SHORT, C_INT, 's'),
	T(MPI_UNSIGNED_SHORT, C_INT, 'u'),
	T(MPI_UNSIGNED, C_INT, 'u'),
	T(MPI_UNSIGNED_LONG, C_INT, 'u'),
	T(MPI_LONG_LONG_INT, C_INT, 's'),
	T(MPI_LONG_LONG, C_INT, 's'),
	T(MPI_UNSIGNED_LONG_LONG, C_INT, 'u'),
	T(MPI_SIGNED_CHAR, C_INT, 's'),
	T(MPI_UNSIGNED_CHAR, C_INT, 'u'),
	T(MPI_INT8_T, C_INT, 's'),
	T(MPI_INT16_T, C_INT, 's'),
	T(MPI_INT32_T, C_INT, 's'),
	T(MPI_INT64_T, C_INT, 's'),
	T(MPI_UINT8_T, C_INT, 'u'),
	T(MPI_UINT16_T, C_INT, 'u'),
	T(MPI_UINT32_T, C_INT, 'u'),
	T(MPI_UINT64_T, C_INT, 'u'),
	T(MPI_INTEGER, FORTRAN_INT, 's'),
	T(MPI_INTEGER1, FORTRAN_INT, 's'),
	T(MPI_INTEGER2, FORTRAN_INT, 's'),
	T(MPI_INTEGER4, FORTRAN_INT, 's'),
	T(MPI_INTEGER8, FORTRAN_INT, 's'),
	T(MPI_FLOAT, FLOATING, 'f'),
	T(MPI_DOUBLE, FLOATING, 'f'),
	T(MPI_REAL, FLOATING, 'f'),
	T(MPI_DOUBLE_PRECISION, FLOATING, 'f'),
	T(MPI_REAL4, FLOATING, 'f'),
	T(MPI_REAL8, FLOATING, 'f'),
	T(MPI_C_BOOL, LOGICAL, 'b'),
	T(MPI_CXX_BOOL, LOGICAL, 'b'),
	T(MPI_COMPLEX, COMPLEX, 'c'),
	T(MPI_C_COMPLEX, COMPLEX, 'c'),
	T(MPI_C_FLOAT_COMPLEX, COMPLEX, 'c'),
	T(MPI_C_DOUBLE_COMPLEX, COMPLEX, 'c'),
	T(MPI_CXX_FLOAT_COMPLEX, COMPLEX, 'c'),
	T(MPI_CXX_DOUBLE_COMPLEX, COMPLEX, 'c'),
	T(MPI_DOUBLE_COMPLEX, COMPLEX, 'c'),
	T(MPI_COMPLEX8, COMPLEX, 'c'),
	T(MPI_COMPLEX16, COMPLEX, 'c'),
	T(MPI_BYTE, BYTE, 'y'),
	T(MPI_AINT, MULTI, 's'),
	T(MPI_OFFSET, MULTI, 's'),
	T(MPI_COUNT, MULTI, 's'),
	T(MPI_CHAR, NONE, '-'),
	T(MPI_WCHAR, NONE, '-'),
	T(MPI_CHARACTER, NONE, '-'),
	T(MPI_PACKED, NONE, '-'),
	T(MPI_LONG_DOUBLE, NONE, '-'),
	T(MPI_C_LONG_DOUBLE_COMPLEX, NONE, '-'),
	T(MPI_LOGICAL, NONE, '-'),
	T(MPI_LOGICAL1, NONE, '-'),
	T(MPI_LOGICAL8, NONE, '-'),
	T(MPI_FLOAT_INT, NONE, '-'),
	T(MPI_2INT, NONE, '-'),
#undef T
};

static const struct {
	bps_handle handle;
	enum bps_redop redop;
} ops[] = {
	{ (bps_handle)MPI_SUM, BPS_SUM },   { (bps_handle)MPI_PROD, BPS_PROD },
	{ (bps_handle)MPI_MIN, BPS_MIN },   { (bps_handle)MPI_MAX, BPS_MAX },
	{ (bps_handle)MPI_LAND, BPS_LAND }, { (bps_handle)MPI_LOR, BPS_LOR },
	{ (bps_handle)MPI_LXOR, BPS_LXOR }, { (bps_handle)MPI_BAND, BPS_BAND },
	{ (bps_handle)MPI_BOR, BPS_BOR },   { (bps_handle)MPI_BXOR, BPS_BXOR },
	{ (bps_handle)MPI_MINLOC, 0 },      { (bps_handle)MPI_MAXLOC, 0 },
	{ (bps_handle)MPI_REPLACE, 0 },     { (bps_handle)MPI_NO_OP, 0 },
	{ (bps_handle)MPI_OP_NULL, 0 },
};

/* Written apart from the table of abi/. */
static enum bps_dtype expected_dtype(char what, int bytes)
{
	switch (what) {
	case 's':
		return bytes == 1   ? BPS_I8
		       : bytes == 2 ? BPS_I16
		       : bytes == 4 ? BPS_I32
		                    : BPS_I64;
	case 'u':
		return bytes == 1   ? BPS_U8
		       : bytes == 2 ? BPS_U16
		       : bytes == 4 ? BPS_U32
		                    : BPS_U64;
	case 'f':
		return bytes == 4 ? BPS_F32 : BPS_F64;
	case 'c':
		return bytes == 8 ? BPS_C64 : BPS_C128;
	case 'b':
		return BPS_BOOL8;
	case 'y':
		return BPS_BYTE;
	default:
		return BPS_DTYPE_NONE;
	}
}

static void constants(void **state)
{
	assert_int_equal(mpi->abi, BPS_ABI_OMPI);
	assert_int_equal(mpi->comm_world, (bps_handle)MPI_COMM_WORLD);
	assert_int_equal(mpi->comm_self, (bps_handle)MPI_COMM_SELF);
	assert_int_equal(mpi->comm_null, (bps_handle)MPI_COMM_NULL);
	assert_int_equal(mpi->group_null, (bps_handle)MPI_GROUP_NULL);
	assert_int_equal(mpi->request_null, (bps_handle)MPI_REQUEST_NULL);
	assert_int_equal(mpi->info_null, (bps_handle)MPI_INFO_NULL);
	assert_int_equal(mpi->errors_return, (bps_handle)MPI_ERRORS_RETURN);
	assert_int_equal(mpi->type_null, (bps_handle)MPI_DATATYPE_NULL);
	assert_int_equal(mpi->op_null, (bps_handle)MPI_OP_NULL);
	assert_ptr_equal(mpi->in_place, MPI_IN_PLACE);
	assert_ptr_equal(mpi->bottom, MPI_BOTTOM);
	assert_ptr_equal(mpi->status_ignore, MPI_STATUS_IGNORE);
	assert_int_equal(mpi->request_bytes, sizeof(MPI_Request));
}

static void numbers(void **state)
{
	const int pairs[][2] = {
		{ mpi->undefined, MPI_UNDEFINED },
		{ mpi->any_source, MPI_ANY_SOURCE },
		{ mpi->any_tag, MPI_ANY_TAG },
		{ mpi->proc_null, MPI_PROC_NULL },
		{ mpi->root, MPI_ROOT },
		{ mpi->keyval_invalid, MPI_KEYVAL_INVALID },
		{ mpi->thread_single, MPI_THREAD_SINGLE },
		{ mpi->thread_funneled, MPI_THREAD_FUNNELED },
		{ mpi->thread_serialized, MPI_THREAD_SERIALIZED },
		{ mpi->thread_multiple, MPI_THREAD_MULTIPLE },
		{ mpi->combiner_named, MPI_COMBINER_NAMED },
		{ mpi->max_port_name, MPI_MAX_PORT_NAME },
		{ mpi->max_object_name, MPI_MAX_OBJECT_NAME },
		{ mpi->max_error_string, MPI_MAX_ERROR_STRING },
		{ mpi->success, MPI_SUCCESS },
		{ mpi->err_buffer, MPI_ERR_BUFFER },
		{ mpi->err_count, MPI_ERR_COUNT },
		{ mpi->err_type, MPI_ERR_TYPE },
		{ mpi->err_comm, MPI_ERR_COMM },
		{ mpi->err_root, MPI_ERR_ROOT },
		{ mpi->err_op, MPI_ERR_OP },
		{ mpi->err_arg, MPI_ERR_ARG },
		{ mpi->err_unknown, MPI_ERR_UNKNOWN },
		{ mpi->err_other, MPI_ERR_OTHER },
		{ mpi->err_intern, MPI_ERR_INTERN },
		{ mpi->err_no_mem, MPI_ERR_NO_MEM },
		{ mpi->err_name, MPI_ERR_NAME },
		{ mpi->err_service, MPI_ERR_SERVICE },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		assert_int_equal(pairs[i][0], pairs[i][1]);
}

static void each_type(void **state)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const struct bps_type *type = bps_abi_type(mpi, types[i].handle);
		int bytes = 0;

		if (!type)
			fail_msg("%s", types[i].name);
		MPI_Type_size((MPI_Datatype)types[i].handle, &bytes);
		assert_int_equal(type->bytes, bytes);
		if (type->class != types[i].class)
			fail_msg("%s", types[i].name);
		assert_int_equal(bps_abi_dtype(mpi, types[i].handle),
		                 expected_dtype(types[i].what, bytes));
		if (type->dtype)
			assert_int_equal(bps_dtype_bytes(type->dtype), bytes);
	}
}

static void not_flat(void **state)
{
	MPI_Datatype copy;

	assert_null(bps_abi_type(mpi, (bps_handle)MPI_DOUBLE_INT));
	assert_null(bps_abi_type(mpi, (bps_handle)MPI_LONG_DOUBLE_INT));
	assert_null(bps_abi_type(mpi, (bps_handle)MPI_DATATYPE_NULL));
	MPI_Type_dup(MPI_INT, &copy);
	assert_null(bps_abi_type(mpi, (bps_handle)copy));
	MPI_Type_free(&copy);
}

static void each_reduction(void **state)
{
	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
		for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
			enum bps_dtype dtype = 99;
			enum bps_redop redop = 99;
			bool want = types[t].what != '-' &&
			            bps_abi_legal(types[t].class, ops[o].redop);

			assert_int_equal(bps_abi_redop(mpi, ops[o].handle), ops[o].redop);
			assert_int_equal(bps_abi_reduction(mpi, types[t].handle,
			                                   ops[o].handle, &dtype, &redop),
			                 want);
			assert_int_equal(dtype,
			                 want ? bps_abi_dtype(mpi, types[t].handle) : 99);
			assert_int_equal(redop, want ? ops[o].redop : 99);
		}
}

/* Whatever the standard allows, the library does too: it answers no error. */
static void library_agrees(void **state)
{
	static const char zero[64];
	static char to[64];

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
		for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
			enum bps_dtype dtype;
			enum bps_redop redop;

			if (bps_abi_reduction(mpi, types[t].handle, ops[o].handle, &dtype,
			                      &redop) &&
			    MPI_Reduce_local(zero, to, 1, (MPI_Datatype)types[t].handle,
			                     (MPI_Op)ops[o].handle) != MPI_SUCCESS)
				fail_msg("%s with operation %d", types[t].name, redop);
		}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* The pointers are called with the right arguments. */
static void calls(void **state)
{
	bps_handle comm = 0, errors = 0;
	int value = 3, sum = 0, rank = -1;

	assert_int_equal(mpi->Comm_dup(mpi->comm_self, &comm), 0);
	assert_int_equal(mpi->Comm_set_errhandler(comm, mpi->errors_return), 0);
	assert_int_equal(mpi->Comm_get_errhandler(comm, &errors), 0);
	assert_int_equal(errors, mpi->errors_return);
	assert_int_equal(mpi->Allreduce(&value, &sum, 1, mpi->type[BPS_MPI_INT],
	                                mpi->op[BPS_SUM], comm),
	                 0);
	assert_int_equal(sum, 3);
	assert_int_equal(mpi->Comm_rank(comm, &rank), 0);
	assert_int_equal(rank, 0);
	assert_int_equal(mpi->Comm_call_errhandler(comm, mpi->err_other), 0);
	assert_int_equal(mpi->Comm_free(&comm), 0);
}

/* Open MPI 4.1 refuses sendbuf == recvbuf unless its argument checks are off. */
static void alias(void **state)
{
	const char *checks = getenv("OMPI_MCA_mpi_param_check");
	MPI_Errhandler world = MPI_ERRHANDLER_NULL, self = MPI_ERRHANDLER_NULL;

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	assert_false(mpi->alias_ok);
	assert_int_equal(bps_mpi_probe_alias(mpi), checks && strcmp(checks, "0") == 0);
	assert_int_equal(bps_mpi_probe_alias(mpi), mpi->alias_ok);
	MPI_Comm_get_errhandler(MPI_COMM_WORLD, &world);
	MPI_Comm_get_errhandler(MPI_COMM_SELF, &self);
	assert_ptr_equal(world, MPI_ERRORS_ARE_FATAL);
	assert_ptr_equal(self, MPI_ERRORS_RETURN);
	MPI_Errhandler_free(&world);
	MPI_Errhandler_free(&self);
}

static int query(void *extra, void *status)
{
	mpi->Status_set_elements(status, mpi->type[BPS_MPI_BYTE], 0);
	mpi->Status_set_cancelled(status, 0);
	return mpi->success;
}

static int free_extra(void *extra)
{
	++*(int *)extra;
	return mpi->success;
}

static int cancel(void *extra, int complete)
{
	return mpi->success;
}

static void generalized_request(void **state)
{
	bps_handle request = 0;
	int freed = 0, done = 1;

	assert_int_equal(mpi->Grequest_start(query, free_extra, cancel, &freed, &request),
	                 0);
	assert_int_equal(mpi->Test(&request, &done, mpi->status_ignore), 0);
	assert_int_equal(done, 0);
	assert_int_equal(mpi->Grequest_complete(request), 0);
	assert_int_equal(mpi->Wait(&request, mpi->status_ignore), 0);
	assert_int_equal(request, mpi->request_null);
	assert_int_equal(freed, 1);
}

static int start(void **state)
{
	if (bps_mpi_resolve(__builtin_return_address(0), &mpi) ||
	    mpi->abi != BPS_ABI_OMPI)
		return -1;
	/* The sizes are not asked before MPI is there: Open MPI would end the program. */
	if (bps_abi_type(mpi, mpi->type[BPS_MPI_INT]) || mpi->Init(NULL, NULL))
		return -1;
	return bps_mpi_check(mpi);
}

static int stop(void **state)
{
	return mpi->Finalize();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constants),      cmocka_unit_test(numbers),
		cmocka_unit_test(each_type),      cmocka_unit_test(not_flat),
		cmocka_unit_test(each_reduction), cmocka_unit_test(library_agrees),
		cmocka_unit_test(calls),          cmocka_unit_test(generalized_request),
		cmocka_unit_test(alias),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
