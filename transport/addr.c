/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

int bps_addr_from(const struct sockaddr *sa, struct bps_addr *ret_addr)
{
	memset(ret_addr, 0, sizeof(*ret_addr));
	if (sa->sa_family == AF_INET)
		ret_addr->bytes = sizeof(struct sockaddr_in);
	else if (sa->sa_family == AF_INET6)
		ret_addr->bytes = sizeof(struct sockaddr_in6);
	else
		return -EAFNOSUPPORT;
	memcpy(&ret_addr->storage, sa, ret_addr->bytes);
	return 0;
}

static int errno_of_gai(int error)
{
	switch (error) {
	case EAI_SYSTEM:
		return errno ? -errno : -EIO;
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_AGAIN:
		return -EAGAIN;
	default:
		return -ENOENT;
	}
}

int bps_addr_resolve(const char *host, uint16_t port, struct bps_addr *ret, int max,
                     char *why, size_t why_bytes)
{
	static const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list, *info;
	int n = 0, r;

	r = getaddrinfo(host, NULL, &hints, &list);
	if (r) {
		int error = errno_of_gai(r);

		snprintf(why, why_bytes, "'%s': %s", host,
		         r == EAI_SYSTEM ? strerrordesc_np(-error) : gai_strerror(r));
		return error;
	}
	for (info = list; info && n < max; info = info->ai_next) {
		if (bps_addr_from(info->ai_addr, &ret[n]) < 0)
			continue;
		bps_addr_set_port(&ret[n++], port);
	}
	freeaddrinfo(list);
	if (n)
		return n;
	snprintf(why, why_bytes, "'%s': no IPv4 or IPv6 address", host);
	return -ENOENT;
}

const char *bps_addr_format_host(const struct bps_addr *addr, char *buf, size_t bytes)
{
	unsigned n_bits;
	const uint8_t *address = bps_addr_bytes(addr, &n_bits);
	char name[IF_NAMESIZE];

	if (!inet_ntop(addr->sa.sa_family, address, buf, (socklen_t)bytes))
		snprintf(buf, bytes, "?");
	/* A link-local address means something together with its interface alone. */
	if (addr->sa.sa_family == AF_INET6 && addr->in6.sin6_scope_id &&
	    if_indextoname(addr->in6.sin6_scope_id, name)) {
		size_t used = strlen(buf);

		snprintf(buf + used, bytes - used, "%%%s", name);
	}
	return buf;
}

const char *bps_addr_format(const struct bps_addr *addr, char *buf, size_t bytes)
{
	char host[BPS_ADDR_CHARS];

	if (addr->sa.sa_family != AF_INET && addr->sa.sa_family != AF_INET6)
		snprintf(buf, bytes, "a local socket");
	else
		snprintf(buf, bytes, addr->sa.sa_family == AF_INET6 ? "[%s]:%u" : "%s:%u",
		         bps_addr_format_host(addr, host, sizeof(host)),
		         (unsigned)bps_addr_port(addr));
	return buf;
}

uint16_t bps_addr_port(const struct bps_addr *addr)
{
	return ntohs(addr->sa.sa_family == AF_INET6 ? addr->in6.sin6_port
	                                            : addr->in.sin_port);
}

void bps_addr_set_port(struct bps_addr *addr, uint16_t port)
{
	if (addr->sa.sa_family == AF_INET6)
		addr->in6.sin6_port = htons(port);
	else
		addr->in.sin_port = htons(port);
}

const uint8_t *bps_addr_bytes(const struct bps_addr *addr, unsigned *ret_n_bits)
{
	if (addr->sa.sa_family == AF_INET6) {
		*ret_n_bits = 128;
		return addr->in6.sin6_addr.s6_addr;
	}
	*ret_n_bits = 32;
	return (const uint8_t *)&addr->in.sin_addr;
}

bool bps_addr_is_loopback(const struct bps_addr *addr)
{
	if (addr->sa.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&addr->in6.sin6_addr);
	return ntohl(addr->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool bps_addr_equal(const struct bps_addr *a, const struct bps_addr *b)
{
	unsigned n_bits_a, n_bits_b;
	const uint8_t *bytes_a = bps_addr_bytes(a, &n_bits_a);
	const uint8_t *bytes_b = bps_addr_bytes(b, &n_bits_b);

	return a->sa.sa_family == b->sa.sa_family && n_bits_a == n_bits_b &&
	       memcmp(bytes_a, bytes_b, n_bits_a / 8) == 0 &&
	       bps_addr_port(a) == bps_addr_port(b);
}
