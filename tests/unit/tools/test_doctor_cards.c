/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The doctor on cards that work together, and on RDMA devices, which a sysfs of this
 * test's own making has.
 */
#include "tests/unit/tools/doctor-facts.h"

#include <fcntl.h>
#include <linux/ethtool.h>
#include <stdlib.h>
#include <sys/stat.h>

/* -- two cards in one network -- */

/* eth0 has 10.1.2.3/24, and the kernel sends by it. */
static struct bps_doctor_nic *two_in_one(void)
{
	struct bps_doctor_nic *nic = add_nic("eth1", "10.1.2.9");

	facts.nics[0].prefix_bits = nic->prefix_bits = 24;
	facts.nics[0].arp_ignore = nic->arp_ignore = true;
	(void)strcpy(facts.nics[0].leaves_by, "eth0");
	(void)strcpy(nic->leaves_by, "eth0");
	nic->hardware = true;
	nic->mbits = nic->can_mbits = 10000;
	return nic;
}

static void a_strict_filter_drops(void **state)
{
	struct bps_doctor_nic *nic = two_in_one();

	assert_int_equal(examine(), 0);
	nic->rp_filter = 2; /* loose */
	assert_int_equal(examine(), 0);
	nic->rp_filter = 1;
	assert_finding("subnet",
	               "eth0 and eth1 are in one network, 10.1.2.0/24, and what comes in "
	               "by eth1 is dropped, since answers to it would leave by eth0",
	               "sysctl -w net/ipv4/conf/eth1/rp_filter=2");
	assert_contains(report, " cost: eth1 carries nothing");
	assert_contains(report, "ip route add 10.1.2.0/24 dev eth1 table ");
	assert_contains(report, "ip rule add from 10.1.2.9 table ");
	assert_null(strstr(report, "arp_ignore"));
	/* A rule of the routing sends by eth1 what comes from it. */
	(void)strcpy(nic->leaves_by, "eth1");
	assert_int_equal(examine(), 0);
	nic->leaves_by[0] = '\0'; /* not known */
	assert_int_equal(examine(), 0);
	/* The kernel sends by the other one. */
	(void)strcpy(nic->leaves_by, "eth1");
	(void)strcpy(facts.nics[0].leaves_by, "eth1");
	facts.nics[0].rp_filter = 1;
	assert_finding("subnet", "what comes in by eth0 is dropped",
	               "ip rule add from 10.1.2.3 table ");
}

static void each_answers_for_itself(void **state)
{
	struct bps_doctor_nic *nic = two_in_one();

	nic->arp_ignore = false;
	assert_finding("subnet", "10.1.2.0/24, and one answers there for the other (ARP)",
	               "arp_ignore=1");
	assert_contains(report, "arp_announce=2");
	assert_null(strstr(report, "rp_filter"));
	nic->arp_filter = true; /* asks the routes, which send by eth0 what is eth0's */
	assert_int_equal(examine(), 0);
	facts.nics[0].arp_ignore = false;
	facts.nics[0].arp_filter = true; /* and what is eth1's, too */
	assert_int_equal(examine(), 1);
	nic->rp_filter = 1;
	assert_finding("subnet", "what comes in by eth1 is dropped", "arp_ignore=1");
	(void)strcpy(nic->leaves_by, "eth1");
	assert_int_equal(examine(), 0);
}

static void cards_that_do_not_work_together(void **state)
{
	struct bps_doctor_nic *nic = two_in_one();

	nic->rp_filter = 1;
	nic->arp_ignore = false;
	nic->left_out = true;
	assert_int_equal(examine(), 0);
	nic->left_out = false;
	nic->netif.addr = address("10.1.3.9");
	assert_int_equal(examine(), 0);
	nic->netif.addr = address("10.1.2.9");
	nic->prefix_bits = 25;
	assert_int_equal(examine(), 0);
	nic->prefix_bits = 24;
	(void)strcpy(nic->netif.name, "eth0"); /* a second address */
	assert_int_equal(examine(), 0);
	(void)strcpy(nic->netif.name, "eth1");
	nic->mbits = nic->can_mbits = 1999; /* less than a fifth */
	assert_int_equal(examine(), 0);
	nic->mbits = nic->can_mbits = 2000;
	assert_int_equal(examine(), 1);
	nic->netif.usable = nic->hardware = false;
	assert_int_equal(examine(), 0);
}

/* -- speed -- */

/* Each mode of linux/ethtool.h alone; its name begins with its speed. */
static void modes_as_the_kernel_numbers_them(void **state)
{
#define MODE(name)                                         \
	{                                                  \
#name, ETHTOOL_LINK_MODE_##name##_Full_BIT \
	}
	static const struct {
		const char *name;
		uint32_t bit;
	} modes[] = {
		MODE(10baseT),       MODE(100baseT),          MODE(1000baseT),
		MODE(10000baseT),    MODE(2500baseX),         MODE(1000baseKX),
		MODE(10000baseKX4),  MODE(10000baseKR),       MODE(20000baseKR2),
		MODE(40000baseKR4),  MODE(40000baseLR4),      MODE(25000baseCR),
		MODE(25000baseSR),   MODE(50000baseCR2),      MODE(50000baseKR2),
		MODE(100000baseKR4), MODE(100000baseLR4_ER4), MODE(50000baseSR2),
		MODE(1000baseX),     MODE(10000baseCR),       MODE(10000baseER),
		MODE(2500baseT),     MODE(5000baseT),         MODE(50000baseKR),
		MODE(50000baseDR),   MODE(100000baseKR2),     MODE(100000baseDR2),
		MODE(200000baseKR4), MODE(200000baseCR4),     MODE(100baseT1),
		MODE(1000baseT1),    MODE(400000baseKR8),     MODE(400000baseCR8),
		MODE(100000baseKR),  MODE(100000baseDR),      MODE(200000baseKR2),
		MODE(200000baseCR2), MODE(400000baseKR4),     MODE(400000baseCR4),
	};
	static const uint32_t others[] = {
		ETHTOOL_LINK_MODE_Autoneg_BIT,   ETHTOOL_LINK_MODE_TP_BIT,
		ETHTOOL_LINK_MODE_FIBRE_BIT,     ETHTOOL_LINK_MODE_Pause_BIT,
		ETHTOOL_LINK_MODE_Backplane_BIT, ETHTOOL_LINK_MODE_FEC_NONE_BIT,
		ETHTOOL_LINK_MODE_FEC_BASER_BIT, ETHTOOL_LINK_MODE_FEC_LLRS_BIT,
	};
	uint32_t words[4] = { 0 };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		words[others[i] / 32] |= UINT32_C(1) << others[i] % 32;
	assert_int_equal(bps_doctor_most_mbits(words, 4), 0);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		uint32_t *word = &words[modes[i].bit / 32];

		*word |= UINT32_C(1) << modes[i].bit % 32;
		assert_int_equal(bps_doctor_most_mbits(words, 4),
		                 strtoul(modes[i].name, NULL, 10));
		assert_int_equal(bps_doctor_most_mbits(words, modes[i].bit / 32), 0);
		*word &= ~(UINT32_C(1) << modes[i].bit % 32);
	}
	words[0] = 1u << ETHTOOL_LINK_MODE_1000baseT_Full_BIT |
	           1u << ETHTOOL_LINK_MODE_25000baseCR_Full_BIT |
	           1u << ETHTOOL_LINK_MODE_10000baseT_Full_BIT;
	assert_int_equal(bps_doctor_most_mbits(words, 1), 25000);
	/* What hardly anybody's switch gives. */
	words[0] = 1u << ETHTOOL_LINK_MODE_56000baseCR4_Full_BIT;
	assert_int_equal(bps_doctor_most_mbits(words, 1), 40000);
}

/* -- MTU -- */

static void packets_of_one_size(void **state)
{
	struct bps_doctor_nic *nic = add_nic("eth1", "10.9.0.1");

	facts.nics[0].mtu = 9000;
	nic->mtu = 1500;
	assert_int_equal(examine(), 0); /* no hardware: a tunnel */
	nic->hardware = true;
	assert_finding("mtu", "eth1 has MTU 1500, and eth0 has 9000",
	               "ip link set eth1 mtu 9000");
	add_nic("eth1", "10.9.0.2")->mtu = 1500; /* another address */
	facts.nics[facts.n_nics - 1].hardware = true;
	assert_int_equal(examine(), 1);
	nic->mbits = facts.nics[facts.n_nics - 1].mbits =
		1000; /* it does not help eth0 */
	assert_int_equal(examine(), 0);
	nic->mbits = facts.nics[facts.n_nics - 1].mbits = 0;
	nic->left_out = facts.nics[facts.n_nics - 1].left_out = true;
	assert_int_equal(examine(), 0);
}

/* -- RDMA -- */

static char sysfs[64];

static void put(const char *path, const char *text)
{
	char whole[256];
	int fd;

	(void)snprintf(whole, sizeof(whole), "%s/%s", sysfs, path);
	for (char *slash = whole + strlen(sysfs) + 1; (slash = strchr(slash, '/'));
	     *slash++ = '/') {
		*slash = '\0';
		(void)mkdir(whole, 0700);
	}
	fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(close(fd), 0);
}

static void make_port(const char *device, int port, const char *state, const char *link)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/ports/%d/state", device, port);
	put(path, state);
	(void)snprintf(path, sizeof(path), "%s/ports/%d/phys_state", device, port);
	put(path, link);
	(void)snprintf(path, sizeof(path), "%s/ports/%d/gids/0", device, port);
	put(path, "fe80:0000:0000:0000:0202:c903:0012:3456\n");
}

static int set_up_sysfs(void **state)
{
	(void)strcpy(sysfs, "/tmp/bps-doctor-XXXXXX");
	return set_up(state) || !mkdtemp(sysfs);
}

static int tear_down_sysfs(void **state)
{
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -rf '%s'", sysfs);
	return system(command);
}

static int examine_sysfs(void)
{
	memset(facts.ports, 0, sizeof(facts.ports));
	facts.n_ports = 0;
	bps_doctor_collect_ports(sysfs, &facts);
	return examine();
}

static void no_port_is_active(void **state)
{
	assert_int_equal(examine_sysfs(), 0);
	make_port("mlx5_0", 1, "4: ACTIVE\n", "5: LinkUp\n");
	assert_int_equal(examine_sysfs(), 0);
	assert_int_equal(facts.n_ports, 1);
	make_port("mlx5_1", 1, "1: DOWN\n", "2: Polling\n");
	put("mlx5_1/ports/1/gid_attrs/ndevs/0", "eth7\n");
	(void)examine_sysfs();
	assert_finding("verbs",
	               "no port of the RDMA device mlx5_1 is active: port 1 is down, its "
	               "link Polling",
	               "rdma link show mlx5_1/1");
	assert_contains(report, "ip link set eth7 up");
	/* A cable in one of two is enough. */
	make_port("mlx5_1", 2, "4: ACTIVE\n", "5: LinkUp\n");
	assert_int_equal(examine_sysfs(), 0);
	make_port("mlx5_1", 2, "2: INIT\n", "5: LinkUp\n");
	(void)examine_sysfs();
	assert_finding("verbs",
	               "device mlx5_1 is active: port 2 is waiting to be set up (INIT)",
	               "opensm");
}

static void a_port_without_a_gid(void **state)
{
	make_port("rxe0", 1, "4: ACTIVE\n", "5: LinkUp\n");
	put("rxe0/ports/1/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n");
	put("rxe0/ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n");
	(void)examine_sysfs();
	assert_finding("verbs", "port 1 of the RDMA device rxe0 is active, but has no",
	               "rdma link show");
	put("rxe0/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
	assert_int_equal(examine_sysfs(), 0);
}

/* What a kernel does not tell, or an odd one does, is nothing to complain of. */
static void a_sysfs_that_says_little(void **state)
{
	put("mlx4_0/ports/1/gids/0", "fe80::1\n");
	assert_int_equal(examine_sysfs(), 0);
	assert_int_equal(facts.n_ports, 1);
	put("mlx4_0/ports/1/state", "77: NEW\n");
	assert_int_equal(examine_sysfs(), 0);
	for (int i = 0; i < 70; i++)
		make_port("many", i, "1: DOWN\n", "");
	(void)examine_sysfs();
	assert_int_equal(facts.n_ports, BPS_DOCTOR_MAX_PORTS);
	(void)strcpy(sysfs + strlen(sysfs), "/no/such/folder");
	assert_int_equal(examine_sysfs(), 0);
	*strchr(sysfs + 5, '/') = '\0';
}

#define SYSFS_TEST(f) cmocka_unit_test_setup_teardown(f, set_up_sysfs, tear_down_sysfs)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_strict_filter_drops),
		TEST(each_answers_for_itself),
		TEST(cards_that_do_not_work_together),
		TEST(modes_as_the_kernel_numbers_them),
		TEST(packets_of_one_size),
		SYSFS_TEST(no_port_is_active),
		SYSFS_TEST(a_port_without_a_gid),
		SYSFS_TEST(a_sysfs_that_says_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
