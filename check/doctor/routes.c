/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the doctor knows IPv4's networks from: how large they are, and by which card the
 * kernel sends what comes from each of its addresses.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "check/doctor/impl.h"
#include "transport/reach.h"

#define MAX_SERVERS 64u /* the ways to more are not looked at */

/* So many neighbours are looked at for one whose address is not ours. */
#define MAX_NEIGHBOURS 16u

static bool is_v4(const struct bps_doctor_nic *nic)
{
	return nic->netif.addr.sa.sa_family == AF_INET;
}

static uint32_t host_order(const struct bps_doctor_nic *nic)
{
	return ntohl(nic->netif.addr.in.sin_addr.s_addr);
}

/* -- how large a network is -- */

static uint32_t find_prefix(const struct ifaddrs *all, const struct bps_doctor_nic *nic)
{
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		struct bps_addr addr, mask;

		if (one->ifa_addr && one->ifa_netmask &&
		    one->ifa_addr->sa_family == AF_INET &&
		    strcmp(one->ifa_name, nic->netif.name) == 0 &&
		    bps_addr_from(one->ifa_addr, &addr) == 0 &&
		    bps_addr_from(one->ifa_netmask, &mask) == 0 &&
		    addr.in.sin_addr.s_addr == nic->netif.addr.in.sin_addr.s_addr)
			return (uint32_t)__builtin_popcount(mask.in.sin_addr.s_addr);
	}
	return 0;
}

/* -- what the kernel lets in, and says -- */

/* The larger of what counts for all interfaces and for this one, as the kernel has it. */
static uint32_t read_setting(const char *interface, const char *setting)
{
	const char *const of[] = { "all", interface };
	uint32_t most = 0;

	for (int i = 0; i < 2; i++) {
		char path[128], text[32];
		uint32_t value;

		(void)snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/%s", of[i],
		               setting);
		if (bps_file_read(path, text, sizeof(text)) <= 0)
			continue;
		value = (uint32_t)strtoul(text, NULL, 10);
		most = value > most ? value : most;
	}
	return most;
}

/* -- routes -- */

struct question {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr to_head;
	uint32_t to;
	struct rtattr from_head;
	uint32_t from;
};

/* Of the answer: the index of the interface; 0: there is no such route. */
static uint32_t read_answer(const void *buf, size_t bytes)
{
	const struct nlmsghdr *head = buf;
	const struct rtmsg *route = NLMSG_DATA(head);
	unsigned left;

	if (!NLMSG_OK(head, bytes) || head->nlmsg_type != RTM_NEWROUTE ||
	    head->nlmsg_len < NLMSG_LENGTH(sizeof(*route)))
		return 0;
	left = (unsigned)RTM_PAYLOAD(head);
	for (const struct rtattr *at = RTM_RTA(route); RTA_OK(at, left);
	     at = RTA_NEXT(at, left)) {
		uint32_t index;

		if (at->rta_type != RTA_OIF || RTA_PAYLOAD(at) < sizeof(index))
			continue;
		memcpy(&index, RTA_DATA(at), sizeof(index));
		return index;
	}
	return 0;
}

/* @from, @to: in network order. Both sides are at once: nothing is waited for. */
static uint32_t ask_route(int fd, uint32_t from, uint32_t to)
{
	const struct question question = {
		.head = { .nlmsg_len = sizeof(question),
		          .nlmsg_type = RTM_GETROUTE,
		          .nlmsg_flags = NLM_F_REQUEST },
		.route = { .rtm_family = AF_INET, .rtm_dst_len = 32, .rtm_src_len = 32 },
		.to_head = { .rta_len = RTA_LENGTH(sizeof(to)), .rta_type = RTA_DST },
		.to = to,
		.from_head = { .rta_len = RTA_LENGTH(sizeof(from)), .rta_type = RTA_SRC },
		.from = from,
	};
	_Alignas(struct nlmsghdr) char answer[4096];
	ssize_t n;

	if (send(fd, &question, sizeof(question), 0) != sizeof(question))
		return 0;
	n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
	return n > 0 ? read_answer(answer, (size_t)n) : 0;
}

static bool is_own(const struct bps_doctor_facts *facts, uint32_t address)
{
	for (int i = 0; i < facts->n_nics; i++)
		if (is_v4(&facts->nics[i]) && host_order(&facts->nics[i]) == address)
			return true;
	return false;
}

/* An address of the same network that is not ours, whether anybody has it or not, in host
 * order; 0: none. */
static uint32_t find_neighbour(const struct bps_doctor_facts *facts,
                               const struct bps_doctor_nic *nic)
{
	uint32_t host_bits = UINT32_MAX >> nic->prefix_bits;
	uint32_t own = host_order(nic);

	for (uint32_t i = 1; i < MAX_NEIGHBOURS && i <= host_bits; i++) {
		uint32_t address = own ^ i, host = address & host_bits;

		if (host != 0 && host != host_bits && !is_own(facts, address))
			return address;
	}
	return 0;
}

static void find_way(int fd, const struct bps_doctor_facts *facts,
                     struct bps_doctor_nic *nic)
{
	uint32_t neighbour = find_neighbour(facts, nic), index;

	if (!neighbour)
		return;
	index = ask_route(fd, nic->netif.addr.in.sin_addr.s_addr, htonl(neighbour));
	if (!index || !if_indextoname(index, nic->leaves_by))
		nic->leaves_by[0] = '\0';
}

void bps_doctor_collect_routes(struct bps_doctor_facts *facts)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct ifaddrs *all = NULL;

	(void)getifaddrs(&all);
	for (int i = 0; i < facts->n_nics; i++) {
		struct bps_doctor_nic *nic = &facts->nics[i];

		if (!is_v4(nic) || !nic->netif.usable)
			continue;
		nic->prefix_bits = find_prefix(all, nic);
		nic->rp_filter = read_setting(nic->netif.name, "rp_filter");
		nic->arp_filter = read_setting(nic->netif.name, "arp_filter") > 0;
		nic->arp_ignore = read_setting(nic->netif.name, "arp_ignore") > 0;
		if (fd >= 0 && nic->prefix_bits > 0 && nic->prefix_bits < 31)
			find_way(fd, facts, nic);
	}
	if (all)
		freeifaddrs(all);
	if (fd >= 0)
		close(fd);
}

/* -- the ways to servers -- */

/* An address of each. Return: how many; 0: one of them is not known. */
static int find_servers(const struct bps_host *servers, uint32_t n_servers,
                        struct bps_addr *ret)
{
	char why[256];
	uint32_t n = 0;

	for (; n < n_servers && n < MAX_SERVERS; n++)
		if (bps_addr_resolve(servers[n].name, servers[n].port, &ret[n], 1, why,
		                     sizeof(why)) < 1)
			return 0;
	return (int)n;
}

static bool has_several_cards(const struct bps_doctor_facts *facts)
{
	const char *first = NULL;

	for (int i = 0; i < facts->n_nics; i++) {
		const struct bps_netif *netif = &facts->nics[i].netif;

		if (!netif->usable || netif->loopback)
			continue;
		if (first && strcmp(first, netif->name) != 0)
			return true;
		first = netif->name;
	}
	return false;
}

void bps_doctor_collect_reach(const struct bps_host *servers, uint32_t n_servers,
                              struct bps_doctor_facts *facts)
{
	struct bps_netif here[BPS_NETIF_MAX];
	struct bps_addr there[MAX_SERVERS];
	bool reaches[BPS_NETIF_MAX];
	int n = has_several_cards(facts) ? find_servers(servers, n_servers, there) : 0;

	if (n == 0)
		return;
	for (int i = 0; i < facts->n_nics; i++)
		here[i] = facts->nics[i].netif;
	bps_reach_list(here, facts->n_nics, there, n, reaches);
	for (int i = 0; i < facts->n_nics; i++)
		facts->nics[i].apart = !reaches[i];
}
