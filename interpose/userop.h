/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that the application made, on elements of two bytes: 16-bit floats have no
 * MPI type, so programs bring their own, with MPI_Op_create. Which of ours such an
 * operation is, interpose/recognise.h finds out by running it, once for each datatype.
 *
 * Handles are used again after they are freed, so MPI_Op_create, MPI_Op_free and
 * MPI_Type_free are ours to see. What they tell is kept for the process, under a lock.
 */
#pragma once

#include <stdbool.h>

#include "abi/abi.h"
#include "interpose/recognise.h"

/** The exported MPI_Op_create, MPI_Op_free and MPI_Type_free. */
int bps_op_create(const struct bps_mpi *mpi, const void *caller, void *function,
                  int commute, void *op);
int bps_op_free(const struct bps_mpi *mpi, const void *caller, void *op);
int bps_type_free(const struct bps_mpi *mpi, const void *caller, void *type);

/**
 * bps_userop_known() - whether @op was made by the application, as commutative. That is
 * equal on all ranks of a correct call.
 */
bool bps_userop_known(const struct bps_mpi *mpi, bps_handle op);

/**
 * bps_userop_kind() - which of ours @op is on @type. It is run, through
 * PMPI_Reduce_local, in this call: over some of the @count elements at @input each time,
 * and the first time over others, if it does with these what one of ours does; never
 * where @type is not two bytes side by side.
 * dtype BPS_DTYPE_NONE: none, or it is not known.
 */
struct bps_recognised bps_userop_kind(const struct bps_mpi *mpi, bps_handle op,
                                      bps_handle type, const void *input, int count);
