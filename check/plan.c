/* SPDX-License-Identifier: BSD-3-Clause */
#include "check/check.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hostlist.h"
#include "check/box/impl.h"
#include "check/box/plan.h"
#include "check/svg/svg.h"
#include "engine/shares.h"
#include "topology/bandwidth.h"

#define NAME_CHARS   16 /* "h4096" with its end, and more */
#define RANGE_CHARS  (2 * NAME_CHARS)
#define NAME_COLUMNS 12

/* Numbers are those of engine/shares.h: dedicated servers, then boxes. */
struct plan {
	uint32_t n_boxes, n_servers, n_nodes;
	bool known;                /* are the bandwidths? else each is 1 */
	double *bytes_per_s;       /* [n_nodes], owned, as are these: */
	double *allreduce, *bcast; /* shares */
	double allreduce_s, bcast_s, ring_s, slowest_s; /* for a byte */
};

/* Return: 0; -EINVAL: it was said. */
static int parse_count(const char *text, const char *what, uint32_t min, uint32_t *ret)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || value < min ||
	    value > BPS_HOSTLIST_MAX) {
		bps_check_complain(
			"--plan: '%s' is not a number of %s from %u to %d; type "
			"for example bpsmpi-check --plan 8 4",
			text, what, min, BPS_HOSTLIST_MAX);
		return -EINVAL;
	}
	*ret = (uint32_t)value;
	return 0;
}

static char *node_name(const struct plan *plan, uint32_t node, char *buf)
{
	bool box = node >= plan->n_servers;

	(void)snprintf(buf, NAME_CHARS, "%c%u", box ? 'h' : 's',
	               (box ? node - plan->n_servers : node) + 1);
	return buf;
}

/* Does a row of the list name none of ours? */
static int refuse_strangers(const struct plan *plan, const struct bps_bandwidths *list)
{
	for (uint32_t row = 0; row < list->n_rows; row++) {
		const char *name = bps_bandwidths_name(list, row);
		uint32_t most = name[0] == 'h'   ? plan->n_boxes
		                : name[0] == 's' ? plan->n_servers
		                                 : 0;
		char *end = NULL;
		unsigned long number = name[0] ? strtoul(name + 1, &end, 10) : 0;

		if (!end || *end || name[1] < '1' || name[1] > '9' || number > most) {
			bps_check_complain("--bandwidth: there is no %s; boxes are h1 to "
			                   "h%u, servers s1 to s%u",
			                   name, plan->n_boxes, plan->n_servers);
			return -EINVAL;
		}
	}
	return 0;
}

static int take_bandwidths(struct plan *plan, const struct bps_bandwidths *list)
{
	char name[NAME_CHARS];

	if (refuse_strangers(plan, list))
		return -EINVAL;
	for (uint32_t i = 0; i < plan->n_nodes; i++) {
		plan->bytes_per_s[i] = bps_bandwidths_of(list, node_name(plan, i, name));
		if (plan->bytes_per_s[i] > 0)
			continue;
		bps_check_complain("--bandwidth does not say how fast %s is; "
		                   "add *=RATE for those that are not named",
		                   name);
		return -EINVAL;
	}
	return 0;
}

static int set_bandwidths(struct plan *plan, const char *spec)
{
	struct bps_bandwidths list;
	char error[512];
	int r;

	plan->known = spec != NULL;
	for (uint32_t i = 0; i < plan->n_nodes; i++)
		plan->bytes_per_s[i] = 1;
	if (!spec)
		return 0;
	r = bps_bandwidths_parse("--bandwidth", spec, &list, error, sizeof(error));
	if (r)
		bps_check_complain("%s", error);
	else
		r = take_bandwidths(plan, &list);
	bps_bandwidths_deinit(&list);
	return r;
}

static int solve(struct plan *plan)
{
	const struct bps_shares_in in = {
		.box_bytes_per_s = plan->bytes_per_s + plan->n_servers,
		.server_bytes_per_s = plan->bytes_per_s,
		.n_boxes = plan->n_boxes,
		.n_servers = plan->n_servers,
	};
	double n = plan->n_boxes;
	int r = bps_shares_allreduce(&in, plan->allreduce, &plan->allreduce_s);

	if (!r)
		r = bps_shares_bcast(&in, 0, plan->bcast, &plan->bcast_s);
	if (r) {
		bps_check_complain("no plan for this: %s", strerror(-r));
		return r;
	}
	plan->ring_s = bps_ring_s_per_byte(&in);
	plan->slowest_s = plan->ring_s * n / (2 * (n - 1));
	return 0;
}

/* -- what is printed -- */

/* What makes two rows of the table one. */
static bool same_row(const struct plan *plan, uint32_t a, uint32_t b)
{
	return (a < plan->n_servers) == (b < plan->n_servers) &&
	       plan->bytes_per_s[a] == plan->bytes_per_s[b] &&
	       plan->allreduce[a] == plan->allreduce[b] &&
	       plan->bcast[a] == plan->bcast[b];
}

static void print_rows(const struct plan *plan, struct bps_box_row *row)
{
	for (uint32_t first = 0, last; first < plan->n_nodes; first = last + 1) {
		char one[NAME_CHARS], other[NAME_CHARS], range[RANGE_CHARS];
		char rate[BPS_RATE_CHARS] = "B";

		for (last = first; last + 1 < plan->n_nodes; last++)
			if (!same_row(plan, first, last + 1))
				break;
		node_name(plan, first, one);
		node_name(plan, last, other);
		(void)snprintf(range, sizeof(range), last > first ? "%s-%s" : "%s", one,
		               other);
		if (plan->known)
			bps_rate_format(plan->bytes_per_s[first], rate);
		bps_plan_print_row(row, NAME_COLUMNS, range, first < plan->n_servers,
		                   rate, plan->allreduce[first], plan->bcast[first]);
	}
}

static void print_plan(const struct plan *plan)
{
	const struct bps_box_printer printer = { .width = bps_check_width() };
	const struct bps_plan_bounds bounds = { plan->known, plan->allreduce_s,
		                                plan->bcast_s, plan->ring_s,
		                                plan->slowest_s };
	struct bps_box_row row = { .width = printer.width };

	bps_box_line(&printer, 0,
	             "%u boxes, %u dedicated server%s; each sums this part of every "
	             "operation:",
	             plan->n_boxes, plan->n_servers, plan->n_servers == 1 ? "" : "s");
	putchar('\n');
	bps_plan_print_head(&row, NAME_COLUMNS, "server");
	print_rows(plan, &row);
	putchar('\n');
	bps_plan_print_bounds(&bounds, &row, NAME_COLUMNS, "h1");
}

/* Boxes like the one in options->xml, or like this one. */
static int draw_plan(const struct plan *plan, const struct bps_check_options *options)
{
	struct bps_picture_plan picture = {
		.n_boxes = plan->n_boxes,
		.n_servers = plan->n_servers,
		.bytes_per_s = plan->bytes_per_s,
		.shares = plan->allreduce,
		.known = plan->known,
	};
	const struct bps_machine *machine;
	struct bps_box_plan box;
	int status = BPS_CHECK_CANNOT;

	if (bps_box_describe(options, &machine))
		return status;
	if (bps_box_plan(machine, !options->xml, &box) == 0) {
		picture.machine = machine;
		picture.placement = box.placement;
		status = bps_picture_plan(&picture, options->svg);
	} else {
		bps_check_complain("out of memory");
	}
	bps_box_plan_deinit(&box);
	bps_machine_free(machine);
	return status;
}

static void plan_deinit(struct plan *plan)
{
	free(plan->bytes_per_s);
	free(plan->allreduce);
	free(plan->bcast);
}

static int plan_init(struct plan *plan)
{
	plan->n_nodes = plan->n_boxes + plan->n_servers;
	plan->bytes_per_s = calloc(plan->n_nodes, sizeof(double));
	plan->allreduce = calloc(plan->n_nodes, sizeof(double));
	plan->bcast = calloc(plan->n_nodes, sizeof(double));
	return plan->bytes_per_s && plan->allreduce && plan->bcast ? 0 : -ENOMEM;
}

int bps_check_plan(const struct bps_check_options *options)
{
	struct plan plan = { 0 };
	int status = BPS_CHECK_WRONG;

	if (parse_count(options->n_boxes, "boxes", 2, &plan.n_boxes) ||
	    parse_count(options->n_servers, "servers", 0, &plan.n_servers))
		return BPS_CHECK_USAGE;
	if (plan_init(&plan))
		bps_check_complain("out of memory");
	else if (set_bandwidths(&plan, options->bandwidth))
		status = BPS_CHECK_USAGE;
	else if (solve(&plan) == 0)
		status = BPS_CHECK_FINE;
	if (status == BPS_CHECK_FINE)
		print_plan(&plan);
	if (status == BPS_CHECK_FINE && options->svg)
		status = draw_plan(&plan, options);
	plan_deinit(&plan);
	return status;
}
