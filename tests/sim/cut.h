/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cuts for tests that do not care for shares.
 */
#pragma once

#include "engine/plan.h"

#define BPS_TEST_MAX_SERVERS 70u

/**
 * bps_test_cut() - parts as large as @part_bytes allows, equal shares. @slices: room for
 * @n_servers (<= BPS_TEST_MAX_SERVERS). Return: as bps_cut_make().
 */
static inline int bps_test_cut(uint64_t op_bytes, uint32_t part_bytes, uint32_t n_servers,
                               struct bps_slice *slices, struct bps_cut *ret_cut)
{
	uint32_t weights[BPS_TEST_MAX_SERVERS];
	const struct bps_plan plan = {
		.n_servers = n_servers,
		.weights = weights,
		.max_bytes = part_bytes,
		.cost_bytes = UINT32_MAX,
	};

	bps_plan_equal(n_servers, weights);
	return bps_cut_make(&plan, op_bytes, 0, slices, ret_cut);
}
