/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which servers are on one machine, and which on this one: what shares a link carries
 * less than links of its own. It is said only of what is sure. An address at which one
 * server answered, and at which another one on a host of that name listens, is an address
 * of both; loopback and link-local ones are everybody's and say nothing.
 */
#include <string.h>

#include "check/doctor/impl.h"

/* Whatever the ports. */
static bool same_host(const struct bps_addr *a, const struct bps_addr *b)
{
	struct bps_addr x = *a, y = *b;

	bps_addr_set_port(&x, 0);
	bps_addr_set_port(&y, 0);
	return bps_addr_equal(&x, &y);
}

static bool listens_at(const struct bps_doctor_place *place, const struct bps_addr *addr)
{
	for (uint32_t i = 0; i < place->n_addrs; i++)
		if (same_host(&place->addrs[i].addr, addr))
			return true;
	return false;
}

static bool are_together(const struct bps_doctor_place *a,
                         const struct bps_doctor_place *b)
{
	return a->at.bytes > 0 && b->at.bytes > 0 && strcmp(a->host, b->host) == 0 &&
	       (listens_at(a, &b->at) || listens_at(b, &a->at));
}

static bool is_own(const struct bps_netif *own, int n_own, const struct bps_addr *addr)
{
	for (int i = 0; i < n_own; i++)
		if (own[i].usable && !own[i].loopback && !own[i].inner &&
		    same_host(&own[i].addr, addr))
			return true;
	return false;
}

/* What is reached over loopback is here, but may be out of others' reach. */
static bool is_here(const struct bps_doctor_place *place, const struct bps_netif *own,
                    int n_own)
{
	if (place->at.bytes == 0)
		return false;
	if (!bps_addr_is_loopback(&place->at))
		return is_own(own, n_own, &place->at);
	for (uint32_t i = 0; i < place->n_addrs; i++)
		if (is_own(own, n_own, &place->addrs[i].addr))
			return true;
	return false;
}

void bps_doctor_place(struct bps_doctor_server *servers,
                      const struct bps_doctor_place *places, uint32_t n_servers,
                      const struct bps_netif *own, int n_own)
{
	for (uint32_t s = 0; s < n_servers; s++) {
		servers[s].here = is_here(&places[s], own, n_own);
		servers[s].back = 0;
		for (uint32_t i = 1; i <= s && servers[s].back == 0; i++)
			if (servers[s - i].id != servers[s].id &&
			    are_together(&places[s - i], &places[s]))
				servers[s].back = i;
	}
}
