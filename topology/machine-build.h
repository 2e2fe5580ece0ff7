/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts that machine.c makes a description from; for it and for tests. */
#pragma once

#include <stddef.h>

#include "topology/machine.h"

#define BPS_MACHINE_NODES_MAX   1024  /* memory nodes of one box: the kernel's limit */
#define BPS_MACHINE_DEVICES_MAX 65536 /* bridges, network cards, GPUs: of each */

/* bps_machine_from_hwloc(): hwloc cannot be used, @ret_error says why. */
#define BPS_MACHINE_E_UNUSABLE 1

/**
 * bps_machine_from_hwloc() - fill all but .source, .cpu_quota and what sysfs says.
 * @machine: empty; on failure half filled, to be released by the caller
 * @hwloc: how to load the library
 * @xml: a description that bps_machine_xml_load() gave, @xml_bytes with its end; NULL:
 * this box. .usable holds what hwloc says is allowed.
 * @ret_error: on failure a line; at most @error_bytes with its end
 *
 * Return: 0; BPS_MACHINE_E_UNUSABLE; -EINVAL: hwloc refuses @xml; or -ENOMEM.
 */
int bps_machine_from_hwloc(struct bps_machine *machine, const char *hwloc,
                           const char *xml, size_t xml_bytes, char *ret_error,
                           size_t error_bytes);

/**
 * bps_machine_from_xml() - bps_machine_from_hwloc() on @xml in a process of its own,
 * which is waited for: no file crashes this one. Return: as there; -EINVAL where hwloc
 * crashed too; or why there is no such process.
 */
int bps_machine_from_xml(struct bps_machine *machine, const char *hwloc, const char *xml,
                         size_t xml_bytes, char *ret_error, size_t error_bytes);

/**
 * bps_machine_xml_load() - read an XML file of hwloc as far as it is safe to pass on:
 * whole, its elements closed and not nested without end, no entities of its own.
 * @ret_xml: on success with its end; the caller frees it. NULL on failure
 * @ret_error: on failure a line that names @path
 *
 * Return: 0, -EINVAL, -EFBIG, -ENOMEM, or what reading the file gave.
 */
int bps_machine_xml_load(const char *path, char **ret_xml, size_t *ret_bytes,
                         char *ret_error, size_t error_bytes);

/**
 * bps_machine_add_nics() - take the interfaces of this box from the kernel: complete what
 * .nics has of them, append the others, sort all by name.
 * @sysfs: where the interfaces are: "/sys/class/net". Where there are none they are those
 * that getifaddrs() knows: no more than name, MTU and state.
 *
 * Return: 0 or -ENOMEM.
 */
int bps_machine_add_nics(struct bps_machine *machine, const char *sysfs);

/**
 * bps_machine_add_verbs() - find the RDMA devices of those .nics that have none yet.
 * @sysfs: where the interfaces are: "/sys/class/net"
 * @infiniband: where the devices are, "/sys/class/infiniband"; there may be no such
 * folder
 */
void bps_machine_add_verbs(struct bps_machine *machine, const char *sysfs,
                           const char *infiniband);

/** bps_machine_text() - copy what fits of @from, NULL for ""; printable ASCII, '?' for
 * else. */
void bps_machine_text(char *to, size_t to_bytes, const char *from);
