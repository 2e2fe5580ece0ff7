/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of machine-hwloc.c where hwloc's headers were missing at build time. */
#include <stdio.h>

#include "topology/machine-build.h"

int bps_machine_from_hwloc(struct bps_machine *machine, const char *hwloc,
                           const char *xml, size_t xml_bytes, char *ret_error,
                           size_t error_bytes)
{
	(void)machine;
	(void)xml;
	(void)xml_bytes;
	(void)snprintf(ret_error, error_bytes, "this build has no support for %s", hwloc);
	return BPS_MACHINE_E_UNUSABLE;
}
