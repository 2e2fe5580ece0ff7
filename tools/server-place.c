/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/server-place.h"

#include <string.h>

#include "base/log.h"
#include "topology/machine.h"

struct cards {
	uint32_t nics[BPS_NETIF_MAX]; /* each card once */
	uint32_t n_nics, n_cards;
};

static bool is_any(const struct bps_addr *addr)
{
	static const uint8_t zeros[16];
	unsigned n_bits;
	const uint8_t *bytes = bps_addr_bytes(addr, &n_bits);

	return memcmp(bytes, zeros, n_bits / 8) == 0;
}

/* Whether the server listens there, for others than this box's own. */
static bool listens(const struct bps_serverd_config *config,
                    const struct bps_netif *netif)
{
	if (!netif->usable || netif->loopback)
		return false;
	for (int i = 0; i < config->n_addrs; i++) {
		struct bps_addr addr = config->addrs[i];

		bps_addr_set_port(&addr, 0);
		if (is_any(&addr) ? !netif->inner : bps_addr_equal(&addr, &netif->addr))
			return true;
	}
	return false;
}

static void add_nic(struct cards *cards, uint32_t nic)
{
	for (uint32_t i = 0; i < cards->n_nics; i++) {
		if (cards->nics[i] == nic)
			return;
	}
	cards->nics[cards->n_nics++] = nic;
}

static void find_cards(const struct bps_machine *machine,
                       const struct bps_serverd_config *config,
                       struct bps_server_places *places, struct cards *ret)
{
	struct bps_netif list[BPS_NETIF_MAX];
	int n = bps_netif_list(list, BPS_NETIF_MAX);

	for (int i = 0; i < n; i++) {
		uint32_t nic = bps_machine_nic_named(machine, list[i].name);

		if (nic == BPS_MACHINE_NONE || !listens(config, &list[i]))
			continue;
		add_nic(ret, nic);
		places->cards[ret->n_cards++] =
			(struct bps_serverd_card){ list[i].addr,
			                           machine->nics[nic].at.node };
	}
}

static int place(const struct bps_machine *machine, const struct cards *cards,
                 struct bps_serverd_config *config, struct bps_server_places *places)
{
	int r = bps_place_server(machine, cards->nics, cards->n_nics, config->n_loops,
	                         &places->loops);

	if (r == 0)
		r = bps_place_server(machine, cards->nics, cards->n_nics,
		                     config->n_reducers, &places->reducers);
	if (r < 0)
		return r;
	config->loops = &places->loops;
	config->reducers = &places->reducers;
	config->cards = places->cards;
	config->n_cards = cards->n_cards;
	return 0;
}

void bps_server_places_set(struct bps_server_places *places,
                           struct bps_serverd_config *config)
{
	const struct bps_machine *machine = NULL;
	struct cards cards = { 0 };
	int r;

	memset(places, 0, sizeof(*places));
	r = bps_machine_look(NULL, &machine);
	if (r == 0) {
		find_cards(machine, config, places, &cards);
		r = place(machine, &cards, config, places);
	}
	if (r < 0)
		bps_debug("threads run anywhere: %s", strerrordesc_np(-r));
	bps_machine_free(machine);
}

void bps_server_places_deinit(struct bps_server_places *places)
{
	bps_place_server_deinit(&places->loops);
	bps_place_server_deinit(&places->reducers);
}
