/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices that hwloc does not tell, since no PCI device is theirs: RoCE in software
 * (rxe), on a card that also works without it; or one device for all ports of a bond.
 */
#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "topology/machine-build.h"

#define GID_BYTES 40 /* "fe80:0000:..." with its end */

/* What the file that @format names says, without its newline; false: nothing. */
static bool read_text(char *text, size_t text_bytes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static bool read_text(char *text, size_t text_bytes, const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(path) ||
	    bps_file_read(path, text, text_bytes) <= 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return true;
}

/*
 * A RoCE port's first GID is link-local and made from the hardware address of its
 * interface. The name alone says too little: other network namespaces have it too, and
 * RDMA devices are seen in all of them.
 */
static bool make_gid(const char *sysfs, const char *nic, char *ret_gid)
{
	unsigned int m[6];
	char text[32];

	if (!read_text(text, sizeof(text), "%s/%s/address", sysfs, nic) ||
	    sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x", &m[0], &m[1], &m[2], &m[3], &m[4],
	           &m[5]) != 6)
		return false;
	(void)snprintf(ret_gid, GID_BYTES,
	               "fe80:0000:0000:0000:%02x%02x:%02xff:fe%02x:%02x%02x", m[0] ^ 2U,
	               m[1], m[2], m[3], m[4], m[5]);
	return true;
}

static bool is_port_of(const char *ports, const char *port, const char *nic,
                       const char *gid)
{
	char text[64];

	return read_text(text, sizeof(text), "%s/%s/gid_attrs/ndevs/0", ports, port) &&
	       strcmp(text, nic) == 0 &&
	       read_text(text, sizeof(text), "%s/%s/gids/0", ports, port) &&
	       strcmp(text, gid) == 0;
}

static bool is_device_of(const char *infiniband, const char *device, const char *nic,
                         const char *gid)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s/ports", infiniband, device);
	DIR *ports = n > 0 && (size_t)n < sizeof(path) ? opendir(path) : NULL;
	struct dirent *entry;
	bool found = false;

	while (ports && !found && (entry = readdir(ports)))
		found = entry->d_name[0] != '.' &&
		        is_port_of(path, entry->d_name, nic, gid);
	if (ports)
		closedir(ports);
	return found;
}

void bps_machine_add_verbs(struct bps_machine *machine, const char *sysfs,
                           const char *infiniband)
{
	DIR *dir = opendir(infiniband);
	struct dirent *entry;
	char gid[GID_BYTES];

	for (uint32_t i = 0; dir && i < machine->n_nics; i++) {
		struct bps_machine_nic *nic = &machine->nics[i];

		rewinddir(dir);
		if (nic->verbs[0] || !make_gid(sysfs, nic->name, gid))
			continue;
		while (!nic->verbs[0] && (entry = readdir(dir)))
			if (entry->d_name[0] != '.' &&
			    is_device_of(infiniband, entry->d_name, nic->name, gid))
				bps_machine_text(nic->verbs, sizeof(nic->verbs),
				                 entry->d_name);
	}
	if (dir)
		closedir(dir);
}
