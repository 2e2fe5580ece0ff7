/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one clock: nanoseconds that never go back, comparable between the processes of a
 * box. The engine itself is told the time, only its drivers ask.
 */
#pragma once

#include <stdint.h>
#include <time.h>

#define BPS_NS_PER_S  UINT64_C(1000000000)
#define BPS_NS_PER_MS UINT64_C(1000000)
#define BPS_NS_PER_US UINT64_C(1000)

/** bps_now_ns() - CLOCK_MONOTONIC in nanoseconds; any thread. */
static inline uint64_t bps_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * BPS_NS_PER_S + (uint64_t)now.tv_nsec;
}
