/* SPDX-License-Identifier: BSD-3-Clause */
/* The doctor's checks of interfaces, the host's own name, and TCP's buffers. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#include "check/doctor/impl.h"

#define SLOW_MBITS 100u
/* Where the link is slow, or nobody knows: some partitions, whole. */
#define LEAST_BUFFER_BYTES (UINT64_C(256) << 10)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef bool (*nic_test_fn)(const struct bps_doctor_nic *nic);

static bool is_v4(const struct bps_doctor_nic *nic)
{
	return nic->netif.addr.sa.sa_family == AF_INET;
}

/* Others may reach us there. */
static bool is_real(const struct bps_doctor_nic *nic)
{
	return nic->netif.usable && !nic->netif.loopback && !nic->netif.inner;
}

/* A job goes by it. */
static bool is_used(const struct bps_doctor_nic *nic)
{
	return is_real(nic) && !nic->left_out && !nic->apart;
}

/* Is there an earlier address of the same interface that passes? */
static bool was_seen(const struct bps_doctor_facts *facts, int at, nic_test_fn passes)
{
	for (int i = 0; i < at; i++)
		if (strcmp(facts->nics[i].netif.name, facts->nics[at].netif.name) == 0 &&
		    passes(&facts->nics[i]))
			return true;
	return false;
}

/* The next interface from @at on that passes, each once; -1: none. */
static int next_nic(const struct bps_doctor_facts *facts, int at, nic_test_fn passes)
{
	for (; at < facts->n_nics; at++)
		if (passes(&facts->nics[at]) && !was_seen(facts, at, passes))
			return at;
	return -1;
}

/* Their names, "eth0,eth1"; returns how many. */
static int list_nics(const struct bps_doctor_facts *facts, nic_test_fn passes, char *ret,
                     size_t ret_bytes)
{
	size_t used = 0;
	int n = 0;

	ret[0] = '\0';
	for (int i = next_nic(facts, 0, passes); i >= 0 && used < ret_bytes;
	     i = next_nic(facts, i + 1, passes))
		used += (size_t)snprintf(ret + used, ret_bytes - used, "%s%s",
		                         n++ ? "," : "", facts->nics[i].netif.name);
	return n;
}

/* -- cables -- */

static bool is_down(const struct bps_doctor_nic *nic)
{
	return nic->hardware && !nic->netif.usable;
}

void bps_doctor_check_down(const struct bps_doctor_facts *facts,
                           struct bps_doctor_report *report)
{
	for (int i = next_nic(facts, 0, is_down); i >= 0;
	     i = next_nic(facts, i + 1, is_down)) {
		const struct bps_doctor_nic *nic = &facts->nics[i];
		char text[BPS_ADDR_CHARS];

		bps_doctor_found(
			report, "%s has the address %s, but %s", nic->netif.name,
			bps_addr_format_host(&nic->netif.addr, text, sizeof(text)),
			nic->up ? "no link" : "is switched off");
		bps_doctor_cost(report, "nothing goes by it; who tries to reach this "
		                        "host at that address waits in vain");
		if (nic->up) {
			bps_doctor_remedy(report,
			                  "look at cable and switch; what it says:");
			bps_doctor_type(report, "ethtool %s", nic->netif.name);
		} else {
			bps_doctor_remedy(report, "switch it on:");
			bps_doctor_type(report, "ip link set %s up", nic->netif.name);
		}
	}
}

static bool is_slow(const struct bps_doctor_nic *nic)
{
	return nic->netif.usable && nic->mbits > 0 &&
	       (nic->mbits <= SLOW_MBITS || nic->mbits < nic->can_mbits);
}

void bps_doctor_check_speed(const struct bps_doctor_facts *facts,
                            struct bps_doctor_report *report)
{
	for (int i = next_nic(facts, 0, is_slow); i >= 0;
	     i = next_nic(facts, i + 1, is_slow)) {
		const struct bps_doctor_nic *nic = &facts->nics[i];
		char could[48] = "";

		if (nic->can_mbits > nic->mbits)
			(void)snprintf(could, sizeof(could),
			               ", and the card can do %" PRIu32, nic->can_mbits);
		bps_doctor_found(report, "%s runs at %" PRIu32 " Mbit/s%s",
		                 nic->netif.name, nic->mbits, could);
		bps_doctor_cost(report, "every operation of every job takes as long as "
		                        "its slowest box");
		bps_doctor_remedy(
			report, "often a damaged cable, the port of an old switch, or "
				"a speed set by hand on one side; then negotiate anew:");
		bps_doctor_type(report, "ethtool -s %s autoneg on", nic->netif.name);
	}
}

static bool is_half_duplex(const struct bps_doctor_nic *nic)
{
	return nic->netif.usable && nic->half_duplex;
}

void bps_doctor_check_duplex(const struct bps_doctor_facts *facts,
                             struct bps_doctor_report *report)
{
	for (int i = next_nic(facts, 0, is_half_duplex); i >= 0;
	     i = next_nic(facts, i + 1, is_half_duplex)) {
		const char *name = facts->nics[i].netif.name;

		bps_doctor_found(report, "%s runs in half duplex", name);
		bps_doctor_cost(report,
		                "it cannot send while it receives, as every allreduce "
		                "does, and loses packets to collisions");
		bps_doctor_remedy(report, "one side negotiates and the other is set by "
		                          "hand: let both, switch and card, negotiate:");
		bps_doctor_type(report, "ethtool -s %s autoneg on", name);
	}
}

/* -- bridges -- */

/* Those that Docker, libvirt, LXC and Podman give their bridge on every host. */
static bool has_common_address(const struct bps_doctor_nic *nic)
{
	static const uint32_t common[] = { 0xac110001, 0xc0a87a01, 0x0a000301,
		                           0x0a580001 };

	for (size_t i = 0; i < COUNT(common); i++)
		if (ntohl(nic->netif.addr.in.sin_addr.s_addr) == common[i])
			return true;
	return false;
}

/* Open MPI takes any that is up, cable or not; only 127.0.0.1/8 is left out. */
static bool is_bridge(const struct bps_doctor_nic *nic)
{
	return is_v4(nic) && nic->up && !nic->netif.loopback &&
	       (nic->netif.inner || has_common_address(nic));
}

static bool is_outer(const struct bps_doctor_nic *nic)
{
	return is_v4(nic) && is_real(nic) && !has_common_address(nic);
}

void bps_doctor_check_bridges(const struct bps_doctor_facts *facts,
                              struct bps_doctor_report *report)
{
	char bridges[512], outer[512], text[BPS_ADDR_CHARS];
	int first = next_nic(facts, 0, is_bridge);
	int n = list_nics(facts, is_bridge, bridges, sizeof(bridges));

	if (n == 0)
		return;
	bps_doctor_found(
		report,
		"%s (%s) lead%s to containers or virtual machines of this host "
		"alone, and other hosts have the same address",
		bridges,
		bps_addr_format_host(&facts->nics[first].netif.addr, text, sizeof(text)),
		n > 1 ? "" : "s");
	bps_doctor_cost(report, "Open MPI takes that for a network between the hosts and "
	                        "connects to itself: jobs hang or end in their first "
	                        "messages");
	bps_doctor_remedy(report, "name the interface to use, or its network as "
	                          "10.0.0.0/24 where hosts call it differently; for good "
	                          "in openmpi-mca-params.conf:");
	if (list_nics(facts, is_outer, outer, sizeof(outer)) > 0)
		bps_doctor_type(report, "mpirun --mca btl_tcp_if_include %s ...", outer);
	else
		bps_doctor_type(report,
		                "mpirun --mca btl_tcp_if_exclude 127.0.0.0/8,%s ...",
		                bridges);
}

/* -- the own name -- */

static bool is_loopback(const struct bps_addr *addr)
{
	if (addr->sa.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&addr->in6.sin6_addr);
	return ntohl(addr->in.sin_addr.s_addr) >> 24 == 127;
}

static const struct bps_addr *find_loopback(const struct bps_doctor_facts *facts)
{
	for (int i = 0; i < facts->n_own; i++)
		if (is_loopback(&facts->own[i]))
			return &facts->own[i];
	return NULL;
}

/* Of every host: its own name is localhost. */
static bool is_localhost(const char *name)
{
	return strncmp(name, "localhost", 9) == 0 && (!name[9] || name[9] == '.');
}

/* In words that are the same on each host. */
static void remedy_name(struct bps_doctor_report *report,
                        const struct bps_doctor_facts *facts, const char *card,
                        bool replace)
{
	if (is_localhost(facts->host)) {
		bps_doctor_remedy(report, "give it a name of its own, and have a line "
		                          "with that and its address in /etc/hosts:");
		bps_doctor_type(report, "hostnamectl set-hostname NAME");
		bps_doctor_type(report, "ip -brief address show %s", card);
		return;
	}
	bps_doctor_remedy(report,
	                  "have a line with its address and its name in /etc/hosts%s. "
	                  "What they are says:",
	                  replace ? ", in the place of the other one" : "");
	bps_doctor_type(report, "ip -brief address show %s; hostname", card);
}

void bps_doctor_check_name(const struct bps_doctor_facts *facts,
                           struct bps_doctor_report *report)
{
	const struct bps_addr *loopback = find_loopback(facts);
	int real = next_nic(facts, 0, is_real);
	char text[BPS_ADDR_CHARS] = "";

	if (real < 0 || (facts->n_own > 0 && !loopback))
		return;
	if (loopback)
		bps_doctor_found(report, "the host's own name stands for %s",
		                 bps_addr_format_host(loopback, text, sizeof(text)));
	else
		bps_doctor_found(report, "the host's own name stands for no address (%s)",
		                 facts->own_why);
	bps_doctor_cost(report,
	                "programs that look themselves up to tell others where "
	                "they are (Gloo of Horovod and PyTorch, MPICH's "
	                "launcher, bpsmpi-server --bind) %s",
	                loopback ? "are reached from nowhere else" : "do not start");
	remedy_name(report, facts, facts->nics[real].netif.name, loopback != NULL);
}

/* -- buffers -- */

/*
 * What one connection keeps on its way, at most: all of a box's together fill the fastest
 * link that a job uses for a millisecond, see interpose/tune.c.
 */
static uint64_t on_its_way(const struct bps_doctor_facts *facts)
{
	uint64_t most = 0;

	for (int i = 0; i < facts->n_nics; i++)
		/* 125 bytes a millisecond at a Mbit/s. */
		if (is_used(&facts->nics[i]) &&
		    facts->nics[i].mbits * UINT64_C(125) > most)
			most = facts->nics[i].mbits * UINT64_C(125);
	return most / (facts->n_connections ? facts->n_connections : 1);
}

static void check_buffer(struct bps_doctor_report *report, const char *name,
                         const char *verb, const uint64_t *bytes, uint64_t wanted)
{
	if (wanted < LEAST_BUFFER_BYTES)
		wanted = LEAST_BUFFER_BYTES;
	if (bytes[2] == 0 || bytes[2] >= wanted)
		return;
	bps_doctor_found(report,
	                 "a connection may %s with a buffer of %" PRIu64
	                 " KiB; to keep the fastest link busy it wants %" PRIu64,
	                 verb, bytes[2] / 1024, wanted / 1024);
	bps_doctor_cost(report, "it stops and goes instead of filling the link");
	bps_doctor_remedy(report, "raise the last of the three numbers, for good in "
	                          "/etc/sysctl.d:");
	bps_doctor_type(report,
	                "sysctl -w net.ipv4.%s='%" PRIu64 " %" PRIu64 " %" PRIu64 "'",
	                name, bytes[0], bytes[1] < wanted ? bytes[1] : wanted, wanted);
}

/* The kernel keeps half of what it receives into for its own use. */
void bps_doctor_check_buffers(const struct bps_doctor_facts *facts,
                              struct bps_doctor_report *report)
{
	uint64_t bytes = on_its_way(facts);

	check_buffer(report, "tcp_rmem", "receive", facts->tcp_rmem, 2 * bytes);
	check_buffer(report, "tcp_wmem", "send", facts->tcp_wmem, bytes);
}
