/* SPDX-License-Identifier: BSD-3-Clause */
/* The report on a job as text: what was measured, and the plan. */
#include <stdlib.h>
#include <string.h>

#include "check/box/impl.h"
#include "check/job/impl.h"
#include "topology/bandwidth.h"

#define MOST_ROWS    32 /* of a table: of more, those that are slow */
#define NAME_BYTES   256
#define NAME_COLUMNS 20

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

static void print_link(const struct bps_job *job, struct bps_box_row *row, uint32_t link)
{
	const struct exchanges found = find_exchanges(job, link);
	char text[BPS_RATE_CHARS];

	bps_box_name_cell(row, NAME_COLUMNS, link_name(job, link));
	if (found.n == 0) {
		bps_box_cell(row, 15, "not measured");
	} else {
		bps_box_cell(row, 15, "%s", bps_rate_format(found.least, text));
		bps_box_cell(row, 15, "%s", bps_rate_format(found.most, text));
		bps_box_cell(row, 15, "%s", bps_rate_format(found.together, text));
	}
	bps_box_row_end(row);
}

static void print_rates_head(struct bps_box_row *row)
{
	bps_box_cell(row, -NAME_COLUMNS, "%s", "");
	bps_box_cell(row, 31, "with one at a time:");
	bps_box_row_end(row);
	bps_box_cell(row, -NAME_COLUMNS, "measured, each way");
	bps_box_cell(row, 15, "slowest");
	bps_box_cell(row, 15, "fastest");
	bps_box_cell(row, 15, "all at once");
	bps_box_row_end(row);
}

void bps_job_print_rates(const struct bps_job *job)
{
	const uint32_t n_servers = job->charter.n_hosts, n = job->n_boxes + n_servers;
	const double boxes = bps_job_median_rate(job->links, job->n_boxes);
	const double servers = bps_job_median_rate(job->links + job->n_boxes, n_servers);
	struct bps_box_row row = { .width = bps_check_width() };
	uint32_t n_hidden = 0;

	if (job->rates.n_rounds == 0)
		return;
	putchar('\n');
	print_rates_head(&row);
	for (uint32_t i = 0; i < n; i++) {
		double usual = i < job->n_boxes ? boxes : servers;

		if (n > MOST_ROWS && !bps_job_is_slow(&job->links[i], usual))
			n_hidden++;
		else
			print_link(job, &row, i);
	}
	if (n_hidden > 0)
		printf("and %u more, no slower than others\n", n_hidden);
}

/* -- the plan -- */

/* The place in bandwidths, boxes first, of a place in shares, servers first. */
static uint32_t link_number(const struct bps_job *job, uint32_t node)
{
	const uint32_t n_servers = job->charter.n_hosts;

	return node < n_servers ? job->n_boxes + node : node - n_servers;
}

/* What makes two rows of the table one; numbers are those of engine/shares.h. */
static bool same_row(const struct bps_job *job, uint32_t a, uint32_t b)
{
	const struct bps_job_plan *plan = &job->plan;
	const uint32_t n_servers = job->charter.n_hosts;

	return (a < n_servers) == (b < n_servers) &&
	       plan->taken[link_number(job, a)] == plan->taken[link_number(job, b)] &&
	       plan->shares[a] == plan->shares[b] && plan->bcast[a] == plan->bcast[b];
}

char *bps_job_format_rates(double least, double most, char *ret)
{
	char low[BPS_RATE_CHARS], high[BPS_RATE_CHARS];
	const char *unit;
	int digits;

	bps_rate_format(least, low);
	bps_rate_format(most, high);
	unit = strchr(low, ' ');
	digits = (int)(unit - low);
	if (strcmp(low, high) == 0)
		(void)snprintf(ret, BPS_JOB_RATES_CHARS, "%s", low);
	else if (strcmp(unit, strchr(high, ' ')) == 0)
		(void)snprintf(ret, BPS_JOB_RATES_CHARS, "%.*s-%s", digits, low, high);
	else
		(void)snprintf(ret, BPS_JOB_RATES_CHARS, "%s-%s", low, high);
	return ret;
}

/* "68-89 Mbit/s", of those in one row. */
static void format_row_rates(const struct bps_job *job, uint32_t first, uint32_t n,
                             char *ret)
{
	double least = job->plan.rates[link_number(job, first)], most = least;

	for (uint32_t i = first + 1; i < n; i++) {
		const double rate = job->plan.rates[link_number(job, i)];

		if (!same_row(job, first, i))
			continue;
		least = rate < least ? rate : least;
		most = rate > most ? rate : most;
	}
	bps_job_format_rates(least, most, ret);
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
		names[n_names++] = link_name(job, link_number(job, i));
	}
	if (names)
		bps_job_fold_names(names, n_names, ret, NAME_BYTES);
	free(names);
	return !told;
}

static void print_rows(const struct bps_job *job, struct bps_box_row *row)
{
	const struct bps_job_plan *plan = &job->plan;
	const uint32_t n_servers = job->charter.n_hosts, n = n_servers + job->n_boxes;

	for (uint32_t i = 0; i < n; i++) {
		char names[NAME_BYTES], rate[BPS_JOB_RATES_CHARS] = "B";

		if (!list_row(job, i, n, names))
			continue;
		if (plan->known)
			format_row_rates(job, i, n, rate);
		bps_plan_print_row(row, NAME_COLUMNS, names, i < n_servers, rate,
		                   plan->shares[i], plan->bcast[i]);
	}
}

/* Where the bandwidths come from: of @n links those that come from each source. */
static void print_sources(const struct bps_job *job,
                          const struct bps_box_printer *printer)
{
	static const char *const texts[BPS_RATE_N_SOURCES] = {
		[BPS_RATE_SAID] = "said by BPSMPI_BANDWIDTH",
		[BPS_RATE_MEASURED] = "measured",
		[BPS_RATE_KERNEL] = "as the kernel says",
		[BPS_RATE_UNKNOWN] = "not known and taken for as fast as any",
	};
	const uint32_t n = job->n_boxes + job->charter.n_hosts;
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
	bps_box_line(printer, 0, "%s.", line);
}

static void print_shared(const struct bps_job *job, const struct bps_box_printer *printer)
{
	char text[BPS_JOB_LIST_BYTES];

	bps_job_say_shared(job, text, sizeof(text));
	if (text[0])
		bps_box_line(printer, 0, "%s", text);
}

static void print_native(const struct bps_job *job, const struct bps_box_printer *printer)
{
	putchar('\n');
	bps_box_line(printer, 0,
	             "As it is started now, this job runs without bytepsmpi: %s; see the "
	             "findings. What follows is what it would be once that is mended.",
	             job->plan.why);
}

void bps_job_print_plan(const struct bps_job *job)
{
	const struct bps_job_plan *plan = &job->plan;
	const struct bps_box_printer printer = { .width = bps_check_width() };
	const struct bps_plan_bounds bounds = { plan->known, plan->allreduce_s,
		                                plan->bcast_s, plan->ring_s,
		                                plan->slowest_s };
	struct bps_box_row row = { .width = printer.width };

	if (!plan->made)
		return;
	if (!plan->runs)
		print_native(job, &printer);
	putchar('\n');
	bps_plan_print_head(&row, NAME_COLUMNS, "plan: server");
	print_rows(job, &row);
	putchar('\n');
	bps_plan_print_bounds(&bounds, &row, NAME_COLUMNS, job->boxes[0].host);
	if (plan->known)
		print_sources(job, &printer);
	else
		bps_box_line(&printer, 0,
		             "Bandwidths are not known, all are taken for alike; "
		             "bpsmpi-check --measure finds out.");
	print_shared(job, &printer);
}
