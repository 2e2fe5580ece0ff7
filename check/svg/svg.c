/* SPDX-License-Identifier: BSD-3-Clause */
#include "check/svg/svg.h"

#include <errno.h>

#include "check/svg/impl.h"
#include "topology/bandwidth.h"

#define MARGIN     14
#define NOTE_CHARS 90 /* of a line */
#define NAME_CHARS 30
#define NAME_LINES 3

static const char style[] =
	"<style>\n"
	"text { font: 13px sans-serif; fill: #1b1f24 }\n"
	".strong { font-weight: bold }\n"
	"rect { fill: #ffffff; stroke: #57606a; stroke-width: 1.2 }\n"
	".paper { stroke: none }\n"
	".box > rect { stroke: #1b1f24; stroke-width: 2.4 }\n"
	".package > rect { stroke-dasharray: 2 3 }\n"
	".node > rect { fill: #eef2f6 }\n"
	".bridge > rect { fill: #ffffff }\n"
	".gpu > rect { fill: #d5e8d8; stroke: #1f5c33 }\n"
	".nic > rect { fill: #dbe9fb; stroke: #0b4a9e; stroke-width: 2 }\n"
	".idle > rect { fill: #ffffff; stroke-width: 1.2; stroke-dasharray: 5 4 }\n"
	".server > rect { fill: #fbecd2; stroke: #7a4c00; stroke-width: 2 }\n"
	".bar > rect { fill: #d3d9df }\n"
	".table > rect { stroke: none }\n"
	".link path { fill: none; stroke: #1b1f24; stroke-width: 1.8 }\n"
	"@media (prefers-color-scheme: dark) {\n"
	"  text { fill: #e6edf3 }\n"
	"  rect, .bridge > rect, .idle > rect { fill: #0d1117; stroke: #8b949e }\n"
	"  .paper { fill: #0d1117; stroke: none }\n"
	"  .box > rect { stroke: #e6edf3 }\n"
	"  .node > rect { fill: #1c232c }\n"
	"  .gpu > rect { fill: #12361f; stroke: #56b870 }\n"
	"  .nic > rect { fill: #102a4c; stroke: #6cb0ff }\n"
	"  .idle > rect { fill: #0d1117 }\n"
	"  .server > rect { fill: #3b2703; stroke: #e0a030 }\n"
	"  .bar > rect { fill: #39424d }\n"
	"  .table > rect { fill: #0d1117; stroke: none }\n"
	"  .link path { stroke: #e6edf3 }\n"
	"}\n"
	"</style>\n";

double bps_picture_box_wire(uint32_t n_boxes, double share)
{
	return 1 + (n_boxes - 2.0) * share;
}

double bps_picture_server_wire(uint32_t n_boxes, double share)
{
	return n_boxes * share;
}

/* -- cells -- */

static void add_server(struct bps_sheet *sheet, struct bps_cell *parent,
                       const struct bps_picture_server *server,
                       const struct bps_cell *network)
{
	char text[BPS_CELL_UNITS_CHARS], rate[BPS_RATE_CHARS];
	struct bps_cell *cell = bps_cell_add(
		sheet, parent, &(struct bps_cell){ .shape = "server", .round = 10 });

	bps_cell_wrap(cell, true, NAME_CHARS, NAME_LINES, server->names);
	if (server->n_alike > 1)
		bps_cell_line(cell, true, "%u servers like this", server->n_alike);
	else
		bps_cell_line(cell, false, "server");
	if (server->share > 0)
		bps_cell_line(cell, false, "sums %s",
		              bps_cell_units(server->share, text));
	if (server->bytes_per_s > 0)
		bps_cell_line(cell, false, "%s",
		              bps_rate_format(server->bytes_per_s, rate));
	bps_cell_hint(cell, "server %s", server->names);
	cell->bar = network;
	cell->out = cell->in = server->wire;
}

/* Those that there was no room for. */
static void add_others(struct bps_sheet *sheet, struct bps_cell *parent, const char *what,
                       uint32_t n, uint32_t n_kinds)
{
	struct bps_cell *cell = bps_cell_add(
		sheet, parent, &(struct bps_cell){ .shape = "others", .round = 8 });

	bps_cell_line(cell, true, "%u more %s", n, what);
	bps_cell_line(cell, false, "of %u other kinds", n_kinds);
}

/* How many of @n kinds are drawn. */
static uint32_t n_drawn(uint32_t n)
{
	return n > BPS_PICTURE_KINDS ? BPS_PICTURE_KINDS - 1 : n;
}

/* From kind @from up to @to. */
static int add_boxes(struct bps_sheet *sheet, struct bps_cell *parent,
                     const struct bps_picture *picture, uint32_t from, uint32_t to,
                     const struct bps_cell *network)
{
	const uint32_t n = n_drawn(picture->n_boxes);
	uint32_t others = 0;

	for (uint32_t i = from; i < to && i < n; i++) {
		int r = bps_picture_add_box(sheet, parent, &picture->boxes[i], network);

		if (r)
			return r;
	}
	for (uint32_t i = n; i < picture->n_boxes; i++)
		others += picture->boxes[i].n_alike;
	if (others && to > n)
		add_others(sheet, parent, "boxes", others, picture->n_boxes - n);
	return 0;
}

static void add_servers(struct bps_sheet *sheet, struct bps_cell *parent,
                        const struct bps_picture *picture, const struct bps_cell *network)
{
	const uint32_t n = n_drawn(picture->n_servers);
	uint32_t others = 0;

	for (uint32_t i = 0; i < n; i++)
		add_server(sheet, parent, &picture->servers[i], network);
	for (uint32_t i = n; i < picture->n_servers; i++)
		others += picture->servers[i].n_alike;
	if (others)
		add_others(sheet, parent, "servers", others, picture->n_servers - n);
}

static bool has_network(const struct bps_picture *picture)
{
	bool wired = picture->n_servers > 0;

	for (uint32_t i = 0; i < picture->n_boxes; i++)
		wired |= picture->boxes[i].wire > 0;
	return wired;
}

static struct bps_cell *add_network(struct bps_sheet *sheet, struct bps_cell *row)
{
	struct bps_cell *bar;

	bps_cell_add(sheet, row, &(struct bps_cell){ .min_w = BPS_CELL_LINK_ROOM });
	bar = bps_cell_add(
		sheet, row,
		&(struct bps_cell){
			.shape = "bar", .round = 3, .turned = true, .tall = true });
	bps_cell_line(bar, true, "network");
	return bar;
}

/* Of boxes: where they are many, about half as many as there are rows. */
static uint32_t n_columns(const struct bps_picture *picture)
{
	const uint32_t n = n_drawn(picture->n_boxes);
	uint32_t columns = 1;

	while (2 * columns * columns < n)
		columns++;
	return columns;
}

/* Boxes, the network right of them, and the servers right of that. */
static int add_job(struct bps_sheet *sheet, struct bps_cell *parent,
                   const struct bps_picture *picture)
{
	struct bps_cell *row =
		bps_cell_add(sheet, parent, &(struct bps_cell){ .layout = BPS_CELL_ROW });
	struct bps_cell *network = NULL;
	uint32_t n = n_drawn(picture->n_boxes), n_rows;
	int r = 0;

	n += n < picture->n_boxes;
	n_rows = (n + n_columns(picture) - 1) / n_columns(picture);
	for (uint32_t at = 0; at < n && !r; at += n_rows) {
		struct bps_cell *boxes =
			bps_cell_add(sheet, row, &(struct bps_cell){ 0 });

		if (has_network(picture))
			network = add_network(sheet, row);
		r = add_boxes(sheet, boxes, picture, at, at + n_rows, network);
	}
	if (picture->n_servers > 0) {
		bps_cell_add(sheet, row,
		             &(struct bps_cell){ .min_w = BPS_CELL_LINK_ROOM });
		add_servers(
			sheet,
			bps_cell_add(sheet, row, &(struct bps_cell){ .middle = true }),
			picture, network);
	}
	return r;
}

static void add_note(struct bps_sheet *sheet, const char *note)
{
	bps_cell_wrap(bps_cell_add(sheet, &sheet->root, &(struct bps_cell){ 0 }), false,
	              NOTE_CHARS, BPS_CELL_LINES, note);
}

static int add_all(struct bps_sheet *sheet, const struct bps_picture *picture)
{
	int r;

	bps_cell_wrap(&sheet->root, true, NOTE_CHARS, 2, picture->title);
	r = add_job(sheet, &sheet->root, picture);
	add_note(sheet,
	         "M: the bytes of one allreduce. Each link shows what goes out and what "
	         "comes in.");
	for (uint32_t i = 0; i < picture->n_notes; i++)
		add_note(sheet, picture->notes[i]);
	if (has_network(picture) && n_columns(picture) > 1)
		add_note(sheet, "All bars marked network are the same network.");
	return r ? r : sheet->failed ? -ENOMEM : 0;
}

/* -- the document -- */

static void describe_box(const struct bps_picture_box *box, FILE *out)
{
	const struct bps_machine *machine = box->machine;
	char text[BPS_CELL_UNITS_CHARS];

	bps_svg_text(bps_picture_names(box), out);
	fprintf(out,
	        ": %u box%s, memory nodes: %u, PCIe bridges: %u, GPUs: %u, network "
	        "interfaces: %u",
	        box->n_alike, box->n_alike == 1 ? "" : "es", machine->n_nodes,
	        machine->n_bridges, machine->n_gpus, machine->n_nics);
	if (box->wire > 0) {
		fputs("; each sends and receives ", out);
		bps_svg_text(bps_cell_units(box->wire, text), out);
	}
	fputs(".\n", out);
}

static void describe_server(const struct bps_picture_server *server, FILE *out)
{
	char text[BPS_CELL_UNITS_CHARS];

	bps_svg_text(server->names, out);
	fprintf(out, ": %u server%s", server->n_alike, server->n_alike == 1 ? "" : "s");
	if (server->share > 0) {
		fputs("; each sums ", out);
		bps_svg_text(bps_cell_units(server->share, text), out);
	}
	fputs(".\n", out);
}

static void print_head(const struct bps_picture *picture, int w, int h, FILE *out)
{
	fprintf(out,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"%d %d %d %d\" "
	        "width=\"%d\" height=\"%d\" role=\"img\" aria-labelledby=\"t d\">\n"
	        "<title id=\"t\">",
	        -MARGIN, -MARGIN, w, h, w, h);
	bps_svg_text(picture->title, out);
	fputs("</title>\n<desc id=\"d\">\n", out);
	for (uint32_t i = 0; i < picture->n_boxes; i++)
		describe_box(&picture->boxes[i], out);
	for (uint32_t i = 0; i < picture->n_servers; i++)
		describe_server(&picture->servers[i], out);
	fputs("</desc>\n", out);
	fputs(style, out);
	fprintf(out,
	        "<rect class=\"paper\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
	        -MARGIN, -MARGIN, w, h);
}

int bps_picture_print(const struct bps_picture *picture, FILE *out)
{
	struct bps_sheet sheet;
	int r;

	bps_sheet_init(&sheet);
	r = add_all(&sheet, picture);
	if (!r) {
		bps_sheet_arrange(&sheet);
		print_head(picture, sheet.root.w + 2 * MARGIN, sheet.root.h + 2 * MARGIN,
		           out);
		bps_sheet_draw(&sheet, out);
		fputs("</svg>\n", out);
	}
	bps_sheet_deinit(&sheet);
	return r;
}
