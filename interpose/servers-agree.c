/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the leaders have to agree on once they are connected: that they all talk to the
 * same servers, and with how many rails all count.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "interpose/servers.h"

static void explain_other(const struct bps_job_server *server,
                          struct bps_reason *ret_reason)
{
	ret_reason->error = -EADDRNOTAVAIL;
	snprintf(ret_reason->text, sizeof(ret_reason->text),
	         "server %.64s is another one here than for other hosts: give it an "
	         "address that leads everywhere to the same machine (look at DNS, "
	         "/etc/hosts and address translation)",
	         server->name);
}

int bps_servers_know(struct bps_job *job, struct bps_reason *ret_reason)
{
	struct bps_engine_answer answer;
	uint32_t i;

	for (i = 0; i < job->n_servers; i++) {
		struct bps_job_server *server = &job->servers[i];

		bps_engine_ask(job->engine, i, &answer);
		if (server->id != 0 && answer.id != server->id) {
			explain_other(server, ret_reason);
			return -EADDRNOTAVAIL;
		}
		server->id = answer.id;
	}
	return 0;
}

static int share_most(const struct bps_job *job, const int64_t *mine, int64_t *most,
                      uint32_t n)
{
	const struct bps_mpi *mpi = job->mpi;

	return mpi->Allreduce(mine, most, (int)n, mpi->type[BPS_MPI_INT64_T],
	                      mpi->op[BPS_MAX], mpi->comm_world) == mpi->success
	               ? 0
	               : -EIO;
}

/*
 * Windows are agreed on, so all count with as many rails as any leader has. Of the
 * leaders that have a card that carries nothing one says so: boxes are mostly alike.
 */
static int agree_rails(struct bps_job *job)
{
	int64_t mine[2] = { 1, job->idle_card[0] ? job->size - job->rank : 0 }, most[2];
	uint32_t i;
	int r;

	for (i = 0; i < job->n_servers; i++) {
		if (job->servers[i].n_rails > mine[0])
			mine[0] = job->servers[i].n_rails;
	}
	r = share_most(job, mine, most, 2);
	if (r < 0)
		return r;
	job->n_rails = (uint32_t)most[0];
	if (job->idle_card[0] && mine[1] == most[1])
		bps_info("%s", job->idle_card);
	else if (job->idle_card[0])
		bps_debug("%s", job->idle_card);
	return 0;
}

/*
 * An address may lead to one machine here and to another one there: each server would
 * wait for members that are at the other. The rates' arrays are of no use yet, and there
 * are at least as many links as servers.
 */
static int agree_servers(struct bps_job *job, struct bps_reason *ret_reason)
{
	int64_t *mine = job->rates.mine, *most = job->rates.all;
	bool leads = job->boxes.leader[job->box] == job->rank;
	uint32_t n = job->n_servers, i;
	int r;

	for (i = 0; i < n; i++)
		mine[i] = leads ? (int64_t)job->servers[i].id : INT64_MIN;
	r = share_most(job, mine, most, n);
	for (i = 0; i < n && r == 0; i++) {
		if (leads && mine[i] != most[i]) {
			explain_other(&job->servers[i], ret_reason);
			r = -EADDRNOTAVAIL;
		}
		job->servers[i].id = (uint64_t)most[i];
	}
	memset(mine, 0, n * sizeof(*mine));
	memset(most, 0, n * sizeof(*most));
	return r;
}

int bps_servers_agree(struct bps_job *job, struct bps_reason *ret_reason)
{
	int rails = agree_rails(job), servers = agree_servers(job, ret_reason);

	return rails < 0 ? rails : servers;
}
