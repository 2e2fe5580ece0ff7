/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/svg/impl.h"

#define NONE        BPS_MACHINE_NONE
#define LIST_BYTES  64
#define TABLE_NODES 16 /* more do not fit a table */
#define HEAD_CHARS  50 /* of a line in a box's head */
#define HEAD_LINES  3  /* of its names, and of what differs */

static const char *plural(uint32_t n)
{
	return n == 1 ? "" : "s";
}

const char *bps_picture_names(const struct bps_picture_box *box)
{
	if (box->names && box->names[0])
		return box->names;
	return box->machine->host[0] ? box->machine->host : "box";
}

/* -- memory nodes -- */

static uint64_t crossing(const struct bps_drawing *drawing, uint32_t from, uint32_t to)
{
	return from == to ? 0
	                  : drawing->crossings[(size_t)from * drawing->machine->n_nodes +
	                                       to];
}

static void link_node(const struct bps_drawing *drawing, struct bps_cell *cell,
                      uint32_t node)
{
	uint64_t out = 0, in = 0;

	if (!drawing->memory)
		return;
	for (uint32_t i = 0; i < drawing->machine->n_nodes; i++) {
		out += crossing(drawing, node, i);
		in += crossing(drawing, i, node);
	}
	if (!out && !in)
		return;
	cell->bar = drawing->memory;
	cell->out = (double)out / (double)BPS_DRAWING_BYTES;
	cell->in = (double)in / (double)BPS_DRAWING_BYTES;
}

static void tell_memory(uint64_t bytes, char *buf, size_t buf_bytes)
{
	double gib = (double)bytes / (double)(UINT64_C(1) << 30);

	if (bytes)
		(void)snprintf(buf, buf_bytes, "%.*f GiB", gib < 10 ? 1 : 0, gib);
	else
		(void)snprintf(buf, buf_bytes, "memory");
}

/* What the engine does here. */
static void tell_place(const struct bps_drawing *drawing, struct bps_cell *cell,
                       uint32_t node)
{
	const struct bps_placement *placement = drawing->placement;
	bool several = placement && placement->n_groups > 1 && drawing->box->wire > 0;
	bool sums = false, lies = placement && placement->wire_node == node;

	for (uint32_t i = 0; placement && i < placement->n_groups; i++) {
		if (placement->groups[i].node != node)
			continue;
		bps_cell_line(cell, false, "%u rank%s", placement->groups[i].n_ranks,
		              plural(placement->groups[i].n_ranks));
		sums |= placement->home == i;
	}
	if (several && sums)
		bps_cell_line(cell, false, "sums for the box");
	if (several && lies)
		bps_cell_line(cell, false, "holds what is sent");
}

static bool is_framed(const struct bps_machine *machine, uint32_t package);

static void add_node(const struct bps_drawing *drawing, struct bps_cell *parent,
                     uint32_t number)
{
	const struct bps_machine *machine = drawing->machine;
	const struct bps_machine_node *node = &machine->nodes[number];
	const struct bps_machine_place at = { node->package, number, NONE };
	bool named = node->package != NONE && machine->n_packages > 1 &&
	             !is_framed(machine, node->package);
	struct bps_cell *cell = bps_cell_add(
		drawing->sheet, parent,
		&(struct bps_cell){
			.shape = "node", .round = 4, .layout = BPS_CELL_ROW });
	struct bps_cell *text =
		bps_cell_add(drawing->sheet, cell, &(struct bps_cell){ .min_w = 140 });
	struct bps_cell *devices =
		bps_cell_add(drawing->sheet, cell, &(struct bps_cell){ .grow = true });
	char memory[LIST_BYTES];

	tell_memory(node->memory_bytes, memory, sizeof(memory));
	bps_cell_line(text, true, "node %u", node->number);
	if (named)
		bps_cell_line(text, false, "package %u",
		              machine->packages[node->package].number);
	if (node->n_cpus)
		bps_cell_line(text, false, "%s, %u CPU%s", memory, node->n_cpus,
		              plural(node->n_cpus));
	else
		bps_cell_line(text, false, "%s alone", memory);
	if (node->n_usable < node->n_cpus)
		bps_cell_line(text, false, "%u usable", node->n_usable);
	tell_place(drawing, text, number);
	bps_cell_hint(cell, "node %u", node->number);
	link_node(drawing, cell, number);
	bps_drawing_add_devices(drawing, devices, &at);
}

/* Does a package need a frame of its own, or is it nothing but a node, or the box? */
static bool is_framed(const struct bps_machine *machine, uint32_t package)
{
	const struct bps_machine_place at = { package, NONE, NONE };
	uint32_t n_nodes = 0;
	bool own = false;

	for (uint32_t i = 0; i < machine->n_nodes; i++)
		n_nodes += machine->nodes[i].package == package;
	for (uint32_t i = 0; i < machine->n_bridges; i++)
		own |= bps_drawing_same_place(&machine->bridges[i].at, &at);
	for (uint32_t i = 0; i < machine->n_gpus; i++)
		own |= bps_drawing_same_place(&machine->gpus[i].at, &at);
	for (uint32_t i = 0; i < machine->n_nics; i++)
		own |= bps_drawing_same_place(&machine->nics[i].at, &at);
	return machine->n_packages > 1 && (own || n_nodes != 1);
}

static void add_package(const struct bps_drawing *drawing, struct bps_cell *parent,
                        uint32_t number)
{
	const struct bps_machine *machine = drawing->machine;
	const struct bps_machine_package *package = &machine->packages[number];
	const struct bps_machine_place at = { number, NONE, NONE };

	if (is_framed(machine, number)) {
		parent = bps_cell_add(
			drawing->sheet, parent,
			&(struct bps_cell){ .shape = "package", .round = 6 });
		bps_cell_line(parent, true, "package %u", package->number);
		bps_cell_hint(parent, "package %u%s%s", package->number,
		              package->model[0] ? ": " : "", package->model);
	}
	for (uint32_t i = 0; i < machine->n_nodes; i++)
		if (machine->nodes[i].package == number)
			add_node(drawing, parent, i);
	bps_drawing_add_devices(drawing, parent, &at);
}

/* The nodes, and left of them what bytes cross between them. */
static void add_packages(struct bps_drawing *drawing, struct bps_cell *parent)
{
	const struct bps_machine *machine = drawing->machine;
	const struct bps_machine_place nowhere = { NONE, NONE, NONE };
	struct bps_cell *row = bps_cell_add(drawing->sheet, parent,
	                                    &(struct bps_cell){ .layout = BPS_CELL_ROW });
	struct bps_cell *column;

	if (drawing->crossings) {
		struct bps_cell *bar = bps_cell_add(drawing->sheet, row,
		                                    &(struct bps_cell){ .shape = "bar",
		                                                        .round = 3,
		                                                        .turned = true,
		                                                        .tall = true });

		bps_cell_line(bar, true, "memory");
		bps_cell_hint(bar, "between memory nodes");
		drawing->memory = bar;
		bps_cell_add(drawing->sheet, row,
		             &(struct bps_cell){ .min_w = BPS_CELL_LINK_ROOM });
	}
	column = bps_cell_add(drawing->sheet, row, &(struct bps_cell){ .grow = true });
	for (uint32_t i = 0; i < machine->n_packages; i++)
		add_package(drawing, column, i);
	for (uint32_t i = 0; i < machine->n_nodes; i++)
		if (machine->nodes[i].package == NONE)
			add_node(drawing, column, i);
	bps_drawing_add_devices(drawing, parent, &nowhere);
}

/* -- what crosses -- */

static bool takes_part(const struct bps_drawing *drawing, uint32_t node)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < drawing->machine->n_nodes; i++)
		sum += crossing(drawing, node, i) + crossing(drawing, i, node);
	return sum > 0;
}

static void add_entry(const struct bps_drawing *drawing, struct bps_cell *table,
                      const char *text, bool strong)
{
	struct bps_cell *cell = bps_cell_add(drawing->sheet, table,
	                                     &(struct bps_cell){ .centred = true });

	bps_cell_line(cell, strong, "%s", text);
}

static void add_row(const struct bps_drawing *drawing, struct bps_cell *table,
                    uint32_t from)
{
	const struct bps_machine *machine = drawing->machine;
	char text[LIST_BYTES], units[BPS_CELL_UNITS_CHARS];

	(void)snprintf(text, sizeof(text), "node %u", machine->nodes[from].number);
	add_entry(drawing, table, text, true);
	for (uint32_t to = 0; to < machine->n_nodes; to++) {
		double m =
			(double)crossing(drawing, from, to) / (double)BPS_DRAWING_BYTES;

		if (takes_part(drawing, to))
			add_entry(drawing, table, m > 0 ? bps_cell_units(m, units) : "-",
			          false);
	}
}

/* From which node to which; where there are two, their links have said it. */
static void add_table(const struct bps_drawing *drawing, struct bps_cell *parent)
{
	const struct bps_machine *machine = drawing->machine;
	char text[LIST_BYTES];
	struct bps_cell *cell, *table;
	int n = 0;

	for (uint32_t i = 0; drawing->crossings && i < machine->n_nodes; i++)
		n += takes_part(drawing, i);
	if (n < 3 || n > TABLE_NODES)
		return;
	cell = bps_cell_add(drawing->sheet, parent,
	                    &(struct bps_cell){ .shape = "table", .round = 4 });
	bps_cell_line(cell, true, "from node (row) to node (column)");
	table = bps_cell_add(
		drawing->sheet, cell,
		&(struct bps_cell){ .layout = BPS_CELL_GRID, .columns = n + 1 });
	add_entry(drawing, table, "", true);
	for (uint32_t i = 0; i < machine->n_nodes; i++) {
		if (!takes_part(drawing, i))
			continue;
		(void)snprintf(text, sizeof(text), "node %u", machine->nodes[i].number);
		add_entry(drawing, table, text, true);
	}
	for (uint32_t i = 0; i < machine->n_nodes; i++)
		if (takes_part(drawing, i))
			add_row(drawing, table, i);
}

/* -- bytes -- */

static void find_rails(struct bps_drawing *drawing)
{
	const struct bps_placement *placement = drawing->placement;
	const struct bps_machine *machine = drawing->machine;

	for (uint32_t i = 0; placement && drawing->network && i < placement->n_rails;
	     i++) {
		const struct bps_place_rail *rail = &placement->rails[i];
		double m = rail->share * drawing->box->wire;

		drawing->nic_m[rail->nic] = m;
		for (uint32_t above = machine->nics[rail->nic].at.bridge; above != NONE;
		     above = machine->bridges[above].at.bridge)
			drawing->bridge_m[above] += m;
	}
}

static void find_crossings(struct bps_drawing *drawing)
{
	const uint32_t n = drawing->machine->n_nodes;
	uint64_t sum = 0;

	if (drawing->placement)
		bps_place_crossings(drawing->placement, BPS_DRAWING_BYTES,
		                    drawing->box->wire <= 0, drawing->crossings);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < n; j++)
			sum += i == j ? 0 : drawing->crossings[(size_t)i * n + j];
	if (sum)
		return;
	free(drawing->crossings);
	drawing->crossings = NULL;
}

static void drawing_deinit(struct bps_drawing *drawing)
{
	free(drawing->crossings);
	free(drawing->nic_m);
	free(drawing->bridge_m);
}

/* Return: 0, -ENOMEM. */
static int drawing_init(struct bps_drawing *drawing)
{
	const struct bps_machine *machine = drawing->machine;

	drawing->crossings =
		calloc((size_t)machine->n_nodes * machine->n_nodes + 1, sizeof(uint64_t));
	drawing->nic_m = calloc(machine->n_nics + 1, sizeof(double));
	drawing->bridge_m = calloc(machine->n_bridges + 1, sizeof(double));
	if (!drawing->crossings || !drawing->nic_m || !drawing->bridge_m) {
		drawing_deinit(drawing);
		return -ENOMEM;
	}
	find_rails(drawing);
	find_crossings(drawing);
	return 0;
}

/* -- the box -- */

/* "8 GPUs: model", where they are of one. */
static void tell_gpus(const struct bps_machine *machine, struct bps_cell *cell)
{
	const char *model = machine->n_gpus ? machine->gpus[0].model : "";

	if (!machine->n_gpus)
		return;
	for (uint32_t i = 1; i < machine->n_gpus; i++)
		if (strcmp(machine->gpus[i].model, model) != 0)
			model = "";
	bps_cell_line(cell, false, "%u GPU%s%s%s", machine->n_gpus,
	              plural(machine->n_gpus), model[0] ? ": " : "", model);
}

static void tell_box(const struct bps_drawing *drawing, struct bps_cell *cell)
{
	const struct bps_picture_box *box = drawing->box;
	const struct bps_machine *machine = drawing->machine;
	const struct bps_placement *placement = drawing->placement;
	char text[LIST_BYTES];

	bps_cell_wrap(cell, true, HEAD_CHARS, HEAD_LINES, bps_picture_names(box));
	if (box->n_alike > 1)
		bps_cell_line(cell, true, "%u boxes like this", box->n_alike);
	bps_cell_wrap(cell, false, HEAD_CHARS, HEAD_LINES,
	              box->differs ? box->differs : "");
	tell_memory(machine->memory_bytes, text, sizeof(text));
	bps_cell_line(cell, false, "%s, %u CPU%s", text, machine->n_cpus,
	              plural(machine->n_cpus));
	if (machine->n_usable < machine->n_cpus)
		bps_cell_line(cell, false, "%u usable", machine->n_usable);
	tell_gpus(machine, cell);
	for (uint32_t i = 0; placement && i < placement->n_groups; i++)
		if (placement->groups[i].node == NONE)
			bps_cell_line(cell, false, "%u rank%s, bound to no node",
			              placement->groups[i].n_ranks,
			              plural(placement->groups[i].n_ranks));
	if (placement && box->wire > 0) {
		bps_cpuset_format(box->engine_cpus ? box->engine_cpus
		                                   : &placement->engine_cpus,
		                  text, sizeof(text));
		bps_cell_line(cell, false, "engine's thread: CPU %s", text);
	}
}

/* The server that its leader carries. */
static void add_server(const struct bps_drawing *drawing, struct bps_cell *parent)
{
	struct bps_cell *cell;
	char text[BPS_CELL_UNITS_CHARS];

	if (drawing->box->share <= 0)
		return;
	cell = bps_cell_add(drawing->sheet, parent,
	                    &(struct bps_cell){ .shape = "server", .round = 10 });
	bps_cell_line(cell, true, "server in this box");
	bps_cell_line(cell, false, "sums %s", bps_cell_units(drawing->box->share, text));
	if (drawing->crossings)
		bps_cell_line(cell, false, "its own bytes between nodes are not counted");
}

int bps_picture_add_box(struct bps_sheet *sheet, struct bps_cell *parent,
                        const struct bps_picture_box *box, const struct bps_cell *network)
{
	struct bps_drawing drawing = { .sheet = sheet,
		                       .box = box,
		                       .machine = box->machine,
		                       .placement = box->placement,
		                       .network = box->wire > 0 ? network : NULL };
	struct bps_cell *cell;
	int r = drawing_init(&drawing);

	if (r)
		return r;
	cell = bps_cell_add(sheet, parent,
	                    &(struct bps_cell){ .shape = "box", .round = 8 });
	tell_box(&drawing, cell);
	bps_cell_hint(cell, "box %s", bps_picture_names(box));
	add_packages(&drawing, cell);
	add_table(&drawing, cell);
	add_server(&drawing, cell);
	if (drawing.network && (!box->placement || box->placement->n_rails == 0)) {
		cell->bar = network;
		cell->out = cell->in = box->wire;
	}
	drawing_deinit(&drawing);
	return 0;
}
