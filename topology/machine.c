/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "topology/machine-build.h"

#define HWLOC      "libhwloc.so.15" /* the name that all of hwloc 2 have */
#define SYSFS_NET  "/sys/class/net"
#define SYSFS_RDMA "/sys/class/infiniband"

void bps_machine_text(char *to, size_t to_bytes, const char *from)
{
	size_t n = 0;

	for (; from && from[n] && n + 1 < to_bytes; n++)
		to[n] = (char)(from[n] >= ' ' && from[n] <= '~' ? from[n] : '?');
	to[n] = '\0';
}

/* Empties it too. */
static void release(struct bps_machine *machine)
{
	free(machine->packages);
	free(machine->nodes);
	free(machine->cpus);
	free(machine->bridges);
	free(machine->nics);
	free(machine->gpus);
	free(machine->distances);
	free(machine->nvlinks);
	*machine = (struct bps_machine){ .cpu_quota = UINT32_MAX };
}

void bps_machine_free(const struct bps_machine *machine)
{
	struct bps_machine *owned = (struct bps_machine *)machine;

	if (owned)
		release(owned);
	free(owned);
}

/* Leaves in .usable the CPUs that there are, and counts. */
static void count(struct bps_machine *machine)
{
	struct bps_cpuset there = { 0 };

	for (uint32_t i = 0; i < machine->n_cpus; i++) {
		struct bps_machine_cpu *cpu = &machine->cpus[i];

		bps_cpuset_add(&there, cpu->number);
		cpu->usable = bps_cpuset_has(&machine->usable, cpu->number);
		if (cpu->node == BPS_MACHINE_NONE)
			continue;
		machine->nodes[cpu->node].n_cpus++;
		machine->nodes[cpu->node].n_usable += cpu->usable;
	}
	bps_cpuset_intersect(&machine->usable, &there);
	machine->n_usable = bps_cpuset_count(&machine->usable);
	for (uint32_t i = 0; i < machine->n_nodes; i++)
		if (__builtin_add_overflow(machine->memory_bytes,
		                           machine->nodes[i].memory_bytes,
		                           &machine->memory_bytes))
			machine->memory_bytes = UINT64_MAX;
}

static uint64_t physical_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/* What is known without hwloc. */
static int make_flat(struct bps_machine *machine, const struct bps_cpuset *allowed)
{
	uint32_t n = bps_cpuset_count(allowed);

	machine->packages = calloc(1, sizeof(*machine->packages));
	machine->nodes = calloc(1, sizeof(*machine->nodes));
	machine->cpus = calloc(n, sizeof(*machine->cpus));
	if (!machine->packages || !machine->nodes || !machine->cpus)
		return -ENOMEM;
	machine->n_packages = 1;
	machine->n_nodes = 1;
	machine->nodes[0].memory_bytes = physical_bytes();
	for (uint32_t number = 0; machine->n_cpus < n; number++)
		if (bps_cpuset_has(allowed, number))
			machine->cpus[machine->n_cpus++] = (struct bps_machine_cpu){
				.number = number,
				.core = BPS_MACHINE_NONE,
			};
	return 0;
}

/* Without this, hwloc says a line of its own and has no memory and no devices. */
static int ask_hwloc(struct bps_machine *machine, const char *hwloc, char *ret_error,
                     size_t error_bytes)
{
	if (access(BPS_MACHINE_SYSFS, F_OK)) {
		(void)snprintf(ret_error, error_bytes, "there is no " BPS_MACHINE_SYSFS);
		return BPS_MACHINE_E_UNUSABLE;
	}
	return bps_machine_from_hwloc(machine, hwloc, NULL, 0, ret_error, error_bytes);
}

static int make_live(struct bps_machine *machine, const char *hwloc)
{
	struct bps_cpuset allowed;
	char error[256], host[BPS_MACHINE_TEXT_BYTES] = "";
	int r = bps_cpuset_allowed(&allowed);

	if (r)
		return r;
	r = ask_hwloc(machine, hwloc ? hwloc : HWLOC, error, sizeof(error));
	machine->source = BPS_MACHINE_HWLOC;
	if (r) {
		bps_debug("the box is described without hwloc: %s", error);
		release(machine);
		r = make_flat(machine, &allowed);
	}
	if (!r)
		r = bps_machine_add_nics(machine, SYSFS_NET);
	if (!r)
		bps_machine_add_verbs(machine, SYSFS_NET, SYSFS_RDMA);
	machine->usable = allowed;
	machine->cpu_quota = bps_cpu_quota("");
	(void)gethostname(host, sizeof(host) - 1);
	bps_machine_text(machine->host, sizeof(machine->host), host);
	return r;
}

/* Consumes @machine. */
static int hand_out(int r, struct bps_machine *machine, const struct bps_machine **ret)
{
	if (r) {
		bps_machine_free(machine);
		machine = NULL;
	} else {
		count(machine);
	}
	*ret = machine;
	return r;
}

static struct bps_machine *make_empty(void)
{
	struct bps_machine *machine = malloc(sizeof(*machine));

	if (machine)
		*machine = (struct bps_machine){ .cpu_quota = UINT32_MAX };
	return machine;
}

int bps_machine_look(const char *hwloc, const struct bps_machine **ret)
{
	struct bps_machine *machine = make_empty();

	return hand_out(machine ? make_live(machine, hwloc) : -ENOMEM, machine, ret);
}

static int make_from_xml(struct bps_machine *machine, const char *path, const char *hwloc,
                         const char *xml, size_t xml_bytes, char *ret_error,
                         size_t error_bytes)
{
	char why[256];
	int r = bps_machine_from_xml(machine, hwloc ? hwloc : HWLOC, xml, xml_bytes, why,
	                             sizeof(why));

	machine->source = BPS_MACHINE_XML;
	if (!r)
		return 0;
	(void)snprintf(ret_error, error_bytes, "%s: %s", path, why);
	return r == BPS_MACHINE_E_UNUSABLE ? -ENOSYS : r;
}

int bps_machine_read(const char *path, const char *hwloc, const struct bps_machine **ret,
                     char *ret_error, size_t error_bytes)
{
	struct bps_machine *machine;
	size_t xml_bytes;
	char *xml;
	int r;

	*ret = NULL;
	r = bps_machine_xml_load(path, &xml, &xml_bytes, ret_error, error_bytes);
	if (r)
		return r;
	machine = make_empty();
	if (!machine) {
		r = -ENOMEM;
		(void)snprintf(ret_error, error_bytes, "%s: out of memory", path);
	} else {
		r = make_from_xml(machine, path, hwloc, xml, xml_bytes, ret_error,
		                  error_bytes);
	}
	free(xml);
	return hand_out(r, machine, ret);
}

void bps_machine_node_cpus(const struct bps_machine *machine, uint32_t node, bool usable,
                           struct bps_cpuset *ret_set)
{
	*ret_set = (struct bps_cpuset){ 0 };
	for (uint32_t i = 0; i < machine->n_cpus; i++) {
		const struct bps_machine_cpu *cpu = &machine->cpus[i];

		if (cpu->node == node && (cpu->usable || !usable))
			bps_cpuset_add(ret_set, cpu->number);
	}
}
