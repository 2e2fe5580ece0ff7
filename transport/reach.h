/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which network cards of this box reach a server, and at which of its addresses: a pair
 * of the two is a rail, and each carries a part. Any thread; but for the pure ones,
 * functions here make system calls: not in a hot path.
 */
#pragma once

#include <net/if.h>
#include <stdint.h>

#include "transport/addr.h"
#include "transport/netif.h"

#define BPS_REACH_MAX_RAILS 8u

/* A way to a server. */
struct bps_rail {
	char card[IF_NAMESIZE]; /* of this box */
	struct bps_addr from;   /* its address, port 0 */
	struct bps_addr to;     /* the server's */
};

/* How an address of this box reaches one of a server; the first is the best. */
enum bps_way {
	BPS_WAY_OWN,   /* in one network, and the kernel takes this card by itself */
	BPS_WAY_HELD,  /* in one network; the kernel takes another card unless it is told
	                */
	BPS_WAY_ROUTE, /* by a router, from this address */
	BPS_WAY_RULE,  /* by a router, if the connection leaves from this address */
	BPS_WAY_NONE,
};

struct bps_reach {
	const struct bps_netif *here; /* addresses of this box that may be used */
	int n_here;
	const struct bps_card_addr *there; /* addresses of one server */
	int n_there;
	const enum bps_way *ways; /* [here * n_there + there] */
	/* a way that is known to work: preferred where others are as good; NULL: none */
	const struct bps_addr *from, *to;
};

/**
 * bps_reach_pair() - the rails. A pure function.
 *
 * The best ways come first. Every card of this box and every card of the server that has
 * a way is in at least one rail, and no rail could be left out; but there are at most
 * BPS_REACH_MAX_RAILS.
 *
 * @ret: room for BPS_REACH_MAX_RAILS. Return: how many, maybe 0.
 */
uint32_t bps_reach_pair(const struct bps_reach *reach, struct bps_rail *ret);

/**
 * bps_reach_rails() - bps_reach_pair() with the kernel's ways of now. Of two cards in one
 * network the kernel takes the first for everything, unless rules say otherwise or a
 * connection is held to a card (bps_reach_bind()). That is safe only where no other card
 * speaks for the address (arp_ignore 1, arp_announce 2) and what comes in is not dropped
 * for coming by the second (rp_filter not 1): else the second has no way.
 */
uint32_t bps_reach_rails(const struct bps_netif *here, int n_here,
                         const struct bps_card_addr *there, int n_there,
                         const struct bps_addr *from, const struct bps_addr *to,
                         struct bps_rail *ret);

/**
 * bps_reach_list() - the cards among @here that reach one of the @n_there addresses.
 * @ret: [n_here]: for each entry, whether its card does
 */
void bps_reach_list(const struct bps_netif *here, int n_here,
                    const struct bps_addr *there, int n_there, bool *ret);

/**
 * bps_reach_counts() - whether @netif carries what goes to and from its own network: it
 * is the card that the kernel takes there, or connections can be held to it.
 */
bool bps_reach_counts(const struct bps_netif *netif);

/**
 * bps_reach_route() - the address that the kernel would leave from on its way to @to;
 * nothing is sent. Return: 0; -ENETUNREACH and its like: there is no way.
 */
int bps_reach_route(const struct bps_addr *to, struct bps_addr *ret_from);

/**
 * bps_reach_greeting_bytes() - how long greetings from @from (NULL: by route) to @to have
 * to be at least, to show that this way carries large packets: more than the largest that
 * the kernel would send, which is the MTU of a card, or less where it has learnt of less
 * on the way; and so little more that the rest goes in a small one, by which kernels
 * notice where large ones are lost. Return: at most BPS_WIRE_GREETING_BYTES.
 */
uint32_t bps_reach_greeting_bytes(const struct bps_addr *from, const struct bps_addr *to);

/**
 * bps_reach_bind() - hold a socket to the card that has @from, its own address, if its
 * way to @to is BPS_WAY_HELD. What comes in by another card is not for such a socket.
 * Where it is not allowed (before Linux 5.7 it takes a privilege) the socket stays as it
 * is and a debug line says so.
 */
void bps_reach_bind(int fd, const struct bps_addr *from, const struct bps_addr *to);

/** bps_reach_bind_accepted() - the same, unless its peer sends to another card. */
void bps_reach_bind_accepted(int fd, const struct bps_addr *from,
                             const struct bps_addr *to);
