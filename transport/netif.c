/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/netif.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static bool is_inner(const char *name)
{
	static const char *const starts[] = { "docker", "virbr", "br-",
		                              "veth",   "lxcbr", "cni" };

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		if (starts_with(name, starts[i]))
			return true;
	}
	return false;
}

static bool is_link_local(const struct bps_addr *addr)
{
	if (addr->sa.sa_family == AF_INET6)
		return IN6_IS_ADDR_LINKLOCAL(&addr->in6.sin6_addr);
	return ntohl(addr->in.sin_addr.s_addr) >> 16 == 0xa9fe; /* 169.254/16 */
}

static int rank(const struct bps_netif *netif)
{
	int place = netif->loopback ? 2 : netif->inner;

	return !netif->usable * 8 + place * 2 + (netif->addr.sa.sa_family == AF_INET6);
}

/* Insert behind those that are as good: the kernel's order is kept among them. */
static int add(struct bps_netif *list, int n, int max, const struct bps_netif *netif)
{
	int at = n;

	while (at > 0 && rank(&list[at - 1]) > rank(netif))
		at--;
	if (at >= max)
		return n;
	if (n == max)
		n--;
	memmove(&list[at + 1], &list[at], (size_t)(n - at) * sizeof(*list));
	list[at] = *netif;
	return n + 1;
}

/* How many bits of a network's mask are set, from the first on. */
static unsigned mask_bits(const struct sockaddr *mask)
{
	struct bps_addr addr;
	const uint8_t *bytes;
	unsigned n_bits, n = 0;

	if (!mask || bps_addr_from(mask, &addr) < 0)
		return 0;
	bytes = bps_addr_bytes(&addr, &n_bits);
	while (n < n_bits && bytes[n / 8] >> (7 - n % 8) & 1)
		n++;
	return n;
}

int bps_netif_list(struct bps_netif *ret, int max)
{
	const unsigned usable = IFF_UP | IFF_RUNNING;
	struct ifaddrs *all, *one;
	int n = 0;

	if (getifaddrs(&all) < 0)
		return -errno;
	for (one = all; one; one = one->ifa_next) {
		struct bps_netif netif = {
			.usable = (one->ifa_flags & usable) == usable,
			.loopback = one->ifa_flags & IFF_LOOPBACK,
			.inner = is_inner(one->ifa_name),
		};

		if (!one->ifa_addr || bps_addr_from(one->ifa_addr, &netif.addr) < 0 ||
		    is_link_local(&netif.addr))
			continue;
		snprintf(netif.name, sizeof(netif.name), "%s", one->ifa_name);
		netif.n_bits = mask_bits(one->ifa_netmask);
		n = add(ret, n, max, &netif);
	}
	freeifaddrs(all);
	return n;
}

/* How a spec may be read. */
struct block {
	struct bps_addr addr;
	unsigned n_bits;
};

/* Addresses that a spec stands for: one block, or what a host name resolves to. */
struct pattern {
	const char *text;
	struct block blocks[8];
	int n_blocks;
};

static bool parse_literal(const char *text, struct bps_addr *ret_addr)
{
	memset(ret_addr, 0, sizeof(*ret_addr));
	if (inet_pton(AF_INET, text, &ret_addr->in.sin_addr) == 1) {
		ret_addr->sa.sa_family = AF_INET;
		ret_addr->bytes = sizeof(ret_addr->in);
		return true;
	}
	if (inet_pton(AF_INET6, text, &ret_addr->in6.sin6_addr) == 1) {
		ret_addr->sa.sa_family = AF_INET6;
		ret_addr->bytes = sizeof(ret_addr->in6);
		return true;
	}
	return false;
}

/* "10.0.0.0/8" */
static bool parse_block(const char *text, struct block *ret_block)
{
	const char *slash = strchr(text, '/');
	char address[INET6_ADDRSTRLEN];
	unsigned n_bits;
	char *end;

	if (!slash || (size_t)(slash - text) >= sizeof(address))
		return false;
	memcpy(address, text, (size_t)(slash - text));
	address[slash - text] = '\0';
	if (!parse_literal(address, &ret_block->addr) || slash[1] < '0' || slash[1] > '9')
		return false;
	bps_addr_bytes(&ret_block->addr, &n_bits);
	ret_block->n_bits = (unsigned)strtoul(slash + 1, &end, 10);
	return *end == '\0' && ret_block->n_bits <= n_bits;
}

static bool in_block(const struct bps_addr *addr, const struct block *block)
{
	unsigned n_bits, whole = block->n_bits / 8, rest = block->n_bits % 8;
	const uint8_t *a = bps_addr_bytes(addr, &n_bits);
	const uint8_t *b = bps_addr_bytes(&block->addr, &n_bits);

	if (addr->sa.sa_family != block->addr.sa.sa_family || memcmp(a, b, whole) != 0)
		return false;
	return !rest || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

bool bps_netif_near(const struct bps_netif *netif, const struct bps_addr *addr)
{
	const struct block network = { netif->addr, netif->n_bits };

	return netif->n_bits > 0 && in_block(addr, &network);
}

static bool has_name(const struct bps_netif *netif, const struct pattern *pattern)
{
	return strcmp(netif->name, pattern->text) == 0;
}

static bool has_name_start(const struct bps_netif *netif, const struct pattern *pattern)
{
	return starts_with(netif->name, pattern->text);
}

static bool has_address(const struct bps_netif *netif, const struct pattern *pattern)
{
	for (int i = 0; i < pattern->n_blocks; i++) {
		if (in_block(&netif->addr, &pattern->blocks[i]))
			return true;
	}
	return false;
}

static void resolve_pattern(struct pattern *pattern)
{
	struct bps_addr addrs[8];
	char why[128];
	int n;

	if (parse_block(pattern->text, &pattern->blocks[0])) {
		pattern->n_blocks = 1;
		return;
	}
	if (strchr(pattern->text, '/'))
		return;
	n = bps_addr_resolve(pattern->text, 0, addrs, 8, why, sizeof(why));
	for (int i = 0; i < n; i++) {
		pattern->blocks[i].addr = addrs[i];
		bps_addr_bytes(&addrs[i], &pattern->blocks[i].n_bits);
		pattern->n_blocks = i + 1;
	}
}

/* "no usable network interface is 'ib0'; there are eth0 10.0.0.1, lo 127.0.0.1" */
static void explain(const struct bps_netif *list, int n_list, const char *spec, char *why,
                    size_t why_bytes)
{
	char text[BPS_ADDR_CHARS];
	int used;

	used = snprintf(why, why_bytes, "no usable network interface is '%s'; there %s",
	                spec, n_list ? "are" : "is none");
	for (int i = 0; i < n_list && used >= 0 && (size_t)used < why_bytes; i++)
		used += snprintf(why + used, why_bytes - (size_t)used, "%s %s %s%s",
		                 i ? "," : "", list[i].name,
		                 bps_addr_format_host(&list[i].addr, text, sizeof(text)),
		                 list[i].usable ? "" : " (down)");
}

static int collect(const struct bps_netif *list, int n_list,
                   const struct pattern *pattern,
                   bool (*matches)(const struct bps_netif *, const struct pattern *),
                   struct bps_addr *ret, int max)
{
	int n = 0;

	for (int i = 0; i < n_list && n < max; i++) {
		if (list[i].usable && matches(&list[i], pattern))
			ret[n++] = list[i].addr;
	}
	return n;
}

int bps_netif_match(const struct bps_netif *list, int n_list, const char *spec,
                    struct bps_addr *ret, int max, char *why, size_t why_bytes)
{
	struct pattern pattern = { .text = spec };
	int n;

	n = collect(list, n_list, &pattern, has_name, ret, max);
	if (!n)
		n = collect(list, n_list, &pattern, has_name_start, ret, max);
	if (!n) {
		/* Last, because a name may have to be looked up. */
		resolve_pattern(&pattern);
		n = collect(list, n_list, &pattern, has_address, ret, max);
	}
	if (n)
		return n;
	explain(list, n_list, spec, why, why_bytes);
	return -ENODEV;
}

int bps_netif_select(const char *spec, struct bps_addr *ret, int max, char *why,
                     size_t why_bytes)
{
	struct bps_netif list[BPS_NETIF_MAX];
	int n = bps_netif_list(list, BPS_NETIF_MAX);

	if (n < 0) {
		snprintf(why, why_bytes, "cannot list the network interfaces: %s",
		         strerrordesc_np(-n));
		return n;
	}
	return bps_netif_match(list, n, spec, ret, max, why, why_bytes);
}

int bps_netif_candidates(struct bps_addr *ret, int max)
{
	struct bps_netif list[BPS_NETIF_MAX];
	int n, n_found = 0;

	n = bps_netif_list(list, BPS_NETIF_MAX);
	for (int i = 0; i < n && n_found < max; i++) {
		if (list[i].usable)
			ret[n_found++] = list[i].addr;
	}
	return n < 0 ? n : n_found;
}

const struct bps_netif *bps_netif_find(const struct bps_netif *list, int n_list,
                                       const struct bps_addr *addr)
{
	struct bps_addr bare = *addr;

	bps_addr_set_port(&bare, 0);
	for (int i = 0; i < n_list; i++) {
		if (bps_addr_equal(&list[i].addr, &bare))
			return &list[i];
	}
	return NULL;
}

int bps_netif_name(const struct bps_addr *addr, char *ret_name)
{
	struct bps_netif list[BPS_NETIF_MAX];
	int n = bps_netif_list(list, BPS_NETIF_MAX);
	const struct bps_netif *netif = bps_netif_find(list, n, addr);

	if (!netif)
		return n < 0 ? n : -ENODEV;
	memcpy(ret_name, netif->name, IF_NAMESIZE);
	return 0;
}
