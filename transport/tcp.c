/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/tcp.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "transport/reach.h"
#include "transport/tcp-conn.h"

/* Of one sendmsg(): a header and a payload a message. */
#define MAX_IOV      16
#define MAX_MESSAGES (MAX_IOV / 2)
/* What the kernel holds beyond what it can send now; see tcp-turns.c. */
#define UNSENT_BYTES 8192
/* Messages up to this size need no turn. */
#define SMALL_BYTES 1024u

static void on_ready(struct bps_watch *watch, uint32_t events);
static void on_timer(struct bps_timer *timer);
static void on_settle(struct bps_defer *defer);
static void tcp_send(struct bps_conn *base, struct bps_send *send);
static void tcp_close(struct bps_conn *base);

static const struct bps_conn_ops tcp_ops = {
	.send = tcp_send,
	.close = tcp_close,
	.count = bps_tcp_count,
	.ends = bps_tcp_ends,
};

static struct bps_tcp_conn *of_base(struct bps_conn *base)
{
	return BPS_CONTAINER_OF(base, struct bps_tcp_conn, base);
}

int bps_tcp_conn_new(struct bps_loop *loop, const struct bps_conn_events *events,
                     void *owner, struct bps_tcp_conn **ret_conn)
{
	struct bps_tcp_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return -ENOMEM;
	conn->base.ops = &tcp_ops;
	bps_conn_bind(&conn->base, events, owner);
	conn->loop = loop;
	conn->state = BPS_TCP_DIALING;
	conn->fd = -1;
	conn->watch.fn = on_ready;
	conn->timer.fn = on_timer;
	conn->settle.fn = on_settle;
	bps_list_init(&conn->queue);
	bps_list_init(&conn->turn_link);
	conn->stall.fn = bps_tcp_turn_stalled;
	*ret_conn = conn;
	return 0;
}

/* Failures are of no consequence, e.g. on a socket that is not TCP. */
static void set_options(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 10 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 5 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 3 },
		{ IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value,
		           sizeof(options[i].value));
}

int bps_tcp_conn_attach(struct bps_tcp_conn *conn, int fd, uint32_t wanted)
{
	int r;

	set_options(fd);
	conn->watch.fd = fd;
	r = bps_watch_add(conn->loop, &conn->watch, wanted);
	if (r < 0) {
		close(fd);
		return r;
	}
	conn->fd = fd;
	return 0;
}

void bps_tcp_conn_detach(struct bps_tcp_conn *conn)
{
	bps_watch_remove(&conn->watch);
	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = -1;
}

void bps_tcp_conn_up(struct bps_tcp_conn *conn)
{
	conn->state = BPS_TCP_UP;
	bps_tcp_turns_join(conn);
	bps_watch_want(&conn->watch, BPS_READABLE);
	bps_defer_add(conn->loop, &conn->settle);
}

void bps_tcp_conn_fail(struct bps_tcp_conn *conn, int error)
{
	if (conn->state == BPS_TCP_DEAD)
		return;
	if (!conn->error)
		conn->error = error;
	bps_tcp_conn_detach(conn);
	bps_timer_cancel(&conn->timer);
	bps_tcp_turns_leave(conn);
	conn->state = BPS_TCP_DEAD;
	bps_defer_add(conn->loop, &conn->settle);
}

void bps_tcp_conn_drain(struct bps_tcp_conn *conn)
{
	if (conn->eof || shutdown(conn->fd, SHUT_WR) < 0) {
		bps_tcp_conn_fail(conn, 0);
		return;
	}
	conn->state = BPS_TCP_DRAINING;
	bps_watch_want(&conn->watch, BPS_READABLE);
	bps_timer_set(conn->loop, &conn->timer, bps_now_ns() + BPS_TCP_CLOSE_NS);
	bps_defer_add(conn->loop, &conn->settle);
}

/* Add @bytes at @base to @iov but for those that *@skip says are sent already. */
static int add_iov(struct iovec *iov, const void *base, size_t bytes, size_t *skip)
{
	if (bytes <= *skip) {
		*skip -= bytes;
		return 0;
	}
	iov->iov_base = (uint8_t *)base + *skip;
	iov->iov_len = bytes - *skip;
	*skip = 0;
	return 1;
}

static bool is_small(const struct bps_send *send)
{
	return send->hdr.payload_bytes <= SMALL_BYTES;
}

/* One message that needs a turn, or the small ones before it. */
static ssize_t send_some(struct bps_tcp_conn *conn)
{
	uint8_t headers[MAX_MESSAGES][BPS_WIRE_FULL_HDR];
	struct iovec iov[MAX_IOV];
	struct msghdr msg = { .msg_iov = iov };
	size_t skip = conn->sent_bytes;
	struct bps_send *send;
	uint32_t hdr_bytes;
	int n = 0, n_iov = 0;

	BPS_LIST_FOREACH(send, &conn->queue, link)
	{
		if (n == MAX_MESSAGES || (n > 0 && !is_small(send)))
			break;
		hdr_bytes = bps_wire_encode(&send->hdr, headers[n]);
		n_iov += add_iov(&iov[n_iov], headers[n++], hdr_bytes, &skip);
		n_iov += add_iov(&iov[n_iov], send->payload, send->hdr.payload_bytes,
		                 &skip);
	}
	msg.msg_iovlen = (size_t)n_iov;
	return sendmsg(conn->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Return: whether a message that needed a turn is out. */
static bool sent(struct bps_tcp_conn *conn, size_t n_bytes)
{
	struct bps_list *link;
	bool large = false;

	conn->base.n_sent_bytes += n_bytes;
	conn->sent_bytes += n_bytes;
	while ((link = bps_list_first(&conn->queue))) {
		struct bps_send *send = BPS_CONTAINER_OF(link, struct bps_send, link);
		size_t whole =
			bps_wire_hdr_bytes(&send->hdr) + (size_t)send->hdr.payload_bytes;

		if (conn->sent_bytes < whole)
			break;
		conn->sent_bytes -= whole;
		bps_list_remove(link);
		large = large || !is_small(send);
		send->done(send, 0);
	}
	return large;
}

static void send_failed(struct bps_tcp_conn *conn, int error)
{
	conn->error = -error;
	/* What the peer said before it broke off is worth hearing. */
	if (conn->state == BPS_TCP_UP)
		bps_tcp_receive(conn);
	bps_tcp_conn_fail(conn, -error);
}

static bool may_send(struct bps_tcp_conn *conn)
{
	struct bps_list *link = bps_list_first(&conn->queue);

	if (!link)
		return false;
	return is_small(BPS_CONTAINER_OF(link, struct bps_send, link)) ||
	       bps_tcp_turn(conn);
}

static void flush_queue(struct bps_tcp_conn *conn)
{
	size_t total = 0;
	ssize_t n;

	while (total < BPS_TCP_TURN_BYTES && may_send(conn)) {
		n = send_some(conn);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			bps_watch_clear(&conn->watch, BPS_WRITABLE);
			bps_tcp_turn_blocked(conn);
			break;
		}
		if (n < 0) {
			send_failed(conn, errno);
			return;
		}
		total += (size_t)n;
		if (sent(conn, (size_t)n))
			bps_tcp_turn_over(conn);
	}
	if (total && conn->state == BPS_TCP_FLUSHING)
		bps_timer_set(conn->loop, &conn->timer, bps_now_ns() + BPS_TCP_CLOSE_NS);
}

static void flush(struct bps_tcp_conn *conn)
{
	uint32_t wanted = conn->eof ? 0 : BPS_READABLE;

	flush_queue(conn);
	if (conn->state == BPS_TCP_DEAD)
		return;
	if (conn->state == BPS_TCP_FLUSHING && bps_list_empty(&conn->queue)) {
		bps_tcp_conn_drain(conn);
		return;
	}
	if (bps_list_empty(&conn->queue))
		bps_tcp_turn_end(conn);
	else if (conn->turn != BPS_TCP_WAITING)
		wanted |= BPS_WRITABLE;
	bps_watch_want(&conn->watch, wanted);
}

static void tcp_send(struct bps_conn *base, struct bps_send *send)
{
	struct bps_tcp_conn *conn = of_base(base);

	bps_list_push_back(&conn->queue, &send->link);
	/* At the end of the turn, with what else is sent in it. */
	bps_defer_add(conn->loop, &conn->settle);
}

static void tcp_close(struct bps_conn *base)
{
	struct bps_tcp_conn *conn = of_base(base);

	conn->closed = true;
	if (conn->state == BPS_TCP_DIALING)
		bps_tcp_conn_fail(conn, 0);
	if (conn->state != BPS_TCP_UP)
		return;
	conn->state = BPS_TCP_FLUSHING;
	bps_timer_set(conn->loop, &conn->timer, bps_now_ns() + BPS_TCP_CLOSE_NS);
	bps_defer_add(conn->loop, &conn->settle);
}

/* What the loop calls. */

static void on_ready(struct bps_watch *watch, uint32_t events)
{
	struct bps_tcp_conn *conn = BPS_CONTAINER_OF(watch, struct bps_tcp_conn, watch);

	if (conn->state == BPS_TCP_DIALING) {
		bps_tcp_dial_ready(conn);
		return;
	}
	if (conn->state == BPS_TCP_UP && (events & BPS_READABLE))
		bps_tcp_receive(conn);
	else if (events & BPS_READABLE)
		bps_tcp_discard(conn);
	if ((events & BPS_WRITABLE) &&
	    (conn->state == BPS_TCP_UP || conn->state == BPS_TCP_FLUSHING))
		flush(conn);
}

static void on_timer(struct bps_timer *timer)
{
	struct bps_tcp_conn *conn = BPS_CONTAINER_OF(timer, struct bps_tcp_conn, timer);

	if (conn->state == BPS_TCP_DIALING)
		bps_tcp_dial_timer(conn);
	else if (conn->state == BPS_TCP_UP)
		bps_tcp_reject_silent(conn);
	else
		bps_tcp_conn_fail(conn, 0);
}

/* The end for the owner, and of the memory once the socket is gone. */
static void finish(struct bps_tcp_conn *conn)
{
	struct bps_list *link;

	while ((link = bps_list_pop_front(&conn->queue))) {
		struct bps_send *send = BPS_CONTAINER_OF(link, struct bps_send, link);

		send->done(send, -ECANCELED);
	}
	if (!conn->closed) {
		conn->closed = true;
		conn->base.events->down(conn->base.owner, conn->error);
	}
	if (conn->state != BPS_TCP_DEAD)
		return;
	bps_defer_cancel(&conn->settle);
	free(conn->dialing);
	free(conn);
}

static void on_settle(struct bps_defer *defer)
{
	struct bps_tcp_conn *conn = BPS_CONTAINER_OF(defer, struct bps_tcp_conn, settle);

	if (conn->state == BPS_TCP_UP || conn->state == BPS_TCP_FLUSHING)
		flush(conn);
	if (conn->state == BPS_TCP_DRAINING || conn->state == BPS_TCP_DEAD)
		finish(conn);
}

int bps_tcp_ends(const struct bps_conn *base, struct bps_addr *ret_here,
                 struct bps_addr *ret_there)
{
	const struct bps_tcp_conn *conn =
		BPS_CONTAINER_OF(base, struct bps_tcp_conn, base);

	ret_here->bytes = sizeof(ret_here->storage);
	ret_there->bytes = sizeof(ret_there->storage);
	if (conn->fd < 0 || getsockname(conn->fd, &ret_here->sa, &ret_here->bytes) < 0 ||
	    getpeername(conn->fd, &ret_there->sa, &ret_there->bytes) < 0)
		return -ENOTCONN;
	return 0;
}

int bps_tcp_adopt(struct bps_loop *loop, int fd, uint64_t hello_ns,
                  const struct bps_conn_events *events, void *owner,
                  struct bps_conn **ret_conn)
{
	struct bps_addr here, peer = { .bytes = sizeof(peer.storage) };
	struct bps_tcp_conn *conn;
	int r;

	r = bps_tcp_conn_new(loop, events, owner, &conn);
	if (r < 0) {
		close(fd);
		return r;
	}
	r = bps_tcp_conn_attach(conn, fd, BPS_READABLE);
	if (r < 0) {
		free(conn);
		return r;
	}
	if (bps_tcp_ends(&conn->base, &here, &peer) == 0)
		bps_reach_bind_accepted(fd, &here, &peer);
	bps_addr_format(&peer, conn->base.name, sizeof(conn->base.name));
	bps_tcp_conn_up(conn);
	bps_timer_set(loop, &conn->timer, bps_now_ns() + hello_ns);
	*ret_conn = &conn->base;
	return 0;
}
