/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A member of a job for tests: a client of the engine with a loop of its own, over TCP,
 * that does one operation at a time and waits for it. It belongs to one thread.
 */
#pragma once

#include <stdint.h>

#include "base/types.h"
#include "engine/client.h"
#include "transport/addr.h"
#include "transport/loop.h"

#define MEMBER_MAX_SERVERS 8

struct member {
	struct bps_loop *loop;
	struct bps_client *client;
	struct bps_group group;
	uint32_t servers[MEMBER_MAX_SERVERS];
	uint32_t leaders[64];
	struct bps_reason reason; /* of the first failure */
	uint32_t slot_bytes;
};

struct member_config {
	uint8_t job[16];
	uint16_t rank, n_ranks; /* at most 64 */
	const struct bps_addr *servers;
	uint32_t n_servers;
	uint32_t slot_bytes, n_slots;
	uint64_t timeout_ns;
};

/** member_open() - connect, and wait for the windows. Return: 0 or -errno, see reason. */
int member_open(struct member *member, const struct member_config *config);

/** member_allreduce() - @in and @out are apart, @bytes each. Return: 0 or -errno. */
int member_allreduce(struct member *member, enum bps_dtype dtype, enum bps_redop redop,
                     const void *in, void *out, uint64_t bytes);

/** member_bcast() - from @root's @buf to the others'. Return: 0 or -errno. */
int member_bcast(struct member *member, uint16_t root, void *buf, uint64_t bytes);

/** member_close() - leave the job in order; also after a failed member_open(). */
void member_close(struct member *member);
