/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/box/impl.h"
#include "check/check.h"
#include "check/doctor/doctor.h"
#include "check/svg/svg.h"
#include "topology/bandwidth.h"
#include "topology/machine.h"

#define SIZE_BYTES 16

static char *write_size(uint64_t bytes, char *buf)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	double size = (double)bytes;
	size_t unit = 0;

	for (; size >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		size /= 1024;
	(void)snprintf(buf, SIZE_BYTES, "%.1f %s", size, units[unit]);
	return buf;
}

static const char *plural(uint32_t n)
{
	return n == 1 ? "" : "s";
}

/* -- devices -- */

static bool same_place(const struct bps_machine_place *a,
                       const struct bps_machine_place *b)
{
	return a->package == b->package && a->node == b->node && a->bridge == b->bridge;
}

static void print_gpu(const struct bps_box_printer *printer, int level,
                      const struct bps_machine_gpu *gpu)
{
	char model[BPS_MACHINE_TEXT_BYTES];

	(void)snprintf(model, sizeof(model), "vendor %04x device %04x", gpu->vendor,
	               gpu->device);
	bps_box_line(printer, level, "GPU %s: %s", gpu->bus,
	             gpu->model[0] ? gpu->model : model);
}

static void print_nic(const struct bps_box_printer *printer, int level,
                      const struct bps_machine_nic *nic)
{
	static const char *const links[] = {
		[BPS_MACHINE_LINK_UNKNOWN] = "",
		[BPS_MACHINE_LINK_DOWN] = ", down",
		[BPS_MACHINE_LINK_UP] = ", up",
	};
	char line[BPS_BOX_LINE_BYTES] = "", rate[BPS_RATE_CHARS] = "speed unknown";

	if (nic->bytes_per_s > 0)
		bps_rate_format(nic->bytes_per_s, rate);
	bps_box_add(line, "NIC %s: %s", nic->name, nic->is_virtual ? "virtual" : rate);
	if (nic->mtu)
		bps_box_add(line, ", MTU %u", nic->mtu);
	bps_box_add(line, "%s", links[nic->link]);
	if (nic->verbs[0])
		bps_box_add(line, ", RDMA %s", nic->verbs);
	if (nic->bus[0])
		bps_box_add(line, ", %s", nic->bus);
	if (nic->model[0])
		bps_box_add(line, ", %s", nic->model);
	bps_box_line(printer, level, "%s", line);
}

/* Bridges with what is below them, GPUs, and network cards that are just there. */
static void print_devices(const struct bps_box_printer *printer, int level,
                          const struct bps_machine_place *at)
{
	const struct bps_machine *machine = printer->machine;

	for (uint32_t i = 0; i < machine->n_bridges; i++) {
		const struct bps_machine_bridge *bridge = &machine->bridges[i];
		struct bps_machine_place below = bridge->at;

		if (!same_place(&bridge->at, at))
			continue;
		below.bridge = i;
		bps_box_line(printer, level, "PCIe bridge %s", bridge->bus);
		print_devices(printer, level + 1, &below);
	}
	for (uint32_t i = 0; i < machine->n_gpus; i++)
		if (same_place(&machine->gpus[i].at, at))
			print_gpu(printer, level, &machine->gpus[i]);
	for (uint32_t i = 0; i < machine->n_nics; i++)
		if (same_place(&machine->nics[i].at, at))
			print_nic(printer, level, &machine->nics[i]);
}

/* -- memory and CPUs -- */

static void add_cpus(const struct bps_machine *machine, uint32_t node, char *line)
{
	const struct bps_machine_node *of = &machine->nodes[node];
	char list[BPS_BOX_LIST_BYTES];
	struct bps_cpuset set;

	bps_machine_node_cpus(machine, node, false, &set);
	bps_cpuset_format(&set, list, sizeof(list));
	if (of->n_cpus == 0) {
		bps_box_add(line, ", memory alone");
		return;
	}
	bps_box_add(line, ", CPU%s %s", plural(of->n_cpus), list);
	if (of->n_usable == of->n_cpus)
		return;
	bps_machine_node_cpus(machine, node, true, &set);
	bps_cpuset_format(&set, list, sizeof(list));
	bps_box_add(line, " (%u of %u usable%s%s)", of->n_usable, of->n_cpus,
	            of->n_usable ? ": " : "", list);
}

static void add_distances(const struct bps_machine *machine, uint32_t node, char *line)
{
	if (!machine->distances || machine->n_nodes < 2)
		return;
	bps_box_add(line, ", distances");
	for (uint32_t i = 0; i < machine->n_nodes; i++)
		bps_box_add(line, " %u", machine->distances[node * machine->n_nodes + i]);
}

static void print_nodes(const struct bps_box_printer *printer, int level,
                        uint32_t package)
{
	const struct bps_machine *machine = printer->machine;

	for (uint32_t i = 0; i < machine->n_nodes; i++) {
		const struct bps_machine_node *node = &machine->nodes[i];
		const struct bps_machine_place at = { package, i, BPS_MACHINE_NONE };
		char line[BPS_BOX_LINE_BYTES] = "", size[SIZE_BYTES];

		if (node->package != package)
			continue;
		bps_box_add(line, "node %u: %s", node->number,
		            write_size(node->memory_bytes, size));
		add_cpus(machine, i, line);
		add_distances(machine, i, line);
		bps_box_line(printer, level, "%s", line);
		print_devices(printer, level + 1, &at);
	}
}

static void print_packages(const struct bps_box_printer *printer)
{
	const struct bps_machine *machine = printer->machine;

	for (uint32_t i = 0; i < machine->n_packages; i++) {
		const struct bps_machine_package *package = &machine->packages[i];
		const struct bps_machine_place at = { i, BPS_MACHINE_NONE,
			                              BPS_MACHINE_NONE };
		uint32_t n_cpus = 0;

		for (uint32_t j = 0; j < machine->n_cpus; j++)
			n_cpus += machine->cpus[j].package == i;
		bps_box_line(printer, 1, "package %u: %u CPU%s%s%s", package->number,
		             n_cpus, plural(n_cpus), package->model[0] ? ", " : "",
		             package->model);
		print_nodes(printer, 2, i);
		print_devices(printer, 2, &at);
	}
}

static void print_head(const struct bps_box_printer *printer)
{
	const struct bps_machine *m = printer->machine;
	char line[BPS_BOX_LINE_BYTES] = "", size[SIZE_BYTES];

	bps_box_add(line, "%s: %s, %u CPU%s", m->host[0] ? m->host : "box",
	            write_size(m->memory_bytes, size), m->n_cpus, plural(m->n_cpus));
	if (m->n_cores > 0)
		bps_box_add(line, " in %u core%s", m->n_cores, plural(m->n_cores));
	bps_box_add(line, ", %u usable", m->n_usable);
	if (m->cpu_quota != UINT32_MAX)
		bps_box_add(line, ", control groups grant the time of %u", m->cpu_quota);
	bps_box_line(printer, 0, "%s", line);
	if (m->source == BPS_MACHINE_FLAT)
		bps_box_line(
			printer, 1,
			"(hwloc 2 or /sys is missing or cannot be used: packages, nodes "
			"and PCI are not known)");
}

void bps_box_print(const struct bps_machine *machine, int width)
{
	const struct bps_box_printer printer = { machine, width };
	const struct bps_machine_place nowhere = { BPS_MACHINE_NONE, BPS_MACHINE_NONE,
		                                   BPS_MACHINE_NONE };

	print_head(&printer);
	print_packages(&printer);
	print_nodes(&printer, 1, BPS_MACHINE_NONE);
	print_devices(&printer, 1, &nowhere);
	bps_box_print_links(&printer);
}

/* -- the report -- */

int bps_box_describe(const struct bps_check_options *options,
                     const struct bps_machine **ret)
{
	char error[512];
	int r;

	if (options->xml) {
		r = bps_machine_read(options->xml, NULL, ret, error, sizeof(error));
		if (r)
			bps_check_complain("%s", error);
		return r;
	}
	r = bps_machine_look(NULL, ret);
	if (!r)
		r = bps_machine_add_nvml(*ret, NULL);
	if (!r)
		return 0;
	bps_machine_free(*ret);
	bps_check_complain("this box cannot be described: %s", strerror(-r));
	return r;
}

/* Where a plan is asked for too, that is what is drawn. */
static int draw(const struct bps_check_options *options,
                const struct bps_machine *machine, const struct bps_box_plan *plan)
{
	if (!options->svg || options->n_boxes)
		return BPS_CHECK_FINE;
	return bps_picture_alone(machine, plan->placement, options->svg);
}

static int report(const struct bps_check_options *options,
                  const struct bps_machine *machine, const struct bps_box_plan *plan)
{
	const struct bps_box_printer printer = { machine, bps_check_width() };
	int n_findings = 0, drawn;

	if (options->json) {
		bps_box_print_json(machine, plan);
	} else {
		bps_box_print(machine, printer.width);
		bps_box_print_plan(&printer, plan);
	}
	if (!options->json && !options->xml)
		n_findings = bps_doctor(stdout, (uint32_t)printer.width);
	drawn = draw(options, machine, plan);
	if (n_findings < 0 || drawn != BPS_CHECK_FINE)
		return BPS_CHECK_CANNOT;
	return n_findings > 0 ? BPS_CHECK_WRONG : BPS_CHECK_FINE;
}

int bps_check_box(const struct bps_check_options *options)
{
	const struct bps_machine *machine;
	struct bps_box_plan plan;
	int status = BPS_CHECK_CANNOT;

	if (bps_box_describe(options, &machine))
		return status;
	if (bps_box_plan(machine, !options->xml, &plan) == 0)
		status = report(options, machine, &plan);
	else
		bps_check_complain("out of memory");
	bps_box_plan_deinit(&plan);
	bps_machine_free(machine);
	return status;
}
