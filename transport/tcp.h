/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages over TCP, one socket a connection. A payload is read from the socket straight
 * into the place its receiver names, together with the next header; a message is written
 * from where it lies.
 */
#pragma once

#include <stdint.h>

#include "transport/addr.h"
#include "transport/loop.h"
#include "transport/transport.h"

/*
 * How a connection ends: what is queued when bps_conn_close() is called is written as
 * long as the peer takes some of it every 2 s; then the peer has 2 s to end its side too.
 * A loop is freed after that (bps_loop_idle()).
 */

#define BPS_TCP_MAX_ADDRS 8

struct bps_tcp_dial {
	const char *name; /* of the peer, for messages; copied */
	const struct bps_addr
		*addrs; /* tried in turn; copied; at most BPS_TCP_MAX_ADDRS */
	int n_addrs;
	/*
	 * The source address, port 0; NULL: by route. Where the kernel would send by
	 * another card than the one that has it, the connection is held to that card
	 * (transport/reach.h); so is an accepted one.
	 */
	const struct bps_addr *local;
	uint64_t retry_ns; /* how long to go on trying; 0: once */
};

/**
 * bps_tcp_dial() - start to connect. Refused, unreachable or timed-out attempts are
 * repeated until retry_ns have passed (a warning after two seconds, naming the peer and
 * the reason); a socket that got connected to itself is closed and tried again. Then
 * up(), or down() with the last error. Other errors (no permission, no such source
 * address) end the dialing once every address was tried. Messages may be sent before
 * up(); they wait. Never blocks. A peer that answers in another protocol or version is
 * named in one line. Return: 0 and a connection, owned by the caller until close or down;
 * or -errno.
 */
int bps_tcp_dial(struct bps_loop *loop, const struct bps_tcp_dial *dial,
                 const struct bps_conn_events *events, void *owner,
                 struct bps_conn **ret_conn);

struct bps_tcp_listener;

/**
 * bps_tcp_listen() - listen on @addr (port 0: any; SO_REUSEADDR; IPv6 sockets are
 * IPV6_V6ONLY). @accepted gets each new socket on @loop's thread and owns it: it hands it
 * to bps_tcp_adopt() on the loop of its choice, or closes it. The listener is not to be
 * closed in there.
 * Return: 0; -EADDRINUSE, -EADDRNOTAVAIL, ...: one line was logged that names the address
 * and the remedy.
 */
int bps_tcp_listen(struct bps_loop *loop, const struct bps_addr *addr,
                   void (*accepted)(void *owner, int fd, const struct bps_addr *peer),
                   void *owner, struct bps_tcp_listener **ret_listener);
/** bps_tcp_listener_addr() - the address it is bound to, port filled in. */
const struct bps_addr *bps_tcp_listener_addr(const struct bps_tcp_listener *listener);
/** bps_tcp_listener_close() - takes NULL. */
void bps_tcp_listener_close(struct bps_tcp_listener *listener);

/**
 * bps_tcp_adopt() - make a connection of an accepted socket; it is up, up() is not
 * called. Consumes @fd, on failure too. A connection whose first whole message has not
 * arrived after @hello_ns goes down with -ETIMEDOUT; a first header that is not ours with
 * -EPROTO or -EPROTONOSUPPORT (that peer is sent a REFUSE first). Each of these is
 * logged, within a limit, with the peer's address.
 */
int bps_tcp_adopt(struct bps_loop *loop, int fd, uint64_t hello_ns,
                  const struct bps_conn_events *events, void *owner,
                  struct bps_conn **ret_conn);

/** bps_tcp_count_socket() - bps_conn_count() of a connected socket of one's own. */
void bps_tcp_count_socket(int fd, struct bps_conn_counts *ret_counts);
