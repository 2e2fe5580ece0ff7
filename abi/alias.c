/* SPDX-License-Identifier: BSD-3-Clause */
#include "abi/abi.h"

/* Let a communicator return errors; the handler it had, or 0 if that failed. */
static bps_handle set_aside(const struct bps_mpi *mpi, bps_handle comm)
{
	bps_handle old = 0;

	if (mpi->Comm_get_errhandler(comm, &old) != mpi->success)
		return 0;
	if (mpi->Comm_set_errhandler(comm, mpi->errors_return) == mpi->success)
		return old;
	mpi->Errhandler_free(&old);
	return 0;
}

static void put_back(const struct bps_mpi *mpi, bps_handle comm, bps_handle old)
{
	if (!old)
		return;
	mpi->Comm_set_errhandler(comm, old);
	mpi->Errhandler_free(&old);
}

bool bps_mpi_probe_alias(struct bps_mpi *mpi)
{
	bps_handle of_world = set_aside(mpi, mpi->comm_world);
	bps_handle of_self = set_aside(mpi, mpi->comm_self);
	int two[2] = { 0, 0 };

	/* Without the handlers aside, asking might end the program: rather not know. */
	mpi->alias_ok = of_world && of_self &&
	                mpi->Allreduce(two, two, 2, mpi->type[BPS_MPI_INT],
	                               mpi->op[BPS_SUM], mpi->comm_self) == mpi->success;
	put_back(mpi, mpi->comm_self, of_self);
	put_back(mpi, mpi->comm_world, of_world);
	return mpi->alias_ok;
}
