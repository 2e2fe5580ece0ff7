/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which part of an op each server should sum so that the op ends soonest, and how soon
 * that is. Pure functions of bandwidths, in plain IEEE arithmetic of a fixed order: all
 * members that are given the same bits get the same bits.
 *
 * The model: each box and each dedicated server has a link of its own, as fast in as it
 * is out, and nothing else limits; what a member gives to or takes from the server in its
 * own box does not touch the link.
 *
 * The servers are numbered as everywhere: the n_servers dedicated ones first, then the
 * one of each box, whether it has one or not. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/plan.h"

/* The bandwidths that make sense, in bytes a second. */
#define BPS_SHARES_MIN 1.0
#define BPS_SHARES_MAX 1e18

struct bps_shares_in {
	const double *box_bytes_per_s;    /* [n_boxes], one way */
	const double *server_bytes_per_s; /* [n_servers]; NULL where there are none */
	const bool *colocated;            /* [n_boxes]: carries a server; NULL: all do */
	uint32_t n_boxes;                 /* 2 or more */
	uint32_t n_servers;               /* dedicated ones, 0 or more */
};

/**
 * bps_shares_allreduce() - the best shares for an allreduce.
 * @in: borrowed during the call
 * @ret_shares: [n_servers + n_boxes], each 0 to 1, together 1 but for rounding; 0 for a
 * box that carries no server. Of equally fast plans the one that leaves most to the
 * dedicated servers, in proportion to their bandwidths.
 * @ret_s_per_byte: what the op takes, in seconds a byte of the op, at least
 *
 * Return: 0; -EINVAL: less than two boxes, no server at all, or a bandwidth below
 * BPS_SHARES_MIN, above BPS_SHARES_MAX or not a number; nothing was written then.
 */
int bps_shares_allreduce(const struct bps_shares_in *in, double *ret_shares,
                         double *ret_s_per_byte);

/**
 * bps_shares_bcast() - as bps_shares_allreduce(), for a broadcast from box @root: what
 * the dedicated servers cannot do is left to the boxes that receive; the root's own
 * server comes last.
 *
 * Return: as there; -EINVAL also for a @root that is no box.
 */
int bps_shares_bcast(const struct bps_shares_in *in, uint32_t root, double *ret_shares,
                     double *ret_s_per_byte);

/**
 * bps_ring_s_per_byte() - what a ring allreduce over the boxes takes at least, in seconds
 * a byte; @in is as bps_shares_allreduce() takes it, its servers do not matter.
 */
double bps_ring_s_per_byte(const struct bps_shares_in *in);

/**
 * bps_shares_weights() - shares as integers that add up to BPS_SHARE_ONE.
 * @shares: [n], each 0 to 1, at least one above 0; they need not add up to 1
 * @ret_weights: [n]; each is less than 1 off. A share of 0 has the weight 0, and so have
 * those below 1/256 of the largest, which would bring more messages than help, unless
 * together they are more than 1/64 of all.
 *
 * Return: 0; -EINVAL for a share that is not from 0 to 1, and where all are 0.
 */
int bps_shares_weights(const double *shares, uint32_t n, uint32_t *ret_weights);
