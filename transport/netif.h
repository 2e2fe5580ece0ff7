/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network interfaces of this box and their addresses: which of them others may reach
 * us at. Link-local addresses are left out: they mean nothing on another box. Any thread;
 * system calls, so not in a hot path.
 */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

#include "transport/addr.h"

#define BPS_NETIF_MAX 64

/* One address of one interface; an interface with several has several of these. */
struct bps_netif {
	char name[IF_NAMESIZE];
	struct bps_addr addr; /* port 0 */
	unsigned n_bits;      /* of the network it is in; 0: not known */
	bool usable;          /* up and running */
	bool loopback;
	bool inner; /* of a container or virtual machine bridge: docker0, virbr0 */
};

/**
 * bps_netif_list() - what there is, in the order in which to offer it: usable ones first;
 * among them real networks, then bridges of containers, then loopback; IPv4 before IPv6.
 * @ret: room for @max. Return: how many, at most @max; or a negative errno.
 */
int bps_netif_list(struct bps_netif *ret, int max);

/**
 * bps_netif_near() - whether @addr lies in the network of @netif, which is reached
 * without a router.
 */
bool bps_netif_near(const struct bps_netif *netif, const struct bps_addr *addr);

/**
 * bps_netif_match() - the usable addresses among @list that @spec names.
 * @spec: the name of an interface; the beginning of names, as "ib"; an address block as
 * 10.0.0.0/8 or fd00::/8; or an address or host name of this box. The first of these
 * readings that finds a usable interface counts.
 * @ret: room for @max, in the order of @list
 * Return: how many, at least 1; -ENODEV with a reason in @why that lists what there is.
 */
int bps_netif_match(const struct bps_netif *list, int n_list, const char *spec,
                    struct bps_addr *ret, int max, char *why, size_t why_bytes);

/** bps_netif_select() - bps_netif_match() on the interfaces of this box. */
int bps_netif_select(const char *spec, struct bps_addr *ret, int max, char *why,
                     size_t why_bytes);

/** bps_netif_find() - the entry of @list that has @addr, whatever its port; NULL. */
const struct bps_netif *bps_netif_find(const struct bps_netif *list, int n_list,
                                       const struct bps_addr *addr);

/**
 * bps_netif_name() - the interface of this box that has @addr; its port does not matter.
 * @ret_name: IF_NAMESIZE bytes. Return: 0; -ENODEV; or a negative errno.
 */
int bps_netif_name(const struct bps_addr *addr, char *ret_name);

/**
 * bps_netif_candidates() - all usable addresses, to be published where no interface was
 * asked for; the best first. Return: how many, at most @max, maybe 0; or a negative
 * errno.
 */
int bps_netif_candidates(struct bps_addr *ret, int max);
