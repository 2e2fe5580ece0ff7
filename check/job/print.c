/* SPDX-License-Identifier: BSD-3-Clause */
/* The report on a job as text: boxes, servers, findings. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "check/box/impl.h"
#include "check/job/impl.h"
#include "topology/bandwidth.h"
#include "topology/boxes.h"

#define WIDTH      80
#define MANY_LINES 8  /* of differences: then the box is shown whole */
#define N_SERVERS  64 /* rows of the table of servers */
#define CPUS_BYTES 256

static const char *plural(uint32_t n)
{
	return n == 1 ? "" : "s";
}

void bps_job_print_name(const char *name, int columns)
{
	const struct bps_box_printer printer = { .width = WIDTH };
	const bool fits = strlen(name) <= (size_t)columns;

	if (!fits)
		bps_box_line(&printer, 0, "%s", name);
	printf("%-*s", columns, fits ? name : "");
}

/* -- the head -- */

static void print_head(const struct bps_job *job)
{
	const struct bps_job_rank *first = &job->ranks[0];
	uint32_t n_carried = 0;

	for (uint32_t r = 0; r < job->size; r++)
		n_carried += job->ranks[r].preload == BPS_PRELOAD_CARRIED;
	printf("%u rank%s on %u box%s, %.*s\n", job->size, plural(job->size),
	       job->n_boxes, job->n_boxes == 1 ? "" : "es", (int)strcspn(first->mpi, ","),
	       first->mpi);
	if (n_carried == job->size)
		printf("bytepsmpi %s on all ranks: %s\n", first->version, first->library);
	else
		printf("bytepsmpi on %u of %u ranks\n", n_carried, job->size);
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
static void print_ranks(const struct bps_job *job, const struct bps_job_box *box)
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
		printf("  rank%s %s on CPU%s %s\n", plural(n),
		       bps_ranks_format(list, n, ranks, sizeof(ranks)),
		       plural(bps_cpuset_count(set)), cpus);
	}
	free(list);
}

static void print_whole(const struct bps_job *job, uint32_t box)
{
	const uint32_t n = bps_job_count_alike(job, box);
	char names[BPS_JOB_LIST_BYTES];

	if (n > 1)
		printf("\n%u boxes like this one: %s\n", n,
		       list_alike(job, box, names, sizeof(names)));
	else if (strcmp(job->boxes[box].host, bps_job_host(job, box)) != 0)
		printf("\n%s:\n", job->boxes[box].host);
	else
		putchar('\n');
	bps_box_print(job->boxes[box].machine, WIDTH);
	print_ranks(job, &job->boxes[box]);
}

static uint32_t count_lines(const char *text)
{
	uint32_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* In what a kind of box differs from the common one. */
static void print_kind(const struct bps_job *job, uint32_t box, uint32_t common)
{
	const uint32_t n = bps_job_count_alike(job, box);
	char *text = bps_job_difference(&job->boxes[box], &job->boxes[common]);
	char names[BPS_JOB_LIST_BYTES], *rest = NULL;

	if (!text || count_lines(text) > MANY_LINES) {
		print_whole(job, box);
		free(text);
		return;
	}
	printf("\n%s differ%s from %s:\n", list_alike(job, box, names, sizeof(names)),
	       n == 1 ? "s" : "", job->boxes[common].host);
	for (char *line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		printf("  %s\n", line);
	print_ranks(job, &job->boxes[box]);
	free(text);
}

static void print_boxes(const struct bps_job *job)
{
	const uint32_t common = bps_job_common(job);

	print_whole(job, common);
	for (uint32_t b = 0; b < job->n_boxes; b++)
		if (job->boxes[b].like == b && b != common)
			print_kind(job, b, common);
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

static void print_server(const struct bps_job *job, uint32_t server)
{
	uint64_t least, median;
	uint32_t n = bps_job_round_trips(job, server, &least, &median);
	char reached[32];

	(void)snprintf(reached, sizeof(reached), "%u of %u", n, job->n_boxes);
	bps_job_print_name(job->boxes[0].servers[server].name, 28);
	printf(" %12s", reached);
	if (n > 0)
		printf(" %12.2f ms %9.2f ms", (double)least / BPS_NS_PER_MS,
		       (double)median / BPS_NS_PER_MS);
	putchar('\n');
}

static void print_servers(const struct bps_job *job)
{
	const uint32_t n = job->charter.n_hosts;

	if (n == 0) {
		if (job->n_boxes > 1 && !job->servers_wrong[0])
			puts("\nno BPSMPI_SERVERS: a server in each box");
		return;
	}
	printf("\n%-28s %12s %15s %12s\n%-28s %12s %15s %12s\n", "", "answers to",
	       "round trip,", "round trip,", "server", "boxes", "shortest", "median");
	for (uint32_t s = 0; s < n && s < N_SERVERS; s++)
		print_server(job, s);
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
		.columns = WIDTH,
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
	print_head(job);
	print_boxes(job);
	print_servers(job);
	bps_job_print_rates(job);
	bps_job_print_plan(job);
	putchar('\n');
	for (uint32_t i = 0; i < job->findings.n; i++)
		print_finding(job, &job->findings.list[i]);
	if (job->findings.n == 0)
		puts("nothing is wrong in this job");
}
