/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast the kernels are, next to memcpy.
 */
#pragma once

#include <stddef.h>

/**
 * bps_test_bench() - print a table of GB/s, a column for each instruction set.
 *
 * @n_bytes: size of each array
 * @n_src: sources
 * @only: part of the name ("f32 sum") of the kernels to measure; NULL is all
 */
void bps_test_bench(size_t n_bytes, unsigned n_src, const char *only);
