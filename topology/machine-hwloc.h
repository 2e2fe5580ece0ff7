/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What we take of hwloc 2, and a topology of it that is being copied; with hwloc's types,
 * so for machine-hwloc.c, machine-pci.c and tests alone. One thread, until the copy is
 * made.
 */
#pragma once

#include <hwloc.h>
#include <hwloc/distances.h>

#include "base/dl.h"
#include "topology/machine.h"

#define BPS_HWLOC_SYMBOLS(X)                  \
	X(hwloc_get_api_version)              \
	X(hwloc_topology_init)                \
	X(hwloc_topology_destroy)             \
	X(hwloc_topology_set_flags)           \
	X(hwloc_topology_set_components)      \
	X(hwloc_topology_set_xmlbuffer)       \
	X(hwloc_topology_set_io_types_filter) \
	X(hwloc_topology_load)                \
	X(hwloc_topology_is_thissystem)       \
	X(hwloc_topology_get_allowed_cpuset)  \
	X(hwloc_get_type_depth)               \
	X(hwloc_get_nbobjs_by_depth)          \
	X(hwloc_get_obj_by_depth)             \
	X(hwloc_distances_get_by_type)        \
	X(hwloc_distances_release)            \
	X(hwloc_bitmap_next)                  \
	X(hwloc_bitmap_isset)

struct bps_hwloc {
	BPS_HWLOC_SYMBOLS(BPS_DL_FIELD)
};

/* The kinds of objects that are copied. */
enum bps_hwloc_kind {
	BPS_HWLOC_PACKAGE,
	BPS_HWLOC_NODE,
	BPS_HWLOC_CORE,
	BPS_HWLOC_CPU,
	BPS_HWLOC_BRIDGE,
	BPS_HWLOC_PCI,
	BPS_HWLOC_OS,
	BPS_HWLOC_N_KINDS,
};

struct bps_hwloc_reader {
	struct bps_hwloc hw;
	hwloc_topology_t topology;
	struct bps_machine *machine; /* borrowed; its arrays have room for all objects */
	int depth[BPS_HWLOC_N_KINDS];
	uint32_t n[BPS_HWLOC_N_KINDS];
	char *error;
	size_t error_bytes;
};

/** bps_hwloc_object() - the @i-th object (< .n[@kind]). */
hwloc_obj_t bps_hwloc_object(const struct bps_hwloc_reader *reader,
                             enum bps_hwloc_kind kind, uint32_t i);

/** bps_hwloc_ancestor() - the closest of @type above @object, or NULL. */
hwloc_obj_t bps_hwloc_ancestor(hwloc_obj_t object, hwloc_obj_type_t type);

/** bps_hwloc_index() - the index of @object, which may be NULL; else NONE. */
uint32_t bps_hwloc_index(const struct bps_hwloc_reader *reader, enum bps_hwloc_kind kind,
                         hwloc_obj_t object);

/** bps_hwloc_info() - what hwloc calls @name of @object; NULL: nothing. */
const char *bps_hwloc_info(hwloc_obj_t object, const char *name);

/**
 * bps_hwloc_read_pci() - copy bridges, network cards and GPUs; nodes and CPUs are there.
 * Return: 0 or -ENOMEM.
 */
int bps_hwloc_read_pci(struct bps_hwloc_reader *reader);
