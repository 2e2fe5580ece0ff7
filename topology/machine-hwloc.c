/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A description from hwloc 2, live or from its XML. hwloc is loaded for this and given
 * back; nothing of it is kept. The objects of a file need not make sense together, so
 * every index is looked at before it is used.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/machine-build.h"
#include "topology/machine-hwloc.h"

static const char *const names[] = { BPS_HWLOC_SYMBOLS(BPS_DL_NAME) };

BPS_DL_CHECK(struct bps_hwloc, names);

static int fail(struct bps_hwloc_reader *reader, int r, const char *why)
{
	(void)snprintf(reader->error, reader->error_bytes, "%s", why);
	return r;
}

hwloc_obj_t bps_hwloc_object(const struct bps_hwloc_reader *reader,
                             enum bps_hwloc_kind kind, uint32_t i)
{
	return reader->hw.hwloc_get_obj_by_depth(reader->topology, reader->depth[kind],
	                                         i);
}

hwloc_obj_t bps_hwloc_ancestor(hwloc_obj_t object, hwloc_obj_type_t type)
{
	do
		object = object->parent;
	while (object && object->type != type);
	return object;
}

uint32_t bps_hwloc_index(const struct bps_hwloc_reader *reader, enum bps_hwloc_kind kind,
                         hwloc_obj_t object)
{
	return object && object->logical_index < reader->n[kind] ? object->logical_index
	                                                         : BPS_MACHINE_NONE;
}

const char *bps_hwloc_info(hwloc_obj_t object, const char *name)
{
	for (unsigned int i = 0; i < object->infos_count; i++)
		if (strcmp(object->infos[i].name, name) == 0)
			return object->infos[i].value;
	return NULL;
}

/* -- packages, nodes, CPUs -- */

static void read_packages(struct bps_hwloc_reader *reader)
{
	struct bps_machine *machine = reader->machine;

	machine->n_packages = reader->n[BPS_HWLOC_PACKAGE];
	for (uint32_t i = 0; i < machine->n_packages; i++) {
		hwloc_obj_t package = bps_hwloc_object(reader, BPS_HWLOC_PACKAGE, i);

		machine->packages[i].number = package->os_index;
		bps_machine_text(machine->packages[i].model, BPS_MACHINE_TEXT_BYTES,
		                 bps_hwloc_info(package, "CPUModel"));
	}
}

static void read_nodes(struct bps_hwloc_reader *reader)
{
	struct bps_machine *machine = reader->machine;

	machine->n_nodes = reader->n[BPS_HWLOC_NODE];
	for (uint32_t i = 0; i < machine->n_nodes; i++) {
		hwloc_obj_t node = bps_hwloc_object(reader, BPS_HWLOC_NODE, i);

		machine->nodes[i] = (struct bps_machine_node){
			.number = node->os_index,
			.package = bps_hwloc_index(
				reader, BPS_HWLOC_PACKAGE,
				bps_hwloc_ancestor(node, HWLOC_OBJ_PACKAGE)),
			.memory_bytes = node->attr->numanode.local_memory,
		};
	}
}

static uint32_t node_of(const struct bps_hwloc_reader *reader, uint32_t cpu)
{
	for (uint32_t i = 0; i < reader->n[BPS_HWLOC_NODE]; i++)
		if (reader->hw.hwloc_bitmap_isset(
			    bps_hwloc_object(reader, BPS_HWLOC_NODE, i)->cpuset, cpu))
			return i;
	return BPS_MACHINE_NONE;
}

static int by_number(const void *a, const void *b)
{
	const struct bps_machine_cpu *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

static int read_cpus(struct bps_hwloc_reader *reader)
{
	struct bps_machine *machine = reader->machine;

	machine->n_cores = reader->n[BPS_HWLOC_CORE];
	for (uint32_t i = 0; i < reader->n[BPS_HWLOC_CPU]; i++) {
		hwloc_obj_t cpu = bps_hwloc_object(reader, BPS_HWLOC_CPU, i);

		if (cpu->os_index >= BPS_CPU_MAX)
			return fail(reader, -EINVAL, "a CPU has an absurd number");
		machine->cpus[machine->n_cpus++] = (struct bps_machine_cpu){
			.number = cpu->os_index,
			.package = bps_hwloc_index(
				reader, BPS_HWLOC_PACKAGE,
				bps_hwloc_ancestor(cpu, HWLOC_OBJ_PACKAGE)),
			.core = bps_hwloc_index(reader, BPS_HWLOC_CORE,
			                        bps_hwloc_ancestor(cpu, HWLOC_OBJ_CORE)),
			.node = node_of(reader, cpu->os_index),
		};
	}
	qsort(machine->cpus, machine->n_cpus, sizeof(*machine->cpus), by_number);
	return 0;
}

static void read_allowed(struct bps_hwloc_reader *reader)
{
	hwloc_const_bitmap_t allowed =
		reader->hw.hwloc_topology_get_allowed_cpuset(reader->topology);
	int cpu = -1;

	while ((cpu = reader->hw.hwloc_bitmap_next(allowed, cpu)) >= 0 &&
	       cpu < BPS_CPU_MAX)
		bps_cpuset_add(&reader->machine->usable, (uint32_t)cpu);
}

static void copy_distances(struct bps_hwloc_reader *reader,
                           const struct hwloc_distances_s *distances)
{
	struct bps_machine *machine = reader->machine;

	for (unsigned int i = 0; i < distances->nbobjs; i++)
		for (unsigned int j = 0; j < distances->nbobjs; j++) {
			uint32_t from = bps_hwloc_index(reader, BPS_HWLOC_NODE,
			                                distances->objs[i]);
			uint32_t to = bps_hwloc_index(reader, BPS_HWLOC_NODE,
			                              distances->objs[j]);
			uint64_t value = distances->values[i * distances->nbobjs + j];

			if (from != BPS_MACHINE_NONE && to != BPS_MACHINE_NONE &&
			    value <= UINT32_MAX)
				machine->distances[from * machine->n_nodes + to] =
					(uint32_t)value;
		}
}

/* Kept only where there is one for every pair of nodes. */
static int read_distances(struct bps_hwloc_reader *reader)
{
	struct bps_machine *machine = reader->machine;
	const unsigned long kind =
		HWLOC_DISTANCES_KIND_FROM_OS | HWLOC_DISTANCES_KIND_MEANS_LATENCY;
	struct hwloc_distances_s *distances = NULL;
	unsigned int n = 1;
	int r = 0;

	if (reader->hw.hwloc_distances_get_by_type(reader->topology, HWLOC_OBJ_NUMANODE,
	                                           &n, &distances, kind, 0) ||
	    n == 0)
		return 0;
	if (distances->nbobjs == machine->n_nodes) {
		machine->distances = calloc((size_t)machine->n_nodes * machine->n_nodes,
		                            sizeof(uint32_t));
		if (machine->distances)
			copy_distances(reader, distances);
		else
			r = -ENOMEM;
	}
	reader->hw.hwloc_distances_release(reader->topology, distances);
	return r;
}

/* -- the whole -- */

static int open_hwloc(struct bps_hwloc_reader *reader, const char *library, void **ret)
{
	int r = bps_dl_open(library, names, BPS_DL_COUNT(names), &reader->hw, ret,
	                    reader->error, reader->error_bytes);
	unsigned int version;

	if (r)
		return BPS_MACHINE_E_UNUSABLE;
	version = reader->hw.hwloc_get_api_version();
	if (version >> 16 == HWLOC_API_VERSION >> 16)
		return 0;
	(void)snprintf(reader->error, reader->error_bytes,
	               "%s is of hwloc %u; version %d is needed", library, version >> 16,
	               HWLOC_API_VERSION >> 16);
	return BPS_MACHINE_E_UNUSABLE;
}

/* Parts that open displays, drivers and compilers for accelerators stay out. */
static void leave_out(struct bps_hwloc_reader *reader)
{
	static const char *const components[] = { "opencl", "gl",   "cuda",
		                                  "nvml",   "rsmi", "levelzero" };

	for (size_t i = 0; i < BPS_DL_COUNT(components); i++)
		(void)reader->hw.hwloc_topology_set_components(
			reader->topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
			components[i]);
}

static int load(struct bps_hwloc_reader *reader, const char *xml, size_t xml_bytes)
{
	const struct bps_hwloc *hw = &reader->hw;
	int r;

	leave_out(reader);
	r = hw->hwloc_topology_set_flags(reader->topology,
	                                 HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
	if (!r)
		r = hw->hwloc_topology_set_io_types_filter(
			reader->topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	if (!r && xml)
		r = hw->hwloc_topology_set_xmlbuffer(reader->topology, xml,
		                                     (int)xml_bytes);
	if (!r)
		r = hw->hwloc_topology_load(reader->topology);
	if (r)
		return xml ? fail(reader, -EINVAL, "hwloc cannot read this")
		           : fail(reader, BPS_MACHINE_E_UNUSABLE, "hwloc finds nothing");
	if (!xml && !hw->hwloc_topology_is_thissystem(reader->topology))
		return fail(reader, BPS_MACHINE_E_UNUSABLE,
		            "the environment has hwloc describe another box");
	return 0;
}

static int count_objects(struct bps_hwloc_reader *reader)
{
	const struct bps_hwloc *hw = &reader->hw;
	const hwloc_obj_type_t types[] = {
		[BPS_HWLOC_PACKAGE] = HWLOC_OBJ_PACKAGE,
		[BPS_HWLOC_NODE] = HWLOC_OBJ_NUMANODE,
		[BPS_HWLOC_CORE] = HWLOC_OBJ_CORE,
		[BPS_HWLOC_CPU] = HWLOC_OBJ_PU,
		[BPS_HWLOC_BRIDGE] = HWLOC_OBJ_BRIDGE,
		[BPS_HWLOC_PCI] = HWLOC_OBJ_PCI_DEVICE,
		[BPS_HWLOC_OS] = HWLOC_OBJ_OS_DEVICE,
	};

	for (size_t i = 0; i < BPS_HWLOC_N_KINDS; i++) {
		reader->depth[i] = hw->hwloc_get_type_depth(reader->topology, types[i]);
		reader->n[i] =
			hw->hwloc_get_nbobjs_by_depth(reader->topology, reader->depth[i]);
	}
	if (reader->n[BPS_HWLOC_NODE] > BPS_MACHINE_NODES_MAX ||
	    reader->n[BPS_HWLOC_PACKAGE] > BPS_CPU_MAX ||
	    reader->n[BPS_HWLOC_CPU] > BPS_CPU_MAX)
		return fail(reader, -EINVAL,
		            "too many packages, nodes or CPUs for one box");
	if (reader->n[BPS_HWLOC_BRIDGE] > BPS_MACHINE_DEVICES_MAX ||
	    reader->n[BPS_HWLOC_PCI] > BPS_MACHINE_DEVICES_MAX ||
	    reader->n[BPS_HWLOC_OS] > BPS_MACHINE_DEVICES_MAX)
		return fail(reader, -EINVAL, "too many devices for one box");
	return 0;
}

static int make_room(struct bps_hwloc_reader *reader)
{
	struct bps_machine *m = reader->machine;
	const uint32_t *n = reader->n;

	m->packages = calloc(n[BPS_HWLOC_PACKAGE] + 1, sizeof(*m->packages));
	m->nodes = calloc(n[BPS_HWLOC_NODE] + 1, sizeof(*m->nodes));
	m->cpus = calloc(n[BPS_HWLOC_CPU] + 1, sizeof(*m->cpus));
	m->bridges = calloc(n[BPS_HWLOC_BRIDGE] + 1, sizeof(*m->bridges));
	m->nics = calloc(n[BPS_HWLOC_OS] + 1, sizeof(*m->nics));
	m->gpus = calloc(n[BPS_HWLOC_PCI] + 1, sizeof(*m->gpus));
	return m->packages && m->nodes && m->cpus && m->bridges && m->nics && m->gpus
	               ? 0
	               : fail(reader, -ENOMEM, "out of memory");
}

static int copy(struct bps_hwloc_reader *reader)
{
	hwloc_obj_t root = reader->hw.hwloc_get_obj_by_depth(reader->topology, 0, 0);
	int r = count_objects(reader);

	if (!r)
		r = make_room(reader);
	if (r)
		return r;
	bps_machine_text(reader->machine->host, sizeof(reader->machine->host),
	                 bps_hwloc_info(root, "HostName"));
	read_packages(reader);
	read_nodes(reader);
	read_allowed(reader);
	r = read_cpus(reader);
	if (!r && (read_distances(reader) || bps_hwloc_read_pci(reader)))
		r = fail(reader, -ENOMEM, "out of memory");
	return r;
}

int bps_machine_from_hwloc(struct bps_machine *machine, const char *hwloc,
                           const char *xml, size_t xml_bytes, char *ret_error,
                           size_t error_bytes)
{
	struct bps_hwloc_reader reader = {
		.machine = machine,
		.error = ret_error,
		.error_bytes = error_bytes,
	};
	void *handle;
	int r = open_hwloc(&reader, hwloc, &handle);

	if (!r && reader.hw.hwloc_topology_init(&reader.topology))
		r = fail(&reader, BPS_MACHINE_E_UNUSABLE, "hwloc does not start");
	if (!r)
		r = load(&reader, xml, xml_bytes);
	if (!r)
		r = copy(&reader);
	if (reader.topology)
		reader.hw.hwloc_topology_destroy(reader.topology);
	bps_dl_close(handle);
	return r;
}
