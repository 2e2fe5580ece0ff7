/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks of what is between a box of a job and the servers of that. */
#include <stdlib.h>
#include <string.h>

#include "check/job/impl.h"

/* -- servers -- */

/* Return: whether there is one. */
static bool check_identities(const struct bps_job *job, uint32_t box,
                             struct bps_doctor_report *report)
{
	uint32_t first, n = 0;

	for (uint32_t s = 0; s < job->boxes[box].n_servers; s++) {
		if (!bps_job_other_server(job, box, s, &first))
			continue;
		n++;
		bps_doctor_found(report, "%.200s is another server here than on %s",
		                 job->boxes[box].servers[s].name, job->boxes[first].host);
		bps_doctor_cost(report, "each would wait for the boxes that are at the "
		                        "other: jobs run without bytepsmpi");
		bps_doctor_remedy(
			report, "give it an address that leads to the same machine from "
				"everywhere. DNS, /etc/hosts or address translation "
				"differ, or the same private network is there twice. "
				"What it leads to says, on both:");
		bps_doctor_type(report, "getent ahosts %s", job->charter.hosts[s].name);
	}
	return n > 0;
}

void bps_job_check_servers(const struct bps_job *job, uint32_t box,
                           struct bps_doctor_report *report)
{
	const struct bps_job_box *of = &job->boxes[box];
	struct bps_doctor_facts *facts = calloc(1, sizeof(*facts));

	report->check = "servers";
	if (!facts)
		return;
	if (job->n_boxes > 1) { /* a job of one box has no use for them */
		facts->servers = of->servers;
		facts->n_servers = of->n_servers;
	}
	if (box == 0)
		memcpy(facts->servers_wrong, job->servers_wrong,
		       sizeof(facts->servers_wrong));
	bps_doctor_check_servers(facts, report);
	if (!check_identities(job, box, report))
		bps_doctor_check_twice(facts, report);
	free(facts); /* what it names is the box's */
}

/* -- the servers that boxes carry -- */

void bps_job_check_port(const struct bps_job *job, uint32_t box,
                        struct bps_doctor_report *report)
{
	const struct bps_job_box *of = &job->boxes[box];

	report->check = "port";
	if (of->port_error == 0)
		return;
	bps_doctor_found(report, "BPSMPI_PORT=%u cannot be used: %s", job->charter.port,
	                 strerrordesc_np((int)of->port_error));
	bps_doctor_cost(report, "the server that this box carries cannot listen: jobs "
	                        "run without bytepsmpi");
	bps_doctor_remedy(report, "unset it, and any free port is taken, or give "
	                          "another one. Who has it says, there:");
	bps_doctor_type(report, "ss -ltnp sport = :%u", job->charter.port);
}

static const char *say_answer(uint32_t answer)
{
	switch (answer) {
	case BPS_DOCTOR_REFUSED:
		return "it refuses the connection";
	case BPS_DOCTOR_TIMED_OUT:
		return "no answer at all";
	case BPS_DOCTOR_UNREACHABLE:
		return "no way leads there";
	case BPS_DOCTOR_STUCK:
		return "small packets pass, large ones are lost";
	default:
		return "it takes the connection, and is no server then";
	}
}

/* Boxes with the same answer are one finding. */
static void report_deaf(const struct bps_job *job, const struct bps_job_box *of,
                        uint32_t answer, struct bps_doctor_report *report)
{
	const char **names = calloc((size_t)of->n_deaf + 1, sizeof(*names));
	char list[BPS_JOB_LIST_BYTES];
	uint32_t n = 0;

	for (uint32_t i = 0; names && i < of->n_deaf; i++)
		if (of->deaf[i].answer == answer && of->deaf[i].box < job->n_boxes)
			names[n++] = job->boxes[of->deaf[i].box].host;
	if (n > 0) {
		bps_doctor_found(
			report,
			"the server that a job has in %s is not reached from here: %s",
			bps_job_fold_names(names, n, list, sizeof(list)),
			say_answer(answer));
		bps_doctor_cost(report, "jobs run without bytepsmpi");
		bps_doctor_remedy(
			report,
			answer == BPS_DOCTOR_STUCK
				? "give the cards of both hosts, and all that is between "
				  "them, the same MTU"
				: "let TCP pass between the hosts of a job: look for a "
				  "firewall on them and between them. It may be open for "
				  "one port, if that is given. Or start as many servers "
				  "as hosts elsewhere (BPSMPI_SERVERS).");
		if (answer != BPS_DOCTOR_STUCK)
			bps_doctor_type(report, "export BPSMPI_PORT=%u",
			                job->charter.port ? job->charter.port
			                                  : BPS_SERVER_PORT + 1);
	}
	free(names);
}

void bps_job_check_boxes(const struct bps_job *job, uint32_t box,
                         struct bps_doctor_report *report)
{
	const struct bps_job_box *of = &job->boxes[box];

	report->check = "boxes";
	for (uint32_t answer = 0; answer < BPS_DOCTOR_N_ANSWERS; answer++)
		report_deaf(job, of, answer, report);
}

/* -- ways -- */

static bool are_alike(const struct bps_job_way *a, const struct bps_job_way *b)
{
	return strcmp(a->card, b->card) == 0 && strcmp(a->why, b->why) == 0;
}

/* "eth0,eth2": the cards but for @card. */
static const char *others(const struct bps_job_box *box, const char *card, char *ret,
                          size_t ret_bytes)
{
	size_t used = 0;

	ret[0] = '\0';
	for (uint32_t i = 0; i < box->n_nics && used < ret_bytes; i++)
		if (strcmp(box->nics[i], card) != 0)
			used += (size_t)snprintf(ret + used, ret_bytes - used, "%s%s",
			                         used ? "," : "", box->nics[i]);
	return ret;
}

static const char *say_server(const struct bps_job *job, uint32_t box, uint32_t server,
                              char *ret, size_t ret_bytes)
{
	const struct bps_doctor_server *answer = bps_job_server_answer(job, box, server);
	const uint32_t other = server - job->charter.n_hosts;

	if (answer)
		(void)snprintf(ret, ret_bytes, "server %.160s", answer->name);
	else
		(void)snprintf(ret, ret_bytes, "%s",
		               other < job->n_boxes ? job->boxes[other].host : "?");
	return ret;
}

/* Those of one card that are lost for the same reason are one finding. */
void bps_job_check_ways(const struct bps_job *job, uint32_t box,
                        struct bps_doctor_report *report)
{
	const struct bps_job_box *of = &job->boxes[box];

	report->check = "rails";
	for (uint32_t i = 0; i < of->n_lost; i++) {
		const struct bps_job_way *way = &of->lost[i];
		uint32_t first = 0, n_more = 0;
		char more[32] = "", names[BPS_JOB_NICS * IF_NAMESIZE], name[200];

		while (!are_alike(&of->lost[first], way))
			first++;
		for (uint32_t j = i + 1; j < of->n_lost; j++)
			n_more += are_alike(&of->lost[j], way);
		if (first < i || job->n_boxes < 2)
			continue;
		if (n_more > 0)
			(void)snprintf(more, sizeof(more), ", nor %u more", n_more);
		bps_doctor_found(report, "network card %s does not reach %s of %s%s: %s",
		                 way->card, way->to,
		                 say_server(job, box, way->server, name, sizeof(name)),
		                 more, way->why);
		bps_doctor_cost(report,
		                "jobs leave that way out, and what it would carry "
		                "goes by others");
		bps_doctor_remedy(report, "mend it, or say which cards are to be used:");
		bps_doctor_type(report, "export BPSMPI_INTERFACE=%s",
		                others(of, way->card, names, sizeof(names)));
	}
}
