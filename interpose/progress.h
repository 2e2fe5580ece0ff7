/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI's own progress while we block: a large Isend before our allreduce, whose Recv comes
 * after it on the peer, needs it. PMPI_Test on a generalized request that never completes
 * drives it in every library that was tried; one request a thread, since no two threads
 * may test the same.
 */
#pragma once

#include <stdint.h>

#include "abi/abi.h"

/** bps_progress_begin() - a call starts to wait: look often at first. */
void bps_progress_begin(const struct bps_mpi *mpi);
/** bps_progress() - drive it if it is due; returns when it is due again, in ns. */
uint64_t bps_progress(void *unused);
/** bps_progress_end() - in MPI_Finalize: complete and free every thread's request. */
void bps_progress_end(const struct bps_mpi *mpi);
