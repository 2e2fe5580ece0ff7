/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library with the names of hwloc that says to be of version VERSION and fails to do
 * anything; test_machine.c loads it.
 */
#define FAKE(name, value)                                     \
	int name(void);                                       \
	__attribute__((visibility("default"))) int name(void) \
	{                                                     \
		return value;                                 \
	}

FAKE(hwloc_get_api_version, VERSION)
FAKE(hwloc_topology_init, -1)
FAKE(hwloc_topology_destroy, -1)
FAKE(hwloc_topology_set_flags, -1)
FAKE(hwloc_topology_set_components, -1)
FAKE(hwloc_topology_set_xmlbuffer, -1)
FAKE(hwloc_topology_set_io_types_filter, -1)
FAKE(hwloc_topology_load, -1)
FAKE(hwloc_topology_is_thissystem, 0)
FAKE(hwloc_topology_get_allowed_cpuset, 0)
FAKE(hwloc_get_type_depth, 0)
FAKE(hwloc_get_nbobjs_by_depth, 0)
FAKE(hwloc_get_obj_by_depth, 0)
FAKE(hwloc_distances_get_by_type, -1)
FAKE(hwloc_distances_release, 0)
FAKE(hwloc_bitmap_next, -1)
FAKE(hwloc_bitmap_isset, 0)
