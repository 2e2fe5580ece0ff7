/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job against a server that runs: pushloop PORT MEMBERS SECONDS MAX_BYTES [PARTITION
 * [SLOTS]]. Prints what it did; exit status 0: every result was right.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "tests/unit/server/job.h"

static uint64_t argument(int argc, char **argv, int n, uint64_t otherwise)
{
	return n < argc ? strtoull(argv[n], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	uint64_t seconds = argument(argc, argv, 3, 1), start_ns = bps_now_ns(), seed;
	struct bps_addr addr;
	char why[256];
	struct job job = {
		.servers = &addr,
		.n_servers = 1,
		.n_members = (uint16_t)argument(argc, argv, 2, 2),
		.n_ops = 1,
		.until_ns = start_ns + seconds * BPS_NS_PER_S,
		.max_bytes = argument(argc, argv, 4, 1 << 20),
		.slot_bytes = (uint32_t)argument(argc, argv, 5, 32 << 10),
		.n_slots = (uint32_t)argument(argc, argv, 6, 2),
	};

	if (argc < 2 || job.n_members < 1 || job.n_members > JOB_MAX_MEMBERS ||
	    bps_random_bytes(&seed, sizeof(seed)) < 0) {
		fputs("usage: pushloop PORT [MEMBERS [SECONDS [MAX_BYTES [PARTITION "
		      "[SLOTS]]]]]\n",
		      stderr);
		return 2;
	}
	job.seed = seed;
	if (bps_addr_resolve("127.0.0.1", (uint16_t)argument(argc, argv, 1, 0), &addr, 1,
	                     why, sizeof(why)) < 0) {
		fprintf(stderr, "%s\n", why);
		return 2;
	}
	if (!job_run(&job)) {
		printf("failed: %s\n", job.failure);
		return 1;
	}
	printf("ok: %" PRIu64 " ops, %" PRIu64 " bytes, %.3f s\n", job.n_ops_done,
	       job.n_bytes, (double)(bps_now_ns() - start_ns) / (double)BPS_NS_PER_S);
	return 0;
}
