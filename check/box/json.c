/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A box as JSON. What the schema says is in bpsmpi-check(1); whoever adds a field leaves
 * its version alone, whoever changes or removes one raises it.
 */
#include <stdio.h>

#include "check/box/impl.h"
#include "check/check.h"
#include "topology/machine.h"

#define SCHEMA     1
#define LIST_BYTES (5 * BPS_CPU_MAX) /* every other CPU: "8190," is five characters */

void bps_json_text(const char *text)
{
	if (!text || !text[0]) {
		fputs("null", stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text == '\n' ? ' ' : *text);
	}
	putchar('"');
}

void bps_json_field(const char *name, const char *text)
{
	printf("\"%s\": ", name);
	bps_json_text(text);
}

void bps_json_rate(const char *name, double value)
{
	if (value > 0)
		printf("\"%s\": %.0f", name, value);
	else
		printf("\"%s\": null", name);
}

void bps_json_number(const char *name, uint32_t value)
{
	if (value == BPS_MACHINE_NONE)
		printf("\"%s\": null", name);
	else
		printf("\"%s\": %u", name, value);
}

void bps_json_set(const char *name, const struct bps_cpuset *set)
{
	static char list[LIST_BYTES];

	bps_cpuset_format(set, list, sizeof(list));
	printf("\"%s\": \"%s\"", name, list);
}

static void print_place(const char *bridge, const struct bps_machine_place *at)
{
	bps_json_number("package", at->package);
	fputs(", ", stdout);
	bps_json_number("node", at->node);
	fputs(", ", stdout);
	bps_json_number(bridge, at->bridge);
}

void bps_json_next(uint32_t i, uint32_t n)
{
	fputs(i < n ? (i ? ",\n    " : "\n    ") : (n ? "\n  ]" : "]"), stdout);
}

static void print_packages(const struct bps_machine *machine)
{
	fputs(",\n  \"packages\": [", stdout);
	for (uint32_t i = 0; i < machine->n_packages; i++) {
		bps_json_next(i, machine->n_packages);
		printf("{\"number\": %u, ", machine->packages[i].number);
		bps_json_field("model", machine->packages[i].model);
		putchar('}');
	}
	bps_json_next(machine->n_packages, machine->n_packages);
}

static void print_distances(const struct bps_machine *machine, uint32_t node)
{
	const uint32_t n = machine->n_nodes;

	fputs(", \"distances\": ", stdout);
	if (!machine->distances) {
		fputs("null", stdout);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		printf("%s%u", i ? ", " : "[", machine->distances[node * n + i]);
	putchar(']');
}

static void print_nodes(const struct bps_machine *machine)
{
	struct bps_cpuset set;

	fputs(",\n  \"nodes\": [", stdout);
	for (uint32_t i = 0; i < machine->n_nodes; i++) {
		const struct bps_machine_node *node = &machine->nodes[i];

		bps_json_next(i, machine->n_nodes);
		printf("{\"number\": %u, ", node->number);
		bps_json_number("package", node->package);
		printf(", \"memory_bytes\": %llu, ",
		       (unsigned long long)node->memory_bytes);
		bps_machine_node_cpus(machine, i, false, &set);
		bps_json_set("cpus", &set);
		fputs(", ", stdout);
		bps_machine_node_cpus(machine, i, true, &set);
		bps_json_set("usable", &set);
		print_distances(machine, i);
		putchar('}');
	}
	bps_json_next(machine->n_nodes, machine->n_nodes);
}

static void print_cpus(const struct bps_machine *machine)
{
	fputs(",\n  \"cpus\": [", stdout);
	for (uint32_t i = 0; i < machine->n_cpus; i++) {
		const struct bps_machine_cpu *cpu = &machine->cpus[i];

		bps_json_next(i, machine->n_cpus);
		printf("{\"number\": %u, ", cpu->number);
		bps_json_number("package", cpu->package);
		fputs(", ", stdout);
		bps_json_number("node", cpu->node);
		fputs(", ", stdout);
		bps_json_number("core", cpu->core);
		printf(", \"usable\": %s}", cpu->usable ? "true" : "false");
	}
	bps_json_next(machine->n_cpus, machine->n_cpus);
}

static void print_bridges(const struct bps_machine *machine)
{
	fputs(",\n  \"bridges\": [", stdout);
	for (uint32_t i = 0; i < machine->n_bridges; i++) {
		bps_json_next(i, machine->n_bridges);
		putchar('{');
		bps_json_field("bus", machine->bridges[i].bus);
		fputs(", ", stdout);
		print_place("above", &machine->bridges[i].at);
		putchar('}');
	}
	bps_json_next(machine->n_bridges, machine->n_bridges);
}

static void print_nic(const struct bps_machine_nic *nic)
{
	static const char *const links[] = {
		[BPS_MACHINE_LINK_UNKNOWN] = "null",
		[BPS_MACHINE_LINK_DOWN] = "\"down\"",
		[BPS_MACHINE_LINK_UP] = "\"up\"",
	};

	putchar('{');
	bps_json_field("name", nic->name);
	fputs(", ", stdout);
	bps_json_field("bus", nic->bus);
	fputs(", ", stdout);
	bps_json_field("verbs", nic->verbs);
	fputs(", ", stdout);
	bps_json_field("model", nic->model);
	fputs(", ", stdout);
	print_place("bridge", &nic->at);
	fputs(", ", stdout);
	bps_json_rate("bytes_per_s", nic->bytes_per_s);
	fputs(", ", stdout);
	bps_json_number("mtu", nic->mtu ? nic->mtu : BPS_MACHINE_NONE);
	printf(", \"link\": %s, \"virtual\": %s}", links[nic->link],
	       nic->is_virtual ? "true" : "false");
}

static void print_nics(const struct bps_machine *machine)
{
	fputs(",\n  \"nics\": [", stdout);
	for (uint32_t i = 0; i < machine->n_nics; i++) {
		bps_json_next(i, machine->n_nics);
		print_nic(&machine->nics[i]);
	}
	bps_json_next(machine->n_nics, machine->n_nics);
}

static void print_gpus(const struct bps_machine *machine)
{
	fputs(",\n  \"gpus\": [", stdout);
	for (uint32_t i = 0; i < machine->n_gpus; i++) {
		const struct bps_machine_gpu *gpu = &machine->gpus[i];

		bps_json_next(i, machine->n_gpus);
		putchar('{');
		bps_json_field("bus", gpu->bus);
		fputs(", ", stdout);
		bps_json_field("model", gpu->model);
		printf(", \"pci_class\": \"%04x\", \"vendor\": \"%04x\", "
		       "\"device\": \"%04x\", ",
		       gpu->pci_class, gpu->vendor, gpu->device);
		print_place("bridge", &gpu->at);
		putchar('}');
	}
	bps_json_next(machine->n_gpus, machine->n_gpus);
}

static void print_nvlinks(const struct bps_machine *machine)
{
	const uint32_t n = machine->n_gpus;

	fputs(",\n  \"nvlinks\": ", stdout);
	if (!machine->nvlinks) {
		fputs("null", stdout);
		return;
	}
	putchar('[');
	for (uint32_t i = 0; i < n; i++) {
		bps_json_next(i, n);
		for (uint32_t j = 0; j < n; j++)
			printf("%s%u", j ? ", " : "[", machine->nvlinks[i * n + j]);
		putchar(']');
	}
	bps_json_next(n, n);
}

void bps_box_print_json(const struct bps_machine *machine,
                        const struct bps_box_plan *plan)
{
	static const char *const sources[] = {
		[BPS_MACHINE_FLAT] = "flat",
		[BPS_MACHINE_HWLOC] = "hwloc",
		[BPS_MACHINE_XML] = "xml",
	};

	printf("{\n  \"schema\": \"bpsmpi-check box\",\n  \"version\": %d,\n  ", SCHEMA);
	bps_json_field("host", machine->host);
	printf(",\n  \"source\": \"%s\",\n  \"memory_bytes\": %llu,\n  ",
	       sources[machine->source], (unsigned long long)machine->memory_bytes);
	printf("\"n_cpus\": %u,\n  \"n_cores\": %u,\n  \"n_usable\": %u,\n  ",
	       machine->n_cpus, machine->n_cores, machine->n_usable);
	bps_json_set("usable", &machine->usable);
	fputs(",\n  ", stdout);
	bps_json_number("cpu_quota", machine->cpu_quota);
	print_packages(machine);
	print_nodes(machine);
	print_cpus(machine);
	print_bridges(machine);
	print_nics(machine);
	print_gpus(machine);
	print_nvlinks(machine);
	bps_json_plan(machine, plan);
	fputs("\n}\n", stdout);
}
