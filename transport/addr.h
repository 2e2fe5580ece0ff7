/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A socket address, IPv4 or IPv6, with its port.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Room for what bps_addr_format() writes. */
#define BPS_ADDR_CHARS 80

struct bps_addr {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_storage storage;
	};
	socklen_t bytes;
};

/* An address of a box, and which of its network cards has it: equal numbers, one card. */
struct bps_card_addr {
	struct bps_addr addr;
	uint32_t card;
};

/**
 * bps_addr_resolve() - look up @host (a name or a literal, IPv4 or IPv6), TCP @port.
 * @ret: room for @max addresses. Blocks (DNS). Return: how many were found, at least 1; a
 * negative errno, with a reason in @why (@why_bytes).
 */
int bps_addr_resolve(const char *host, uint16_t port, struct bps_addr *ret, int max,
                     char *why, size_t why_bytes);

/** bps_addr_format() - "10.0.0.1:7000" or "[fd00::2]:7000" into @buf; returns @buf. */
const char *bps_addr_format(const struct bps_addr *addr, char *buf, size_t bytes);

/** bps_addr_format_host() - the same without brackets and port; returns @buf. */
const char *bps_addr_format_host(const struct bps_addr *addr, char *buf, size_t bytes);

/**
 * bps_addr_from() - take over @sa as the kernel gave it. Return: 0; -EAFNOSUPPORT where
 * it is neither IPv4 nor IPv6.
 */
int bps_addr_from(const struct sockaddr *sa, struct bps_addr *ret_addr);

/** bps_addr_port() - in host order; bps_addr_set_port() - change it. */
uint16_t bps_addr_port(const struct bps_addr *addr);
void bps_addr_set_port(struct bps_addr *addr, uint16_t port);

/** bps_addr_equal() - same family, address and port. */
bool bps_addr_equal(const struct bps_addr *a, const struct bps_addr *b);

/** bps_addr_is_loopback() - whether nobody but this box can be there. */
bool bps_addr_is_loopback(const struct bps_addr *addr);

/**
 * bps_addr_bytes() - the address in network order, without the port.
 * @ret_n_bits: 32 or 128. Borrowed from @addr.
 */
const uint8_t *bps_addr_bytes(const struct bps_addr *addr, unsigned *ret_n_bits);
