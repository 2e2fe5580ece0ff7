/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/check-doctor.h"
#include "tools/check.h"
#include "topology/bandwidth.h"
#include "topology/machine.h"

#define WIDTH       80 /* where there is no terminal */
#define WIDTH_MIN   40
#define LINE_BYTES  4096
#define LIST_BYTES  1024 /* of a list of CPUs */
#define SIZE_BYTES  16
#define HANGING     4 /* more indent of a line that goes on */
#define LEVEL_CHARS 2

struct printer {
	const struct bps_machine *machine;
	int width;
};

/* How much of @text goes on a line with room for @room: up to a space or comma. */
static size_t fitting(const char *text, size_t room)
{
	size_t best = 0;

	for (size_t i = 0; text[i]; i++) {
		if (i >= room && best > 0)
			return best;
		if (text[i] == ' ' || text[i] == ',')
			best = text[i] == ',' ? i + 1 : i;
		if (best > room)
			return best;
	}
	return strlen(text) <= room || best == 0 ? strlen(text) : best;
}

static void print(const struct printer *printer, int level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void print(const struct printer *printer, int level, const char *format, ...)
{
	char text[LINE_BYTES];
	const char *at = text;
	int indent = level * LEVEL_CHARS;
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	do {
		int room = printer->width - indent;
		size_t n = fitting(at, room > 0 ? (size_t)room : 1);

		printf("%*s%.*s\n", indent, "", (int)n, at);
		at += n;
		at += strspn(at, " ");
		indent = level * LEVEL_CHARS + HANGING;
	} while (*at);
}

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

/* Adds to the line at @line. */
static void add(char *line, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void add(char *line, const char *format, ...)
{
	size_t used = strlen(line);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(line + used, LINE_BYTES - used, format, args);
	va_end(args);
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

static void print_gpu(const struct printer *printer, int level,
                      const struct bps_machine_gpu *gpu)
{
	char model[BPS_MACHINE_TEXT_BYTES];

	(void)snprintf(model, sizeof(model), "vendor %04x device %04x", gpu->vendor,
	               gpu->device);
	print(printer, level, "GPU %s: %s", gpu->bus, gpu->model[0] ? gpu->model : model);
}

static void print_nic(const struct printer *printer, int level,
                      const struct bps_machine_nic *nic)
{
	static const char *const links[] = {
		[BPS_MACHINE_LINK_UNKNOWN] = "",
		[BPS_MACHINE_LINK_DOWN] = ", down",
		[BPS_MACHINE_LINK_UP] = ", up",
	};
	char line[LINE_BYTES] = "", rate[BPS_RATE_CHARS] = "speed unknown";

	if (nic->bytes_per_s > 0)
		bps_rate_format(nic->bytes_per_s, rate);
	add(line, "NIC %s: %s", nic->name, nic->is_virtual ? "virtual" : rate);
	if (nic->mtu)
		add(line, ", MTU %u", nic->mtu);
	add(line, "%s", links[nic->link]);
	if (nic->verbs[0])
		add(line, ", RDMA %s", nic->verbs);
	if (nic->bus[0])
		add(line, ", %s", nic->bus);
	if (nic->model[0])
		add(line, ", %s", nic->model);
	print(printer, level, "%s", line);
}

/* Bridges with what is below them, GPUs, and network cards that are just there. */
static void print_devices(const struct printer *printer, int level,
                          const struct bps_machine_place *at)
{
	const struct bps_machine *machine = printer->machine;

	for (uint32_t i = 0; i < machine->n_bridges; i++) {
		const struct bps_machine_bridge *bridge = &machine->bridges[i];
		struct bps_machine_place below = bridge->at;

		if (!same_place(&bridge->at, at))
			continue;
		below.bridge = i;
		print(printer, level, "PCIe bridge %s", bridge->bus);
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
	char list[LIST_BYTES];
	struct bps_cpuset set;

	bps_machine_node_cpus(machine, node, false, &set);
	bps_cpuset_format(&set, list, sizeof(list));
	if (of->n_cpus == 0) {
		add(line, ", memory alone");
		return;
	}
	add(line, ", CPU%s %s", plural(of->n_cpus), list);
	if (of->n_usable == of->n_cpus)
		return;
	bps_machine_node_cpus(machine, node, true, &set);
	bps_cpuset_format(&set, list, sizeof(list));
	add(line, " (%u of %u usable%s%s)", of->n_usable, of->n_cpus,
	    of->n_usable ? ": " : "", list);
}

static void add_distances(const struct bps_machine *machine, uint32_t node, char *line)
{
	if (!machine->distances || machine->n_nodes < 2)
		return;
	add(line, ", distances");
	for (uint32_t i = 0; i < machine->n_nodes; i++)
		add(line, " %u", machine->distances[node * machine->n_nodes + i]);
}

static void print_nodes(const struct printer *printer, int level, uint32_t package)
{
	const struct bps_machine *machine = printer->machine;

	for (uint32_t i = 0; i < machine->n_nodes; i++) {
		const struct bps_machine_node *node = &machine->nodes[i];
		const struct bps_machine_place at = { package, i, BPS_MACHINE_NONE };
		char line[LINE_BYTES] = "", size[SIZE_BYTES];

		if (node->package != package)
			continue;
		add(line, "node %u: %s", node->number,
		    write_size(node->memory_bytes, size));
		add_cpus(machine, i, line);
		add_distances(machine, i, line);
		print(printer, level, "%s", line);
		print_devices(printer, level + 1, &at);
	}
}

static void print_packages(const struct printer *printer)
{
	const struct bps_machine *machine = printer->machine;

	for (uint32_t i = 0; i < machine->n_packages; i++) {
		const struct bps_machine_package *package = &machine->packages[i];
		const struct bps_machine_place at = { i, BPS_MACHINE_NONE,
			                              BPS_MACHINE_NONE };
		uint32_t n_cpus = 0;

		for (uint32_t j = 0; j < machine->n_cpus; j++)
			n_cpus += machine->cpus[j].package == i;
		print(printer, 1, "package %u: %u CPU%s%s%s", package->number, n_cpus,
		      plural(n_cpus), package->model[0] ? ", " : "", package->model);
		print_nodes(printer, 2, i);
		print_devices(printer, 2, &at);
	}
}

static void print_head(const struct printer *printer)
{
	const struct bps_machine *m = printer->machine;
	char line[LINE_BYTES] = "", size[SIZE_BYTES];

	add(line, "%s: %s, %u CPU%s", m->host[0] ? m->host : "box",
	    write_size(m->memory_bytes, size), m->n_cpus, plural(m->n_cpus));
	if (m->n_cores > 0)
		add(line, " in %u core%s", m->n_cores, plural(m->n_cores));
	add(line, ", %u usable", m->n_usable);
	if (m->cpu_quota != UINT32_MAX)
		add(line, ", control groups grant the time of %u", m->cpu_quota);
	print(printer, 0, "%s", line);
	if (m->source == BPS_MACHINE_FLAT)
		print(printer, 1,
		      "(hwloc 2 is missing or cannot be used: packages, nodes and PCI "
		      "are not known)");
}

void bps_box_print(const struct bps_machine *machine, int width)
{
	const struct printer printer = { machine, width };
	const struct bps_machine_place nowhere = { BPS_MACHINE_NONE, BPS_MACHINE_NONE,
		                                   BPS_MACHINE_NONE };

	print_head(&printer);
	print_packages(&printer);
	print_nodes(&printer, 1, BPS_MACHINE_NONE);
	print_devices(&printer, 1, &nowhere);
}

/* -- the report -- */

static int terminal_width(void)
{
	struct winsize size;
	const char *columns = getenv("COLUMNS");
	int width = columns ? atoi(columns) : 0;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		width = size.ws_col;
	if (width <= 0)
		width = WIDTH;
	return width < WIDTH_MIN ? WIDTH_MIN : width;
}

static int describe(const struct bps_check_options *options,
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
	if (r)
		bps_check_complain("this box cannot be described: %s", strerror(-r));
	return r;
}

int bps_check_box(const struct bps_check_options *options)
{
	const struct bps_machine *machine;
	int n_findings = 0;

	if (describe(options, &machine))
		return BPS_CHECK_CANNOT;
	if (options->json)
		bps_box_print_json(machine);
	else
		bps_box_print(machine, terminal_width());
	if (!options->json && !options->xml)
		n_findings = bps_doctor(stdout);
	bps_machine_free(machine);
	if (n_findings < 0)
		return BPS_CHECK_CANNOT;
	return n_findings > 0 ? BPS_CHECK_WRONG : BPS_CHECK_FINE;
}
