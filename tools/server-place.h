/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the threads of bpsmpi-server run: near the network cards that it listens on. */
#pragma once

#include "base/config.h"
#include "engine/serverd.h"
#include "transport/netif.h"

struct bps_server_places {
	struct bps_place_server loops, reducers;
	struct bps_serverd_card cards[BPS_NETIF_MAX];
};

/**
 * bps_server_places_set() - fill in what @config says of loops, reducers and cards, from
 * its addresses and the numbers of threads in it.
 * @places: the caller ends it with bps_server_places_deinit(), always
 *
 * The calling thread runs on the CPUs that the server may use. What cannot be found out
 * is a debug line, and then @config stays as it is.
 */
void bps_server_places_set(struct bps_server_places *places,
                           struct bps_serverd_config *config);
void bps_server_places_deinit(struct bps_server_places *places);
