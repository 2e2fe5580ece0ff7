/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving half of tcp.c: a state machine that stops and goes on at any byte.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "transport/tcp-conn.h"

/* The steps of parse() return 1: go on; 0: more bytes are needed; or a negative errno. */

static int deliver(struct bps_tcp_conn *conn)
{
	int r;

	if (conn->n_messages++ == 0)
		bps_timer_cancel(&conn->timer);
	conn->rx = BPS_TCP_RX_HEADER;
	r = conn->base.events->message(conn->base.owner, &conn->hdr);
	return r < 0 ? r : 1;
}

static int step_header(struct bps_tcp_conn *conn)
{
	int r = bps_wire_decode(conn->buf + conn->head, conn->tail - conn->head,
	                        &conn->hdr, &conn->hdr_bytes);

	if (r == BPS_WIRE_E_SHORT)
		return 0;
	if (r) {
		bps_tcp_reject(conn, r);
		return 0;
	}
	conn->skip_bytes = conn->hdr_bytes;
	conn->rx = BPS_TCP_RX_SKIP;
	return 1;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int step_skip(struct bps_tcp_conn *conn)
{
	uint32_t n_bytes = min_u32(conn->tail - conn->head, conn->skip_bytes);
	void *dst = NULL;
	int r;

	conn->head += n_bytes;
	conn->skip_bytes -= n_bytes;
	if (conn->skip_bytes)
		return 0;
	if (!conn->hdr.payload_bytes)
		return deliver(conn);
	r = conn->base.events->place(conn->base.owner, &conn->hdr, &dst);
	if (r < 0)
		return r;
	conn->dst = dst;
	conn->left_bytes = conn->hdr.payload_bytes;
	conn->rx = BPS_TCP_RX_PAYLOAD;
	return 1;
}

static int step_payload(struct bps_tcp_conn *conn)
{
	uint32_t n_bytes = min_u32(conn->tail - conn->head, conn->left_bytes);

	memcpy(conn->dst, conn->buf + conn->head, n_bytes);
	conn->head += n_bytes;
	conn->dst += n_bytes;
	conn->left_bytes -= n_bytes;
	return conn->left_bytes ? 0 : deliver(conn);
}

/* Use up what is buffered. Any step may call the owner, who may close. */
static void parse(struct bps_tcp_conn *conn)
{
	int r = 1;

	while (r > 0 && conn->state == BPS_TCP_UP) {
		switch (conn->rx) {
		case BPS_TCP_RX_HEADER:
			r = step_header(conn);
			break;
		case BPS_TCP_RX_SKIP:
			r = step_skip(conn);
			break;
		case BPS_TCP_RX_PAYLOAD:
			r = step_payload(conn);
			break;
		}
	}
	if (r < 0)
		bps_tcp_conn_fail(conn, r);
	memmove(conn->buf, conn->buf + conn->head, conn->tail - conn->head);
	conn->tail -= conn->head;
	conn->head = 0;
}

/*
 * In a payload: its rest and the next header, no more, so that the payload after that
 * goes straight to its place too; a header like this message's, as most are. Else what
 * fits: small messages come by the dozen.
 */
static ssize_t receive_some(struct bps_tcp_conn *conn, size_t *ret_asked)
{
	struct iovec iov[2] = {
		{ conn->dst, conn->left_bytes },
		{ conn->buf + conn->tail, BPS_TCP_RX_BYTES - conn->tail },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (conn->rx != BPS_TCP_RX_PAYLOAD) {
		iov[0].iov_len = 0;
	} else if (conn->left_bytes > BPS_TCP_TURN_BYTES) {
		iov[0].iov_len = BPS_TCP_TURN_BYTES;
		iov[1].iov_len = 0;
	} else {
		iov[1].iov_len = conn->hdr_bytes;
	}
	*ret_asked = iov[0].iov_len + iov[1].iov_len;
	return recvmsg(conn->fd, &msg, MSG_DONTWAIT);
}

static void received(struct bps_tcp_conn *conn, uint32_t n_bytes)
{
	uint32_t direct = 0;

	conn->base.n_received_bytes += n_bytes;
	if (conn->rx == BPS_TCP_RX_PAYLOAD) {
		direct = min_u32(n_bytes, conn->left_bytes);
		conn->dst += direct;
		conn->left_bytes -= direct;
	}
	conn->tail += n_bytes - direct;
	parse(conn);
}

static void receive_failed(struct bps_tcp_conn *conn, int error)
{
	if (error == EAGAIN)
		bps_watch_clear(&conn->watch, BPS_READABLE);
	else
		bps_tcp_conn_fail(conn, -error);
}

static void receive_end(struct bps_tcp_conn *conn)
{
	bool between = conn->rx == BPS_TCP_RX_HEADER && conn->tail == 0;

	bps_tcp_conn_fail(conn, between ? 0 : -ECONNRESET);
}

void bps_tcp_receive(struct bps_tcp_conn *conn)
{
	size_t total = 0, asked;
	ssize_t n;

	while (conn->state == BPS_TCP_UP && total < BPS_TCP_TURN_BYTES) {
		n = receive_some(conn, &asked);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			receive_failed(conn, errno);
			return;
		}
		if (n == 0) {
			receive_end(conn);
			return;
		}
		total += (size_t)n;
		received(conn, (uint32_t)n);
		/*
		 * Less than asked for: the socket is empty, and what comes next raises
		 * an edge. But for an end that came before: its edge is behind us.
		 */
		if ((size_t)n < asked && conn->state == BPS_TCP_UP &&
		    !(conn->watch.ready & BPS_HUNG_UP)) {
			bps_watch_clear(&conn->watch, BPS_READABLE);
			return;
		}
	}
}

void bps_tcp_discard(struct bps_tcp_conn *conn)
{
	size_t total = 0;

	while (total < BPS_TCP_TURN_BYTES) {
		ssize_t n = recv(conn->fd, conn->buf, BPS_TCP_RX_BYTES, MSG_DONTWAIT);

		if (n > 0) {
			total += (size_t)n;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			bps_watch_clear(&conn->watch, BPS_READABLE);
			return;
		}
		conn->eof = true;
		bps_watch_want(&conn->watch,
		               conn->watch.wanted & ~(uint32_t)BPS_READABLE);
		if (n < 0 || conn->state == BPS_TCP_DRAINING)
			bps_tcp_conn_fail(conn, 0);
		return;
	}
}
