/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tcp.c does with peers that are not ours: one line that says who and what, within a
 * limit on the accepting side, where anybody may knock.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "transport/ratelimit.h"
#include "transport/tcp-conn.h"

#define FIRST_BYTES 16u

/* A loop is a thread's, and so are its limits: one a kind, so that none hides another. */
static _Thread_local struct bps_ratelimit noise, versions, headers, silences;

/* The printable ones of the first bytes, '.' for the others. */
static const char *first_bytes(const struct bps_tcp_conn *conn, char *buf)
{
	uint32_t n = conn->tail - conn->head;

	n = n < FIRST_BYTES ? n : FIRST_BYTES;
	for (uint32_t i = 0; i < n; i++) {
		char c = (char)conn->buf[conn->head + i];

		buf[i] = c < ' ' || c > '~' ? '.' : c;
	}
	buf[n] = '\0';
	return buf;
}

/* The first eight bytes of our header are understood by every version. */
static void send_refuse(struct bps_tcp_conn *conn, uint8_t version)
{
	struct bps_wire_hdr hdr = { .type = BPS_WIRE_REFUSE };
	uint32_t hdr_bytes = bps_wire_hdr_bytes(&hdr);
	uint8_t buf[BPS_WIRE_FULL_HDR + 128];
	char *text = (char *)buf + hdr_bytes;
	ssize_t n;

	hdr.payload_bytes = (uint32_t)snprintf(
		text, 128,
		"you speak protocol %u, this server %u: install the same version",
		version, BPS_WIRE_VERSION);
	bps_wire_encode(&hdr, buf);
	/* Nothing was sent before, so it fits; where it does not, it is no loss. */
	n = send(conn->fd, buf, hdr_bytes + hdr.payload_bytes,
	         MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)n;
}

static void reject_version(struct bps_tcp_conn *conn)
{
	uint8_t version = conn->hdr.version;

	bps_warn_limited(
		&versions,
		"%s speaks protocol %u, we speak %u: install the same version of "
		"bytepsmpi on both sides",
		conn->base.name, version, BPS_WIRE_VERSION);
	if (conn->dialed) {
		bps_tcp_conn_fail(conn, -EPROTONOSUPPORT);
		return;
	}
	conn->error = -EPROTONOSUPPORT;
	send_refuse(conn, version);
	bps_tcp_conn_drain(conn);
}

static void reject_noise(struct bps_tcp_conn *conn)
{
	char text[FIRST_BYTES + 1];

	if (conn->dialed)
		bps_warn("%s is not a bytepsmpi server (its first bytes are '%s'): check "
		         "the address and the port",
		         conn->base.name, first_bytes(conn, text));
	else
		bps_warn_limited(&noise,
		                 "closed a connection from %s: not a bytepsmpi peer (its "
		                 "first bytes are '%s')",
		                 conn->base.name, first_bytes(conn, text));
	bps_tcp_conn_fail(conn, -EPROTO);
}

void bps_tcp_reject(struct bps_tcp_conn *conn, int reason)
{
	if (conn->n_messages == 0 && reason == BPS_WIRE_E_VERSION) {
		reject_version(conn);
		return;
	}
	if (conn->n_messages == 0 && reason == BPS_WIRE_E_MAGIC) {
		reject_noise(conn);
		return;
	}
	bps_warn_limited(&headers,
	                 "closed the connection with %s: its message %llu has no valid "
	                 "header",
	                 conn->base.name, (unsigned long long)conn->n_messages + 1);
	bps_tcp_conn_fail(conn, -EBADMSG);
}

void bps_tcp_reject_silent(struct bps_tcp_conn *conn)
{
	bps_warn_limited(&silences,
	                 "closed a connection from %s: it sent no whole message in time",
	                 conn->base.name);
	bps_tcp_conn_fail(conn, -ETIMEDOUT);
}
