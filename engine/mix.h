/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of a sum by levels: the inputs of a group's ranks in rank order, then
 * the other groups' partials in the order of groups.
 *
 * Sums and products of 16-bit floats are rounded once, where the sum ends: partials are
 * fp32 then, but for those of a group of one rank, which are its input as it is.
 */
#pragma once

#include "engine/groups.h"
#include "engine/kernels/kernels.h"

/* So much of an input fits a call of bps_mix_all() where partials are fp32. */
#define BPS_MIX_BYTES 4096u

struct bps_mix {
	const struct bps_groups *groups;
	bool wide; /* partials of several ranks are fp32, and inputs are 16-bit floats */
	uint32_t in_bytes;   /* of an element of an input */
	bps_reduce_fn *near; /* a group's inputs to its partial */
	bps_reduce_fn *fold; /* wide: fp32 and fp32 to fp32 */
	bps_reduce_fn *end;  /* wide: fp32 to what the sum is; else all to the sum */
};

/**
 * bps_mix_make() - for the sum of a box. @dtype, @redop: as bps_kernel_push() has them;
 * of a wide type the sum is fp32. @groups is borrowed.
 * Return: 0; -EINVAL: there is no such operation.
 */
int bps_mix_make(const struct bps_groups *groups, enum bps_dtype dtype,
                 enum bps_redop redop, struct bps_mix *ret);

/** bps_mix_scale() - the partial of @group is so many times as long as an input. */
static inline uint32_t bps_mix_scale(const struct bps_mix *mix, uint32_t group)
{
	return mix->wide && bps_groups_size(mix->groups, group) > 1 ? 2 : 1;
}

/**
 * bps_mix_near() - the partial of this rank's group.
 * @sources: of each of its ranks, in order. @bytes: of an input, whole elements.
 * @partial: may be one of the sources unless it is longer
 */
void bps_mix_near(const struct bps_mix *mix, void *partial, const void *const *sources,
                  size_t bytes);

/**
 * bps_mix_all() - the sum.
 * @sources: the inputs of this rank's group, then a partial of each other group
 * @bytes: of an input; where mix->wide, at most BPS_MIX_BYTES
 * @sum: may be one of the sources, unless it is longer
 */
void bps_mix_all(const struct bps_mix *mix, void *sum, const void *const *sources,
                 size_t bytes);
