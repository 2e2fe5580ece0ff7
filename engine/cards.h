/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network cards of this box that carry what the engine sends, by their addresses, and
 * where a server on this box can be reached. Any thread; system calls.
 */
#pragma once

#include "topology/placement.h"
#include "transport/netif.h"

/**
 * bps_cards_fast() - leave out the cards that are known to be too slow: below
 * BPS_PLACE_LEAST_NIC of the fastest one that is known. A pure function.
 * @list: changed; the order is kept. @bytes_per_s: [n] of each entry's card; 0: unknown
 * Return: how many are left.
 */
int bps_cards_fast(struct bps_netif *list, int n, const double *bytes_per_s);

/**
 * bps_cards_choose() - the addresses of the cards to use: usable ones, neither of bridges
 * of containers nor too slow; loopback where there is nothing else.
 * @spec: as bps_netif_match() has it: only what it names, bridges and loopback too; "":
 * all
 * @ret: room for @max. Return: how many, maybe 0 for an empty @spec; a negative errno,
 * with a reason in @why.
 */
int bps_cards_choose(const char *spec, struct bps_netif *ret, int max, char *why,
                     size_t why_bytes);

/**
 * bps_cards_listening() - where a server can be reached that listens on @listening,
 * @n_listening addresses with ports; any-addresses stand for all cards.
 * Those whose cards do not carry (bps_reach_counts()) are left out; slow ones are not:
 * whether to use them is for those to say who know both ends.
 * @ret: room for @max. Return: how many, maybe 0.
 */
int bps_cards_listening(const struct bps_addr *listening, int n_listening,
                        struct bps_card_addr *ret, int max);
