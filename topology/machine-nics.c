/* SPDX-License-Identifier: BSD-3-Clause */
/* The network interfaces of this box, from sysfs, or without it from getifaddrs(). */
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "topology/bandwidth.h"
#include "topology/machine-build.h"

/* What one file of an interface says, without its newline; false: nothing. */
static bool read_attribute(const char *sysfs, const char *nic, const char *name,
                           char *text, size_t text_bytes)
{
	char path[PATH_MAX];
	size_t n = (size_t)snprintf(path, sizeof(path), "%s/%s/%s", sysfs, nic, name);

	if (n >= sizeof(path) || bps_file_read(path, text, text_bytes) <= 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return true;
}

static long read_number(const char *sysfs, const char *nic, const char *name, long else_)
{
	char text[32], *end;
	long value;

	if (!read_attribute(sysfs, nic, name, text, sizeof(text)))
		return else_;
	value = strtol(text, &end, 10);
	return end > text && !*end ? value : else_;
}

static bool has_device(const char *sysfs, const char *nic)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s/device", sysfs, nic);
	return access(path, F_OK) == 0;
}

/* The last part of where device/ leads, if that is a PCI bus address. */
static void read_bus(const char *sysfs, struct bps_machine_nic *nic)
{
	char path[PATH_MAX], real[PATH_MAX], *at;
	unsigned int domain, bus, slot, function;
	int n;

	(void)snprintf(path, sizeof(path), "%s/%s/device", sysfs, nic->name);
	if (nic->bus[0] || !realpath(path, real))
		return;
	/* Of virtio, the device itself is one level below its PCI device. */
	for (int level = 0; level < 2; level++) {
		at = strrchr(real, '/');
		n = 0;
		if (at &&
		    sscanf(at, "/%x:%x:%x.%x%n", &domain, &bus, &slot, &function, &n) ==
		            4 &&
		    !at[n])
			bps_machine_text(nic->bus, sizeof(nic->bus), at + 1);
		if (at)
			*at = '\0';
	}
}

/* Where it is, if nobody said so yet. */
static void place(const struct bps_machine *machine, const char *sysfs,
                  struct bps_machine_nic *nic)
{
	long number = read_number(sysfs, nic->name, "device/numa_node", -1);

	if (nic->is_virtual || nic->at.node != BPS_MACHINE_NONE)
		return;
	for (uint32_t i = 0; i < machine->n_nodes; i++)
		if ((long)machine->nodes[i].number == number || machine->n_nodes == 1) {
			nic->at.node = i;
			nic->at.package = machine->nodes[i].package;
		}
}

static enum bps_machine_link read_link(const char *sysfs, const char *nic)
{
	char state[32];

	if (!read_attribute(sysfs, nic, "operstate", state, sizeof(state)) ||
	    strcmp(state, "unknown") == 0)
		return BPS_MACHINE_LINK_UNKNOWN;
	return strcmp(state, "up") == 0 ? BPS_MACHINE_LINK_UP : BPS_MACHINE_LINK_DOWN;
}

static void complete(const struct bps_machine *machine, const char *sysfs,
                     struct bps_machine_nic *nic)
{
	long mtu = read_number(sysfs, nic->name, "mtu", 0);

	nic->mtu = mtu > 0 && mtu <= INT_MAX ? (uint32_t)mtu : 0;
	nic->link = read_link(sysfs, nic->name);
	nic->is_virtual = !has_device(sysfs, nic->name);
	nic->bytes_per_s = 0;
	(void)bps_nic_speed(sysfs, nic->name, &nic->bytes_per_s);
	read_bus(sysfs, nic);
	place(machine, sysfs, nic);
}

/* Return: NULL: no memory. */
static struct bps_machine_nic *append(struct bps_machine *machine, const char *name)
{
	struct bps_machine_nic *nics =
		reallocarray(machine->nics, machine->n_nics + 1, sizeof(*nics));

	if (!nics)
		return NULL;
	machine->nics = nics;
	nics += machine->n_nics++;
	*nics = (struct bps_machine_nic){
		.at = { BPS_MACHINE_NONE, BPS_MACHINE_NONE, BPS_MACHINE_NONE },
	};
	bps_machine_text(nics->name, sizeof(nics->name), name);
	return nics;
}

uint32_t bps_machine_nic_named(const struct bps_machine *machine, const char *name)
{
	for (uint32_t i = 0; i < machine->n_nics; i++)
		if (strcmp(machine->nics[i].name, name) == 0)
			return i;
	return BPS_MACHINE_NONE;
}

/* Other files lie there too, as bonding_masters; and one that vanishes has no type. */
static bool is_wanted(const char *sysfs, const char *name)
{
	long type = name[0] != '.' && strlen(name) < IF_NAMESIZE
	                    ? read_number(sysfs, name, "type", -1)
	                    : -1;

	return type >= 0 && type != ARPHRD_LOOPBACK;
}

static int by_name(const void *a, const void *b)
{
	const struct bps_machine_nic *x = a, *y = b;

	return strverscmp(x->name, y->name);
}

/* -- without sysfs -- */

static uint32_t ask_mtu(int fd, const char *name)
{
	struct ifreq request = { 0 };

	(void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	return ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0
	               ? (uint32_t)request.ifr_mtu
	               : 0;
}

/* Whether a device is behind one, nobody says then. */
static int add_flat(struct bps_machine *machine, int fd, const struct ifaddrs *one)
{
	const unsigned works = IFF_UP | IFF_RUNNING;
	struct bps_machine_nic *nic;

	if ((one->ifa_flags & IFF_LOOPBACK) || strlen(one->ifa_name) >= IF_NAMESIZE ||
	    bps_machine_nic_named(machine, one->ifa_name) != BPS_MACHINE_NONE)
		return 0;
	nic = append(machine, one->ifa_name);
	if (!nic)
		return -ENOMEM;
	nic->mtu = ask_mtu(fd, nic->name);
	nic->link = (one->ifa_flags & works) == works ? BPS_MACHINE_LINK_UP
	                                              : BPS_MACHINE_LINK_DOWN;
	if (machine->n_nodes == 1) {
		nic->at.node = 0;
		nic->at.package = machine->nodes[0].package;
	}
	return 0;
}

static int add_all_flat(struct bps_machine *machine)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = 0;
	struct ifaddrs *all = NULL;

	(void)getifaddrs(&all);
	for (const struct ifaddrs *one = all; one && !r; one = one->ifa_next)
		r = add_flat(machine, fd, one);
	if (all)
		freeifaddrs(all);
	if (fd >= 0)
		close(fd);
	return r;
}

/* -- all of them -- */

static int add_all(struct bps_machine *machine, const char *sysfs, DIR *dir)
{
	struct dirent *entry;
	int r = 0;

	while (!r && (entry = readdir(dir))) {
		uint32_t known = bps_machine_nic_named(machine, entry->d_name);
		struct bps_machine_nic *nic;

		if (known == BPS_MACHINE_NONE && !is_wanted(sysfs, entry->d_name))
			continue;
		nic = known == BPS_MACHINE_NONE ? append(machine, entry->d_name)
		                                : &machine->nics[known];
		if (nic)
			complete(machine, sysfs, nic);
		else
			r = -ENOMEM;
	}
	return r;
}

int bps_machine_add_nics(struct bps_machine *machine, const char *sysfs)
{
	DIR *dir = opendir(sysfs);
	int r = dir ? add_all(machine, sysfs, dir) : 0;

	if (!r && machine->n_nics == 0)
		r = add_all_flat(machine);
	if (dir)
		closedir(dir);
	if (machine->n_nics > 0)
		qsort(machine->nics, machine->n_nics, sizeof(*machine->nics), by_name);
	return r;
}
