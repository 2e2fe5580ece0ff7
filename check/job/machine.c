/* SPDX-License-Identifier: BSD-3-Clause */
/* A description of a box, on its way to rank 0: field by field, within its bounds. */
#include <errno.h>
#include <stdlib.h>

#include "check/job/impl.h"
#include "topology/machine-build.h"

#define SQUARE_MAX BPS_MACHINE_NODES_MAX

static void carry_place(struct bps_parcel *p, const struct bps_machine *machine,
                        uint32_t n_bridges, struct bps_machine_place *at)
{
	bps_parcel_index(p, &at->package, machine->n_packages);
	bps_parcel_index(p, &at->node, machine->n_nodes);
	bps_parcel_index(p, &at->bridge, n_bridges);
}

static void carry_packages(struct bps_parcel *p, struct bps_machine *machine)
{
	bps_parcel_array(p, (void **)&machine->packages, &machine->n_packages,
	                 BPS_CPU_MAX, sizeof(*machine->packages));
	for (uint32_t i = 0; i < machine->n_packages; i++) {
		struct bps_machine_package *package = &machine->packages[i];

		bps_parcel_u32(p, &package->number, UINT32_MAX);
		bps_parcel_text(p, package->model, sizeof(package->model));
	}
}

static void carry_nodes(struct bps_parcel *p, struct bps_machine *machine)
{
	bps_parcel_array(p, (void **)&machine->nodes, &machine->n_nodes,
	                 BPS_MACHINE_NODES_MAX, sizeof(*machine->nodes));
	for (uint32_t i = 0; i < machine->n_nodes; i++) {
		struct bps_machine_node *node = &machine->nodes[i];

		bps_parcel_u32(p, &node->number, UINT32_MAX);
		bps_parcel_index(p, &node->package, machine->n_packages);
		bps_parcel_u64(p, &node->memory_bytes);
		bps_parcel_u32(p, &node->n_cpus, BPS_CPU_MAX);
		bps_parcel_u32(p, &node->n_usable, BPS_CPU_MAX);
	}
}

static void carry_cpus(struct bps_parcel *p, struct bps_machine *machine)
{
	bps_parcel_array(p, (void **)&machine->cpus, &machine->n_cpus, BPS_CPU_MAX,
	                 sizeof(*machine->cpus));
	for (uint32_t i = 0; i < machine->n_cpus; i++) {
		struct bps_machine_cpu *cpu = &machine->cpus[i];

		bps_parcel_u32(p, &cpu->number, BPS_CPU_MAX - 1);
		bps_parcel_index(p, &cpu->package, machine->n_packages);
		bps_parcel_index(p, &cpu->core, BPS_CPU_MAX);
		bps_parcel_index(p, &cpu->node, machine->n_nodes);
		bps_parcel_bool(p, &cpu->usable);
	}
}

/* A bridge is below one that came before it, so there are no circles. */
static void carry_bridges(struct bps_parcel *p, struct bps_machine *machine)
{
	bps_parcel_array(p, (void **)&machine->bridges, &machine->n_bridges,
	                 BPS_MACHINE_DEVICES_MAX, sizeof(*machine->bridges));
	for (uint32_t i = 0; i < machine->n_bridges; i++) {
		bps_parcel_text(p, machine->bridges[i].bus, BPS_MACHINE_BUS_BYTES);
		carry_place(p, machine, i, &machine->bridges[i].at);
	}
}

static void carry_nics(struct bps_parcel *p, struct bps_machine *machine)
{
	bps_parcel_array(p, (void **)&machine->nics, &machine->n_nics,
	                 BPS_MACHINE_DEVICES_MAX, sizeof(*machine->nics));
	for (uint32_t i = 0; i < machine->n_nics; i++) {
		struct bps_machine_nic *nic = &machine->nics[i];
		uint32_t link = nic->link;

		bps_parcel_text(p, nic->name, sizeof(nic->name));
		bps_parcel_text(p, nic->bus, sizeof(nic->bus));
		bps_parcel_text(p, nic->verbs, sizeof(nic->verbs));
		bps_parcel_text(p, nic->model, sizeof(nic->model));
		bps_parcel_rate(p, &nic->bytes_per_s);
		bps_parcel_u32(p, &nic->mtu, UINT32_MAX);
		bps_parcel_u32(p, &link, BPS_MACHINE_LINK_UP);
		nic->link = (enum bps_machine_link)link;
		bps_parcel_bool(p, &nic->is_virtual);
		carry_place(p, machine, machine->n_bridges, &nic->at);
	}
}

static void carry_gpus(struct bps_parcel *p, struct bps_machine *machine)
{
	bps_parcel_array(p, (void **)&machine->gpus, &machine->n_gpus,
	                 BPS_MACHINE_DEVICES_MAX, sizeof(*machine->gpus));
	for (uint32_t i = 0; i < machine->n_gpus; i++) {
		struct bps_machine_gpu *gpu = &machine->gpus[i];
		uint32_t numbers[] = { gpu->pci_class, gpu->vendor, gpu->device };

		bps_parcel_text(p, gpu->bus, sizeof(gpu->bus));
		bps_parcel_text(p, gpu->model, sizeof(gpu->model));
		for (int j = 0; j < 3; j++)
			bps_parcel_u32(p, &numbers[j], UINT16_MAX);
		gpu->pci_class = (uint16_t)numbers[0];
		gpu->vendor = (uint16_t)numbers[1];
		gpu->device = (uint16_t)numbers[2];
		carry_place(p, machine, machine->n_bridges, &gpu->at);
	}
}

/* From each of @n things to each: all numbers or none. */
static void carry_square(struct bps_parcel *p, uint32_t **square, uint32_t n)
{
	const uint32_t all = n <= SQUARE_MAX ? n * n : 0;
	uint32_t n_there = *square ? all : 0;

	bps_parcel_array(p, (void **)square, &n_there, all, sizeof(uint32_t));
	for (uint32_t i = 0; i < n_there; i++)
		bps_parcel_u32(p, &(*square)[i], UINT32_MAX);
	if (!p->error && n_there != 0 && n_there != all)
		p->error = -EBADMSG;
}

static void carry(struct bps_parcel *p, struct bps_machine *machine)
{
	uint32_t source = machine->source;

	bps_parcel_u32(p, &source, BPS_MACHINE_XML);
	machine->source = (enum bps_machine_source)source;
	bps_parcel_text(p, machine->host, sizeof(machine->host));
	bps_parcel_u64(p, &machine->memory_bytes);
	bps_parcel_u32(p, &machine->n_cores, BPS_CPU_MAX);
	bps_parcel_cpuset(p, &machine->usable);
	bps_parcel_u32(p, &machine->n_usable, BPS_CPU_MAX);
	bps_parcel_u32(p, &machine->cpu_quota, UINT32_MAX);
	carry_packages(p, machine);
	carry_nodes(p, machine);
	carry_cpus(p, machine);
	carry_bridges(p, machine);
	carry_nics(p, machine);
	carry_gpus(p, machine);
	carry_square(p, &machine->distances, machine->n_nodes);
	carry_square(p, &machine->nvlinks, machine->n_gpus);
}

void bps_job_machine_carry(struct bps_parcel *parcel, const struct bps_machine **machine)
{
	struct bps_machine *own;

	if (!parcel->reading) {
		own = (struct bps_machine *)*machine; /* it is not written to */
		carry(parcel, own);
		return;
	}
	own = calloc(1, sizeof(*own));
	if (own)
		carry(parcel, own);
	else
		parcel->error = -ENOMEM;
	if (parcel->error) {
		bps_machine_free(own);
		own = NULL;
	}
	*machine = own;
}
