/* SPDX-License-Identifier: BSD-3-Clause */
/* What hwloc knows of PCI: bridges, as far as they group devices, network cards, GPUs. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "topology/machine-build.h"
#include "topology/machine-hwloc.h"

#define PCI_CLASS_DISPLAY 0x03

struct pci {
	const struct bps_hwloc_reader *reader;
	struct bps_machine *machine;
	uint32_t *bridges; /* our index of each of hwloc's bridges; NONE: left out */
};

static bool is_gpu(hwloc_obj_t object)
{
	return object->type == HWLOC_OBJ_PCI_DEVICE &&
	       object->attr->pcidev.class_id >> 8 == PCI_CLASS_DISPLAY;
}

static bool is_nic(hwloc_obj_t object)
{
	return object->type == HWLOC_OBJ_OS_DEVICE &&
	       object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK;
}

/* Is one of ours at or below @object? */
static bool has_devices(hwloc_obj_t object)
{
	if (is_gpu(object) || is_nic(object))
		return true;
	for (hwloc_obj_t child = object->io_first_child; child;
	     child = child->next_sibling)
		if (has_devices(child))
			return true;
	return false;
}

/* Of PCI's own bridges (not those of the host) the ones below which ways part. */
static bool groups_devices(hwloc_obj_t bridge)
{
	uint32_t n = 0;

	if (bridge->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI)
		return false;
	for (hwloc_obj_t child = bridge->io_first_child; child && n < 2;
	     child = child->next_sibling)
		n += has_devices(child);
	return n == 2;
}

/* The one node with CPUs among those close to @object; NONE: several, or none. */
static uint32_t only_node(const struct pci *pci, hwloc_obj_t object)
{
	const struct bps_hwloc_reader *reader = pci->reader;
	uint32_t found = BPS_MACHINE_NONE;

	for (uint32_t i = 0; i < pci->machine->n_cpus; i++) {
		const struct bps_machine_cpu *cpu = &pci->machine->cpus[i];

		if (cpu->node == BPS_MACHINE_NONE || cpu->node == found ||
		    !reader->hw.hwloc_bitmap_isset(object->cpuset, cpu->number))
			continue;
		if (found != BPS_MACHINE_NONE)
			return BPS_MACHINE_NONE;
		found = cpu->node;
	}
	return found;
}

static struct bps_machine_place place_of(const struct pci *pci, hwloc_obj_t object)
{
	const struct bps_hwloc_reader *reader = pci->reader;
	struct bps_machine_place at = { .bridge = BPS_MACHINE_NONE };

	for (object = object->parent; object && !object->cpuset;
	     object = object->parent) {
		uint32_t i = object->type == HWLOC_OBJ_BRIDGE
		                     ? bps_hwloc_index(reader, BPS_HWLOC_BRIDGE, object)
		                     : BPS_MACHINE_NONE;

		if (at.bridge == BPS_MACHINE_NONE && i != BPS_MACHINE_NONE)
			at.bridge = pci->bridges[i];
	}
	at.node = object ? only_node(pci, object) : BPS_MACHINE_NONE;
	if (object && object->type != HWLOC_OBJ_PACKAGE)
		object = bps_hwloc_ancestor(object, HWLOC_OBJ_PACKAGE);
	at.package = bps_hwloc_index(reader, BPS_HWLOC_PACKAGE, object);
	if (at.package == BPS_MACHINE_NONE && at.node != BPS_MACHINE_NONE)
		at.package = pci->machine->nodes[at.node].package;
	return at;
}

static void write_bus(char *bus, const struct hwloc_pcidev_attr_s *pci)
{
	(void)snprintf(bus, BPS_MACHINE_BUS_BYTES, "%04x:%02x:%02x.%01x", pci->domain,
	               pci->bus, pci->dev, pci->func & 7U);
}

/* "NVIDIA A100", or what there is. */
static void write_model(char *model, hwloc_obj_t device)
{
	const char *vendor = bps_hwloc_info(device, "PCIVendor");
	const char *name = bps_hwloc_info(device, "PCIDevice");
	char text[2 * BPS_MACHINE_TEXT_BYTES];

	(void)snprintf(text, sizeof(text), "%s%s%s", vendor ? vendor : "",
	               vendor && name ? " " : "", name ? name : "");
	bps_machine_text(model, BPS_MACHINE_TEXT_BYTES, text);
}

static void add_bridges(struct pci *pci)
{
	const struct bps_hwloc_reader *reader = pci->reader;
	struct bps_machine *machine = pci->machine;

	for (uint32_t i = 0; i < reader->n[BPS_HWLOC_BRIDGE]; i++)
		pci->bridges[i] =
			groups_devices(bps_hwloc_object(reader, BPS_HWLOC_BRIDGE, i))
				? machine->n_bridges++
				: BPS_MACHINE_NONE;
	for (uint32_t i = 0; i < reader->n[BPS_HWLOC_BRIDGE]; i++) {
		hwloc_obj_t bridge = bps_hwloc_object(reader, BPS_HWLOC_BRIDGE, i);
		struct bps_machine_bridge *to;

		if (pci->bridges[i] == BPS_MACHINE_NONE)
			continue;
		to = &machine->bridges[pci->bridges[i]];
		write_bus(to->bus, &bridge->attr->bridge.upstream.pci);
		to->at = place_of(pci, bridge);
	}
}

static void add_gpu(struct pci *pci, hwloc_obj_t device)
{
	const struct hwloc_pcidev_attr_s *attr = &device->attr->pcidev;
	struct bps_machine_gpu *gpu = &pci->machine->gpus[pci->machine->n_gpus++];

	*gpu = (struct bps_machine_gpu){
		.pci_class = attr->class_id,
		.vendor = attr->vendor_id,
		.device = attr->device_id,
		.at = place_of(pci, device),
	};
	write_bus(gpu->bus, attr);
	write_model(gpu->model, device);
}

/* The name of the RDMA device that shares @nic's PCI device, if there is one. */
static const char *verbs_name(hwloc_obj_t nic)
{
	for (hwloc_obj_t other = nic->parent->io_first_child; other;
	     other = other->next_sibling)
		if (other->type == HWLOC_OBJ_OS_DEVICE &&
		    other->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
			return other->name;
	return NULL;
}

static void add_nic(struct pci *pci, hwloc_obj_t object)
{
	struct bps_machine_nic *nic = &pci->machine->nics[pci->machine->n_nics++];
	hwloc_obj_t device = object->parent;

	nic->at = place_of(pci, object);
	bps_machine_text(nic->name, sizeof(nic->name), object->name);
	if (!device || device->type != HWLOC_OBJ_PCI_DEVICE) {
		nic->is_virtual = true;
		return;
	}
	write_bus(nic->bus, &device->attr->pcidev);
	write_model(nic->model, device);
	bps_machine_text(nic->verbs, sizeof(nic->verbs), verbs_name(object));
}

int bps_hwloc_read_pci(struct bps_hwloc_reader *reader)
{
	struct pci pci = { .reader = reader, .machine = reader->machine };

	pci.bridges = malloc((reader->n[BPS_HWLOC_BRIDGE] + 1) * sizeof(*pci.bridges));
	if (!pci.bridges)
		return -ENOMEM;
	add_bridges(&pci);
	for (uint32_t i = 0; i < reader->n[BPS_HWLOC_PCI]; i++)
		if (is_gpu(bps_hwloc_object(reader, BPS_HWLOC_PCI, i)))
			add_gpu(&pci, bps_hwloc_object(reader, BPS_HWLOC_PCI, i));
	for (uint32_t i = 0; i < reader->n[BPS_HWLOC_OS]; i++)
		if (is_nic(bps_hwloc_object(reader, BPS_HWLOC_OS, i)))
			add_nic(&pci, bps_hwloc_object(reader, BPS_HWLOC_OS, i));
	free(pci.bridges);
	return 0;
}
