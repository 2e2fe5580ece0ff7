/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/window.h"

#include "engine/plan.h"

/* The largest partition that windows and stages have room for, unless it is given. */
#define SLOT_BYTES (256u << 10)
/* A server of so many boxes keeps its windows within its memory all the same. */
#define LARGE_SLOT_BOXES 32u
#define LEAST_SLOT_BYTES (4u << 10)
/* A window that is given, but no partition, holds so many. */
#define GIVEN_SLOTS 2u

/* Of the largest partition; smaller ones touch only a part of each slot. */
uint32_t bps_window_slot_bytes(const struct bps_config *config, uint32_t n_boxes)
{
	uint64_t given = config->partition_bytes, window = config->window_bytes;
	uint32_t bytes = SLOT_BYTES, boxes;

	if (given > 0)
		return (uint32_t)(given - given % BPS_CUT_UNIT);
	for (boxes = LARGE_SLOT_BOXES; boxes < n_boxes; boxes *= 2) {
		if (bytes > LEAST_SLOT_BYTES)
			bytes /= 2;
	}
	while (window > 0 && bytes > LEAST_SLOT_BYTES && bytes > window / GIVEN_SLOTS)
		bytes /= 2;
	return bytes;
}

uint32_t bps_window_slots(const struct bps_config *config, uint32_t n_boxes)
{
	uint64_t window = config->window_bytes;
	uint64_t slot = bps_window_slot_bytes(config, n_boxes);

	if (window == 0)
		return BPS_WINDOW_SLOTS;
	return window > slot ? (uint32_t)(window / slot) : 1;
}
