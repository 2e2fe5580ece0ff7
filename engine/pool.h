/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers of one size for sums on their way out, used again and again so that they stay
 * in the cache. Any thread; a lock that is held for a few instructions.
 */
#pragma once

#include <stdint.h>

#include "base/list.h"
#include "engine/server.h"

struct bps_pool;

/* A buffer. hold.refs is 1 when it is got; it returns to its pool by the last put. */
struct bps_buf {
	struct bps_hold hold;
	struct bps_list link;
	struct bps_pool *pool;
	void *data; /* 64-byte aligned */
};

/** bps_pool_new() - of buffers of @bytes bytes. Return: 0 or -ENOMEM. */
int bps_pool_new(uint32_t bytes, struct bps_pool **ret_pool);
/** bps_pool_free() - takes NULL. Every buffer came back before. */
void bps_pool_free(struct bps_pool *pool);
/** bps_pool_get() - Return: a buffer, NULL when there is no memory. */
struct bps_buf *bps_pool_get(struct bps_pool *pool);
/** bps_pool_bytes() - of all its buffers, in use or not; any thread. */
uint64_t bps_pool_bytes(struct bps_pool *pool);
