/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "check/svg/impl.h"
#include "topology/bandwidth.h"

#define NONE         BPS_MACHINE_NONE
#define CHIP_W       76
#define CHIPS_ACROSS 4

bool bps_drawing_same_place(const struct bps_machine_place *a,
                            const struct bps_machine_place *b)
{
	return a->package == b->package && a->node == b->node && a->bridge == b->bridge;
}

/* Without the domain that nearly all have. */
static const char *short_bus(const char *bus)
{
	return strncmp(bus, "0000:", 5) == 0 ? bus + 5 : bus;
}

static void add_gpu(const struct bps_drawing *drawing, struct bps_cell *parent,
                    uint32_t i)
{
	const struct bps_machine_gpu *gpu = &drawing->machine->gpus[i];
	const struct bps_placement *placement = drawing->placement;
	struct bps_cell *cell = bps_cell_add(
		drawing->sheet, parent,
		&(struct bps_cell){
			.shape = "gpu", .round = 2, .min_w = CHIP_W, .centred = true });
	uint32_t nic = NONE;

	bps_cell_line(cell, true, "GPU");
	bps_cell_line(cell, false, "%s", short_bus(gpu->bus));
	if (placement && placement->n_gpu_groups > 0)
		nic = placement->gpu_groups[placement->gpu_group_of[i]].nic;
	bps_cell_hint(cell, "GPU %s%s%s%s%s", gpu->bus, gpu->model[0] ? ": " : "",
	              gpu->model, nic == NONE ? "" : "; nearest card: ",
	              nic == NONE ? "" : drawing->machine->nics[nic].name);
}

static void add_nic(const struct bps_drawing *drawing, struct bps_cell *parent,
                    uint32_t i)
{
	const struct bps_machine_nic *nic = &drawing->machine->nics[i];
	double m = drawing->nic_m[i];
	bool idle = drawing->network && drawing->placement && m <= 0;
	char rate[BPS_RATE_CHARS] = "";
	struct bps_cell *cell =
		bps_cell_add(drawing->sheet, parent,
	                     &(struct bps_cell){ .shape = idle ? "nic idle" : "nic",
	                                         .round = 14,
	                                         .min_w = CHIP_W,
	                                         .centred = true });

	if (nic->bytes_per_s > 0)
		bps_rate_format(nic->bytes_per_s, rate);
	bps_cell_line(cell, true, "%s", nic->name);
	bps_cell_line(cell, false, "%s",
	              idle          ? "not used"
	              : rate[0]     ? rate
	              : nic->bus[0] ? short_bus(nic->bus)
	                            : "virtual");
	bps_cell_hint(cell, "NIC %s%s%s%s%s%s%s", nic->name, nic->bus[0] ? " " : "",
	              nic->bus, nic->model[0] ? ": " : "", nic->model,
	              rate[0] ? ", " : "", rate);
	if (m > 0) {
		cell->bar = drawing->network;
		cell->out = cell->in = m;
	}
}

/* Interfaces without a device are many where there are containers. */
static bool is_drawn(const struct bps_drawing *drawing, uint32_t nic)
{
	return !drawing->machine->nics[nic].is_virtual || drawing->nic_m[nic] > 0;
}

/* As many rows of GPUs as there are network cards, if that leaves them short. */
static int across(int n_gpus, int n_nics)
{
	if (n_nics < 2 || n_gpus > CHIPS_ACROSS * n_nics)
		return CHIPS_ACROSS;
	return (n_gpus + n_nics - 1) / n_nics;
}

/* GPUs on the left, network cards at the right border, from where their links go on. */
static void add_chips(const struct bps_drawing *drawing, struct bps_cell *parent,
                      const struct bps_machine_place *at)
{
	const struct bps_machine *machine = drawing->machine;
	int n_gpus = 0, n_nics = 0;
	struct bps_cell *row, *gpus, *nics;

	for (uint32_t i = 0; i < machine->n_gpus; i++)
		n_gpus += bps_drawing_same_place(&machine->gpus[i].at, at);
	for (uint32_t i = 0; i < machine->n_nics; i++)
		n_nics += bps_drawing_same_place(&machine->nics[i].at, at) &&
		          is_drawn(drawing, i);
	if (n_gpus + n_nics == 0)
		return;
	row = bps_cell_add(drawing->sheet, parent,
	                   &(struct bps_cell){ .layout = BPS_CELL_ROW });
	gpus = bps_cell_add(drawing->sheet, row,
	                    &(struct bps_cell){ .layout = BPS_CELL_GRID,
	                                        .grow = true,
	                                        .columns = across(n_gpus, n_nics) });
	nics = bps_cell_add(drawing->sheet, row, &(struct bps_cell){ 0 });
	for (uint32_t i = 0; i < machine->n_gpus; i++)
		if (bps_drawing_same_place(&machine->gpus[i].at, at))
			add_gpu(drawing, gpus, i);
	for (uint32_t i = 0; i < machine->n_nics; i++)
		if (bps_drawing_same_place(&machine->nics[i].at, at) &&
		    is_drawn(drawing, i))
			add_nic(drawing, nics, i);
}

void bps_drawing_add_devices(const struct bps_drawing *drawing, struct bps_cell *parent,
                             const struct bps_machine_place *at)
{
	const struct bps_machine *machine = drawing->machine;

	for (uint32_t i = 0; i < machine->n_bridges; i++) {
		const struct bps_machine_bridge *bridge = &machine->bridges[i];
		struct bps_machine_place below = bridge->at;
		char text[BPS_CELL_UNITS_CHARS];
		struct bps_cell *cell;

		if (!bps_drawing_same_place(&bridge->at, at))
			continue;
		below.bridge = i;
		cell = bps_cell_add(drawing->sheet, parent,
		                    &(struct bps_cell){ .shape = "bridge", .round = 4 });
		bps_cell_line(cell, true, "PCIe bridge %s", short_bus(bridge->bus));
		bps_cell_hint(cell, "PCIe bridge %s", bridge->bus);
		if (drawing->bridge_m[i] > 0)
			bps_cell_line(cell, false, "out %s, in %s",
			              bps_cell_units(drawing->bridge_m[i], text), text);
		bps_drawing_add_devices(drawing, cell, &below);
	}
	add_chips(drawing, parent, at);
}
