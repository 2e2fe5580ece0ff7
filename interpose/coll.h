/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two collectives: decide, then carry or pass.
 */
#pragma once

#include "abi/abi.h"

/** bps_allreduce() - @caller: where the application called from. Returns MPI's code. */
int bps_allreduce(const struct bps_mpi *mpi, const void *caller, const void *sendbuf,
                  void *recvbuf, int count, bps_handle type, bps_handle op,
                  bps_handle comm);

/** bps_bcast() - the same for MPI_Bcast. */
int bps_bcast(const struct bps_mpi *mpi, const void *caller, void *buffer, int count,
              bps_handle type, int root, bps_handle comm);
