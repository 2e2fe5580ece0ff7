/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast the links of boxes and dedicated servers are. Measured by pairs that have
 * their links to themselves: in each round a leader exchanges bytes with one server, and
 * nobody else with either of the two. A link is as fast as the fastest exchange that used
 * it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "interpose/links.h"
#include "interpose/servers.h"
#include "topology/bandwidth.h"

#define N_ROUNDS 3u
#define ROUND_NS (30 * BPS_NS_PER_MS)
/* More connections, so many times as many each time, have to carry so many times as much.
 */
#define MORE     4u
#define WORTH_IT 1.3
/* A loss at the wrong time makes an exchange look slow. */
#define N_TRIES 2u

/* The fastest exchange of each link so far: boxes first, then dedicated servers. */
static int take_part(const struct bps_job *job, uint32_t round, int64_t *rates,
                     struct bps_reason *ret_reason)
{
	uint32_t n = job->boxes.n_boxes, k = job->hosts.n_hosts, server, other;
	uint64_t rate;
	int error;

	if (job->boxes.leader[job->box] != job->rank ||
	    !bps_links_partner(n, k, job->box, round, &server))
		return 0;
	error = bps_engine_probe(job->engine, server, ROUND_NS, &rate, ret_reason);
	if (error < 0)
		return error;
	bps_debug("round %u: %.3g Mbit/s with server %s", round, (double)rate * 8e-6,
	          job->servers[server].name);
	other = server < k ? n + server : server - k;
	if ((int64_t)rate > rates[job->box])
		rates[job->box] = (int64_t)rate;
	if ((int64_t)rate > rates[other])
		rates[other] = (int64_t)rate;
	return 0;
}

static int share_greatest(const struct bps_job *job, const int64_t *mine, int64_t *all)
{
	const struct bps_mpi *mpi = job->mpi;
	uint32_t n = job->boxes.n_boxes + job->hosts.n_hosts;

	return mpi->Allreduce(mine, all, (int)n, mpi->type[BPS_MPI_INT64_T],
	                      mpi->op[BPS_MAX], mpi->comm_world) == mpi->success
	               ? 0
	               : -EIO;
}

/* Rounds that all ranks go through, whatever fails on some. */
static int measure(struct bps_job *job, struct bps_rates *rates,
                   struct bps_reason *ret_reason)
{
	int error = 0, shared;
	uint32_t round;

	for (round = 0; round < N_ROUNDS; round++) {
		job->mpi->Barrier(job->mpi->comm_world);
		if (error == 0)
			error = take_part(job, round, rates->mine, ret_reason);
	}
	shared = share_greatest(job, rates->mine, rates->all);
	return error < 0 ? error : shared;
}

/* -- several connections -- */

/*
 * With @n_connections on each rail to a server: how fast the fastest exchange is. A
 * leader that is refused them has no part in it. All ranks learn the same.
 */
static int probe_many(struct bps_job *job, bool leads, uint32_t n_connections,
                      int64_t *ret_rate)
{
	const struct bps_mpi *mpi = job->mpi;
	struct bps_reason reason;
	uint32_t server = 0, try;
	int64_t mine = 0;
	uint64_t rate;
	bool ready;

	ready = leads &&
	        bps_links_partner(job->boxes.n_boxes, job->hosts.n_hosts, job->box, 0,
	                          &server) &&
	        bps_servers_greet(job, server, n_connections, &reason) == 0;
	mpi->Barrier(mpi->comm_world);
	for (try = 0; ready && try < N_TRIES; try++) {
		if (bps_engine_probe(job->engine, server, ROUND_NS, &rate, &reason) < 0)
			break;
		mine = (int64_t)rate > mine ? (int64_t)rate : mine;
	}
	return mpi->Allreduce(&mine, ret_rate, 1, mpi->type[BPS_MPI_INT64_T],
	                      mpi->op[BPS_MAX], mpi->comm_world) == mpi->success
	               ? 0
	               : -EIO;
}

/* Links that were as fast as any, at @one, carry @many. */
static void raise_rates(struct bps_rates *rates, uint32_t n, int64_t one, int64_t many)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if ((double)rates->all[i] * WORTH_IT > (double)one)
			rates->all[i] = many;
	}
}

/*
 * How many connections fill a link, and how fast it is then: more and more as long as
 * that pays; where they are given, those.
 */
static int fill_link(struct bps_job *job, bool leads, uint32_t *ret_n)
{
	uint32_t n = job->boxes.n_boxes + job->hosts.n_hosts, i;
	uint32_t given = (uint32_t)job->config.connections;
	int64_t rate = 0, one, more = 0;
	int error;

	for (i = 0; i < n; i++)
		rate = job->rates.all[i] > rate ? job->rates.all[i] : rate;
	one = rate;
	*ret_n = 1;
	for (i = given ? given : MORE; i <= BPS_WIRE_MAX_CONNECTIONS; i *= MORE) {
		error = probe_many(job, leads, i, &more);
		if (error < 0)
			return error;
		if (job->rank == 0)
			bps_debug("%.3g Mbit/s with %u connections, %.3g with %u",
			          (double)more * 8e-6, i, (double)rate * 8e-6, *ret_n);
		if ((double)more < WORTH_IT * (double)rate)
			break;
		*ret_n = i;
		rate = more;
		if (given)
			break;
	}
	raise_rates(&job->rates, n, one, rate);
	return 0;
}

/*
 * Some networks bound the rate of a connection, not only that of a link. A leader has its
 * link full if it has connections enough to all servers together.
 */
static int choose_connections(struct bps_job *job, bool leads, int error)
{
	uint32_t others = job->n_servers - (bps_servers_carried(job) ? 1 : 0), n;
	int r = fill_link(job, leads && error == 0, &n);

	if (r < 0 || error < 0)
		return error < 0 ? error : r;
	if (job->config.connections == 0)
		job->n_connections = (n + others - 1) / others;
	return 0;
}

/* -- what need not be measured -- */

/* What the user said; all ranks know the same. */
static int take_said(const struct bps_job *job, double *ret_rates,
                     struct bps_reason *ret_reason)
{
	uint32_t n = job->boxes.n_boxes, k = job->hosts.n_hosts, i;
	struct bps_bandwidths said;
	int error;

	error = bps_bandwidths_parse("BPSMPI_BANDWIDTH", job->config.bandwidth, &said,
	                             ret_reason->text, sizeof(ret_reason->text));
	if (error < 0)
		return error;
	for (i = 0; i < n + k; i++)
		ret_rates[i] = bps_bandwidths_of(
			&said, i < n ? job->cards[job->boxes.leader[i]].host
				     : job->hosts.hosts[i - n].name);
	bps_bandwidths_deinit(&said);
	return 0;
}

/* Nothing is known of link @i but what it is measured to be. */
static bool is_open(const struct bps_rates *rates, uint32_t i)
{
	return rates->said[i] == 0 && rates->all[i] == 0;
}

int bps_servers_rate(struct bps_job *job, struct bps_reason *ret_reason)
{
	uint32_t n = job->boxes.n_boxes, k = job->hosts.n_hosts, i;
	uint32_t given = (uint32_t)job->config.connections;
	bool leads = job->boxes.leader[job->box] == job->rank, open = false;
	struct bps_rates *rates = &job->rates;
	struct bps_reason measured = { 0 };
	int error = take_said(job, rates->said, ret_reason), shared;

	if (leads)
		rates->mine[job->box] = (int64_t)bps_servers_nic_rate(job);
	shared = share_greatest(job, rates->mine, rates->all);
	for (i = 0; i < n + k; i++) {
		open = open || is_open(rates, i);
		if (rates->said[i] == 0)
			rates->said[i] = (double)rates->all[i];
	}
	rates->mine[job->box] = 0;
	job->n_connections = given > 0 ? given : 1;
	if (open && job->config.mode != BPS_MODE_NEVER) { /* nothing asks for them then */
		shared = measure(job, rates, &measured);
		if (given != 1)
			shared = choose_connections(job, leads, shared);
	}
	bps_links_settle(rates->all, n, k, rates->boxes, rates->servers);
	for (i = 0; i < n + k; i++) {
		double *rate = i < n ? &rates->boxes[i] : &rates->servers[i - n];

		if (rates->said[i] > 0)
			*rate = rates->said[i];
	}
	if (error == 0 && shared == 0 && leads && job->config.mode != BPS_MODE_NEVER)
		shared = bps_servers_greet_all(job, &measured);
	if (error == 0 && shared < 0)
		*ret_reason = measured;
	return error < 0 ? error : shared;
}
