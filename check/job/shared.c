/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers that have no link of their own: those on a box of the job, and those on one
 * machine. Boxes found out which they are (check/doctor/places.c).
 */
#include <errno.h>
#include <stdlib.h>

#include "check/job/impl.h"

/* Less is not worth a word. */
#define WORTH_TELLING 1.005

#define COST "each allreduce takes at least %.2f times as long as with links of their own"

/* -- whose link -- */

/* Another box finds the same one there: what none but @box reaches is no part of a job.
 */
static bool is_for_others(const struct bps_job *job, uint32_t box, uint32_t server)
{
	const uint64_t id = bps_job_server_answer(job, box, server)->id;

	for (uint32_t b = 0; b < job->n_boxes; b++) {
		const struct bps_doctor_server *answer =
			bps_job_server_answer(job, b, server);

		if (b != box && answer && id != 0 && answer->id == id)
			return true;
	}
	return false;
}

/* How many places back one is on its machine, where all boxes that it answers agree. */
static uint32_t find_back(const struct bps_job *job, uint32_t server)
{
	uint32_t back = 0, n = 0;

	for (uint32_t b = 0; b < job->n_boxes; b++) {
		const struct bps_doctor_server *answer =
			bps_job_server_answer(job, b, server);

		if (!answer || answer->id == 0)
			continue;
		if (n++ > 0 && answer->back != back)
			return 0;
		back = answer->back;
	}
	return back;
}

/* Of a server: its box's, that of an earlier server on its machine, or its own. */
static uint32_t find_link(const struct bps_job *job, uint32_t server)
{
	uint32_t back;

	for (uint32_t b = 0; b < job->n_boxes; b++) {
		const struct bps_doctor_server *answer =
			bps_job_server_answer(job, b, server);

		if (answer && answer->here && is_for_others(job, b, server))
			return b;
	}
	back = find_back(job, server);
	return back > 0 ? job->on[job->n_boxes + server - back] : job->n_boxes + server;
}

int bps_job_find_shared(struct bps_job *job)
{
	const uint32_t n = job->n_boxes, k = job->charter.n_hosts;

	if (job->on)
		return 0;
	job->on = calloc((size_t)n + k, sizeof(*job->on));
	if (!job->on)
		return -ENOMEM;
	for (uint32_t i = 0; i < n + k; i++)
		job->on[i] = i < n || !job->boxes ? i : find_link(job, i - n);
	return 0;
}

/* -- findings -- */

typedef bool (*server_fn)(const struct bps_job *job, uint32_t server);

static uint32_t link_of(const struct bps_job *job, uint32_t server)
{
	return job->on[job->n_boxes + server];
}

static bool is_on_box(const struct bps_job *job, uint32_t server)
{
	return link_of(job, server) < job->n_boxes;
}

static bool is_off_boxes(const struct bps_job *job, uint32_t server)
{
	return !is_on_box(job, server);
}

/* With another one, on a machine that is no box. */
static bool is_with_another(const struct bps_job *job, uint32_t server)
{
	for (uint32_t s = 0; s < job->charter.n_hosts && !is_on_box(job, server); s++)
		if (s != server && link_of(job, s) == link_of(job, server))
			return true;
	return false;
}

static bool is_first_of_machine(const struct bps_job *job, uint32_t server)
{
	return link_of(job, server) == job->n_boxes + server;
}

static bool is_first_of_several(const struct bps_job *job, uint32_t server)
{
	return is_first_of_machine(job, server) && is_with_another(job, server);
}

/* The names of those servers; how many there are. */
static uint32_t list(const struct bps_job *job, server_fn which, char *ret,
                     size_t ret_bytes)
{
	const char **names = calloc((size_t)job->charter.n_hosts + 1, sizeof(*names));
	uint32_t n = 0;

	ret[0] = '\0';
	for (uint32_t s = 0; names && s < job->charter.n_hosts; s++)
		if (which(job, s))
			names[n++] = bps_job_server_answer(job, 0, s)->name;
	if (names)
		bps_job_fold_names(names, n, ret, ret_bytes);
	free(names);
	return n;
}

static uint32_t list_boxes(const struct bps_job *job, char *ret, size_t ret_bytes)
{
	uint32_t *boxes = calloc(job->n_boxes, sizeof(*boxes)), n = 0;

	ret[0] = '\0';
	for (uint32_t b = 0; boxes && b < job->n_boxes; b++)
		for (uint32_t s = 0; s < job->charter.n_hosts; s++) {
			if (link_of(job, s) != b)
				continue;
			boxes[n++] = b;
			break;
		}
	if (boxes)
		bps_job_list_boxes(job, boxes, n, ret, ret_bytes);
	free(boxes);
	return n;
}

/* How many times as long an allreduce takes because those have no link of their own. */
static double times_of(const struct bps_job *job, server_fn which)
{
	const uint32_t n = job->n_boxes, k = job->charter.n_hosts;
	uint32_t *on = calloc((size_t)n + k, sizeof(*on));
	double times = 1;

	for (uint32_t i = 0; on && i < n + k; i++)
		on[i] = i >= n && which(job, i - n) ? i : job->on[i];
	if (on)
		times = bps_job_times(job, on);
	free(on);
	return times;
}

static void report_remedy(const struct bps_job *job, server_fn may_stay,
                          struct bps_doctor_report *report)
{
	char rest[BPS_JOB_LIST_BYTES];

	bps_doctor_remedy(report,
	                  "start them on other machines, or leave them out, and boxes "
	                  "carry servers where these are too few:");
	if (list(job, may_stay, rest, sizeof(rest)) > 0)
		bps_doctor_type(report, "export BPSMPI_SERVERS='%s'", rest);
	else
		bps_doctor_type(report, "unset BPSMPI_SERVERS");
}

/* Whose link MPI_Init measures, where it can. */
static bool is_open(const struct bps_job *job, uint32_t server)
{
	return is_on_box(job, server) && !job->plan.apart[job->n_boxes + server];
}

static void check_boxes(const struct bps_job *job, struct bps_doctor_report *report)
{
	const double times = times_of(job, is_on_box);
	char servers[BPS_JOB_LIST_BYTES], boxes[BPS_JOB_LIST_BYTES];
	uint32_t n = list(job, is_on_box, servers, sizeof(servers)), n_boxes;

	if (n == 0 || times < WORTH_TELLING)
		return;
	n_boxes = list_boxes(job, boxes, sizeof(boxes));
	bps_doctor_found(report, "server%s %.500s %s on box%s %.400s of the job: %s",
	                 n == 1 ? "" : "s", servers, n == 1 ? "is" : "are",
	                 n_boxes == 1 ? "" : "es", boxes,
	                 n == 1 ? "it takes from that box's own link"
	                        : "they take from the links of boxes");
	bps_doctor_cost(report, COST "%s", times,
	                list(job, is_open, servers, sizeof(servers)) > 0
	                        ? ", and more where MPI_Init takes loopback for them"
	                        : "");
	report_remedy(job, is_off_boxes, report);
}

static void check_machines(const struct bps_job *job, struct bps_doctor_report *report)
{
	const double times = times_of(job, is_with_another);
	char servers[BPS_JOB_LIST_BYTES], firsts[BPS_JOB_LIST_BYTES];
	uint32_t n = list(job, is_with_another, servers, sizeof(servers)), n_machines;

	if (n == 0 || times < WORTH_TELLING)
		return;
	n_machines = list(job, is_first_of_several, firsts, sizeof(firsts));
	if (n_machines == 1)
		bps_doctor_found(report,
		                 "servers %.800s are on one machine: they share its link",
		                 servers);
	else
		bps_doctor_found(report,
		                 "servers %.800s are on %u machines: those of one share "
		                 "its link",
		                 servers, n_machines);
	bps_doctor_cost(report, COST, times);
	report_remedy(job, is_first_of_machine, report);
}

void bps_job_check_shared(const struct bps_job *job, struct bps_doctor_report *report)
{
	report->check = "servers";
	if (!job->plan.made)
		return;
	check_boxes(job, report);
	check_machines(job, report);
}

void bps_job_say_shared(const struct bps_job *job, char *ret, size_t ret_bytes)
{
	char names[BPS_JOB_LIST_BYTES];
	int used = 0;

	ret[0] = '\0';
	if (list(job, is_on_box, names, sizeof(names)) > 0)
		used = snprintf(ret, ret_bytes,
		                "With the link of a box of the job: %.400s.", names);
	if (list(job, is_with_another, names, sizeof(names)) > 0)
		(void)snprintf(ret + used, ret_bytes - (size_t)used,
		               "%sWith one link for all of a machine: %.400s.",
		               used ? " " : "", names);
}
