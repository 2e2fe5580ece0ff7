/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What kernels_tmpl.c gives kernels.c: one full table an instruction set. An entry of
 * reduce is NULL where the standard does not define the operation.
 */
#pragma once

#include "engine/kernels/kernels.h"

struct bps_kernel_table {
	bps_reduce_fn *reduce[BPS_N_DTYPES][BPS_N_REDOPS];
	bps_reduce_fn *push[2][BPS_N_REDOPS]; /* bps_kernel_push() of the wide types */
	bps_copy_fn *copy_near, *copy_past;   /* bps_copy() */
};

extern const struct bps_kernel_table bps_kernels_c;
extern const struct bps_kernel_table bps_kernels_avx2;
extern const struct bps_kernel_table bps_kernels_avx512;
