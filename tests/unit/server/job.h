/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole job for tests: a thread a member, the same random operations in each, every
 * result checked against sums of this file's own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/types.h"
#include "transport/addr.h"

#define JOB_MAX_MEMBERS 16

struct job {
	/* set by the caller */
	const struct bps_addr *servers;
	uint32_t n_servers;
	uint16_t n_members;
	uint64_t seed; /* of the operations, their sizes and data */
	uint32_t n_ops;
	uint64_t until_ns;   /* go on until then, at least n_ops; 0: n_ops only */
	uint64_t max_bytes;  /* of an operation; at least 64 */
	uint32_t slot_bytes; /* a partition */
	uint32_t n_slots;
	/* the result */
	uint64_t n_ops_done;
	uint64_t n_bytes;   /* of the operations, as one member counts */
	char failure[1024]; /* "": all was right */
};

/** job_run() - run it to its end on threads of its own. Return: whether all was right. */
bool job_run(struct job *job);
