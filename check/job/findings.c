/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Findings of all boxes, put together: what the doctor found on each box came here as
 * text, with no line broken; what is said of several boxes in the same words is one
 * finding.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/job/impl.h"

#define COST   "  cost: "
#define REMEDY "  remedy: "
#define TYPE   "      "

static void finding_deinit(struct bps_job_finding *finding)
{
	free(finding->check);
	free(finding->found);
	free(finding->cost);
	free(finding->remedy);
	free(finding->types);
	free(finding->boxes);
	*finding = (struct bps_job_finding){ 0 };
}

void bps_job_findings_deinit(struct bps_job_findings *findings)
{
	for (uint32_t i = 0; i < findings->n; i++)
		finding_deinit(&findings->list[i]);
	free(findings->list);
	*findings = (struct bps_job_findings){ 0 };
}

static bool begins(const char *line, const char *with)
{
	return strncmp(line, with, strlen(with)) == 0;
}

/* @line without its newline, behind what it has already. */
static int append(char **text, const char *line, size_t n, const char *end)
{
	char *more;

	if (asprintf(&more, "%s%.*s%s", *text ? *text : "", (int)n, line, end) < 0)
		return -ENOMEM;
	free(*text);
	*text = more;
	return 0;
}

/* "HOST, CHECK: what was found" */
static int take_head(struct bps_job_finding *finding, const char *line, size_t n)
{
	const char *check = memmem(line, n, ", ", 2);
	const char *found = memmem(line, n, ": ", 2);

	if (!check || !found || found < check)
		return -EINVAL;
	check += 2;
	found += 2;
	if (append(&finding->check, check, (size_t)(found - 2 - check), "") ||
	    append(&finding->found, found, n - (size_t)(found - line), ""))
		return -ENOMEM;
	return 0;
}

static int take_line(struct bps_job_finding *finding, const char *line, size_t n)
{
	if (begins(line, TYPE))
		return append(&finding->types, line + strlen(TYPE), n - strlen(TYPE),
		              "\n");
	if (begins(line, COST))
		return append(&finding->cost, line + strlen(COST), n - strlen(COST), "");
	if (begins(line, REMEDY))
		return append(&finding->remedy, line + strlen(REMEDY), n - strlen(REMEDY),
		              "");
	return take_head(finding, line, n);
}

/* Reads one finding at *@text and moves on. */
static int parse(const char **text, struct bps_job_finding *ret)
{
	bool first = true;
	int r = 0;

	*ret = (struct bps_job_finding){ 0 };
	while (**text && (first || **text == ' ') && r != -ENOMEM) {
		size_t n = strcspn(*text, "\n");
		int error = take_line(ret, *text, n);

		r = error ? error : r;
		*text += n + ((*text)[n] == '\n');
		first = false;
	}
	if (!r && (!ret->check || !ret->cost || !ret->remedy))
		r = -EINVAL; /* a peer's, cut off */
	if (!r && !ret->types)
		r = append(&ret->types, "", 0, "");
	if (r)
		finding_deinit(ret);
	return r;
}

static bool same(const struct bps_job_finding *a, const struct bps_job_finding *b)
{
	return strcmp(a->check, b->check) == 0 && strcmp(a->found, b->found) == 0 &&
	       strcmp(a->cost, b->cost) == 0 && strcmp(a->remedy, b->remedy) == 0 &&
	       strcmp(a->types, b->types) == 0;
}

static int add_box(struct bps_job_finding *finding, uint32_t box)
{
	const size_t bytes = (finding->n_boxes + 1) * sizeof(*finding->boxes);
	uint32_t *boxes;

	if (box == UINT32_MAX)
		return 0;
	boxes = realloc(finding->boxes, bytes);
	if (!boxes)
		return -ENOMEM;
	finding->boxes = boxes;
	boxes[finding->n_boxes++] = box;
	return 0;
}

static struct bps_job_finding *find(const struct bps_job_findings *findings,
                                    const struct bps_job_finding *finding)
{
	for (uint32_t i = 0; i < findings->n; i++)
		if (same(&findings->list[i], finding))
			return &findings->list[i];
	return NULL;
}

/* Consumes @finding. */
static int put(struct bps_job_findings *findings, struct bps_job_finding *finding,
               uint32_t box)
{
	struct bps_job_finding *there = find(findings, finding), *list;

	if (there) {
		finding_deinit(finding);
		return add_box(there, box);
	}
	list = realloc(findings->list, (findings->n + 1) * sizeof(*list));
	if (!list) {
		finding_deinit(finding);
		return -ENOMEM;
	}
	findings->list = list;
	list[findings->n] = *finding;
	return add_box(&list[findings->n++], box);
}

int bps_job_findings_add(struct bps_job_findings *findings, const char *text,
                         uint32_t box)
{
	while (text && *text) {
		struct bps_job_finding finding;
		int r = parse(&text, &finding);

		if (r == 0)
			r = put(findings, &finding, box);
		if (r == -ENOMEM)
			return r;
	}
	return 0;
}

/* -- all checks -- */

static int take_report(struct bps_job *job, FILE *out, char **text, uint32_t box)
{
	int r = -ENOMEM;

	if (fclose(out) == 0)
		r = bps_job_findings_add(&job->findings, *text, box);
	free(*text);
	*text = NULL;
	return r;
}

static int examine_job(struct bps_job *job)
{
	struct bps_doctor_report report = { .host = "job" };
	char *text = NULL;
	size_t bytes;

	report.out = open_memstream(&text, &bytes);
	if (!report.out)
		return -ENOMEM;
	bps_job_check_preload(job, &report);
	bps_job_check_versions(job, &report);
	bps_job_check_settings(job, &report);
	bps_job_check_network(job, &report);
	bps_job_check_memory(job, &report);
	bps_job_check_shared(job, &report);
	return take_report(job, report.out, &text, UINT32_MAX);
}

static int examine_box(struct bps_job *job, uint32_t box)
{
	struct bps_doctor_report report = { .host = job->boxes[box].host };
	char *text = NULL;
	size_t bytes;

	report.out = open_memstream(&text, &bytes);
	if (!report.out)
		return -ENOMEM;
	bps_job_check_servers(job, box, &report);
	bps_job_check_port(job, box, &report);
	bps_job_check_boxes(job, box, &report);
	bps_job_check_ways(job, box, &report);
	bps_job_check_link(job, box, &report);
	bps_job_check_mtu(job, box, &report);
	bps_job_check_cpus(job, box, &report);
	bps_job_check_binding(job, box, &report);
	bps_job_check_room(job, box, &report);
	return take_report(job, report.out, &text, box);
}

/* What no check has a name for is said all the same. */
static int examine_rest(struct bps_job *job)
{
	struct bps_doctor_report report = { .host = "job", .check = "settings" };
	char *text = NULL;
	size_t bytes;

	if (job->plan.runs || (job->plan.told && job->findings.n > 0))
		return 0;
	report.out = open_memstream(&text, &bytes);
	if (!report.out)
		return -ENOMEM;
	bps_doctor_found(&report, "%s", job->plan.why);
	bps_doctor_cost(&report, "all ranks run without bytepsmpi");
	bps_doctor_remedy(&report,
	                  "where that is not meant so, mend it. What is set, and "
	                  "where it comes from, says:");
	bps_doctor_type(&report, "mpirun ... bpsmpi-check --env");
	return take_report(job, report.out, &text, UINT32_MAX);
}

/* What keeps one box from a server that takes others is near that box. */
static void compare_answers(struct bps_job *job)
{
	for (uint32_t s = 0; s < job->charter.n_hosts; s++) {
		bool reached = false;

		for (uint32_t b = 0; b < job->n_boxes; b++) {
			const struct bps_doctor_server *server =
				bps_job_server_answer(job, b, s);

			reached = reached || (server && server->round_trip_ns > 0);
		}
		for (uint32_t b = 0; b < job->n_boxes; b++) {
			if (s >= job->boxes[b].n_servers)
				continue;
			job->boxes[b].servers[s].reached =
				reached &&
				job->boxes[b].servers[s].answer >= BPS_DOCTOR_REFUSED &&
				job->boxes[b].servers[s].answer <= BPS_DOCTOR_UNREACHABLE;
		}
	}
}

int bps_job_examine(struct bps_job *job)
{
	int r = examine_job(job);

	compare_answers(job);

	for (uint32_t b = 0; b < job->n_boxes && !r; b++)
		r = examine_box(job, b);
	for (uint32_t b = 0; b < job->n_boxes && !r; b++)
		r = bps_job_findings_add(&job->findings, job->boxes[b].findings, b);
	return r ? r : examine_rest(job);
}
