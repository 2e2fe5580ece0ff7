/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the library carries a job that is started like this one. The library decides in
 * MPI_Init (interpose/life.c), for all ranks alike; here it is asked of the same facts,
 * in the same order.
 */
#include <string.h>

#include "check/job/impl.h"
#include "topology/bandwidth.h"

/* Rank 0's variables rule. */
static const char *look_at_variables(const struct bps_job *job)
{
	if (job->config_wrong)
		return "a variable of rank 0 has a value that cannot be used";
	if (!job->config.enable)
		return "rank 0 has BPSMPI_ENABLE=0";
	if (job->servers_wrong[0])
		return "BPSMPI_SERVERS cannot be read";
	if (job->config.mode == BPS_MODE_NEVER)
		return "rank 0 has BPSMPI_MODE=never";
	return "";
}

/* All ranks or none. */
static const char *look_at_ranks(const struct bps_job *job)
{
	for (uint32_t r = 0; r < job->size; r++)
		if (job->ranks[r].preload != BPS_PRELOAD_CARRIED)
			return "not all ranks carry the library";
	for (uint32_t r = 1; r < job->size; r++)
		if (strcmp(job->ranks[r].version, job->ranks[0].version) != 0)
			return "ranks carry different versions of the library";
	return "";
}

/* The first rank of each box starts its engine. */
static bool look_at_engines(const struct bps_job *job, char *ret_why, size_t why_bytes)
{
	for (uint32_t b = 0; b < job->n_boxes; b++) {
		const struct bps_job_box *box = &job->boxes[b];

		if (box->n_nics == 0)
			(void)snprintf(ret_why, why_bytes,
			               "%s has no network card that can be used",
			               box->host);
		else if (box->inside)
			(void)snprintf(ret_why, why_bytes,
			               "%s takes part by loopback alone, where no other "
			               "host reaches it%s",
			               box->host,
			               job->config.interface[0]
			                       ? ", as BPSMPI_INTERFACE says"
			                       : "");
		else if (box->port_error)
			(void)snprintf(ret_why, why_bytes,
			               "BPSMPI_PORT=%u cannot be used at %s of %s",
			               job->charter.port, box->port_at, box->host);
		else if (job->ranks[box->ranks[0]].cpus_wrong)
			(void)snprintf(ret_why, why_bytes,
			               "BPSMPI_CPUS on %s names no CPU that the first "
			               "rank there may use",
			               box->host);
		else
			continue;
		return false;
	}
	return true;
}

const struct bps_doctor_server *bps_job_server_answer(const struct bps_job *job,
                                                      uint32_t box, uint32_t server)
{
	const struct bps_job_box *of = &job->boxes[box];

	return server < of->n_servers ? &of->servers[server] : NULL;
}

bool bps_job_other_server(const struct bps_job *job, uint32_t box, uint32_t server,
                          uint32_t *ret_first)
{
	const struct bps_doctor_server *here = bps_job_server_answer(job, box, server);

	for (uint32_t b = 0; here && here->id && b < box; b++) {
		const struct bps_doctor_server *there =
			bps_job_server_answer(job, b, server);

		*ret_first = b;
		if (there && there->id)
			return there->id != here->id;
	}
	return false;
}

/* No address leads boxes to different servers. */
static bool look_at_identities(const struct bps_job *job, char *ret_why, size_t why_bytes)
{
	uint32_t first;

	for (uint32_t b = 1; b < job->n_boxes; b++)
		for (uint32_t s = 0; s < job->charter.n_hosts; s++) {
			if (!bps_job_other_server(job, b, s, &first))
				continue;
			(void)snprintf(ret_why, why_bytes,
			               "server %.160s is another one for %s than for %s",
			               job->boxes[b].servers[s].name, job->boxes[b].host,
			               job->boxes[first].host);
			return false;
		}
	return true;
}

/* Every box has to be taken by every server. */
static bool look_at_servers(const struct bps_job *job, char *ret_why, size_t why_bytes)
{
	for (uint32_t b = 0; b < job->n_boxes; b++)
		for (uint32_t s = 0; s < job->charter.n_hosts; s++) {
			const struct bps_doctor_server *server =
				bps_job_server_answer(job, b, s);

			if (server && (server->answer == BPS_DOCTOR_FINE ||
			               server->answer == BPS_DOCTOR_SOFTWARE))
				continue;
			(void)snprintf(ret_why, why_bytes,
			               "server %.160s is not there for %s",
			               server ? server->name : "of another list",
			               job->boxes[b].host);
			return false;
		}
	return true;
}

static bool look_at_memory(const struct bps_job *job, char *ret_why, size_t why_bytes)
{
	for (uint32_t s = 0; s < job->charter.n_hosts; s++) {
		if (!bps_job_lacks_memory(job, s))
			continue;
		(void)snprintf(ret_why, why_bytes,
		               "server %.160s has not the memory for its windows",
		               bps_job_server_answer(job, 0, s)->name);
		return false;
	}
	if (!bps_job_carries_too_much(job))
		return true;
	(void)snprintf(ret_why, why_bytes,
	               "BPSMPI_SERVER_MEMORY_BYTES is too little for its windows");
	return false;
}

static bool look_at_bandwidth(const struct bps_job *job, char *ret_why, size_t why_bytes)
{
	struct bps_bandwidths said;
	char error[512];

	if (bps_bandwidths_parse("BPSMPI_BANDWIDTH", job->config.bandwidth, &said, error,
	                         sizeof(error))) {
		(void)snprintf(ret_why, why_bytes, "%.200s", error);
		return false;
	}
	bps_bandwidths_deinit(&said);
	return true;
}

bool bps_job_runs(const struct bps_job *job, char *ret_why, size_t why_bytes)
{
	const char *why = look_at_variables(job);

	if (!why[0])
		why = look_at_ranks(job);
	(void)snprintf(ret_why, why_bytes, "%s", why);
	if (why[0])
		return false;
	return job->n_boxes < 2 || (look_at_engines(job, ret_why, why_bytes) &&
	                            look_at_servers(job, ret_why, why_bytes) &&
	                            look_at_identities(job, ret_why, why_bytes) &&
	                            look_at_memory(job, ret_why, why_bytes) &&
	                            look_at_bandwidth(job, ret_why, why_bytes));
}
