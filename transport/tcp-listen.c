/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The listening half of tcp.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/ratelimit.h"
#include "transport/tcp.h"

/* Of one turn: connections that exist have theirs too. */
#define MAX_ACCEPTS 64

/* How long to leave newcomers in the queue when this process has no descriptor for them.
 */
#define PAUSE_NS (100 * BPS_NS_PER_MS)

struct bps_tcp_listener {
	struct bps_loop *loop;
	int fd;
	struct bps_addr addr;
	struct bps_watch watch;
	struct bps_timer pause;
	struct bps_ratelimit limit;
	void (*accepted)(void *owner, int fd, const struct bps_addr *peer);
	void *owner;
};

static const char *remedy(int error)
{
	switch (-error) {
	case EADDRINUSE:
		return "; another program has this port: end it, or choose another port";
	case EADDRNOTAVAIL:
		return "; this box has no such address: choose one of its own";
	case EACCES:
		return "; ports below 1024 need privileges: choose another port";
	default:
		return "";
	}
}

static int open_listening(const struct bps_addr *addr)
{
	static const int on = 1;
	int fd, r;

	fd = socket(addr->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (addr->sa.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, &addr->sa, addr->bytes) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

/* Out of descriptors or memory: the newcomer waits, and so do we, without spinning. */
static void pause_accepting(struct bps_tcp_listener *listener, int error)
{
	char text[BPS_ADDR_CHARS];

	if (bps_ratelimit_hit(&listener->limit, bps_now_ns()))
		bps_warn("cannot accept on %s for now: %s; raise the limit (ulimit -n)",
		         bps_addr_format(&listener->addr, text, sizeof(text)),
		         strerrordesc_np(error));
	bps_watch_want(&listener->watch, 0);
	bps_timer_set(listener->loop, &listener->pause, bps_now_ns() + PAUSE_NS);
}

static void on_pause_end(struct bps_timer *timer)
{
	struct bps_tcp_listener *listener =
		BPS_CONTAINER_OF(timer, struct bps_tcp_listener, pause);

	bps_watch_want(&listener->watch, BPS_READABLE);
}

/* What to do after accept4() failed. Return: whether to go on accepting. */
static bool accept_failed(struct bps_tcp_listener *listener, int error)
{
	switch (error) {
	case EAGAIN:
		bps_watch_clear(&listener->watch, BPS_READABLE);
		return false;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		pause_accepting(listener, error);
		return false;
	default:
		return true; /* that newcomer's trouble */
	}
}

static void on_ready(struct bps_watch *watch, uint32_t events)
{
	struct bps_tcp_listener *listener =
		BPS_CONTAINER_OF(watch, struct bps_tcp_listener, watch);

	(void)events;
	for (int i = 0; i < MAX_ACCEPTS; i++) {
		struct bps_addr peer = { .bytes = sizeof(peer.storage) };
		int fd = accept4(listener->fd, &peer.sa, &peer.bytes,
		                 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0)
			listener->accepted(listener->owner, fd, &peer);
		else if (!accept_failed(listener, errno))
			return;
	}
}

int bps_tcp_listen(struct bps_loop *loop, const struct bps_addr *addr,
                   void (*accepted)(void *owner, int fd, const struct bps_addr *peer),
                   void *owner, struct bps_tcp_listener **ret_listener)
{
	struct bps_tcp_listener *listener = calloc(1, sizeof(*listener));
	char text[BPS_ADDR_CHARS];
	int r;

	if (!listener)
		return -ENOMEM;
	listener->loop = loop;
	listener->accepted = accepted;
	listener->owner = owner;
	listener->watch.fn = on_ready;
	listener->pause.fn = on_pause_end;
	r = listener->fd = listener->watch.fd = open_listening(addr);
	if (r >= 0) {
		listener->addr.bytes = sizeof(listener->addr.storage);
		getsockname(listener->fd, &listener->addr.sa, &listener->addr.bytes);
		r = bps_watch_add(loop, &listener->watch, BPS_READABLE);
	}
	if (r < 0) {
		bps_error("cannot listen on %s: %s%s",
		          bps_addr_format(addr, text, sizeof(text)), strerrordesc_np(-r),
		          remedy(r));
		bps_tcp_listener_close(listener);
		return r;
	}
	*ret_listener = listener;
	return 0;
}

const struct bps_addr *bps_tcp_listener_addr(const struct bps_tcp_listener *listener)
{
	return &listener->addr;
}

void bps_tcp_listener_close(struct bps_tcp_listener *listener)
{
	if (!listener)
		return;
	bps_watch_remove(&listener->watch);
	bps_timer_cancel(&listener->pause);
	if (listener->fd >= 0)
		close(listener->fd);
	free(listener);
}
