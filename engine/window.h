/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The windows that a leader asks servers for: a number of slots, each of the largest
 * partition. The same on all ranks, from what they agree on. Pure functions.
 */
#pragma once

#include <stdint.h>

#include "base/config.h"

/* Slots of a window that is not given, and the most that it grows to, on each rail. */
#define BPS_WINDOW_SLOTS 8u
/* The most slots that a bpsmpi-server grants. */
#define BPS_WINDOW_MOST 1024u

/** bps_window_slot_bytes() - of a slot, in a job of @n_boxes: a multiple of BPS_CUT_UNIT.
 */
uint32_t bps_window_slot_bytes(const struct bps_config *config, uint32_t n_boxes);

/** bps_window_slots() - how many there are, at least 1, spare ones not counted. */
uint32_t bps_window_slots(const struct bps_config *config, uint32_t n_boxes);
