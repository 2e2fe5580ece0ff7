/* SPDX-License-Identifier: BSD-3-Clause */
/* Boxes of a test's own making, in memory. */
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "topology/machine.h"

#define NONE BPS_MACHINE_NONE

#define MADE_NODES   8
#define MADE_CPUS    64
#define MADE_DEVICES 16

struct made {
	struct bps_machine machine;
	struct bps_machine_package packages[MADE_NODES];
	struct bps_machine_node nodes[MADE_NODES];
	struct bps_machine_cpu cpus[MADE_CPUS];
	struct bps_machine_bridge bridges[MADE_DEVICES];
	struct bps_machine_nic nics[MADE_DEVICES];
	struct bps_machine_gpu gpus[MADE_DEVICES];
	uint32_t distances[MADE_NODES * MADE_NODES];
};

static inline void made_init(struct made *made)
{
	*made = (struct made){ .machine.cpu_quota = UINT32_MAX };
	made->machine.packages = made->packages;
	made->machine.nodes = made->nodes;
	made->machine.cpus = made->cpus;
	made->machine.bridges = made->bridges;
	made->machine.nics = made->nics;
	made->machine.gpus = made->gpus;
}

/* A node in a package of its own with @n_cores of @n_threads each; all may be used. */
static inline uint32_t made_node(struct made *made, uint32_t n_cores, uint32_t n_threads)
{
	struct bps_machine *machine = &made->machine;
	uint32_t node = machine->n_nodes++;

	made->packages[machine->n_packages++].number = node;
	made->nodes[node] = (struct bps_machine_node){
		.number = node,
		.package = node,
		.n_cpus = n_cores * n_threads,
		.n_usable = n_cores * n_threads,
	};
	for (uint32_t i = 0; i < n_cores * n_threads; i++) {
		uint32_t number = machine->n_cpus++;

		made->cpus[number] = (struct bps_machine_cpu){
			.number = number,
			.package = node,
			.core = machine->n_cores + i / n_threads,
			.node = node,
			.usable = true,
		};
		bps_cpuset_add(&machine->usable, number);
	}
	machine->n_cores += n_cores;
	machine->n_usable = bps_cpuset_count(&machine->usable);
	return node;
}

/* Where a thing on @node (or NONE) below @bridge (or NONE) is. */
static inline struct bps_machine_place made_at(const struct made *made, uint32_t node,
                                               uint32_t bridge)
{
	return (struct bps_machine_place){
		.package = node != NONE ? made->nodes[node].package : NONE,
		.node = node,
		.bridge = bridge,
	};
}

static inline uint32_t made_bridge(struct made *made, uint32_t node, uint32_t above)
{
	uint32_t i = made->machine.n_bridges++;

	made->bridges[i].at = made_at(made, node, above);
	return i;
}

static inline uint32_t made_nic(struct made *made, uint32_t node, uint32_t bridge,
                                double bytes_per_s)
{
	uint32_t i = made->machine.n_nics++;

	made->nics[i] = (struct bps_machine_nic){
		.bytes_per_s = bytes_per_s,
		.at = made_at(made, node, bridge),
	};
	return i;
}

static inline uint32_t made_gpu(struct made *made, uint32_t node, uint32_t bridge)
{
	uint32_t i = made->machine.n_gpus++;

	made->gpus[i].at = made_at(made, node, bridge);
	return i;
}

/* @n numbers: a set of CPUs. */
static inline struct bps_cpuset cpus(uint32_t n, ...)
{
	struct bps_cpuset set = { 0 };
	va_list args;

	va_start(args, n);
	while (n-- > 0)
		bps_cpuset_add(&set, va_arg(args, unsigned int));
	va_end(args);
	return set;
}
