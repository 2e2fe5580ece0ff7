/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/cards.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "topology/bandwidth.h"
#include "transport/reach.h"

int bps_cards_fast(struct bps_netif *list, int n, const double *bytes_per_s)
{
	double fastest = 0;
	int n_left = 0;

	for (int i = 0; i < n; i++) {
		if (bytes_per_s[i] > fastest)
			fastest = bytes_per_s[i];
	}
	for (int i = 0; i < n; i++) {
		if (bytes_per_s[i] == 0 ||
		    bytes_per_s[i] >= BPS_PLACE_LEAST_NIC * fastest)
			list[n_left++] = list[i];
	}
	return n_left;
}

/* Usable, and not only so within this box. */
static bool is_outer(const struct bps_netif *netif)
{
	return netif->usable && !netif->inner && !netif->loopback;
}

static int keep(struct bps_netif *list, int n,
                bool (*wanted)(const struct bps_netif *, const void *), const void *arg)
{
	int n_left = 0;

	for (int i = 0; i < n; i++) {
		if (wanted(&list[i], arg))
			list[n_left++] = list[i];
	}
	return n_left;
}

static bool wants_outer(const struct bps_netif *netif, const void *arg)
{
	(void)arg;
	return is_outer(netif);
}

static bool wants_loopback(const struct bps_netif *netif, const void *arg)
{
	(void)arg;
	return netif->usable && netif->loopback;
}

struct named {
	struct bps_addr addrs[BPS_NETIF_MAX];
	int n;
};

static bool wants_named(const struct bps_netif *netif, const void *arg)
{
	const struct named *named = arg;

	for (int i = 0; i < named->n; i++) {
		if (netif->usable && bps_addr_equal(&netif->addr, &named->addrs[i]))
			return true;
	}
	return false;
}

static int choose_all(struct bps_netif *list, int n)
{
	struct bps_netif every[BPS_NETIF_MAX];
	int n_outer;

	memcpy(every, list, (size_t)n * sizeof(*list));
	n_outer = keep(list, n, wants_outer, NULL);
	if (n_outer > 0)
		return n_outer;
	memcpy(list, every, (size_t)n * sizeof(*list));
	return keep(list, n, wants_loopback, NULL);
}

/* As bps_cards_choose(), slow ones too; @list has room for BPS_NETIF_MAX. */
static int choose(const char *spec, struct bps_netif *list, char *why, size_t why_bytes)
{
	struct named named;
	int n = bps_netif_list(list, BPS_NETIF_MAX);

	if (n < 0) {
		snprintf(why, why_bytes, "cannot list the network interfaces: %s",
		         strerrordesc_np(-n));
		return n;
	}
	if (!spec[0])
		return choose_all(list, n);
	named.n = bps_netif_match(list, n, spec, named.addrs, BPS_NETIF_MAX, why,
	                          why_bytes);
	return named.n < 0 ? named.n : keep(list, n, wants_named, &named);
}

int bps_cards_choose(const char *spec, struct bps_netif *ret, int max, char *why,
                     size_t why_bytes)
{
	struct bps_netif list[BPS_NETIF_MAX];
	double speeds[BPS_NETIF_MAX];
	int n = choose(spec, list, why, why_bytes);

	if (n < 0)
		return n;
	for (int i = 0; i < n; i++) {
		if (bps_nic_speed("/sys/class/net", list[i].name, &speeds[i]) != 0)
			speeds[i] = 0;
	}
	n = bps_cards_fast(list, n, speeds);
	n = n < max ? n : max;
	memcpy(ret, list, (size_t)n * sizeof(*ret));
	return n;
}

/* The port at which an address of this box is listened on; 0: it is not. */
static uint16_t port_of(const struct bps_addr *listening, int n_listening,
                        const struct bps_addr *addr)
{
	for (int i = 0; i < n_listening; i++) {
		struct bps_addr any = { .sa.sa_family = listening[i].sa.sa_family,
			                .bytes = listening[i].bytes };
		struct bps_addr bare = listening[i];

		bps_addr_set_port(&bare, 0);
		if (bps_addr_equal(&bare, addr) ||
		    (any.sa.sa_family == addr->sa.sa_family &&
		     bps_addr_equal(&bare, &any)))
			return bps_addr_port(&listening[i]);
	}
	return 0;
}

/* The first entry of the same card: it names the card. */
static uint32_t card_of(const struct bps_netif *list, int i)
{
	uint32_t card = 0;

	while (strcmp(list[card].name, list[i].name) != 0)
		card++;
	return card;
}

int bps_cards_listening(const struct bps_addr *listening, int n_listening,
                        struct bps_card_addr *ret, int max)
{
	struct bps_netif list[BPS_NETIF_MAX];
	char why[256];
	int n = choose("", list, why, sizeof(why)), n_found = 0;

	for (int i = 0; i < n && n_found < max; i++) {
		uint16_t port = port_of(listening, n_listening, &list[i].addr);

		if (port == 0 || list[i].loopback || !bps_reach_counts(&list[i]))
			continue;
		ret[n_found] = (struct bps_card_addr){ list[i].addr, card_of(list, i) };
		bps_addr_set_port(&ret[n_found++].addr, port);
	}
	return n_found;
}
