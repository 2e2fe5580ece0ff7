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
#include "transport/netif.h"

#define N_ROUNDS 3u
#define ROUND_NS (30 * BPS_NS_PER_MS)

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
	bps_links_settle(rates->all, job->boxes.n_boxes, job->hosts.n_hosts, rates->boxes,
	                 rates->servers);
	return error < 0 ? error : shared;
}

/* -- what need not be measured -- */

/* Of the interface that this leader's connections use; 0: the kernel does not know. */
static double nic_rate(const struct bps_job *job)
{
	char name[IF_NAMESIZE];
	double rate;

	if (bps_netif_name(&job->local, name) < 0 ||
	    bps_nic_speed("/sys/class/net", name, &rate) != 0)
		return 0;
	return rate;
}

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
	bool leads = job->boxes.leader[job->box] == job->rank, open = false;
	struct bps_rates *rates = &job->rates;
	struct bps_reason measured = { 0 };
	int error = take_said(job, rates->said, ret_reason), shared;

	if (leads)
		rates->mine[job->box] = (int64_t)nic_rate(job);
	shared = share_greatest(job, rates->mine, rates->all);
	for (i = 0; i < n + k; i++) {
		open = open || is_open(rates, i);
		if (rates->said[i] == 0)
			rates->said[i] = (double)rates->all[i];
	}
	rates->mine[job->box] = 0;
	if (open && job->config.mode != BPS_MODE_NEVER) /* nothing asks for them then */
		shared = measure(job, rates, &measured);
	for (i = 0; i < n + k; i++) {
		double *rate = i < n ? &rates->boxes[i] : &rates->servers[i - n];

		if (rates->said[i] > 0)
			*rate = rates->said[i];
	}
	if (error == 0 && shared < 0)
		*ret_reason = measured;
	return error < 0 ? error : shared;
}
