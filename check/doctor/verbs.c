/* SPDX-License-Identifier: BSD-3-Clause */
/* The doctor's check of RDMA devices: their ports, as sysfs tells of them. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "check/doctor/impl.h"

/* Tables of GIDs have up to some hundred places, of which the first are used. */
#define MAX_GIDS 256

/* -- what there is -- */

/* The first line of a file below a port; "" where there is none. */
static void read_line(const char *port, const char *name, char *ret, size_t ret_bytes)
{
	char path[PATH_MAX];

	ret[0] = '\0';
	if (snprintf(path, sizeof(path), "%s/%s", port, name) < (int)sizeof(path) &&
	    bps_file_read(path, ret, ret_bytes) < 0)
		ret[0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

/* Zeros and colons alone are a place that is free. */
static bool has_gid(const char *port)
{
	char name[32], text[64];

	for (int i = 0; i < MAX_GIDS; i++) {
		(void)snprintf(name, sizeof(name), "gids/%d", i);
		read_line(port, name, text, sizeof(text));
		if (!text[0])
			return false;
		if (text[strspn(text, "0:")])
			return true;
	}
	return false;
}

/* "2: INIT" and "3: Disabled": a number, and what it means. A state that is not told is
 * nothing to complain of. */
static void read_port(const char *path, struct bps_doctor_port *port)
{
	char text[64], *word;
	unsigned long state;

	read_line(path, "state", text, sizeof(text));
	state = strtoul(text, NULL, 10);
	port->state = state >= BPS_DOCTOR_PORT_DOWN && state <= BPS_DOCTOR_PORT_ACTIVE
	                      ? (enum bps_doctor_port_state)state
	                      : BPS_DOCTOR_PORT_ACTIVE;
	read_line(path, "phys_state", text, sizeof(text));
	word = strstr(text, ": ");
	(void)snprintf(port->link, sizeof(port->link), "%.31s", word ? word + 2 : "");
	read_line(path, "gid_attrs/ndevs/0", text, sizeof(text));
	(void)snprintf(port->netdev, sizeof(port->netdev), "%.15s", text);
	port->has_gid = has_gid(path);
}

static int is_shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void add_ports(const char *sysfs, const char *device,
                      struct bps_doctor_facts *facts)
{
	char path[PATH_MAX];
	struct dirent **list;
	int n;

	(void)snprintf(path, sizeof(path), "%s/%s/ports", sysfs, device);
	n = scandir(path, &list, is_shown, versionsort);
	for (int i = 0; i < n; i++) {
		struct bps_doctor_port *port = &facts->ports[facts->n_ports];

		if (facts->n_ports < BPS_DOCTOR_MAX_PORTS &&
		    snprintf(path, sizeof(path), "%s/%s/ports/%s", sysfs, device,
		             list[i]->d_name) < (int)sizeof(path)) {
			(void)snprintf(port->device, sizeof(port->device), "%.63s",
			               device);
			port->number = (uint32_t)strtoul(list[i]->d_name, NULL, 10);
			read_port(path, port);
			facts->n_ports++;
		}
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

void bps_doctor_collect_ports(const char *sysfs, struct bps_doctor_facts *facts)
{
	struct dirent **list;
	int n = scandir(sysfs, &list, is_shown, versionsort);

	for (int i = 0; i < n; i++) {
		add_ports(sysfs, list[i]->d_name, facts);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

/* -- what is wrong -- */

static const char *state_name(enum bps_doctor_port_state state)
{
	static const char *const names[] = {
		[BPS_DOCTOR_PORT_DOWN] = "down",
		[BPS_DOCTOR_PORT_INIT] = "waiting to be set up (INIT)",
		[BPS_DOCTOR_PORT_ARMED] = "half set up (ARMED)",
		[BPS_DOCTOR_PORT_ACTIVE] = "active",
	};

	return names[state];
}

static void not_active(const struct bps_doctor_port *port,
                       struct bps_doctor_report *report)
{
	bps_doctor_found(report,
	                 "no port of the RDMA device %s is active: port %" PRIu32
	                 " is %s%s%s",
	                 port->device, port->number, state_name(port->state),
	                 port->link[0] ? ", its link " : "", port->link);
	bps_doctor_cost(report, "the MPI library takes another device, or TCP, which is "
	                        "slower; or it fails");
	if (port->state != BPS_DOCTOR_PORT_DOWN) {
		bps_doctor_remedy(report,
		                  "the cable is fine, but no subnet manager has set "
		                  "the port up; have one run on a switch, or on "
		                  "one host:");
		bps_doctor_type(report, "systemctl enable --now opensm");
		return;
	}
	bps_doctor_remedy(report,
	                  "look at cable and switch, unless it is not meant to be "
	                  "used; what the port says:");
	bps_doctor_type(report, "rdma link show %s/%" PRIu32, port->device, port->number);
	if (port->netdev[0])
		bps_doctor_type(report, "ip link set %s up", port->netdev);
}

static void without_gid(const struct bps_doctor_port *port,
                        struct bps_doctor_report *report)
{
	bps_doctor_found(report,
	                 "port %" PRIu32 " of the RDMA device %s is active, but has no "
	                 "address there (GID)",
	                 port->number, port->device);
	bps_doctor_cost(report,
	                "nobody can connect to it: the MPI library fails, or takes "
	                "TCP");
	bps_doctor_remedy(report, "its network interface has no address, or is that of "
	                          "another network namespace, as in a container: give it "
	                          "one, or give the container the host's network; what "
	                          "there is:");
	bps_doctor_type(report, "rdma link show; ip addr show");
}

/* The ports of a device: @first to before the one that is returned. */
static uint32_t end_of_device(const struct bps_doctor_facts *facts, uint32_t first)
{
	uint32_t end = first + 1;

	while (end < facts->n_ports &&
	       strcmp(facts->ports[end].device, facts->ports[first].device) == 0)
		end++;
	return end;
}

/* Of a device with several ports one may be without a cable. */
void bps_doctor_check_verbs(const struct bps_doctor_facts *facts,
                            struct bps_doctor_report *report)
{
	for (uint32_t at = 0, end; at < facts->n_ports; at = end) {
		const struct bps_doctor_port *best = &facts->ports[at];

		end = end_of_device(facts, at);
		for (uint32_t i = at; i < end; i++) {
			const struct bps_doctor_port *port = &facts->ports[i];

			if (port->state > best->state)
				best = port;
			if (port->state == BPS_DOCTOR_PORT_ACTIVE && !port->has_gid)
				without_gid(port, report);
		}
		if (best->state != BPS_DOCTOR_PORT_ACTIVE)
			not_active(best, report);
	}
}
