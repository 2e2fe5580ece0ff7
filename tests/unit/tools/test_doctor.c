/* SPDX-License-Identifier: BSD-3-Clause */
/* Each finding of the doctor, provoked by facts that are made up here, and its absence.
 */
#include "tests/unit/tools/doctor-facts.h"

#include <stdlib.h>

static void a_box_that_is_fine_has_none(void **state)
{
	assert_int_equal(examine(), 0);
	assert_string_equal(report, "");
}

static void lines_keep_to_the_width(void **state)
{
	struct bps_doctor_report to = { .host = facts.host, .columns = 80 };
	size_t n_lines = 0;

	facts.n_own = 0;
	facts.shm = false;
	to.out = fmemopen(report, sizeof(report), "w");
	bps_doctor_run_checks(&facts, &to);
	assert_int_equal(to.n_findings, 2);
	assert_int_equal(fclose(to.out), 0);
	/* Commands are not broken; these are short. */
	for (const char *line = report; *line; line += strcspn(line, "\n") + 1) {
		assert_true(strcspn(line, "\n") <= 80);
		assert_true(line[strcspn(line, "\n") - 1] != ' ');
		n_lines++;
	}
	assert_true(n_lines > 8);
}

static void no_sysfs(void **state)
{
	facts.no_sysfs = true;
	assert_finding("sysfs", "/sys is missing, or most of it", "mount -t sysfs");
}

static void memlock_matters_with_a_verbs_device(void **state)
{
	facts.memlock_bytes = 64 << 10;
	assert_int_equal(examine(), 0);
	facts.ports[0] = (struct bps_doctor_port){ .device = "mlx5_0",
		                                   .state = BPS_DOCTOR_PORT_ACTIVE,
		                                   .has_gid = true };
	facts.n_ports = 1;
	assert_finding("memlock",
	               "may lock 64 KiB of memory, and there is the RDMA "
	               "device mlx5_0",
	               "ulimit -l unlimited");
	facts.memlock_bytes = UINT64_C(1) << 30;
	assert_int_equal(examine(), 0);
}

static void shm_is_for_open_mpi(void **state)
{
	facts.shm_free_bytes = UINT64_C(64) << 20;
	assert_int_equal(examine(), 0);
	facts.shm_free_bytes--;
	assert_finding("shm", "/dev/shm has 63 MiB free", "mount -o remount,size=");
	facts.shm = false;
	assert_finding("shm", "there is no /dev/shm", "mount -t tmpfs");
}

static void huge_pages_are_for_who_asks(void **state)
{
	facts.no_huge_pages = true;
	assert_finding("hugepages", "no program gets huge pages",
	               "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled");
}

static void cpus_that_are_not_allowed(void **state)
{
	facts.n_usable = 1;
	assert_finding("cpus", "1 of 8 CPUs usable", "--bind-to none");
	/* The quota counts against those that may be used. */
	facts.n_granted = 1;
	assert_finding("cpus", "1 of 8 CPUs usable", "--bind-to none");
}

static void a_quota_below_the_cpus(void **state)
{
	facts.n_granted = 8;
	assert_int_equal(examine(), 0);
	facts.n_granted = 2;
	assert_finding("quota", "8 CPUs are seen, but control groups grant the time of 2",
	               "mpirun -n 2 ");
}

static void variables_one_a_line(void **state)
{
	char text[] = "BPSMPI_SERVER is not a variable of ours\nBPSMPI_PORT: 'x'\n";
	char reading[] = "BPSMPI_CPUS: none\n";

	facts.variables = text;
	facts.values = strchr(text, '\n') + 1;
	assert_int_equal(examine(), 2);
	assert_contains(report, "cpu3, variables: BPSMPI_SERVER is not a variable");
	assert_contains(report, "of ours cost: it does nothing");
	assert_contains(report,
	                "cpu3, variables: BPSMPI_PORT: 'x' cost: jobs run without");
	text[0] = '\0';
	assert_int_equal(examine(), 0);
	facts.readings = reading;
	assert_finding("variables",
	               "BPSMPI_CPUS: none cost: jobs of several hosts run without", "");
}

static void an_interface_that_is_none(void **state)
{
	(void)strcpy(facts.interface_wrong, "no usable network interface is 'ib'");
	assert_finding("interface",
	               "BPSMPI_INTERFACE: no usable network interface is 'ib'",
	               "unset BPSMPI_INTERFACE");
}

static void entries_of_ld_preload(void **state)
{
	facts.n_preloads = 2;
	facts.preloads[0] = (struct bps_doctor_preload){ .name = "/lib/a.so" };
	facts.preloads[1] = (struct bps_doctor_preload){ .name = "/b/libbytepsmpi.so",
		                                         .version = BPS_VERSION };
	assert_int_equal(examine(), 0);
	(void)strcpy(facts.preloads[0].why, "there is no such file");
	assert_finding("preload", "LD_PRELOAD names /lib/a.so: there is no such file",
	               "export LD_PRELOAD=");
	facts.preloads[0].why[0] = '\0';
	(void)strcpy(facts.preloads[1].version, "0.0.7");
	assert_finding("preload", "/b/libbytepsmpi.so, which is bytepsmpi 0.0.7",
	               "export LD_PRELOAD=");
}

static void a_card_without_link(void **state)
{
	struct bps_doctor_nic *nic = add_nic("eth1", "10.9.0.1");

	nic->netif.usable = false;
	assert_int_equal(examine(), 0); /* no hardware: a tunnel, a bridge */
	nic->hardware = true;
	assert_finding("down", "eth1 has the address 10.9.0.1, but no link",
	               "ethtool eth1");
	nic->up = false;
	add_nic("eth1", "10.9.0.2")->netif.usable = false;
	facts.nics[facts.n_nics - 1].hardware = true;
	assert_finding("down", "eth1 has the address 10.9.0.1, but is switched off",
	               "ip link set eth1 up");
}

static void a_card_below_what_it_can(void **state)
{
	facts.nics[0].mbits = 1000;
	assert_finding("speed", "eth0 runs at 1000 Mbit/s, and the card can do 10000",
	               "ethtool -s eth0 autoneg on");
	facts.nics[0].can_mbits = 1000;
	assert_int_equal(examine(), 0);
	facts.nics[0].mbits = facts.nics[0].can_mbits = 100;
	assert_finding("speed", "eth0 runs at 100 Mbit/s cost:", "autoneg on");
	facts.nics[0].netif.usable = facts.nics[0].hardware = false;
	assert_int_equal(examine(), 0);
	facts.nics[0].netif.usable = true;
	facts.nics[0].mbits = facts.nics[0].can_mbits = 0;
	assert_int_equal(examine(), 0);
}

static void half_duplex(void **state)
{
	facts.nics[0].half_duplex = true;
	facts.nics[0].netif.usable = facts.nics[0].hardware = false;
	assert_int_equal(examine(), 0);
	facts.nics[0].netif.usable = true;
	add_nic("eth0", "10.1.2.4")->half_duplex = true;
	assert_finding("duplex", "eth0 runs in half duplex", "ethtool -s eth0");
}

static void bridges_that_open_mpi_would_try(void **state)
{
	struct bps_doctor_nic *nic;

	facts.nics[1].up = true; /* without a link: it is tried all the same */
	assert_finding("bridges", "docker0 (172.17.0.1) leads to",
	               "mpirun --mca btl_tcp_if_include eth0 ...");
	/* By its address, whatever it is called; a second network of the hosts. */
	(void)add_nic("mybridge", "192.168.122.1");
	(void)add_nic("ib0", "10.2.2.3");
	assert_finding("bridges", "docker0,mybridge (172.17.0.1) lead to",
	               "mpirun --mca btl_tcp_if_include eth0,ib0 ...");
	/* By its name, whatever its address; and not for an address that is not IPv4's.
	 */
	add_nic("br-0a1b2c", "172.18.0.1")->netif.inner = true;
	assert_finding("bridges", "docker0,mybridge,br-0a1b2c (172.17.0.1) lead to",
	               "eth0,ib0 ...");
	nic = &facts.nics[facts.n_nics - 1];
	nic->netif.addr = (struct bps_addr){ .in6.sin6_family = AF_INET6 };
	nic->netif.addr.bytes = sizeof(nic->netif.addr.in6);
	assert_finding("bridges", "docker0,mybridge (172.17.0.1) lead to",
	               "eth0,ib0 ...");
	/* Nothing else to name. */
	for (int i = 0; i < facts.n_nics; i++) {
		nic = &facts.nics[i];
		nic->netif.usable &= !strcmp(nic->netif.name, "lo");
		nic->hardware = false;
	}
	assert_finding("bridges", "docker0,mybridge",
	               "--mca btl_tcp_if_exclude 127.0.0.0/8,docker0,mybridge ...");
}

static void a_bridge_to_the_network_is_fine(void **state)
{
	(void)add_nic("br0", "192.168.1.17");
	(void)add_nic("eth2", "192.168.122.2");
	assert_int_equal(examine(), 0);
}

static void the_own_name(void **state)
{
	char text[sizeof(report)];

	facts.own[1] = address("127.0.1.1");
	assert_int_equal(examine(), 0);
	facts.n_own = 2;
	assert_finding("name", "own name stands for 127.0.1.1",
	               "/etc/hosts, in the place of the other one. What they are says: "
	               "ip -brief address show eth0; hostname ");
	/* The same on another host. */
	(void)strcpy(text, strchr(report, ','));
	(void)strcpy(facts.host, "cpu4");
	facts.nics[0].netif.addr = address("10.1.2.4");
	assert_int_equal(examine(), 1);
	assert_string_equal(strchr(report, ','), text);
	(void)strcpy(facts.host, "cpu3");
	facts.n_own = 0;
	(void)strcpy(facts.own_why, "Name or service not known");
	assert_finding("name", "stands for no address (Name or service not known)",
	               "/etc/hosts. What they are says: ip -brief ");
	/* A host without a network needs no name. */
	facts.nics[0].netif.usable = facts.nics[0].hardware = false;
	assert_int_equal(examine(), 0);
}

/* A line with it would take localhost away. */
static void the_own_name_is_localhost(void **state)
{
	static const char *const names[] = { "localhost", "localhost.localdomain" };

	facts.own[0] = address("127.0.0.1");
	for (size_t i = 0; i < 2; i++) {
		(void)strcpy(facts.host, names[i]);
		assert_int_equal(examine(), 1);
		assert_contains(report, "give it a name of its own");
		assert_contains(report, "hostnamectl set-hostname NAME");
		assert_null(strstr(report, "in the place of"));
	}
	(void)strcpy(facts.host, "localhost7");
	assert_int_equal(examine(), 1);
	assert_contains(report, "in the place of");
}

/* What a link carries in a millisecond, and as much again where it comes in. */
static void buffers_keep_a_link_busy(void **state)
{
	facts.tcp_rmem[2] = 2500000; /* 10 Gbit/s are 1.25 MB in a millisecond */
	facts.tcp_wmem[2] = 1250000;
	assert_int_equal(examine(), 0);
	facts.tcp_rmem[2]--;
	assert_finding("buffers",
	               "may receive with a buffer of 2441 KiB; to keep the fastest link "
	               "busy it wants 2441",
	               "sysctl -w net.ipv4.tcp_rmem='4096 131072 2500000'");
	facts.tcp_rmem[2]++;
	facts.tcp_wmem[2]--;
	assert_finding("buffers", "may send with a buffer of 1220 KiB",
	               "sysctl -w net.ipv4.tcp_wmem='4096 16384 1250000'");
	facts.tcp_wmem[2]++;
	add_nic("eth9", "10.9.9.9")->mbits = 400000;
	facts.nics[facts.n_nics - 1].netif.usable = false; /* nothing goes by it */
	assert_int_equal(examine(), 0);
	/* Where the speed is not known. */
	facts.nics[0].mbits = 0;
	assert_int_equal(examine(), 0);
	facts.tcp_wmem[2] = 262143;
	assert_finding("buffers", "may send with a buffer of 255 KiB",
	               "sysctl -w net.ipv4.tcp_wmem='4096 16384 262144'");
	facts.tcp_wmem[2] = 0; /* the kernel does not say */
	assert_int_equal(examine(), 0);
}

/* A faster card that no job uses: it is not named, or no server is behind it. */
static void buffers_are_for_cards_that_are_used(void **state)
{
	struct bps_doctor_nic *nic = add_nic("eth9", "10.9.9.9");

	nic->mbits = 100000;
	assert_int_equal(examine(), 2);
	nic->left_out = true;
	assert_int_equal(examine(), 0);
	nic->left_out = false;
	nic->apart = true;
	assert_int_equal(examine(), 0);
}

/* 100 Gbit/s are 12.5 MB in a millisecond; Linux's own limits are 6 and 4 MiB. */
static void connections_share_a_fast_link(void **state)
{
	facts.nics[0].mbits = facts.nics[0].can_mbits = 100000;
	assert_int_equal(examine(), 2);
	assert_contains(report, "tcp_rmem='4096 131072 25000000'");
	assert_contains(report, "tcp_wmem='4096 16384 12500000'");
	facts.n_connections = 3; /* 8.3 and 4.2 MB */
	assert_finding("buffers", "may receive", "tcp_rmem='4096 131072 8333332'");
	facts.n_connections = 4; /* 6.25 and 3.1 MB */
	assert_int_equal(examine(), 0);
}

static void a_list_of_servers_that_is_none(void **state)
{
	(void)strcpy(facts.servers_wrong, "BPSMPI_SERVERS: 'a[1-' has no end");
	assert_finding("servers", "BPSMPI_SERVERS: 'a[1-' has no end",
	               "export BPSMPI_SERVERS=");
}

static void each_answer_of_a_server(void **state)
{
	static const struct {
		enum bps_doctor_answer answer;
		const char *detail, *found, *remedy;
	} cases[] = {
		{ BPS_DOCTOR_NO_NAME, "'s1': unknown",
		  "no address is known: 's1': unknown", "DNS" },
		{ BPS_DOCTOR_REFUSED, "", "connection refused", "--port 7005" },
		{ BPS_DOCTOR_TIMED_OUT, "", "no answer at all", "--add-port=7005/tcp" },
		{ BPS_DOCTOR_UNREACHABLE, "No route to host",
		  "not reachable: No route to host", "no route leads there" },
		{ BPS_DOCTOR_SILENT, "", "then nothing comes", "'sport = :7005'" },
		{ BPS_DOCTOR_STUCK, "", ": small packets pass, large ones", "MTU" },
		{ BPS_DOCTOR_FOREIGN, "it says 'SSH-2'",
		  ": not a bpsmpi-server: it says 'SSH-2'", "'sport = :7005'" },
		{ BPS_DOCTOR_PROTOCOL, "protocol 9", ": of another version",
		  "same version" },
		{ BPS_DOCTOR_SOFTWARE, "9.9 on x", ": of another version",
		  "same version" },
		{ BPS_DOCTOR_REJECTS, "full", "it takes no more jobs: full", "--memory" },
	};
	struct bps_doctor_server server = { .name = "s1:7005", .port = 7005 };

	facts.servers = &server;
	facts.n_servers = 1;
	assert_int_equal(examine(), 0); /* BPS_DOCTOR_FINE */
	assert_int_equal(sizeof(cases) / sizeof(cases[0]), BPS_DOCTOR_N_ANSWERS - 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		server.answer = cases[i].answer;
		(void)strcpy(server.detail, cases[i].detail);
		assert_finding("servers", cases[i].found, cases[i].remedy);
		assert_contains(report, "servers: s1:7005: ");
	}
}

static void a_server_that_others_reach(void **state)
{
	struct bps_doctor_server servers[2] = {
		{ .name = "s1:7005", .port = 7005, .answer = BPS_DOCTOR_REFUSED },
		{ .name = "s2:7005", .port = 7005, .answer = BPS_DOCTOR_REFUSED },
	};

	facts.servers = servers;
	facts.n_servers = 2;
	servers[1].reached = true;
	assert_int_equal(examine(), 2);
	assert_contains(report, "s1:7005: connection refused");
	assert_contains(report, "most likely no server runs there");
	assert_contains(report, "s2:7005: connection refused");
	assert_contains(report, "other hosts reach it: look for a firewall on this one");
}

static void servers_with_one_trouble_are_one_finding(void **state)
{
	struct bps_doctor_server *servers = calloc(100, sizeof(*servers));

	facts.servers = servers;
	facts.n_servers = 100;
	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(servers[i].name, sizeof(servers[i].name), "s%u:7000", i);
		servers[i].port = 7000;
		servers[i].answer = i < 40 ? BPS_DOCTOR_REFUSED : BPS_DOCTOR_FINE;
	}
	servers[50].answer = BPS_DOCTOR_TIMED_OUT;
	assert_int_equal(examine(), 2);
	assert_contains(report, "s6:7000, s7:7000 and 32 more: connection refused");
	assert_contains(report, "servers: s50:7000: no answer at all");
	/* The longest names that there can be. */
	for (unsigned i = 0; i < 20; i++)
		memset(servers[i].name, 'n', sizeof(servers[i].name) - 1);
	assert_int_equal(examine(), 2);
	assert_contains(report, "nnn and 32 more: connection refused");
	/* The same answer, but not the same words. */
	(void)strcpy(servers[39].detail, "otherwise");
	assert_int_equal(examine(), 3);
	/* The remedy names the port. */
	servers[38].port = 7001;
	assert_int_equal(examine(), 4);
	assert_contains(report, "bpsmpi-server --port 7001");
	free(servers);
}

static void what_a_peer_says_stays_text(void **state)
{
	struct bps_doctor_server server = {
		.name = "s1:7000",
		.answer = BPS_DOCTOR_REJECTS,
		.detail = "a\033[2Jb\nc",
	};

	facts.servers = &server;
	facts.n_servers = 1;
	assert_finding("servers", "a?[2Jb?c", "--memory");
}

/* -- where servers are -- */

static struct bps_addr addr_of(const char *text)
{
	struct bps_addr addr;
	char why[64];

	assert_int_equal(bps_addr_resolve(text, 7000, &addr, 1, why, sizeof(why)), 1);
	return addr;
}

/* That answered at @at, and listens there and at @other, or at @other alone. */
static struct bps_doctor_place place_of(const char *host, const char *at, bool there,
                                        const char *other)
{
	struct bps_doctor_place place = { .at = addr_of(at) };

	(void)strcpy(place.host, host);
	if (there)
		place.addrs[place.n_addrs++].addr = place.at;
	place.addrs[place.n_addrs++].addr = addr_of(other);
	for (uint32_t i = 0; i < place.n_addrs; i++)
		bps_addr_set_port(&place.addrs[i].addr, 7001);
	return place;
}

static void servers_on_one_machine(void **state)
{
	struct bps_doctor_place places[] = {
		place_of("a", "10.0.0.1", true, "192.168.9.1"),
		place_of("b", "10.0.0.2", true, "192.168.9.1"), /* a network of its own */
		place_of("a", "10.0.0.1", true, "10.1.0.1"),
		place_of("c", "10.0.0.1", true, "10.0.0.9"), /* it says otherwise */
		place_of("b", "10.2.0.2", true, "10.0.0.2"), /* another card */
		place_of("d", "127.0.0.1", false, "10.0.0.4"),
		place_of("d", "127.0.0.1", false, "10.0.0.5"),
		{ .host = "a" }, /* does not answer */
	};
	const uint32_t wanted[] = { 0, 0, 2, 0, 3, 0, 0, 0 };
	struct bps_doctor_server list[8] = { 0 };

	for (uint32_t i = 0; i < 8; i++)
		list[i].id = i + 1;
	bps_doctor_place(list, places, 8, NULL, 0);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(list[i].back, wanted[i]);
		assert_false(list[i].here);
	}
	list[2].id = list[0].id; /* under two names */
	bps_doctor_place(list, places, 8, NULL, 0);
	assert_int_equal(list[2].back, 0);
}

static void servers_on_this_machine(void **state)
{
	const struct bps_netif own[] = {
		{ .name = "eth0", .addr = addr_of("10.0.0.1"), .usable = true },
		{ .name = "eth1", .addr = addr_of("10.1.0.1") },
		{ .name = "docker0",
		  .addr = addr_of("172.17.0.1"),
		  .usable = true,
		  .inner = true },
		{ .name = "lo",
		  .addr = addr_of("127.0.0.1"),
		  .usable = true,
		  .loopback = true },
	};
	struct bps_doctor_place places[] = {
		place_of("a", "10.0.0.1", true, "172.17.0.1"),
		place_of("b", "10.0.0.2", true, "10.0.0.1"), /* who knows which */
		place_of("a", "10.1.0.1", true, "10.1.0.2"),
		place_of("a", "127.0.1.1", false, "10.0.0.1"),
		place_of("a", "127.0.0.1", false, "10.0.0.7"),
		place_of("a", "172.17.0.1", true, "10.0.0.7"),
	};
	const bool wanted[] = { true, false, false, true, false, false };
	struct bps_doctor_server list[6] = { 0 };

	bps_doctor_place(list, places, 6, own, 4);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(list[i].here, wanted[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_box_that_is_fine_has_none),
		TEST(lines_keep_to_the_width),
		TEST(no_sysfs),
		TEST(memlock_matters_with_a_verbs_device),
		TEST(shm_is_for_open_mpi),
		TEST(huge_pages_are_for_who_asks),
		TEST(cpus_that_are_not_allowed),
		TEST(a_quota_below_the_cpus),
		TEST(variables_one_a_line),
		TEST(an_interface_that_is_none),
		TEST(entries_of_ld_preload),
		TEST(a_card_without_link),
		TEST(a_card_below_what_it_can),
		TEST(half_duplex),
		TEST(bridges_that_open_mpi_would_try),
		TEST(a_bridge_to_the_network_is_fine),
		TEST(the_own_name),
		TEST(the_own_name_is_localhost),
		TEST(buffers_keep_a_link_busy),
		TEST(buffers_are_for_cards_that_are_used),
		TEST(connections_share_a_fast_link),
		TEST(a_list_of_servers_that_is_none),
		TEST(each_answer_of_a_server),
		TEST(a_server_that_others_reach),
		TEST(servers_with_one_trouble_are_one_finding),
		TEST(what_a_peer_says_stays_text),
		TEST(servers_on_one_machine),
		TEST(servers_on_this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
