/* SPDX-License-Identifier: BSD-3-Clause */
/* For people: what the engine would do in a box, and how its GPUs are joined. */
#include <stdio.h>
#include <stdlib.h>

#include "check/box/impl.h"

#define NONE   BPS_MACHINE_NONE
#define NVIDIA 0x10de
#define UNIT   1000000000 /* an allreduce, to see what crosses for each of its bytes */
#define CELL   5          /* characters of "NV18 " */
#define LEFT   22         /* of what stands before the first cell */

static const char *plural(uint32_t n)
{
	return n == 1 ? "" : "s";
}

static uint32_t number_of(const struct bps_machine *machine, uint32_t node)
{
	return machine->nodes[node].number;
}

/* "CPUs 0-7 of node 0" */
static void add_cpus(char *line, const struct bps_machine *machine,
                     const struct bps_cpuset *cpus, uint32_t node)
{
	char list[BPS_BOX_LIST_BYTES];

	bps_cpuset_format(cpus, list, sizeof(list));
	bps_box_add(line, "CPU%s %s", plural(bps_cpuset_count(cpus)), list);
	if (node != NONE)
		bps_box_add(line, " of node %u", number_of(machine, node));
}

static void print_groups(const struct bps_box_printer *printer,
                         const struct bps_placement *placement)
{
	char line[BPS_BOX_LINE_BYTES] = "groups:";
	uint32_t home = placement->groups[placement->home].node;

	for (uint32_t i = 0; i < placement->n_groups; i++)
		bps_box_add(line, "%s node %u", i ? "," : "",
		            number_of(printer->machine, placement->groups[i].node));
	bps_box_line(printer, 1,
	             "%s; the ranks of each sum first, those of node %u for other boxes",
	             line, number_of(printer->machine, home));
}

static void print_used(const struct bps_box_printer *printer,
                       const struct bps_placement *placement)
{
	char line[BPS_BOX_LINE_BYTES] = "network:";

	for (uint32_t i = 0; i < placement->n_rails; i++) {
		const struct bps_place_rail *rail = &placement->rails[i];

		bps_box_add(line, "%s %s", i ? "," : "",
		            printer->machine->nics[rail->nic].name);
		if (placement->n_rails > 1)
			bps_box_add(line, " %.1f%%", 100 * rail->share);
	}
	if (placement->n_rails == 0)
		bps_box_add(line, " no card can be used");
	bps_box_line(printer, 1, "%s", line);
}

static void print_left_out(const struct bps_box_printer *printer,
                           const struct bps_box_plan *plan)
{
	char line[BPS_BOX_LINE_BYTES] = "";

	for (int use = BPS_BOX_USED + 1; use < BPS_BOX_N_USES; use++) {
		bool any = false;

		for (uint32_t i = 0; i < printer->machine->n_nics; i++) {
			if ((int)plan->nics[i] != use)
				continue;
			if (!any)
				bps_box_add(line, "%s", line[0] ? "; " : "not used: ");
			bps_box_add(line, "%s%s", any ? ", " : "",
			            printer->machine->nics[i].name);
			any = true;
		}
		if (any)
			bps_box_add(line, " (%s)",
			            bps_box_use_text((enum bps_box_use)use));
	}
	if (line[0])
		bps_box_line(printer, 1, "%s", line);
}

/* Threads on the same CPUs are told together. */
static void print_server(const struct bps_box_printer *printer,
                         const struct bps_place_server *server)
{
	char line[BPS_BOX_LINE_BYTES] = "server, if one runs here:";

	for (uint32_t i = 0; i < server->n_threads; i++) {
		uint32_t before = 0, n = 0;

		for (uint32_t j = 0; j < server->n_threads; j++) {
			before += j < i && server->node[j] == server->node[i];
			n += server->node[j] == server->node[i];
		}
		if (before > 0)
			continue;
		bps_box_add(line, "%s %u thread%s on ", i ? "," : "", n, plural(n));
		add_cpus(line, printer->machine, &server->cpus[i], server->node[i]);
	}
	bps_box_line(printer, 1, "%s", line);
}

static void print_threads(const struct bps_box_printer *printer,
                          const struct bps_box_plan *plan)
{
	char line[BPS_BOX_LINE_BYTES] = "engine: 1 thread on ";

	add_cpus(line, printer->machine, &plan->engine_cpus, plan->engine_node);
	bps_box_line(printer, 1, "%s", line);
	print_server(printer, &plan->server);
}

static void print_gpu_groups(const struct bps_box_printer *printer,
                             const struct bps_placement *placement)
{
	const struct bps_machine *machine = printer->machine;

	for (uint32_t i = 0; i < placement->n_gpu_groups; i++) {
		const struct bps_place_gpus *group = &placement->gpu_groups[i];
		char buses[BPS_BOX_LINE_BYTES] = "", line[BPS_BOX_LINE_BYTES] = "GPU";
		uint32_t n = 0;

		for (uint32_t j = 0; j < machine->n_gpus; j++) {
			if (placement->gpu_group_of[j] != i)
				continue;
			bps_box_add(buses, " %s", machine->gpus[j].bus);
			n++;
		}
		bps_box_add(line, "%s%s", plural(n), buses);
		if (group->nic != NONE)
			bps_box_add(line, ": NIC %s", machine->nics[group->nic].name);
		bps_box_line(printer, 1, "%s", line);
	}
}

/* All of it, and the most from one node to another. */
static double count_crossings(const struct bps_placement *placement, bool alone,
                              uint64_t *matrix, double *ret_most)
{
	size_t n = placement->machine->n_nodes;
	double sum = 0;

	bps_place_crossings(placement, UNIT, alone, matrix);
	*ret_most = 0;
	for (size_t i = 0; i < n * n; i++) {
		double each = (double)matrix[i] / UNIT;

		sum += each;
		if (each > *ret_most)
			*ret_most = each;
	}
	return sum;
}

static void print_crossings(const struct bps_box_printer *printer,
                            const struct bps_placement *placement)
{
	size_t n = placement->machine->n_nodes;
	uint64_t *matrix = n > 1 ? calloc(n * n, sizeof(*matrix)) : NULL;
	double alone, boxes, most;

	if (!matrix)
		return;
	alone = count_crossings(placement, true, matrix, &most);
	boxes = count_crossings(placement, false, matrix, &most);
	if (alone + boxes > 0)
		bps_box_line(printer, 1,
		             "node to node, for each byte of an allreduce: %.4g in a job "
		             "on this box, %.4g in one on several, at most %.4g one way",
		             alone, boxes, most);
	free(matrix);
}

void bps_box_print_plan(const struct bps_box_printer *printer,
                        const struct bps_box_plan *plan)
{
	const struct bps_placement *placement = plan->placement;

	if (!placement)
		return;
	bps_box_line(printer, 0, "what a job does here%s%s:",
	             placement->n_groups > 1 ? ", with ranks on all nodes" : "",
	             placement->n_groups > 1 &&
	                             placement->engine_node != placement->groups[0].node
	                     ? ", the first bound to none"
	                     : "");
	if (placement->n_groups > 1)
		print_groups(printer, placement);
	print_used(printer, placement);
	print_left_out(printer, plan);
	print_threads(printer, plan);
	print_gpu_groups(printer, placement);
	print_crossings(printer, placement);
}

/* -- GPUs, as nvidia-smi topo -m shows them -- */

static uint32_t list_gpus(const struct bps_machine *machine, uint32_t *ret)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < machine->n_gpus; i++)
		if (machine->gpus[i].vendor == NVIDIA)
			ret[n++] = i;
	return n;
}

static bool have_a_bridge(const struct bps_machine *machine, uint32_t a, uint32_t b)
{
	for (; a != NONE; a = machine->bridges[a].at.bridge)
		for (uint32_t i = b; i != NONE; i = machine->bridges[i].at.bridge)
			if (i == a)
				return true;
	return false;
}

static const char *name_link(const struct bps_machine *machine, uint32_t a, uint32_t b,
                             char *buf)
{
	const struct bps_machine_place *x = &machine->gpus[a].at;
	const struct bps_machine_place *y = &machine->gpus[b].at;
	uint32_t n = machine->nvlinks[(size_t)a * machine->n_gpus + b];

	(void)snprintf(buf, CELL, "NV%u", n % 100);
	if (a == b)
		return "X";
	if (n > 0)
		return buf;
	if (x->bridge == y->bridge && x->bridge != NONE)
		return "PIX";
	if (have_a_bridge(machine, x->bridge, y->bridge))
		return "PXB";
	return x->node == y->node && x->node != NONE ? "NODE" : "SYS";
}

/* Columns @from and on, as many as fit; how many. */
static uint32_t print_columns(const struct bps_box_printer *printer, const uint32_t *gpus,
                              uint32_t n, uint32_t from)
{
	const struct bps_machine *machine = printer->machine;
	uint32_t to = from;
	char line[BPS_BOX_LINE_BYTES] = "", buf[CELL];

	while (to < n &&
	       (to == from || LEFT + CELL * (to + 1 - from) <= (uint32_t)printer->width))
		to++;
	for (uint32_t j = from; j < to; j++)
		bps_box_add(line, "G%-*u", j + 1 < to ? CELL - 1 : 0, j);
	printf("  %-20s%s\n", from == 0 ? "GPUs" : "", line);
	for (uint32_t i = 0; i < n; i++) {
		line[0] = '\0';
		for (uint32_t j = from; j < to; j++)
			bps_box_add(line, "%-*s", j + 1 < to ? CELL : 0,
			            name_link(machine, gpus[i], gpus[j], buf));
		printf("  G%-3u%-15s %s\n", i, machine->gpus[gpus[i]].bus, line);
	}
	return to - from;
}

void bps_box_print_links(const struct bps_box_printer *printer)
{
	static const char legend[] =
		"(NV2: 2 NVLinks; PIX: below one bridge, PXB: several; NODE: on one "
		"node; SYS: neither)";
	const struct bps_machine *machine = printer->machine;
	uint32_t *gpus = machine->nvlinks ? calloc(machine->n_gpus, sizeof(*gpus)) : NULL;
	uint32_t n = gpus ? list_gpus(machine, gpus) : 0;

	for (uint32_t from = 0; n > 1 && from < n;)
		from += print_columns(printer, gpus, n, from);
	if (n > 1)
		bps_box_line(printer, 1, "%s", legend);
	free(gpus);
}
