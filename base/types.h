/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is summed and how: the element types and reduction operations that the engine
 * knows, under our own numbers. They travel on the wire, so a number is never reused.
 */
#pragma once

#include <stdint.h>

enum bps_dtype {
	BPS_DTYPE_NONE = 0, /* not ours: the call passes to the library */
	BPS_I8 = 1,
	BPS_I16 = 2,
	BPS_I32 = 3,
	BPS_I64 = 4,
	BPS_U8 = 5,
	BPS_U16 = 6,
	BPS_U32 = 7,
	BPS_U64 = 8,
	BPS_F16 = 9,   /* IEEE binary16; accumulated in fp32, rounded once */
	BPS_BF16 = 10, /* bfloat16; accumulated in fp32, rounded once */
	BPS_F32 = 11,
	BPS_F64 = 12,
	BPS_C64 = 13,   /* two fp32: real, imaginary */
	BPS_C128 = 14,  /* two fp64 */
	BPS_BOOL8 = 15, /* C bool: one byte, any nonzero value is true */
	BPS_BYTE = 16,  /* bitwise operations only */
	/* SUM and PROD in two steps: contributions are fp32; the total is rounded to */
	BPS_F16_WIDE = 17,  /* binary16 */
	BPS_BF16_WIDE = 18, /* bfloat16 */
	BPS_N_DTYPES
};

enum bps_redop {
	BPS_REDOP_NONE = 0, /* not ours */
	BPS_SUM = 1,
	BPS_PROD = 2,
	BPS_MIN = 3,
	BPS_MAX = 4,
	BPS_LAND = 5,
	BPS_LOR = 6,
	BPS_LXOR = 7,
	BPS_BAND = 8,
	BPS_BOR = 9,
	BPS_BXOR = 10,
	BPS_N_REDOPS
};

/* Collective operations that the engine carries. */
enum bps_coll { BPS_COLL_NONE = 0, BPS_ALLREDUCE = 1, BPS_BCAST = 2, BPS_N_COLLS };

/**
 * bps_dtype_bytes() - size of one element of a contribution in bytes, 0 for a type that
 * is not ours (any number: it may come from a peer).
 */
static inline uint32_t bps_dtype_bytes(uint32_t dtype)
{
	static const uint8_t bytes[BPS_N_DTYPES] = {
		[BPS_I8] = 1,       [BPS_I16] = 2,       [BPS_I32] = 4,   [BPS_I64] = 8,
		[BPS_U8] = 1,       [BPS_U16] = 2,       [BPS_U32] = 4,   [BPS_U64] = 8,
		[BPS_F16] = 2,      [BPS_BF16] = 2,      [BPS_F32] = 4,   [BPS_F64] = 8,
		[BPS_C64] = 8,      [BPS_C128] = 16,     [BPS_BOOL8] = 1, [BPS_BYTE] = 1,
		[BPS_F16_WIDE] = 4, [BPS_BF16_WIDE] = 4,
	};

	return dtype < BPS_N_DTYPES ? bytes[dtype] : 0;
}

/**
 * bps_total_bytes() - how long the total of contributions of @bytes bytes is: as long,
 * but for the wide types.
 */
static inline uint64_t bps_total_bytes(uint32_t dtype, uint64_t bytes)
{
	return dtype == BPS_F16_WIDE || dtype == BPS_BF16_WIDE ? bytes / 2 : bytes;
}

/** bps_dtype_wide() - the type whose contributions are wider than its total; or @dtype.
 */
static inline enum bps_dtype bps_dtype_wide(enum bps_dtype dtype)
{
	if (dtype == BPS_F16)
		return BPS_F16_WIDE;
	return dtype == BPS_BF16 ? BPS_BF16_WIDE : dtype;
}
