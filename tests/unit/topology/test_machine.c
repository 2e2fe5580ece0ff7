/* SPDX-License-Identifier: BSD-3-Clause */
/* Boxes without hwloc, with the wrong one, and interfaces from a tree of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "topology/machine-build.h"
#include "topology/machine.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

static char tree[] = "/tmp/bpsmpi-machine-XXXXXX";

/* -- without hwloc -- */

static const struct bad {
	const char *library, *said;
} bads[] = {
	{ "libbpsmpi-nothing.so.1", "libbpsmpi-nothing.so.1 cannot be loaded" },
	{ "libc.so.6", "libc.so.6 has no symbol hwloc_get_api_version" },
	{ FAKE_3, "is of hwloc 3; version 2 is needed" },
	{ FAKE_2, "hwloc does not start" },
};

static void is_flat(const struct bps_machine *machine)
{
	cpu_set_t allowed;
	uint32_t n;

	assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	n = (uint32_t)CPU_COUNT(&allowed);
	assert_int_equal(machine->source, BPS_MACHINE_FLAT);
	assert_int_equal(machine->n_packages, 1);
	assert_int_equal(machine->n_nodes, 1);
	assert_int_equal(machine->n_cpus, n);
	assert_int_equal(machine->n_usable, n);
	assert_int_equal(machine->nodes[0].n_cpus, n);
	assert_int_equal(machine->nodes[0].n_usable, n);
	assert_int_equal(machine->n_bridges + machine->n_gpus, 0);
	assert_null(machine->distances);
	assert_true(machine->memory_bytes > 1 << 20);
	for (uint32_t i = 0; i < n; i++) {
		assert_true(CPU_ISSET(machine->cpus[i].number, &allowed));
		assert_true(machine->cpus[i].usable);
		assert_true(i == 0 ||
		            machine->cpus[i].number > machine->cpus[i - 1].number);
	}
}

/* One debug line, and a box that can be worked with. */
static void a_box_without_hwloc_is_flat(void **state)
{
	(void)state;
	for (size_t i = 0; i < N(bads); i++) {
		const struct bps_machine *machine = NULL;
		int fd = memfd_create("log", MFD_CLOEXEC), old = bps_log_set_fd(fd);
		char text[1024] = "";

		bps_log_set_level(BPS_LOG_DEBUG);
		assert_int_equal(bps_machine_look(bads[i].library, &machine), 0);
		bps_log_set_level(BPS_LOG_INFO);
		bps_log_set_fd(old);
		assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
		close(fd);
		if (!strstr(text, bads[i].said) ||
		    strchr(text, '\n') != text + strlen(text) - 1)
			fail_msg("%s: %s", bads[i].library, text);
		is_flat(machine);
		bps_machine_free(machine);
	}
}

static void a_file_needs_hwloc(void **state)
{
	static const char xml[] = "<topology version=\"2.0\"></topology>";
	char path[PATH_MAX];
	int fd;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/box.xml", tree);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, xml, strlen(xml)), strlen(xml));
	close(fd);
	for (size_t i = 0; i < N(bads); i++) {
		const struct bps_machine *machine = (void *)&fd;
		char error[512] = "";

		assert_int_equal(bps_machine_read(path, bads[i].library, &machine, error,
		                                  sizeof(error)),
		                 -ENOSYS);
		assert_null(machine);
		if (!strstr(error, bads[i].said) || !strstr(error, path))
			fail_msg("%s: %s", bads[i].library, error);
	}
	unlink(path);
}

static void nothing_may_be_freed(void **state)
{
	(void)state;
	bps_machine_free(NULL);
}

/* -- a tree that looks like /sys/class/net -- */

static void make_file(const char *nic, const char *name, const char *text)
{
	char path[PATH_MAX];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s/%s", tree, nic, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* @device: where its device lies below the tree; NULL: it has none. */
static void make_nic(const char *name, const char *type, const char *mtu,
                     const char *state, const char *device)
{
	char path[PATH_MAX], link[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", tree, name);
	assert_int_equal(mkdir(path, 0700), 0);
	make_file(name, "type", type);
	make_file(name, "mtu", mtu);
	make_file(name, "operstate", state);
	if (!device)
		return;
	(void)snprintf(link, sizeof(link), "../.devices/%s", device);
	(void)snprintf(path, sizeof(path), "%s/%s/device", tree, name);
	assert_int_equal(symlink(link, path), 0);
}

static void make_device(const char *name, const char *node)
{
	char path[PATH_MAX], below[64];

	(void)snprintf(path, sizeof(path), "%s/.devices/%s", tree, name);
	assert_int_equal(mkdir(path, 0700), 0);
	if (!node)
		return;
	(void)snprintf(below, sizeof(below), ".devices/%s", name);
	make_file(below, "numa_node", node);
	(void)snprintf(path, sizeof(path), "%s/.devices/%s/driver", tree, name);
	assert_int_equal(symlink("../../../drivers/mlx5_core", path), 0);
}

/* A device as in /sys/class/infiniband, with port 1. */
static void make_rdma(const char *name, const char *nic, const char *gid)
{
	static const char *const folders[] = {
		"",
		"/ports",
		"/ports/1",
		"/ports/1/gids",
		"/ports/1/gid_attrs",
		"/ports/1/gid_attrs/ndevs",
	};
	char path[PATH_MAX], port[64];

	for (size_t i = 0; i < N(folders); i++) {
		(void)snprintf(path, sizeof(path), "%s/.rdma/%s%s", tree, name,
		               folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	(void)snprintf(port, sizeof(port), ".rdma/%s/ports/1", name);
	make_file(port, "gids/0", gid);
	if (nic)
		make_file(port, "gid_attrs/ndevs/0", nic);
}

static int make_tree(void **state)
{
	char path[PATH_MAX];

	(void)state;
	assert_non_null(mkdtemp(tree));
	(void)snprintf(path, sizeof(path), "%s/.devices", tree);
	assert_int_equal(mkdir(path, 0700), 0);
	make_device("0000:3b:00.0", "7\n");
	make_device("0000:3b:00.1", "-1\n");
	make_device("0000:00:03.0", NULL);
	make_device("0000:00:03.0/virtio2", NULL);
	make_nic("lo", "772\n", "65536\n", "unknown\n", NULL);
	make_nic("eth10", "1\n", "9000\n", "up\n", "0000:3b:00.0");
	make_file("eth10", "speed", "100000\n");
	make_nic("eth9", "1\n", "1500\n", "down\n", "0000:3b:00.1");
	make_nic("ens3", "1\n", "1400\n", "up\n", "0000:00:03.0/virtio2");
	make_nic("veth1", "1\n", "text\n", "lowerlayerdown\n", NULL);
	make_nic("tun0", "65534\n", "1500\n", "unknown\n", NULL);
	make_file(".", "bonding_masters", "bond0\n");
	make_file("eth9", "address", "52:54:00:77:00:01\n");
	make_file("eth10", "address", "52:54:00:77:00:0a\n");
	make_file("tun0", "address", "\n");
	(void)snprintf(path, sizeof(path), "%s/.rdma", tree);
	assert_int_equal(mkdir(path, 0700), 0);
	make_rdma("ib0", NULL, "fe80:0000:0000:0000:5054:00ff:fe77:0001\n");
	make_rdma("rxe0", "eth9\n", "fe80:0000:0000:0000:5054:00ff:fe77:0002\n");
	make_rdma("rxe1", "eth9\n", "fe80:0000:0000:0000:5054:00ff:fe77:0001\n");
	make_rdma("rxe2", "eth9\n", "0000:0000:0000:0000:0000:0000:0000:0000\n");
	make_rdma("rxe3", "eth10\n", "fe80:0000:0000:0000:5054:00ff:fe77:000a\n");
	return 0;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *at)
{
	(void)stat;
	(void)type;
	(void)at;
	return remove(path);
}

static int remove_tree(void **state)
{
	(void)state;
	return nftw(tree, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const struct bps_machine_nic *find(const struct bps_machine *machine,
                                          const char *name)
{
	for (uint32_t i = 0; i < machine->n_nics; i++)
		if (strcmp(machine->nics[i].name, name) == 0)
			return &machine->nics[i];
	fail_msg("%s is missing", name);
	return NULL;
}

/* Two nodes, whose numbers are not their indices, in packages 1 and 0. */
static struct bps_machine two_nodes(struct bps_machine_node *nodes)
{
	nodes[0] = (struct bps_machine_node){ .number = 3, .package = 1 };
	nodes[1] = (struct bps_machine_node){ .number = 7, .package = 0 };
	return (struct bps_machine){ .n_nodes = 2, .nodes = nodes };
}

static void interfaces_are_as_sysfs_says(void **state)
{
	static const char *const order[] = { "ens3", "eth9", "eth10", "tun0", "veth1" };
	struct bps_machine_node nodes[2];
	struct bps_machine machine = two_nodes(nodes);
	const struct bps_machine_nic *nic;

	(void)state;
	assert_int_equal(bps_machine_add_nics(&machine, tree), 0);
	assert_int_equal(machine.n_nics, N(order));
	for (size_t i = 0; i < N(order); i++)
		assert_string_equal(machine.nics[i].name, order[i]);
	nic = find(&machine, "eth10");
	assert_string_equal(nic->bus, "0000:3b:00.0");
	assert_true(nic->bytes_per_s == 12.5e9);
	assert_int_equal(nic->mtu, 9000);
	assert_int_equal(nic->link, BPS_MACHINE_LINK_UP);
	assert_false(nic->is_virtual);
	assert_int_equal(nic->at.node, 1);
	assert_int_equal(nic->at.package, 0);
	nic = find(&machine, "eth9");
	assert_int_equal(nic->link, BPS_MACHINE_LINK_DOWN);
	assert_int_equal(nic->at.node, BPS_MACHINE_NONE);
	assert_true(nic->bytes_per_s == 0);
	nic = find(&machine, "ens3");
	assert_string_equal(nic->bus, "0000:00:03.0");
	assert_false(nic->is_virtual);
	nic = find(&machine, "veth1");
	assert_true(nic->is_virtual);
	assert_int_equal(nic->mtu, 0);
	assert_int_equal(nic->link, BPS_MACHINE_LINK_DOWN);
	assert_int_equal(find(&machine, "tun0")->link, BPS_MACHINE_LINK_UNKNOWN);
	assert_string_equal(find(&machine, "tun0")->bus, "");
	free(machine.nics);
}

/* What hwloc said of a card is kept, and none comes twice. */
static void what_is_known_is_completed(void **state)
{
	struct bps_machine_node nodes[2];
	struct bps_machine machine = two_nodes(nodes);
	const struct bps_machine_nic *nic;

	(void)state;
	machine.nics = calloc(1, sizeof(*machine.nics));
	machine.n_nics = 1;
	machine.nics[0] = (struct bps_machine_nic){
		.name = "eth10",
		.model = "Card",
		.bus = "0001:00:00.0",
		.at = { 1, 0, 5 },
	};
	assert_int_equal(bps_machine_add_nics(&machine, tree), 0);
	assert_int_equal(machine.n_nics, 5);
	nic = find(&machine, "eth10");
	assert_string_equal(nic->model, "Card");
	assert_string_equal(nic->bus, "0001:00:00.0");
	assert_int_equal(nic->at.node, 0);
	assert_int_equal(nic->at.bridge, 5);
	assert_int_equal(nic->mtu, 9000);
	free(machine.nics);
}

static void a_single_node_has_all_cards(void **state)
{
	struct bps_machine_node nodes[2];
	struct bps_machine machine = two_nodes(nodes);

	(void)state;
	machine.n_nodes = 1;
	assert_int_equal(bps_machine_add_nics(&machine, tree), 0);
	assert_int_equal(find(&machine, "eth9")->at.node, 0);
	assert_int_equal(find(&machine, "eth9")->at.package, 1);
	assert_int_equal(find(&machine, "veth1")->at.node, BPS_MACHINE_NONE);
	free(machine.nics);
}

/* By the hardware address: another network namespace may have an eth9 too. */
static void rdma_devices_are_found(void **state)
{
	struct bps_machine_node nodes[2];
	struct bps_machine machine = two_nodes(nodes);
	char path[PATH_MAX];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/.rdma", tree);
	assert_int_equal(bps_machine_add_nics(&machine, tree), 0);
	(void)snprintf(machine.nics[2].verbs, sizeof(machine.nics[2].verbs), "mlx5_0");
	bps_machine_add_verbs(&machine, tree, "/nowhere/at/all");
	assert_string_equal(find(&machine, "eth9")->verbs, "");
	bps_machine_add_verbs(&machine, tree, path);
	assert_string_equal(find(&machine, "eth9")->verbs, "rxe1");
	assert_string_equal(find(&machine, "eth10")->verbs, "mlx5_0");
	assert_string_equal(find(&machine, "tun0")->verbs, "");
	assert_string_equal(find(&machine, "ens3")->verbs, "");
	free(machine.nics);
}

/* All but the loopback that this host has. */
static void without_sysfs_interfaces_are_as_the_kernel_says(void **state)
{
	struct bps_machine_node nodes[2];
	struct bps_machine machine = two_nodes(nodes);
	struct if_nameindex *list = if_nameindex();
	uint32_t n = 0;

	(void)state;
	machine.n_nodes = 1;
	assert_non_null(list);
	assert_int_equal(bps_machine_add_nics(&machine, "/nowhere/at/all"), 0);
	for (const struct if_nameindex *one = list; one->if_index; one++) {
		struct ifreq request = { 0 };
		int fd = socket(AF_INET, SOCK_DGRAM, 0);
		bool up;

		(void)snprintf(request.ifr_name, IF_NAMESIZE, "%s", one->if_name);
		assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &request), 0);
		if (!(request.ifr_flags & IFF_LOOPBACK)) {
			const struct bps_machine_nic *nic = find(&machine, one->if_name);

			up = (request.ifr_flags & IFF_UP) &&
			     (request.ifr_flags & IFF_RUNNING);
			assert_int_equal(nic->link == BPS_MACHINE_LINK_UP, up);
			assert_int_equal(ioctl(fd, SIOCGIFMTU, &request), 0);
			assert_int_equal(nic->mtu, request.ifr_mtu);
			assert_int_equal(nic->at.node, 0);
			n++;
		}
		close(fd);
	}
	if_freenameindex(list);
	assert_int_equal(machine.n_nics, n);
	free(machine.nics);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_box_without_hwloc_is_flat),
		cmocka_unit_test(a_file_needs_hwloc),
		cmocka_unit_test(nothing_may_be_freed),
		cmocka_unit_test(interfaces_are_as_sysfs_says),
		cmocka_unit_test(what_is_known_is_completed),
		cmocka_unit_test(a_single_node_has_all_cards),
		cmocka_unit_test(rdma_devices_are_found),
		cmocka_unit_test(without_sysfs_interfaces_are_as_the_kernel_says),
	};

	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
