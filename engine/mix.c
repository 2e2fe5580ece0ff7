/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/mix.h"

#include <errno.h>
#include <string.h>

/* Elements of a call where partials are fp32: inputs are 16-bit floats there. */
#define MOST (BPS_MIX_BYTES / 2)

static bool is_wide(enum bps_dtype dtype)
{
	return dtype == BPS_F16_WIDE || dtype == BPS_BF16_WIDE;
}

int bps_mix_make(const struct bps_groups *groups, enum bps_dtype dtype,
                 enum bps_redop redop, struct bps_mix *ret)
{
	enum bps_dtype wide = bps_dtype_wide(dtype);
	bps_reduce_fn *whole = bps_kernel_push(dtype, redop);

	*ret = (struct bps_mix){
		.groups = groups,
		.in_bytes = (uint32_t)bps_total_bytes(dtype, bps_dtype_bytes(dtype)),
		.near = whole,
		.end = whole,
	};
	if (!whole)
		return -EINVAL;
	if (groups->n_groups == 1 || !is_wide(wide) || !bps_kernel_push(wide, redop))
		return 0;
	ret->wide = true;
	ret->near = bps_kernel_push(wide, redop);
	ret->fold = bps_kernel(BPS_F32, redop);
	ret->end = is_wide(dtype) ? ret->fold : bps_kernel(wide, redop);
	return 0;
}

void bps_mix_near(const struct bps_mix *mix, void *partial, const void *const *sources,
                  size_t bytes)
{
	uint32_t n = bps_groups_size(mix->groups, mix->groups->mine);

	if (n == 1)
		memcpy(partial, sources[0], bytes);
	else
		mix->near(partial, sources, n, bytes / mix->in_bytes);
}

/* Wide: added up in fp32 in the first-level cache, and rounded last. */
void bps_mix_all(const struct bps_mix *mix, void *sum, const void *const *sources,
                 size_t bytes)
{
	const struct bps_groups *groups = mix->groups;
	uint32_t n = bps_groups_size(groups, groups->mine), g;
	size_t count = bytes / mix->in_bytes;
	float acc[MOST], partial[MOST];
	const void *both[] = { acc, NULL };

	if (!mix->wide) {
		mix->end(sum, sources, n + groups->n_groups - 1, count);
		return;
	}
	mix->near(acc, sources, n, count);
	for (g = 0, sources += n; g < groups->n_groups; g++) {
		if (g == groups->mine)
			continue;
		both[1] = *sources;
		if (bps_mix_scale(mix, g) == 1) {
			mix->near(partial, sources, 1, count);
			both[1] = partial;
		}
		mix->fold(acc, both, 2, count);
		sources++;
	}
	mix->end(sum, both, 1, count);
}
