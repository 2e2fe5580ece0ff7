/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of a plan: who sums which part, and how long an operation takes then. */
#include <stdio.h>
#include <string.h>

#include "check/box/impl.h"

#define EXAMPLE_BYTES (64.0 * 1024 * 1024)
#define LINK_COLUMNS  16

void bps_box_name_cell(struct bps_box_row *row, int columns, const char *name)
{
	const struct bps_box_printer printer = { .width = row->width };
	const bool fits = strlen(name) <= (size_t)columns;

	if (!fits)
		bps_box_line(&printer, 0, "%s", name);
	bps_box_cell(row, -columns, "%s", fits ? name : "");
}

void bps_plan_print_head(struct bps_box_row *row, int columns, const char *server)
{
	bps_box_cell(row, -columns, "%s", server);
	bps_box_cell(row, -10, "is");
	bps_box_cell(row, -LINK_COLUMNS, "link, 1 way");
	bps_box_cell(row, 11, "allreduce");
	bps_box_cell(row, 11, "broadcast");
	bps_box_row_end(row);
}

void bps_plan_print_row(struct bps_box_row *row, int columns, const char *name,
                        bool dedicated, const char *rate, double allreduce, double bcast)
{
	bps_box_name_cell(row, columns, name);
	bps_box_cell(row, -10, "%s", dedicated ? "dedicated" : "colocated");
	bps_box_cell(row, -LINK_COLUMNS, "%s", rate);
	bps_box_cell(row, 11, "%.4f %%", 100 * allreduce);
	bps_box_cell(row, 11, "%.4f %%", 100 * bcast);
	bps_box_row_end(row);
}

static void print_bound(const struct bps_plan_bounds *bounds, struct bps_box_row *row,
                        int columns, const char *op, double s_per_byte)
{
	bps_box_cell(row, -columns, "%s", op);
	bps_box_cell(row, 12, "%.4f M/B", s_per_byte / bounds->slowest_s);
	if (bounds->known)
		bps_box_cell(row, 12, "%.4g s", s_per_byte * EXAMPLE_BYTES);
	else
		bps_box_cell(row, 12, "-");
}

void bps_plan_print_bounds(const struct bps_plan_bounds *bounds, struct bps_box_row *row,
                           int columns, const char *first)
{
	const struct bps_box_printer printer = { .width = row->width };

	bps_box_cell(row, -columns, "%s", "");
	bps_box_cell(row, 12, "at least");
	bps_box_cell(row, 12, "64 MiB");
	bps_box_cell(row, 12, "ring");
	bps_box_cell(row, 8, "gain");
	bps_box_row_end(row);
	print_bound(bounds, row, columns, "allreduce", bounds->allreduce_s);
	bps_box_cell(row, 12, "%.4f M/B", bounds->ring_s / bounds->slowest_s);
	bps_box_cell(row, 8, "%.2fx", bounds->ring_s / bounds->allreduce_s);
	bps_box_row_end(row);
	print_bound(bounds, row, columns, "broadcast", bounds->bcast_s);
	bps_box_row_end(row);
	putchar('\n');
	bps_box_line(&printer, 0,
	             "M: the bytes of the operation. B: the link of the slowest box, one "
	             "way. The broadcast is from %s. Time on the links alone.",
	             first);
}
