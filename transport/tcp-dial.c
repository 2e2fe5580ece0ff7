/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dialing half of tcp.c: addresses in turn, again and again with a growing pause, one
 * attempt at a time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/reach.h"
#include "transport/tcp-conn.h"

#define ATTEMPT_NS   (3 * BPS_NS_PER_S)
#define PAUSE_MIN_NS (20 * BPS_NS_PER_MS)
#define PAUSE_MAX_NS (500 * BPS_NS_PER_MS)
#define WARN_NS      (2 * BPS_NS_PER_S)

struct bps_tcp_dialing {
	char name[64];
	struct bps_addr addrs[BPS_TCP_MAX_ADDRS];
	int n_addrs, next;
	struct bps_addr local; /* bytes 0: by route */
	uint64_t start_ns, until_ns, pause_ns;
	bool warned;
	bool hope; /* something in this round may come out otherwise next time */
	int error; /* of the last attempt, negative */
};

/* Whether it is worth another try: the peer may come up, or the network. */
static bool is_transient(int error)
{
	switch (-error) {
	case ECONNREFUSED:
	case ECONNRESET:
	case ECONNABORTED:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENETUNREACH:
	case ENETDOWN:
	case ETIMEDOUT:
	case EADDRNOTAVAIL: /* from connect(): every ephemeral port is taken */
	case EAGAIN:
	case ENOBUFS:
		return true;
	default:
		return false;
	}
}

static void attempt_failed(struct bps_tcp_conn *conn, int error)
{
	struct bps_tcp_dialing *dialing = conn->dialing;

	bps_tcp_conn_detach(conn);
	dialing->error = error;
	dialing->hope |= is_transient(error);
	bps_debug("%s: %s", conn->base.name, strerrordesc_np(-error));
}

static int bind_local(int fd, const struct bps_addr *local)
{
	static const int on = 1;

	/* The port is chosen in connect(), where one will do for many peers. */
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	return bind(fd, &local->sa, local->bytes) < 0 ? -errno : 0;
}

static void warn_once(struct bps_tcp_conn *conn, uint64_t now_ns)
{
	struct bps_tcp_dialing *dialing = conn->dialing;

	if (dialing->warned || now_ns - dialing->start_ns < WARN_NS ||
	    dialing->until_ns - now_ns < BPS_NS_PER_S)
		return;
	dialing->warned = true;
	bps_warn(
		"%s does not answer yet: %s; is a server running there? trying for another "
		"%u s",
		conn->base.name, strerrordesc_np(-dialing->error),
		(unsigned)((dialing->until_ns - now_ns) / BPS_NS_PER_S));
}

/* Every address was tried. */
static void end_round(struct bps_tcp_conn *conn)
{
	struct bps_tcp_dialing *dialing = conn->dialing;
	uint64_t now_ns = bps_now_ns(), at_ns = now_ns + dialing->pause_ns;

	if (!dialing->hope || now_ns >= dialing->until_ns) {
		bps_tcp_conn_fail(conn, dialing->error);
		return;
	}
	warn_once(conn, now_ns);
	dialing->next = 0;
	dialing->hope = false;
	dialing->pause_ns *= 2;
	if (dialing->pause_ns > PAUSE_MAX_NS)
		dialing->pause_ns = PAUSE_MAX_NS;
	if (at_ns > dialing->until_ns)
		at_ns = dialing->until_ns; /* the last round */
	bps_timer_set(conn->loop, &conn->timer, at_ns);
}

static int open_socket(const struct bps_addr *addr, const struct bps_addr *local)
{
	int fd, r = 0;

	if (local->bytes && local->sa.sa_family != addr->sa.sa_family)
		return -EAFNOSUPPORT;
	fd = socket(addr->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (local->bytes)
		r = bind_local(fd, local);
	if (r == 0 && local->bytes)
		bps_reach_bind(fd, local, addr);
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

/* Start one attempt. Whether it failed at once or not, the next step is the caller's. */
static int attempt(struct bps_tcp_conn *conn, const struct bps_addr *addr)
{
	struct bps_tcp_dialing *dialing = conn->dialing;
	char text[BPS_ADDR_CHARS];
	int fd, r;

	snprintf(conn->base.name, sizeof(conn->base.name), "%s (%s)", dialing->name,
	         bps_addr_format(addr, text, sizeof(text)));
	fd = open_socket(addr, &dialing->local);
	if (fd < 0) {
		/* A fault of this box: no reason to hope. */
		dialing->error = fd;
		return fd;
	}
	if (connect(fd, &addr->sa, addr->bytes) < 0 && errno != EINPROGRESS &&
	    errno != EINTR) {
		r = -errno;
		close(fd);
		attempt_failed(conn, r);
		return r;
	}
	r = bps_tcp_conn_attach(conn, fd, BPS_WRITABLE);
	if (r < 0)
		dialing->error = r;
	return r;
}

static void try_next(struct bps_tcp_conn *conn)
{
	struct bps_tcp_dialing *dialing = conn->dialing;

	while (dialing->next < dialing->n_addrs) {
		if (attempt(conn, &dialing->addrs[dialing->next++]) < 0)
			continue;
		bps_timer_set(conn->loop, &conn->timer, bps_now_ns() + ATTEMPT_NS);
		return;
	}
	end_round(conn);
}

bool bps_tcp_is_self(int fd)
{
	struct bps_addr here = { .bytes = sizeof(here.storage) };
	struct bps_addr there = { .bytes = sizeof(there.storage) };

	return getsockname(fd, &here.sa, &here.bytes) == 0 &&
	       getpeername(fd, &there.sa, &there.bytes) == 0 &&
	       bps_addr_equal(&here, &there);
}

static int attempt_result(int fd)
{
	static const struct linger reset = { .l_onoff = 1 };
	socklen_t bytes = sizeof(int);
	int error = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
		return -errno;
	if (error)
		return -error;
	if (!bps_tcp_is_self(fd))
		return 0;
	/*
	 * Nobody listens there, or the port would not have been ours to take. It must not
	 * stay taken for a minute (TIME_WAIT) when its server comes.
	 */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	return -ECONNREFUSED;
}

void bps_tcp_dial_ready(struct bps_tcp_conn *conn)
{
	int r = attempt_result(conn->fd);

	bps_timer_cancel(&conn->timer);
	if (r < 0) {
		attempt_failed(conn, r);
		try_next(conn);
		return;
	}
	free(conn->dialing);
	conn->dialing = NULL;
	bps_tcp_conn_up(conn);
	conn->base.events->up(conn->base.owner);
}

void bps_tcp_dial_timer(struct bps_tcp_conn *conn)
{
	if (conn->fd >= 0)
		attempt_failed(conn, -ETIMEDOUT);
	try_next(conn);
}

static struct bps_tcp_dialing *dialing_new(const struct bps_tcp_dial *dial)
{
	struct bps_tcp_dialing *dialing = calloc(1, sizeof(*dialing));

	if (!dialing)
		return NULL;
	snprintf(dialing->name, sizeof(dialing->name), "%s", dial->name);
	memcpy(dialing->addrs, dial->addrs,
	       (size_t)dial->n_addrs * sizeof(dial->addrs[0]));
	dialing->n_addrs = dial->n_addrs;
	if (dial->local)
		dialing->local = *dial->local;
	dialing->start_ns = bps_now_ns();
	dialing->pause_ns = PAUSE_MIN_NS;
	if (__builtin_add_overflow(dialing->start_ns, dial->retry_ns, &dialing->until_ns))
		dialing->until_ns = UINT64_MAX;
	return dialing;
}

int bps_tcp_dial(struct bps_loop *loop, const struct bps_tcp_dial *dial,
                 const struct bps_conn_events *events, void *owner,
                 struct bps_conn **ret_conn)
{
	struct bps_tcp_conn *conn;
	int r;

	if (dial->n_addrs < 1 || dial->n_addrs > BPS_TCP_MAX_ADDRS)
		return -EINVAL;
	r = bps_tcp_conn_new(loop, events, owner, &conn);
	if (r < 0)
		return r;
	conn->dialed = true;
	conn->dialing = dialing_new(dial);
	if (!conn->dialing) {
		free(conn);
		return -ENOMEM;
	}
	try_next(conn);
	*ret_conn = &conn->base;
	return 0;
}
