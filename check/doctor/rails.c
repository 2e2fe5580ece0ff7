/* SPDX-License-Identifier: BSD-3-Clause */
/* The doctor's checks of network cards that carry a job together. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#include "check/doctor/impl.h"
#include "topology/placement.h"

/* Of the routing tables' numbers, those from here on are free on most hosts. */
#define FIRST_TABLE 100

static bool is_v4(const struct bps_doctor_nic *nic)
{
	return nic->netif.addr.sa.sa_family == AF_INET;
}

static bool is_candidate(const struct bps_doctor_nic *nic)
{
	return nic->netif.usable && !nic->netif.loopback && !nic->netif.inner &&
	       !nic->left_out;
}

/* A card that is much slower than others carries nothing. */
static bool is_rail(const struct bps_doctor_facts *facts,
                    const struct bps_doctor_nic *nic)
{
	uint32_t most = 0;

	if (!is_candidate(nic))
		return false;
	for (int i = 0; i < facts->n_nics; i++)
		if (is_candidate(&facts->nics[i]) && facts->nics[i].mbits > most)
			most = facts->nics[i].mbits;
	return nic->mbits == 0 || nic->mbits >= most * BPS_PLACE_LEAST_NIC;
}

/* -- two cards in one network -- */

static uint32_t network_of(const struct bps_doctor_nic *nic)
{
	uint32_t address = ntohl(nic->netif.addr.in.sin_addr.s_addr);

	return nic->prefix_bits
	               ? address & ~(uint32_t)(UINT64_C(0xffffffff) >> nic->prefix_bits)
	               : 0;
}

static bool in_one_network(const struct bps_doctor_nic *a, const struct bps_doctor_nic *b)
{
	return is_v4(a) && is_v4(b) && a->prefix_bits > 0 &&
	       a->prefix_bits == b->prefix_bits && network_of(a) == network_of(b);
}

/* The first card in the network of card @at, if that is another one. */
static const struct bps_doctor_nic *find_first(const struct bps_doctor_facts *facts,
                                               int at)
{
	const struct bps_doctor_nic *nic = &facts->nics[at];

	for (int i = 0; i < at; i++) {
		const struct bps_doctor_nic *other = &facts->nics[i];

		if (is_rail(facts, other) && in_one_network(nic, other))
			return strcmp(other->netif.name, nic->netif.name) ? other : NULL;
	}
	return NULL;
}

static bool leaves_by_itself(const struct bps_doctor_nic *nic)
{
	return !nic->leaves_by[0] || strcmp(nic->leaves_by, nic->netif.name) == 0;
}

/* What comes in for it is dropped: a strict filter wants the way back to be the same. */
static bool is_filtered(const struct bps_doctor_nic *nic)
{
	return nic->rp_filter == 1 && !leaves_by_itself(nic);
}

static bool answers_for(const struct bps_doctor_nic *nic,
                        const struct bps_doctor_nic *other)
{
	return !nic->arp_ignore && !(nic->arp_filter && leaves_by_itself(other));
}

/* What the filter wants: a way back by the same card. */
static void type_routes(struct bps_doctor_report *report,
                        const struct bps_doctor_nic *nic)
{
	char text[BPS_ADDR_CHARS];
	struct bps_addr network = nic->netif.addr;
	unsigned table = FIRST_TABLE + if_nametoindex(nic->netif.name);

	network.in.sin_addr.s_addr = htonl(network_of(nic));
	bps_doctor_type(report,
	                "ip route add %s/%" PRIu32 " dev %s table %u   # or this,",
	                bps_addr_format_host(&network, text, sizeof(text)),
	                nic->prefix_bits, nic->netif.name, table);
	bps_doctor_type(report, "ip rule add from %s table %u   # and this",
	                bps_addr_format_host(&nic->netif.addr, text, sizeof(text)),
	                table);
}

static void say_filtered(struct bps_doctor_report *report,
                         const struct bps_doctor_nic *nic, bool both_answer)
{
	bps_doctor_cost(
		report,
		"%s carries nothing: connections by it do not come up, and jobs go "
		"on with the other card",
		nic->netif.name);
	bps_doctor_remedy(report,
	                  "let in what comes by either card, or let answers leave by the "
	                  "card that they are of%s; for good in /etc/sysctl.d:",
	                  both_answer
	                          ? "; and let each card answer for its own addresses "
	                            "alone (ARP)"
	                          : "");
	bps_doctor_type(report, "sysctl -w net/ipv4/conf/%s/rp_filter=2",
	                nic->netif.name);
	type_routes(report, nic);
}

static void say_both_answer(struct bps_doctor_report *report)
{
	bps_doctor_cost(report, "what is sent to one card may come in by the other: "
	                        "connections by them may not come up, and one card may "
	                        "carry what two could");
	bps_doctor_remedy(report,
	                  "let each card answer for its own addresses alone (ARP); "
	                  "for good in /etc/sysctl.d:");
}

static void type_arp(struct bps_doctor_report *report)
{
	bps_doctor_type(report, "sysctl -w net/ipv4/conf/all/arp_ignore=1");
	bps_doctor_type(report, "sysctl -w net/ipv4/conf/all/arp_announce=2");
}

static void check_pair(struct bps_doctor_report *report,
                       const struct bps_doctor_nic *first,
                       const struct bps_doctor_nic *nic)
{
	const struct bps_doctor_nic *filtered = is_filtered(nic)     ? nic
	                                        : is_filtered(first) ? first
	                                                             : NULL;
	bool both_answer = answers_for(first, nic) || answers_for(nic, first);
	struct bps_addr network = nic->netif.addr;
	char text[BPS_ADDR_CHARS], drops[128] = "";

	if (!filtered && !both_answer)
		return;
	network.in.sin_addr.s_addr = htonl(network_of(nic));
	if (filtered)
		(void)snprintf(
			drops, sizeof(drops),
			"what comes in by %s is dropped, since answers to it would "
			"leave by %s (rp_filter is 1)",
			filtered->netif.name, filtered->leaves_by);
	bps_doctor_found(report, "%s and %s are in one network, %s/%" PRIu32 ", and %s",
	                 first->netif.name, nic->netif.name,
	                 bps_addr_format_host(&network, text, sizeof(text)),
	                 nic->prefix_bits,
	                 filtered ? drops : "one answers there for the other (ARP)");
	if (filtered)
		say_filtered(report, filtered, both_answer);
	else
		say_both_answer(report);
	if (both_answer)
		type_arp(report);
}

/* Each card once, by its first address in a network of two. */
void bps_doctor_check_subnet(const struct bps_doctor_facts *facts,
                             struct bps_doctor_report *report)
{
	for (int i = 0; i < facts->n_nics; i++) {
		const struct bps_doctor_nic *first;

		if (!is_rail(facts, &facts->nics[i]))
			continue;
		first = find_first(facts, i);
		if (first)
			check_pair(report, first, &facts->nics[i]);
	}
}

/* -- packets of different sizes -- */

/* Tunnels and the like have their own reasons for small packets. */
static bool has_mtu(const struct bps_doctor_facts *facts,
                    const struct bps_doctor_nic *nic)
{
	return nic->hardware && nic->mtu > 0 && is_rail(facts, nic);
}

static bool was_compared(const struct bps_doctor_facts *facts, int at)
{
	for (int i = 0; i < at; i++)
		if (strcmp(facts->nics[i].netif.name, facts->nics[at].netif.name) == 0)
			return true;
	return false;
}

void bps_doctor_check_mtu(const struct bps_doctor_facts *facts,
                          struct bps_doctor_report *report)
{
	const struct bps_doctor_nic *most = NULL;

	for (int i = 0; i < facts->n_nics; i++)
		if (has_mtu(facts, &facts->nics[i]) &&
		    (!most || facts->nics[i].mtu > most->mtu))
			most = &facts->nics[i];
	for (int i = 0; most && i < facts->n_nics; i++) {
		const struct bps_doctor_nic *nic = &facts->nics[i];

		if (!has_mtu(facts, nic) || nic->mtu == most->mtu ||
		    was_compared(facts, i))
			continue;
		bps_doctor_found(report, "%s has MTU %" PRIu32 ", and %s has %" PRIu32,
		                 nic->netif.name, nic->mtu, most->netif.name, most->mtu);
		bps_doctor_cost(report,
		                "%s needs more packets and more CPU time for the "
		                "same bytes than the card that it works with",
		                nic->netif.name);
		bps_doctor_remedy(report,
		                  "if the switch and all hosts in that network carry "
		                  "such packets, let it have the same:");
		bps_doctor_type(report, "ip link set %s mtu %" PRIu32, nic->netif.name,
		                most->mtu);
	}
}
