/* SPDX-License-Identifier: BSD-3-Clause */
/* The real Open MPI, opened RTLD_LOCAL as Python's mpi4py does: no symbol is global. */
#include "abi/abi.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void job(void **state)
{
	struct bps_mpi *mpi = NULL;
	enum bps_dtype dtype;
	enum bps_redop redop;
	double in = 1.5, out = 0;

	if (!dlopen("libmpi.so.40", RTLD_NOW | RTLD_LOCAL))
		skip();
	assert_null(dlsym(RTLD_DEFAULT, "PMPI_Init"));
	assert_int_equal(bps_mpi_resolve(NULL, &mpi), 0);
	assert_int_equal(mpi->abi, BPS_ABI_OMPI);
	assert_int_equal(mpi->Init(NULL, NULL), 0);
	assert_int_equal(bps_mpi_check(mpi), 0);
	assert_true(bps_abi_reduction(mpi, mpi->type[BPS_MPI_DOUBLE], mpi->op[BPS_SUM],
	                              &dtype, &redop));
	assert_int_equal(mpi->Allreduce(&in, &out, 1, mpi->type[BPS_MPI_DOUBLE],
	                                mpi->op[BPS_SUM], mpi->comm_world),
	                 0);
	assert_memory_equal(&in, &out, sizeof(in));
	assert_int_equal(mpi->Finalize(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(job) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
