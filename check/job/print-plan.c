/* SPDX-License-Identifier: BSD-3-Clause */
/* The report on a job as text: what was measured, and the plan. */
#include <stdlib.h>
#include <string.h>

#include "check/box/impl.h"
#include "check/job/impl.h"
#include "topology/bandwidth.h"

#define EXAMPLE_BYTES (64.0 * 1024 * 1024)
#define MOST_ROWS     32 /* of a table: of more, those that are slow */
#define NAME_BYTES    256
#define NAME_COLUMNS  20
#define WIDTH         80

/* A box, or behind them a server. */
static const char *link_name(const struct bps_job *job, uint32_t link)
{
	return link < job->n_boxes ? job->boxes[link].host
	                           : job->boxes[0].servers[link - job->n_boxes].name;
}

/* -- what was measured -- */

/* The exchanges over one link. */
struct exchanges {
	double least, most; /* alone */
	double together;    /* of all of them */
	uint32_t n;
};

static void take(struct exchanges *exchanges, double alone, double together)
{
	if (alone == 0)
		return;
	if (exchanges->n++ == 0 || alone < exchanges->least)
		exchanges->least = alone;
	if (alone > exchanges->most)
		exchanges->most = alone;
	exchanges->together += together;
}

static struct exchanges find_exchanges(const struct bps_job *job, uint32_t link)
{
	const struct bps_job_rates *rates = &job->rates;
	struct exchanges found = { 0 };
	uint32_t at;

	for (uint32_t round = 0; round < rates->n_rounds; round++)
		if (bps_job_exchange(job, link, round, &at))
			take(&found, (double)rates->alone[at],
			     (double)rates->together[at]);
	return found;
}

static void print_link(const struct bps_job *job, uint32_t link)
{
	const struct exchanges found = find_exchanges(job, link);
	char least[BPS_RATE_CHARS], most[BPS_RATE_CHARS], together[BPS_RATE_CHARS];

	bps_job_print_name(link_name(job, link), NAME_COLUMNS);
	if (found.n == 0)
		printf(" %15s\n", "not measured");
	else
		printf(" %15s %15s %15s\n", bps_rate_format(found.least, least),
		       bps_rate_format(found.most, most),
		       bps_rate_format(found.together, together));
}

void bps_job_print_rates(const struct bps_job *job)
{
	const uint32_t n_servers = job->charter.n_hosts, n = job->n_boxes + n_servers;
	const double boxes = bps_job_median_rate(job->links, job->n_boxes);
	const double servers = bps_job_median_rate(job->links + job->n_boxes, n_servers);
	uint32_t n_hidden = 0;

	if (job->rates.n_rounds == 0)
		return;
	printf("\n%-20s %31s\n%-20s %15s %15s %15s\n", "",
	       "with one at a time:", "measured, each way", "slowest", "fastest",
	       "all at once");
	for (uint32_t i = 0; i < n; i++) {
		double usual = i < job->n_boxes ? boxes : servers;

		if (n > MOST_ROWS && !bps_job_is_slow(&job->links[i], usual))
			n_hidden++;
		else
			print_link(job, i);
	}
	if (n_hidden > 0)
		printf("and %u more, no slower than others\n", n_hidden);
}

/* -- the plan -- */

/* What makes two rows of the table one; numbers are those of engine/shares.h. */
static bool same_row(const struct bps_job *job, uint32_t a, uint32_t b)
{
	const struct bps_job_plan *plan = &job->plan;
	const uint32_t n_servers = job->charter.n_hosts;

	return (a < n_servers) == (b < n_servers) && plan->rates[a] == plan->rates[b] &&
	       plan->shares[a] == plan->shares[b] && plan->bcast[a] == plan->bcast[b];
}

static const char *node_name(const struct bps_job *job, uint32_t node)
{
	const uint32_t n_servers = job->charter.n_hosts;

	return link_name(job, node < n_servers ? job->n_boxes + node : node - n_servers);
}

/* Those of @n nodes that have the same row as @first; false: it was told before. */
static bool list_row(const struct bps_job *job, uint32_t first, uint32_t n, char *ret)
{
	const char **names = calloc(n, sizeof(*names));
	uint32_t n_names = 0;
	bool told = false;

	ret[0] = '\0';
	for (uint32_t i = 0; names && i < n; i++) {
		if (!same_row(job, first, i))
			continue;
		told |= i < first;
		names[n_names++] = node_name(job, i);
	}
	if (names)
		bps_job_fold_names(names, n_names, ret, NAME_BYTES);
	free(names);
	return !told;
}

static void print_rows(const struct bps_job *job)
{
	const struct bps_job_plan *plan = &job->plan;
	const uint32_t n_servers = job->charter.n_hosts, n = n_servers + job->n_boxes;

	for (uint32_t i = 0; i < n; i++) {
		char names[NAME_BYTES], rate[BPS_RATE_CHARS] = "B";

		if (!list_row(job, i, n, names))
			continue;
		if (plan->known)
			bps_rate_format(plan->rates[i], rate);
		bps_job_print_name(names, NAME_COLUMNS);
		printf(" %-10s %-12s %9.4f %% %9.4f %%\n",
		       i < n_servers ? "dedicated" : "colocated", rate,
		       100 * plan->shares[i], 100 * plan->bcast[i]);
	}
}

static void print_bound(const struct bps_job *job, const char *op, double s_per_byte)
{
	char example[32] = "-";

	if (job->plan.known)
		(void)snprintf(example, sizeof(example), "%.4g s",
		               s_per_byte * EXAMPLE_BYTES);
	printf("%-20s %8.4f M/B %12s", op, s_per_byte / job->plan.slowest_s, example);
}

/* Where the bandwidths come from: of @n links those that come from each source. */
static void print_sources(const struct bps_job *job)
{
	static const char *const texts[BPS_RATE_N_SOURCES] = {
		[BPS_RATE_SAID] = "said by BPSMPI_BANDWIDTH",
		[BPS_RATE_MEASURED] = "measured",
		[BPS_RATE_KERNEL] = "as the kernel says",
		[BPS_RATE_UNKNOWN] = "not known and taken for as fast as any",
	};
	const uint32_t n = job->n_boxes + job->charter.n_hosts;
	const struct bps_box_printer printer = { .width = WIDTH };
	char line[BPS_BOX_LINE_BYTES] = "Bandwidths:";
	const char *between = "";

	for (int source = BPS_RATE_N_SOURCES; source-- > 0;) {
		const char **names = calloc(n, sizeof(*names));
		char list[NAME_BYTES];
		uint32_t n_names = 0;

		for (uint32_t i = 0; names && i < n; i++)
			if (job->links[i].source == (enum bps_job_source)source)
				names[n_names++] = link_name(job, i);
		if (n_names > 0) {
			bps_job_fold_names(names, n_names, list, sizeof(list));
			bps_box_add(line, "%s %s: %s", between, list, texts[source]);
			between = ";";
		}
		free(names);
	}
	bps_box_line(&printer, 0, "%s.", line);
}

static void print_native(const struct bps_job *job)
{
	const struct bps_box_printer printer = { .width = WIDTH };

	putchar('\n');
	bps_box_line(&printer, 0,
	             "As it is started now, this job runs without bytepsmpi: %s; see the "
	             "findings. What follows is what it would be once that is mended.",
	             job->plan.why);
}

void bps_job_print_plan(const struct bps_job *job)
{
	const struct bps_job_plan *plan = &job->plan;

	if (!plan->made)
		return;
	if (!plan->runs)
		print_native(job);
	printf("\n%-20s %-10s %-12s %11s %11s\n", "plan: server", "is", "link, 1 way",
	       "allreduce", "broadcast");
	print_rows(job);
	printf("\n%-20s %12s %12s %12s %8s\n", "", "at least", "64 MiB", "ring", "gain");
	print_bound(job, "allreduce", plan->allreduce_s);
	printf(" %8.4f M/B %7.2fx\n", plan->ring_s / plan->slowest_s,
	       plan->ring_s / plan->allreduce_s);
	print_bound(job, "broadcast", plan->bcast_s);
	printf("\n\nM: the bytes of the operation. B: the link of the slowest box, one way. "
	       "The\nbroadcast is from %s. Time on the links alone.\n",
	       job->boxes[0].host);
	if (plan->known)
		print_sources(job);
	else
		puts("Bandwidths are not known, all are taken for alike; "
		     "bpsmpi-check --measure\nfinds out.");
}
