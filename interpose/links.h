/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who measures which link when, and what the measurements mean. Pure functions; servers
 * are numbered as in interpose/servers.h: dedicated ones first, then one a box where
 * there are fewer of those than boxes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/**
 * bps_links_partner() - the server that box @box exchanges bytes with in round @round,
 * among @n_boxes (2 or more) and @n_servers dedicated ones. In no round do two exchanges
 * use the same box or server.
 * Return: whether it begins an exchange; if not, it answers one, or has a rest.
 */
bool bps_links_partner(uint32_t n_boxes, uint32_t n_servers, uint32_t box, uint32_t round,
                       uint32_t *ret_server);

/**
 * bps_links_settle() - what links are taken to be.
 * @fastest: the fastest exchange of each, in bytes a second, boxes first; 0: none used
 * it. Those that differ too little to be told from chance are as fast as the fastest.
 * @ret_boxes, @ret_servers: in bytes a second, all positive
 */
void bps_links_settle(const int64_t *fastest, uint32_t n_boxes, uint32_t n_servers,
                      double *ret_boxes, double *ret_servers);
