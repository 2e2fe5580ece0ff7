/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What kernels_tmpl.c gives kernels.c: one full table an instruction set. An entry is
 * NULL where the standard does not define the operation.
 */
#pragma once

#include "engine/kernels/kernels.h"

typedef bps_reduce_fn *bps_kernel_table[BPS_N_DTYPES][BPS_N_REDOPS];

extern const bps_kernel_table bps_kernels_c;
extern const bps_kernel_table bps_kernels_avx2;
extern const bps_kernel_table bps_kernels_avx512;
