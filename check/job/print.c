/* SPDX-License-Identifier: BSD-3-Clause */
/* The report on a job as text: boxes, servers, findings. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "check/box/impl.h"
#include "check/job/impl.h"
#include "topology/bandwidth.h"
#include "topology/boxes.h"

#define MANY_LINES     8  /* of differences: then the box is shown whole */
#define N_SERVERS      64 /* rows of the table of servers */
#define SERVER_COLUMNS 28
#define CPUS_BYTES     256

static const char *plural(uint32_t n)
{
	return n == 1 ? "" : "s";
}

/* -- the head -- */

static void print_head(const struct bps_job *job, const struct bps_box_printer *printer)
{
	const struct bps_job_rank *first = &job->ranks[0];
	uint32_t n_carried = 0;

	for (uint32_t r = 0; r < job->size; r++)
		n_carried += job->ranks[r].preload == BPS_PRELOAD_CARRIED;
	bps_box_line(printer, 0, "%u rank%s on %u box%s, %.*s", job->size,
	             plural(job->size), job->n_boxes, job->n_boxes == 1 ? "" : "es",
	             (int)strcspn(first->mpi, ","), first->mpi);
	if (n_carried == job->size)
		bps_box_line(printer, 0, "bytepsmpi %s on all ranks: %s", first->version,
		             first->library);
	else
		bps_box_line(printer, 0, "bytepsmpi on %u of %u ranks", n_carried,
		             job->size);
}

/* -- boxes -- */

/* All boxes like @box. */
static char *list_alike(const struct bps_job *job, uint32_t box, char *ret,
                        size_t ret_bytes)
{
	uint32_t *boxes = calloc(job->n_boxes, sizeof(*boxes)), n = 0;

	ret[0] = '\0';
	for (uint32_t b = 0; boxes && b < job->n_boxes; b++)
		if (job->boxes[b].like == job->boxes[box].like)
			boxes[n++] = b;
	if (boxes)
		bps_job_list_boxes(job, boxes, n, ret, ret_bytes);
	free(boxes);
	return ret;
}

/* Its ranks, those with the same CPUs on one line. */
static void print_ranks(const struct bps_job *job, const struct bps_box_printer *printer,
                        const struct bps_job_box *box)
{
	uint32_t *list = calloc((size_t)box->n_ranks + 1, sizeof(*list)), n;
	char ranks[BPS_JOB_LIST_BYTES], cpus[CPUS_BYTES];

	for (uint32_t i = 0; list && i < box->n_ranks; i++) {
		const struct bps_cpuset *set = &job->ranks[box->ranks[i]].cpus;
		bool told = false;

		n = 0;
		for (uint32_t j = 0; j < box->n_ranks; j++) {
			if (memcmp(&job->ranks[box->ranks[j]].cpus, set, sizeof(*set)))
				continue;
			told |= j < i;
			list[n++] = box->ranks[j];
		}
		if (told)
			continue;
		bps_cpuset_format(set, cpus, sizeof(cpus));
		bps_box_line(printer, 1, "rank%s %s on CPU%s %s", plural(n),
		             bps_ranks_format(list, n, ranks, sizeof(ranks)),
		             plural(bps_cpuset_count(set)), cpus);
	}
	free(list);
}

static void print_whole(const struct bps_job *job, const struct bps_box_printer *printer,
                        uint32_t box)
{
	const uint32_t n = bps_job_count_alike(job, box);
	char names[BPS_JOB_LIST_BYTES];

	putchar('\n');
	if (n > 1)
		bps_box_line(printer, 0, "%u boxes like this one: %s", n,
		             list_alike(job, box, names, sizeof(names)));
	else if (strcmp(job->boxes[box].host, bps_job_host(job, box)) != 0)
		bps_box_line(printer, 0, "%s:", job->boxes[box].host);
	bps_box_print(job->boxes[box].machine, printer->width);
	print_ranks(job, printer, &job->boxes[box]);
}

static uint32_t count_lines(const char *text)
{
	uint32_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* In what a kind of box differs from the common one. */
static void print_kind(const struct bps_job *job, const struct bps_box_printer *printer,
                       uint32_t box, uint32_t common)
{
	const uint32_t n = bps_job_count_alike(job, box);
	char *text = bps_job_difference(job, &job->boxes[box], &job->boxes[common]);
	char names[BPS_JOB_LIST_BYTES], *rest = NULL;

	if (!text || count_lines(text) > MANY_LINES) {
		print_whole(job, printer, box);
		free(text);
		return;
	}
	putchar('\n');
	bps_box_line(printer, 0,
	             "%s differ%s from %s:", list_alike(job, box, names, sizeof(names)),
	             n == 1 ? "s" : "", job->boxes[common].host);
	for (char *line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		bps_box_line(printer, 1, "%s", line);
	print_ranks(job, printer, &job->boxes[box]);
	free(text);
}

static void print_boxes(const struct bps_job *job, const struct bps_box_printer *printer)
{
	const uint32_t common = bps_job_common(job);

	print_whole(job, printer, common);
	for (uint32_t b = 0; b < job->n_boxes; b++)
		if (job->boxes[b].like == b && b != common)
			print_kind(job, printer, b, common);
}

/* -- servers -- */

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

uint32_t bps_job_round_trips(const struct bps_job *job, uint32_t server,
                             uint64_t *ret_least_ns, uint64_t *ret_median_ns)
{
	uint64_t *ns = calloc(job->n_boxes, sizeof(*ns));
	uint32_t n = 0;

	for (uint32_t b = 0; ns && b < job->n_boxes; b++) {
		const struct bps_doctor_server *answer =
			bps_job_server_answer(job, b, server);

		if (answer && answer->round_trip_ns > 0)
			ns[n++] = answer->round_trip_ns;
	}
	if (n > 0)
		qsort(ns, n, sizeof(*ns), compare);
	*ret_least_ns = n > 0 ? ns[0] : 0;
	*ret_median_ns = n > 0 ? ns[n / 2] : 0;
	free(ns);
	return n;
}

static void print_server(const struct bps_job *job, struct bps_box_row *row,
                         uint32_t server)
{
	uint64_t least, median;
	uint32_t n = bps_job_round_trips(job, server, &least, &median);

	bps_box_name_cell(row, SERVER_COLUMNS, job->boxes[0].servers[server].name);
	bps_box_cell(row, 12, "%u of %u", n, job->n_boxes);
	if (n > 0) {
		bps_box_cell(row, 15, "%.2f ms", (double)least / BPS_NS_PER_MS);
		bps_box_cell(row, 12, "%.2f ms", (double)median / BPS_NS_PER_MS);
	}
	bps_box_row_end(row);
}

static void print_servers_head(struct bps_box_row *row)
{
	static const char *const heads[][4] = {
		{ "", "answers to", "round trip,", "round trip," },
		{ "server", "boxes", "shortest", "median" },
	};

	for (int i = 0; i < 2; i++) {
		bps_box_cell(row, -SERVER_COLUMNS, "%s", heads[i][0]);
		bps_box_cell(row, 12, "%s", heads[i][1]);
		bps_box_cell(row, 15, "%s", heads[i][2]);
		bps_box_cell(row, 12, "%s", heads[i][3]);
		bps_box_row_end(row);
	}
}

static void print_servers(const struct bps_job *job)
{
	struct bps_box_row row = { .width = bps_check_width() };
	const uint32_t n = job->charter.n_hosts;

	if (n == 0) {
		if (job->n_boxes > 1 && !job->servers_wrong[0])
			puts("\nno BPSMPI_SERVERS: a server in each box");
		return;
	}
	putchar('\n');
	print_servers_head(&row);
	for (uint32_t s = 0; s < n && s < N_SERVERS; s++)
		print_server(job, &row, s);
	if (n > N_SERVERS)
		printf("and %u more\n", n - N_SERVERS);
}

/* -- findings -- */

static void print_finding(const struct bps_job *job,
                          const struct bps_job_finding *finding)
{
	char names[BPS_JOB_LIST_BYTES], *rest = NULL, *types = strdup(finding->types);
	struct bps_doctor_report report = {
		.out = stdout,
		.host = finding->n_boxes > 0 ? bps_job_list_boxes(job, finding->boxes,
		                                                  finding->n_boxes, names,
		                                                  sizeof(names))
		                             : "job",
		.check = finding->check,
		.columns = (uint32_t)bps_check_width(),
	};

	bps_doctor_found(&report, "%s", finding->found);
	bps_doctor_cost(&report, "%s", finding->cost);
	bps_doctor_remedy(&report, "%s", finding->remedy);
	for (char *line = types ? strtok_r(types, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest))
		bps_doctor_type(&report, "%s", line);
	free(types);
}

void bps_job_print(const struct bps_job *job)
{
	const struct bps_box_printer printer = { .width = bps_check_width() };

	print_head(job, &printer);
	print_boxes(job, &printer);
	print_servers(job);
	bps_job_print_rates(job);
	bps_job_print_plan(job);
	putchar('\n');
	for (uint32_t i = 0; i < job->findings.n; i++)
		print_finding(job, &job->findings.list[i]);
	if (job->findings.n == 0)
		puts("nothing is wrong in this job");
}
