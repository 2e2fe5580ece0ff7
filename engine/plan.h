/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an op is cut into partitions, which server sums which partition, and the order in
 * which a member visits them. Pure functions: every member computes the same.
 *
 * An op is cut into rounds of equal size, but for the first and the last, which are half
 * as long: to fill and drain the pipe takes the time of a round. In a round each server
 * that has a share sums one part, as large as its share of the round: so every op,
 * however small, is divided as the plan says, and a server with a small share has little
 * on its way to it at a time. Members begin each round at different servers.
 */
#pragma once

#include <stdint.h>

/* Bytes that a partition's start and length are a multiple of (but at the op's end). */
#define BPS_CUT_UNIT          64u
#define BPS_CUT_MIN_PARTITION 512u
/* A whole: shares are parts of this. */
#define BPS_SHARE_ONE (1u << 20)

/* What the members of a group have agreed on; it may change between two ops. */
struct bps_plan {
	uint32_t n_servers;      /* >= 1 */
	const uint32_t *weights; /* [n_servers], sum BPS_SHARE_ONE; 0: sums nothing */
	uint32_t max_bytes;      /* largest partition, >= BPS_CUT_MIN_PARTITION */
	uint32_t cost_bytes;     /* that the wire carries in the time a message costs */
};

/* A server's place in a round. */
struct bps_slice {
	uint32_t server;
	uint32_t end; /* of its share, counted from the round's start; of BPS_SHARE_ONE */
};

struct bps_cut {
	uint64_t op_bytes;
	uint32_t n_parts; /* n_rounds * n_slices */
	uint32_t n_rounds;
	uint32_t n_slices;
	const struct bps_slice *slices; /* borrowed from who made the cut */
};

/**
 * bps_plan_partition() - the partition for an op of @op_bytes: the least sum of what it
 * costs to fill and drain the pipe, which takes the time of a round, and what it costs to
 * send so many messages; between 4 KiB and plan->max_bytes.
 */
uint32_t bps_plan_partition(const struct bps_plan *plan, uint64_t op_bytes);

/**
 * bps_cut_make() - cut an op of @op_bytes (> 0) by @plan.
 * @turn: an op too small for a part of 4 KiB at each server leaves some out, others each
 * turn. @slices: room for plan->n_servers of them, borrowed by the cut.
 * Return: 0; -EINVAL for an op of zero bytes, a plan without servers or a smaller
 * partition than there may be; -EOVERFLOW for more than 2^32 - 1 parts.
 */
int bps_cut_make(const struct bps_plan *plan, uint64_t op_bytes, uint64_t turn,
                 struct bps_slice *slices, struct bps_cut *ret_cut);

/** bps_plan_equal() - the same share for each of @n_servers (>= 1) servers. */
void bps_plan_equal(uint32_t n_servers, uint32_t *ret_weights);

/** bps_cut_part() - where part @part (< n_parts) lies in the op, both in bytes. */
void bps_cut_part(const struct bps_cut *cut, uint32_t part, uint64_t *ret_offset,
                  uint32_t *ret_bytes);

/** bps_cut_server() - the server that sums @part. */
uint32_t bps_cut_server(const struct bps_cut *cut, uint32_t part);

/**
 * bps_cut_visit() - the part that is visited @position-th (0 to n_parts - 1) by the
 * member that starts at @start: members that start at different servers do not meet at
 * one. Each server's parts are visited in ascending order, by all members.
 */
uint32_t bps_cut_visit(const struct bps_cut *cut, uint32_t start, uint32_t position);

/**
 * bps_cut_position() - in @start's order, the position in round @round of the part of
 * slice @slice; n_parts or more when there are no more rounds.
 */
uint64_t bps_cut_position(const struct bps_cut *cut, uint32_t start, uint32_t slice,
                          uint32_t round);
