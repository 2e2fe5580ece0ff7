/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an op is cut into partitions, which server sums which partition, and the order in
 * which a member visits them. Pure functions: every member computes the same.
 */
#pragma once

#include <stdint.h>

/* Bytes that a partition's start and length are a multiple of (but at the op's end). */
#define BPS_CUT_UNIT          64u
#define BPS_CUT_MIN_PARTITION 128u

/* An op of op_bytes in n_parts parts, as equal as whole units allow. */
struct bps_cut {
	uint64_t op_bytes;
	uint32_t n_parts;
	uint32_t n_servers;
	uint64_t units;    /* a part has this many units; */
	uint32_t n_longer; /* the first n_longer parts have one more */
};

/**
 * bps_cut_make() - cut @op_bytes (> 0) for @n_servers (>= 1) servers into parts of at
 * most
 * @partition_bytes (>= BPS_CUT_MIN_PARTITION, rounded down to whole units).
 *
 * n_parts is a multiple of @n_servers, so that all get the same share of this op, unless
 * the op is so small that parts would fall below 4 KiB: then it is less than @n_servers.
 * Return: 0; -EINVAL for an op or servers of zero or a smaller partition; -EOVERFLOW for
 * more than 2^32 - 1 parts.
 */
int bps_cut_make(uint64_t op_bytes, uint32_t partition_bytes, uint32_t n_servers,
                 struct bps_cut *ret_cut);

/**
 * bps_plan_partition() - the partition for an op of @op_bytes at @n_servers servers: at
 * most @max_bytes, smaller for small ops so that the pipe fills sooner.
 */
uint32_t bps_plan_partition(uint64_t op_bytes, uint32_t max_bytes, uint32_t n_servers);

/** bps_cut_part() - where part @part (< n_parts) lies in the op, both in bytes. */
void bps_cut_part(const struct bps_cut *cut, uint32_t part, uint64_t *ret_offset,
                  uint32_t *ret_bytes);

/**
 * bps_plan_server() - the server, 0 to n_servers - 1, that sums @part of op number @op.
 */
uint32_t bps_plan_server(const struct bps_cut *cut, uint64_t op, uint32_t part);

/**
 * bps_plan_part() - the part that is visited @position-th (0 to n_parts - 1) by the
 * member that starts at @start: members that start at different servers do not meet at
 * one.
 */
uint32_t bps_plan_part(const struct bps_cut *cut, uint32_t start, uint32_t position);

/**
 * bps_plan_position() - the @nth (0, 1, ...) position in @start's order whose part goes
 * to
 * @server in op number @op; n_parts or more when there are no more.
 */
uint64_t bps_plan_position(const struct bps_cut *cut, uint64_t op, uint32_t start,
                           uint32_t server, uint32_t nth);
