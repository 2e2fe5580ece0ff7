/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps a stranger from filling the log: the first lines pass, then one a minute that
 * stands for all that was not said since. Belongs to one thread; zero bytes are a fresh
 * one.
 */
#pragma once

#include <stdint.h>

#include "base/clock.h"
#include "base/log.h"

#define BPS_RATELIMIT_LINES    10
#define BPS_RATELIMIT_PAUSE_NS (60 * BPS_NS_PER_S)

struct bps_ratelimit {
	uint64_t last_ns; /* when a line last passed */
	uint32_t n_lines;
	uint32_t n_hidden;
};

/**
 * bps_ratelimit_hit() - one more line wants out, at @now_ns.
 * Return: 0: say nothing; 1: say it; n > 1: say that there were n since the last line,
 * this one included.
 */
static inline uint32_t bps_ratelimit_hit(struct bps_ratelimit *limit, uint64_t now_ns)
{
	uint32_t n;

	limit->n_hidden++;
	if (limit->n_lines >= BPS_RATELIMIT_LINES &&
	    now_ns - limit->last_ns < BPS_RATELIMIT_PAUSE_NS)
		return 0;
	if (limit->n_lines < BPS_RATELIMIT_LINES)
		limit->n_lines++;
	n = limit->n_hidden;
	limit->n_hidden = 0;
	limit->last_ns = now_ns;
	return n;
}

/*
 * A warning within @limit, a struct bps_ratelimit of its kind of line; @format is a
 * string literal with at least one argument.
 */
#define bps_warn_limited(limit, format, ...)                                          \
	do {                                                                          \
		uint32_t n_lines_ = bps_ratelimit_hit((limit), bps_now_ns());         \
                                                                                      \
		if (n_lines_ == 1)                                                    \
			bps_warn(format, __VA_ARGS__);                                \
		else if (n_lines_ > 1)                                                \
			bps_warn(format "; %u more like it since the last such line", \
			         __VA_ARGS__, n_lines_ - 1);                          \
	} while (0)
