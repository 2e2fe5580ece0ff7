/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/reach.h"

#include <errno.h>
#include <limits.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "transport/wire.h"

#define USUAL_MTU  1500u
#define TAIL_BYTES 64u

/* -- pairs -- */

static bool same_card(const struct bps_netif *a, const struct bps_netif *b)
{
	return strcmp(a->name, b->name) == 0;
}

static enum bps_way way(const struct bps_reach *reach, int h, int t)
{
	return reach->ways[h * reach->n_there + t];
}

static bool is_known(const struct bps_reach *reach, int h, int t)
{
	struct bps_addr from;

	if (!reach->from || !bps_addr_equal(reach->to, &reach->there[t].addr))
		return false;
	from = *reach->from;
	bps_addr_set_port(&from, 0);
	return bps_addr_equal(&from, &reach->here[h].addr);
}

/* Rails so far, by their indices. */
struct pairs {
	int here[BPS_REACH_MAX_RAILS], there[BPS_REACH_MAX_RAILS];
	uint32_t n;
};

static int n_rails_here(const struct bps_reach *reach, const struct pairs *pairs, int h)
{
	int n = 0;

	for (uint32_t i = 0; i < pairs->n; i++)
		n += same_card(&reach->here[pairs->here[i]], &reach->here[h]);
	return n;
}

static int n_rails_there(const struct bps_reach *reach, const struct pairs *pairs, int t)
{
	int n = 0;

	for (uint32_t i = 0; i < pairs->n; i++)
		n += reach->there[pairs->there[i]].card == reach->there[t].card;
	return n;
}

/* What speaks against a rail; INT_MAX: it would bring nothing. */
static int cost(const struct bps_reach *reach, const struct pairs *pairs, int h, int t)
{
	int here = n_rails_here(reach, pairs, h), there = n_rails_there(reach, pairs, t);
	enum bps_way by = way(reach, h, t);

	if (by == BPS_WAY_NONE || (here > 0 && there > 0))
		return INT_MAX;
	return ((here + there) * BPS_WAY_NONE + (int)by) * 2 + !is_known(reach, h, t);
}

/* Return: whether there was one. */
static bool add_best(const struct bps_reach *reach, struct pairs *pairs)
{
	int best = INT_MAX;

	for (int h = 0; h < reach->n_here; h++) {
		for (int t = 0; t < reach->n_there; t++) {
			int c = cost(reach, pairs, h, t);

			if (c >= best)
				continue;
			best = c;
			pairs->here[pairs->n] = h;
			pairs->there[pairs->n] = t;
		}
	}
	if (best == INT_MAX)
		return false;
	pairs->n++;
	return true;
}

/* A rail whose cards have others each came too early. */
static void leave_out_needless(const struct bps_reach *reach, struct pairs *pairs)
{
	for (uint32_t i = 0; i < pairs->n;) {
		if (n_rails_here(reach, pairs, pairs->here[i]) < 2 ||
		    n_rails_there(reach, pairs, pairs->there[i]) < 2) {
			i++;
			continue;
		}
		pairs->n--;
		memmove(&pairs->here[i], &pairs->here[i + 1],
		        (pairs->n - i) * sizeof(pairs->here[0]));
		memmove(&pairs->there[i], &pairs->there[i + 1],
		        (pairs->n - i) * sizeof(pairs->there[0]));
	}
}

uint32_t bps_reach_pair(const struct bps_reach *reach, struct bps_rail *ret)
{
	struct pairs pairs = { .n = 0 };

	while (pairs.n < BPS_REACH_MAX_RAILS && add_best(reach, &pairs))
		;
	leave_out_needless(reach, &pairs);
	for (uint32_t i = 0; i < pairs.n; i++) {
		const struct bps_netif *here = &reach->here[pairs.here[i]];

		memcpy(ret[i].card, here->name, sizeof(ret[i].card));
		ret[i].from = here->addr;
		ret[i].to = reach->there[pairs.there[i]].addr;
	}
	return pairs.n;
}

/* -- the kernel's part -- */

int bps_reach_route(const struct bps_addr *to, struct bps_addr *ret_from)
{
	int fd = socket(to->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = 0;

	if (fd < 0)
		return -errno;
	ret_from->bytes = sizeof(ret_from->storage);
	if (connect(fd, &to->sa, to->bytes) < 0 ||
	    getsockname(fd, &ret_from->sa, &ret_from->bytes) < 0)
		r = -errno;
	close(fd);
	if (r == 0)
		bps_addr_set_port(ret_from, 0);
	return r;
}

/* What the kernel would do with a packet. */
struct lookup {
	struct nlmsghdr header;
	struct rtmsg route;
	uint8_t attrs[2 * RTA_SPACE(16)];
};

static void add_attr(struct lookup *lookup, unsigned short type, const uint8_t *bytes,
                     unsigned n_bytes)
{
	struct rtattr *attr = (struct rtattr *)((uint8_t *)lookup +
	                                        NLMSG_ALIGN(lookup->header.nlmsg_len));

	attr->rta_type = type;
	attr->rta_len = (unsigned short)RTA_LENGTH(n_bytes);
	memcpy(RTA_DATA(attr), bytes, n_bytes);
	lookup->header.nlmsg_len =
		NLMSG_ALIGN(lookup->header.nlmsg_len) + RTA_SPACE(n_bytes);
}

/* The card that an answer of the kernel names. */
static int card_in(struct nlmsghdr *header, ssize_t bytes)
{
	const struct rtmsg *route = NLMSG_DATA(header);
	struct rtattr *attr = RTM_RTA(route);
	int left, card;

	if (bytes < 0 || !NLMSG_OK(header, (size_t)bytes) ||
	    header->nlmsg_type != RTM_NEWROUTE)
		return -ENETUNREACH;
	if (route->rtm_type != RTN_UNICAST)
		return 0;
	for (left = (int)RTM_PAYLOAD(header); RTA_OK(attr, left);
	     attr = RTA_NEXT(attr, left)) {
		if (attr->rta_type != RTA_OIF)
			continue;
		memcpy(&card, RTA_DATA(attr), sizeof(card));
		return card;
	}
	return -ENETUNREACH;
}

/*
 * The number of the card by which the kernel sends from @from to @to; rules that go by
 * the source count. 0: to none, @to is this box. Negative: there is no way.
 */
static int card_by_route(const struct bps_addr *from, const struct bps_addr *to)
{
	_Alignas(struct nlmsghdr) uint8_t answer[4096];
	struct lookup lookup = {
		.header = { .nlmsg_len = NLMSG_LENGTH(sizeof(lookup.route)),
		            .nlmsg_type = RTM_GETROUTE,
		            .nlmsg_flags = NLM_F_REQUEST },
		.route.rtm_family = (unsigned char)to->sa.sa_family,
	};
	unsigned n_bits;
	const uint8_t *bytes = bps_addr_bytes(to, &n_bits);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), card;

	if (fd < 0)
		return -errno;
	lookup.route.rtm_dst_len = lookup.route.rtm_src_len = (unsigned char)n_bits;
	add_attr(&lookup, RTA_DST, bytes, n_bits / 8);
	add_attr(&lookup, RTA_SRC, bps_addr_bytes(from, &n_bits), n_bits / 8);
	if (send(fd, &lookup, lookup.header.nlmsg_len, 0) < 0)
		card = -errno;
	else
		card = card_in((struct nlmsghdr *)answer,
		               recv(fd, answer, sizeof(answer), 0));
	close(fd);
	return card;
}

/* A setting of IPv4, of a card or of all: the greater one counts. */
static int setting(const char *card, const char *name)
{
	const char *const of[] = { "all", card };
	int most = 0;

	for (size_t i = 0; i < 2; i++) {
		char path[128], text[16];

		snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/%s", of[i],
		         name);
		if (bps_file_read(path, text, sizeof(text)) > 0 && atoi(text) > most)
			most = atoi(text);
	}
	return most;
}

/*
 * Whether all that is sent to an address of @card comes in by it, and is let in: neither
 * does another card say that it has the address, when asked or when it asks, nor is what
 * comes by another card than the usual one dropped. Of IPv6 each card speaks for its own
 * addresses alone.
 */
static bool can_hold(const struct bps_netif *card)
{
	return card->addr.sa.sa_family == AF_INET6 ||
	       (setting(card->name, "arp_ignore") > 0 &&
	        setting(card->name, "arp_announce") == 2 &&
	        setting(card->name, "rp_filter") != 1);
}

static enum bps_way find_way(const struct bps_netif *here, const struct bps_addr *to)
{
	struct bps_addr from;
	int card;

	if (here->addr.sa.sa_family != to->sa.sa_family)
		return BPS_WAY_NONE;
	card = card_by_route(&here->addr, to);
	if (card > 0 && (unsigned)card == if_nametoindex(here->name)) {
		if (bps_netif_near(here, to))
			return BPS_WAY_OWN;
		return bps_reach_route(to, &from) == 0 &&
		                       bps_addr_equal(&from, &here->addr)
		               ? BPS_WAY_ROUTE
		               : BPS_WAY_RULE;
	}
	return card != 0 && bps_netif_near(here, to) && can_hold(here) ? BPS_WAY_HELD
	                                                               : BPS_WAY_NONE;
}

uint32_t bps_reach_rails(const struct bps_netif *here, int n_here,
                         const struct bps_card_addr *there, int n_there,
                         const struct bps_addr *from, const struct bps_addr *to,
                         struct bps_rail *ret)
{
	enum bps_way *ways = calloc((size_t)n_here * n_there + 1, sizeof(*ways));
	const struct bps_reach reach = {
		.here = here,
		.n_here = n_here,
		.there = there,
		.n_there = n_there,
		.ways = ways,
		.from = from,
		.to = to,
	};
	uint32_t n = 0;

	for (int i = 0; ways && i < n_here * n_there; i++)
		ways[i] = find_way(&here[i / n_there], &there[i % n_there].addr);
	if (ways)
		n = bps_reach_pair(&reach, ret);
	free(ways);
	return n;
}

void bps_reach_list(const struct bps_netif *here, int n_here,
                    const struct bps_addr *there, int n_there, bool *ret)
{
	for (int h = 0; h < n_here; h++) {
		ret[h] = false;
		for (int t = 0; t < n_there && !ret[h]; t++)
			ret[h] = find_way(&here[h], &there[t]) != BPS_WAY_NONE;
	}
}

/* Some address of the network will do, if it is not this box's. */
bool bps_reach_counts(const struct bps_netif *netif)
{
	struct bps_addr other = netif->addr;
	unsigned n_bits;
	uint8_t *bytes = (uint8_t *)bps_addr_bytes(&other, &n_bits);
	int card = 0;

	if (netif->n_bits + 3 > n_bits) /* no room for three, so not for two cards */
		return true;
	for (uint8_t i = 1; i < 4 && card == 0; i++) {
		bytes[n_bits / 8 - 1] ^= i;
		card = card_by_route(&netif->addr, &other);
		bytes[n_bits / 8 - 1] ^= i;
	}
	return card <= 0 || (unsigned)card == if_nametoindex(netif->name) ||
	       can_hold(netif);
}

/* -- sockets -- */

/*
 * The card of @from, if the kernel would send to @to by another one although both are in
 * one network, and the socket can be held to it. Return: whether that is so.
 */
static bool find_held(const struct bps_addr *from, const struct bps_addr *to,
                      char *ret_card)
{
	struct bps_netif list[BPS_NETIF_MAX];
	const struct bps_netif *card;
	struct bps_addr route, bare = *from;

	if ((from->sa.sa_family != AF_INET && from->sa.sa_family != AF_INET6) ||
	    bps_reach_route(to, &route) < 0)
		return false;
	bps_addr_set_port(&bare, 0);
	if (bps_addr_equal(&bare, &route)) /* as most often: no need to look further */
		return false;
	card = bps_netif_find(list, bps_netif_list(list, BPS_NETIF_MAX), from);
	if (!card || !card->usable || card->loopback ||
	    find_way(card, to) != BPS_WAY_HELD)
		return false;
	memcpy(ret_card, card->name, IF_NAMESIZE);
	return true;
}

static void hold_to(int fd, const char *card)
{
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, card, (socklen_t)strlen(card)) <
	    0)
		bps_debug("cannot hold a connection to %s (%s): it goes by the kernel's "
		          "route",
		          card, strerrordesc_np(errno));
}

void bps_reach_bind(int fd, const struct bps_addr *from, const struct bps_addr *to)
{
	char card[IF_NAMESIZE];

	if (find_held(from, to, card))
		hold_to(fd, card);
}

/* The largest packet, headers included; 0: not known. */
static uint32_t largest_packet(const struct bps_addr *from, const struct bps_addr *to)
{
	bool six = to->sa.sa_family == AF_INET6;
	int fd = socket(to->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), bytes = 0;
	socklen_t size = sizeof(bytes);

	if (fd < 0)
		return 0;
	if (from && bind(fd, &from->sa, from->bytes) == 0)
		bps_reach_bind(fd, from, to);
	if (connect(fd, &to->sa, to->bytes) < 0 ||
	    getsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_MTU : IP_MTU,
	               &bytes, &size) < 0)
		bytes = 0;
	close(fd);
	return bytes > 0 ? (uint32_t)bytes : 0;
}

uint32_t bps_reach_greeting_bytes(const struct bps_addr *from, const struct bps_addr *to)
{
	uint32_t packet = largest_packet(from, to);

	if (packet == 0)
		packet = USUAL_MTU;
	return packet < BPS_WIRE_GREETING_BYTES - TAIL_BYTES ? packet + TAIL_BYTES
	                                                     : BPS_WIRE_GREETING_BYTES;
}

/* The number of the card by which the peer's part of the handshake came; 0: not known. */
static unsigned arrival_card(int fd)
{
	static const int on = 1, off = 0;
	_Alignas(struct cmsghdr) char control[256];
	struct msghdr msg = { .msg_control = control };
	socklen_t bytes = sizeof(control);
	struct in_pktinfo info;
	unsigned index = 0;

	setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	if (getsockopt(fd, IPPROTO_IP, IP_PKTOPTIONS, control, &bytes) < 0)
		bytes = 0;
	setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &off, sizeof(off));
	msg.msg_controllen = bytes;
	for (struct cmsghdr *one = CMSG_FIRSTHDR(&msg); one;
	     one = CMSG_NXTHDR(&msg, one)) {
		if (one->cmsg_level != IPPROTO_IP || one->cmsg_type != IP_PKTINFO)
			continue;
		memcpy(&info, CMSG_DATA(one), sizeof(info));
		index = (unsigned)info.ipi_ifindex;
	}
	return index;
}

/* Of IPv6 that is not known. */
void bps_reach_bind_accepted(int fd, const struct bps_addr *from,
                             const struct bps_addr *to)
{
	char card[IF_NAMESIZE];

	if (find_held(from, to, card) &&
	    (from->sa.sa_family == AF_INET6 || arrival_card(fd) == if_nametoindex(card)))
		hold_to(fd, card);
}
