/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The seam between the engine and whatever carries its messages: TCP, the inside of a
 * process, the simulator of the tests, later verbs. The engine sees nothing else.
 *
 * A connection belongs to one thread (its loop's) for life; all its functions are called
 * there and all its events happen there. Messages arrive whole and in order, or the
 * connection goes down.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "transport/addr.h"
#include "transport/wire.h"

struct bps_conn;

/*
 * One message on its way out. The caller owns it and its payload, and keeps both
 * unchanged until done() is called, exactly once: error 0 when the transport no longer
 * needs the memory, -ECANCELED when the connection ended first. done() may free or reuse
 * it, but not send on a connection that gave it back with -ECANCELED. It is never called
 * from inside bps_conn_send(), and always before a message arrives that the peer sent
 * because of this one.
 */
struct bps_send {
	struct bps_list link; /* the transport's, while it is queued */
	struct bps_wire_hdr hdr;
	const void *payload; /* hdr.payload_bytes bytes */
	void (*done)(struct bps_send *send, int error);
	void *owner; /* the caller's */
};

/* What happens to a connection; @owner is what bps_conn_bind() was given. */
struct bps_conn_events {
	/*
	 * Messages can be sent and will arrive from now on. An accepted connection is
	 * born up: it is not called.
	 */
	void (*up)(void *owner);
	/*
	 * A header arrived whose payload_bytes is not 0: put in *@ret_dst where the
	 * payload goes. The place has room for payload_bytes: the owner checked it. A
	 * negative errno takes the connection down.
	 */
	int (*place)(void *owner, const struct bps_wire_hdr *hdr, void **ret_dst);
	/* The message is whole. A negative errno takes the connection down. */
	int (*message)(void *owner, const struct bps_wire_hdr *hdr);
	/*
	 * It is over, once; the connection is not to be touched again. @error is a
	 * negative errno (-ECONNRESET, -ETIMEDOUT, -EBADMSG, -EPROTO for a peer that is
	 * not ours, -EPROTONOSUPPORT for one of another version), 0 for an orderly end by
	 * the peer.
	 */
	void (*down)(void *owner, int error);
};

/* Packets of a connection since its beginning, modulo 2^32. */
struct bps_conn_counts {
	uint32_t n_sent;    /* with payload, those sent again included */
	uint32_t n_resent;  /* of those, sent again: taken for lost */
	uint32_t n_unacked; /* on their way now */
	uint32_t n_ahead;   /* that came here while one before them was missing */
};

struct bps_conn_ops {
	void (*send)(struct bps_conn *conn, struct bps_send *send);
	void (*close)(struct bps_conn *conn);
	/* what the network did to it so far; NULL: there is none between the two */
	void (*count)(const struct bps_conn *conn, struct bps_conn_counts *ret_counts);
	/* the addresses of both ends; NULL: likewise */
	int (*ends)(const struct bps_conn *conn, struct bps_addr *ret_here,
	            struct bps_addr *ret_there);
};

/* Embedded in each transport's own connection. */
struct bps_conn {
	const struct bps_conn_ops *ops;
	const struct bps_conn_events *events;
	void *owner;
	char name[96];         /* of the peer, for messages: "cpu3 (10.77.0.3:7000)" */
	uint64_t n_sent_bytes; /* headers and payloads */
	uint64_t n_received_bytes;
};

/**
 * bps_conn_bind() - say who gets the events of @conn. Before the first event.
 * The connection borrows @events and @owner until it is closed or down.
 */
static inline void bps_conn_bind(struct bps_conn *conn,
                                 const struct bps_conn_events *events, void *owner)
{
	conn->events = events;
	conn->owner = owner;
}

/**
 * bps_conn_send() - queue a message; order is kept. Never fails: a connection that cannot
 * send goes down, later, and gives the message back through done().
 */
static inline void bps_conn_send(struct bps_conn *conn, struct bps_send *send)
{
	conn->ops->send(conn, send);
}

/** bps_conn_count() - how the network treated @conn; all 0 where there is none. */
static inline void bps_conn_count(const struct bps_conn *conn,
                                  struct bps_conn_counts *ret_counts)
{
	*ret_counts = (struct bps_conn_counts){ 0 };
	if (conn->ops->count)
		conn->ops->count(conn, ret_counts);
}

/**
 * bps_conn_ends() - between which addresses @conn is. Return: 0; -ENOTCONN where it is
 * not up, or there is no network between the two.
 */
static inline int bps_conn_ends(const struct bps_conn *conn, struct bps_addr *ret_here,
                                struct bps_addr *ret_there)
{
	return conn->ops->ends ? conn->ops->ends(conn, ret_here, ret_there) : -ENOTCONN;
}

/**
 * bps_conn_close() - consumes @conn: what is queued is still sent (within a deadline of
 * the transport's), then the connection ends in order. No event reaches the owner after
 * this call, but done() of what is queued does. May be called inside any event but
 * down().
 */
static inline void bps_conn_close(struct bps_conn *conn)
{
	conn->ops->close(conn);
}
