/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the server that a box carries could listen where BPSMPI_PORT says. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check/job/impl.h"
#include "engine/cards.h"

/* Return: 0, the socket stays open; a negative errno. */
static int listen_at(const struct bps_addr *addr)
{
	const int family = addr->sa.sa_family, on = 1;
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    (family != AF_INET6 ||
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0) &&
	    bind(fd, &addr->sa, addr->bytes) == 0 && listen(fd, 1) == 0)
		return 0;
	error = -errno;
	close(fd);
	return error;
}

void bps_job_try_port(const struct bps_job_charter *charter, struct bps_job_box *box)
{
	struct bps_netif list[BPS_NETIF_MAX];
	char why[512];
	int n = bps_cards_choose(charter->interface, list, BPS_NETIF_MAX, why,
	                         sizeof(why));

	for (int i = 0; i < n && charter->port > 0; i++) {
		struct bps_addr *addr = &list[i].addr;
		int r;

		if (addr->sa.sa_family != list[0].addr.sa.sa_family)
			continue;
		bps_addr_set_port(addr, (uint16_t)charter->port);
		r = listen_at(addr);
		if (r == 0)
			continue;
		box->port_error = (uint32_t)-r;
		(void)bps_addr_format(addr, box->port_at, sizeof(box->port_at));
		return;
	}
}
