/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One description of a box: packages, memory nodes, CPUs, PCIe bridges, network cards,
 * GPUs, and what this process may use of them. Taken from hwloc, which is loaded when it
 * is wanted, and from sysfs; or from an XML file that hwloc wrote, maybe of another box.
 *
 * It never changes once it is made, so any thread may read it. Things refer to each other
 * by index into the arrays here, BPS_MACHINE_NONE where there is nothing or it is not
 * known. Text is printable ASCII, whatever the source had in it.
 */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpuset.h"

#define BPS_MACHINE_NONE UINT32_MAX

/* What is there where sysfs says what hwloc wants to know. */
#define BPS_MACHINE_SYSFS "/sys/devices/system/cpu/cpu0/topology"

#define BPS_MACHINE_TEXT_BYTES 80 /* of names of products, with their end */
#define BPS_MACHINE_BUS_BYTES  16 /* of "0000:3b:00.0" */

enum bps_machine_source {
	BPS_MACHINE_FLAT,  /* no hwloc or no sysfs: one node with the usable CPUs, no PCI
	                    */
	BPS_MACHINE_HWLOC, /* this box, as hwloc and sysfs know it */
	BPS_MACHINE_XML,   /* a file; speed, MTU and state of network cards are unknown */
};

enum bps_machine_link {
	BPS_MACHINE_LINK_UNKNOWN,
	BPS_MACHINE_LINK_DOWN,
	BPS_MACHINE_LINK_UP,
};

/* Where a thing is; the closest that is known. */
struct bps_machine_place {
	uint32_t package;
	uint32_t node;   /* NONE too where several are equally near */
	uint32_t bridge; /* the closest one that is listed */
};

struct bps_machine_package {
	uint32_t number; /* the system's */
	char model[BPS_MACHINE_TEXT_BYTES];
};

/* Memory. */
struct bps_machine_node {
	uint32_t number;       /* the system's */
	uint32_t package;      /* NONE: of the whole box, or across packages */
	uint64_t memory_bytes; /* 0: not known */
	uint32_t n_cpus, n_usable;
};

/* A hardware thread. */
struct bps_machine_cpu {
	uint32_t number; /* the system's, < BPS_CPU_MAX; the array rises by it */
	uint32_t package, core;
	uint32_t node; /* where two nodes have the same CPUs (HBM): the first of them */
	bool usable;
};

/* A PCIe switch or port, where the ways to several devices part. */
struct bps_machine_bridge {
	char bus[BPS_MACHINE_BUS_BYTES];
	struct bps_machine_place at; /* .bridge: the one above it */
};

/* A network interface, but for loopback. */
struct bps_machine_nic {
	char name[IF_NAMESIZE];
	char bus[BPS_MACHINE_BUS_BYTES]; /* "": none */
	char verbs[IF_NAMESIZE];         /* its RDMA device, as mlx5_0; "": none known */
	char model[BPS_MACHINE_TEXT_BYTES];
	double bytes_per_s; /* one way; 0: not known, as bps_nic_speed() says */
	uint32_t mtu;       /* bytes; 0: not known */
	enum bps_machine_link link;
	bool is_virtual; /* no device behind it: bridge, veth, tunnel, bond */
	struct bps_machine_place at;
};

/* A PCI device of class 3: display and 3D controllers. */
struct bps_machine_gpu {
	char bus[BPS_MACHINE_BUS_BYTES];
	char model[BPS_MACHINE_TEXT_BYTES];
	uint16_t pci_class, vendor, device; /* PCI's numbers */
	struct bps_machine_place at;
};

struct bps_machine {
	enum bps_machine_source source;
	char host[BPS_MACHINE_TEXT_BYTES];
	uint64_t memory_bytes; /* of all nodes */
	uint32_t n_packages, n_nodes, n_cpus, n_cores, n_bridges, n_nics, n_gpus;
	struct bps_machine_package *packages; /* all arrays are owned */
	struct bps_machine_node *nodes;
	struct bps_machine_cpu *cpus;
	struct bps_machine_bridge *bridges;
	struct bps_machine_nic *nics;
	struct bps_machine_gpu *gpus;
	uint32_t *distances; /* [from * n_nodes + to], 10 is local; NULL: not known */
	/* [gpu * n_gpus + other]: NVLinks from one to the other, straight or through
	 * switches; NULL: not known */
	uint32_t *nvlinks;
	struct bps_cpuset usable;
	uint32_t n_usable;
	uint32_t cpu_quota; /* of control groups, in CPUs; UINT32_MAX: no limit known */
};

/**
 * bps_machine_look() - describe this box and what the calling thread may use of it.
 * @hwloc: how to load hwloc 2, NULL for its usual name. Where that fails, hwloc cannot be
 * used, or there is no sysfs, the description is flat and a debug line says why.
 * @ret: on success the caller owns it until bps_machine_free(); NULL on failure
 *
 * Not in a hot path: it reads a few hundred files of sysfs.
 * Return: 0; -ENOMEM; or the error of bps_cpuset_allowed(), which is logged.
 */
int bps_machine_look(const char *hwloc, const struct bps_machine **ret);

/**
 * bps_machine_add_nvml() - complete the NVIDIA GPUs of this box by what their driver
 * says: names, and .nvlinks. For tools: it starts the driver, which may take a while.
 * @machine: from bps_machine_look(), not handed to anybody yet
 * @nvml: how to load NVML, NULL for its usual name. It is loaded where there is such a
 * GPU alone; where that fails, the description stays as it is and a debug line says why.
 *
 * Return: 0 or -ENOMEM.
 */
int bps_machine_add_nvml(const struct bps_machine *machine, const char *nvml);

/**
 * bps_machine_read() - describe the box that an XML file of hwloc is about.
 * @path: a plain file from "lstopo FILE.xml"; it may be broken or hostile
 * @hwloc, @ret: as bps_machine_look() has them, but without hwloc this fails. hwloc reads
 * it in a child process that is waited for.
 * @ret_error: on failure one line that names the file, at most @error_bytes with its end
 *
 * Return: 0; -EINVAL: it is no such file, or broken; -ENOSYS: hwloc is missing;
 * or another negative errno. Nothing is logged.
 */
int bps_machine_read(const char *path, const char *hwloc, const struct bps_machine **ret,
                     char *ret_error, size_t error_bytes);

/** bps_machine_free() - release it and all it owns; NULL is fine. */
void bps_machine_free(const struct bps_machine *machine);

/** bps_machine_nic_named() - the index of a network card; NONE: there is none. */
uint32_t bps_machine_nic_named(const struct bps_machine *machine, const char *name);

/** bps_machine_node_cpus() - the CPUs of node @node (< n_nodes); @usable ones alone. */
void bps_machine_node_cpus(const struct bps_machine *machine, uint32_t node, bool usable,
                           struct bps_cpuset *ret_set);
