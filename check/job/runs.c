/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the library carries a job that is started like this one. The library decides in
 * MPI_Init (interpose/life.c), for all ranks alike; here it is asked of the same facts,
 * in the same order.
 */
#include <stdarg.h>
#include <string.h>

#include "check/job/impl.h"
#include "topology/bandwidth.h"

/* What is found out. */
struct verdict {
	char *why;
	size_t why_bytes;
	bool told; /* a check of its own reports it */
};

/* Return: false. */
static bool keeps_out(struct verdict *verdict, bool told, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static bool keeps_out(struct verdict *verdict, bool told, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(verdict->why, verdict->why_bytes, format, args);
	va_end(args);
	verdict->told = told;
	return false;
}

/* Rank 0's variables rule. */
static bool look_at_variables(const struct bps_job *job, struct verdict *verdict)
{
	if (job->config_wrong)
		return keeps_out(verdict, true,
		                 "a variable of rank 0 has a value that cannot be used");
	if (!job->config.enable)
		return keeps_out(verdict, true, "rank 0 has BPSMPI_ENABLE=0");
	if (job->servers_wrong[0])
		return keeps_out(verdict, true, "BPSMPI_SERVERS cannot be read");
	if (job->config.mode == BPS_MODE_NEVER)
		return keeps_out(verdict, false, "rank 0 has BPSMPI_MODE=never");
	return true;
}

/* All ranks or none. */
static bool look_at_ranks(const struct bps_job *job, struct verdict *verdict)
{
	for (uint32_t r = 0; r < job->size; r++)
		if (job->ranks[r].preload != BPS_PRELOAD_CARRIED)
			return keeps_out(verdict, true,
			                 "not all ranks carry the library");
	for (uint32_t r = 1; r < job->size; r++)
		if (strcmp(job->ranks[r].version, job->ranks[0].version) != 0)
			return keeps_out(verdict, true,
			                 "ranks carry different versions of the library");
	return true;
}

/* The first rank of each box starts its engine. */
static bool look_at_engines(const struct bps_job *job, struct verdict *verdict)
{
	for (uint32_t b = 0; b < job->n_boxes; b++) {
		const struct bps_job_box *box = &job->boxes[b];

		if (box->n_nics == 0)
			return keeps_out(verdict, false,
			                 "%s has no network card that can be used",
			                 box->host);
		if (box->inside)
			return keeps_out(verdict, false,
			                 "%s takes part by loopback alone, where no "
			                 "other host reaches it%s",
			                 box->host,
			                 job->config.interface[0]
			                         ? ", as BPSMPI_INTERFACE says"
			                         : "");
		if (box->port_error)
			return keeps_out(verdict, true,
			                 "BPSMPI_PORT=%u cannot be used on %s",
			                 job->charter.port, box->host);
		if (job->ranks[box->ranks[0]].cpus_wrong)
			return keeps_out(verdict, true,
			                 "BPSMPI_CPUS on %s names no CPU that the first "
			                 "rank there may use",
			                 box->host);
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

/* No address leads boxes to different servers, and no server is there twice. */
static bool look_at_identities(const struct bps_job *job, struct verdict *verdict)
{
	uint32_t first;

	for (uint32_t b = 0; b < job->n_boxes; b++)
		for (uint32_t s = 0; s < job->charter.n_hosts; s++) {
			const struct bps_job_box *box = &job->boxes[b];

			if (s < box->n_servers &&
			    bps_doctor_same_server(box->servers, s, &first))
				return keeps_out(
					verdict, true,
					"%.100s and %.100s are one server for %s",
					box->servers[first].name, box->servers[s].name,
					box->host);
			if (bps_job_other_server(job, b, s, &first))
				return keeps_out(verdict, true,
				                 "server %.160s is another one for %s "
				                 "than for %s",
				                 box->servers[s].name, box->host,
				                 job->boxes[first].host);
		}
	return true;
}

/* Every box has to be taken by every server. */
static bool look_at_servers(const struct bps_job *job, struct verdict *verdict)
{
	for (uint32_t b = 0; b < job->n_boxes; b++)
		for (uint32_t s = 0; s < job->charter.n_hosts; s++) {
			const struct bps_doctor_server *server =
				bps_job_server_answer(job, b, s);

			if (!server || !bps_job_takes_jobs(server))
				return keeps_out(verdict, true,
				                 "server %.160s is not there for %s",
				                 server ? server->name
				                        : "of another list",
				                 job->boxes[b].host);
		}
	return true;
}

/* So has every box by those that the boxes carry. */
static bool look_at_boxes(const struct bps_job *job, struct verdict *verdict)
{
	for (uint32_t b = 0; b < job->n_boxes; b++) {
		const struct bps_job_box *box = &job->boxes[b];

		if (box->n_deaf > 0)
			return keeps_out(verdict, true,
			                 "the server that %s would carry is not there "
			                 "for %s",
			                 job->boxes[box->deaf[0].box].host, box->host);
	}
	return true;
}

static bool look_at_memory(const struct bps_job *job, struct verdict *verdict)
{
	for (uint32_t s = 0; s < job->charter.n_hosts; s++)
		if (bps_job_lacks_memory(job, s))
			return keeps_out(
				verdict, true,
				"server %.160s has not the memory for its windows",
				bps_job_server_answer(job, 0, s)->name);
	if (bps_job_carries_too_much(job))
		return keeps_out(
			verdict, true,
			"BPSMPI_SERVER_MEMORY_BYTES is too little for its windows");
	return true;
}

static bool look_at_bandwidth(const struct bps_job *job, struct verdict *verdict)
{
	struct bps_bandwidths said;
	char error[512];

	if (bps_bandwidths_parse("BPSMPI_BANDWIDTH", job->config.bandwidth, &said, error,
	                         sizeof(error)))
		return keeps_out(verdict, true, "%.200s", error);
	bps_bandwidths_deinit(&said);
	return true;
}

bool bps_job_runs(const struct bps_job *job, char *ret_why, size_t why_bytes,
                  bool *ret_told)
{
	struct verdict verdict = { ret_why, why_bytes, false };
	bool runs;

	ret_why[0] = '\0';
	runs = look_at_variables(job, &verdict) && look_at_ranks(job, &verdict);
	if (runs && job->n_boxes > 1)
		runs = look_at_engines(job, &verdict) && look_at_servers(job, &verdict) &&
		       look_at_identities(job, &verdict) &&
		       look_at_boxes(job, &verdict) && look_at_memory(job, &verdict) &&
		       look_at_bandwidth(job, &verdict);
	*ret_told = verdict.told;
	return runs;
}
