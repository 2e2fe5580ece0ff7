/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose turn it is to send. Left to itself a link is shared by all connections that have
 * something to send, so that eight partitions of 32 KiB arrive all at once, eight times
 * later than the first one need be. In turns each goes out alone, or nearly: its receiver
 * goes on with it while the next one is on the wire, and members that visit the servers
 * in a staggered order do not meet at one.
 *
 * Two connections send at a time, so that one can wait for the kernel while the other
 * fills the link. A turn is one message. A connection that gets nowhere for a while (a
 * slow or dead peer) does not keep the others waiting. Each network card is a link of its
 * own; cards are told apart by the address that a connection has here.
 *
 * It works only where the kernel takes no more than it can send soon: TCP_NOTSENT_LOWAT.
 */
#include "base/list.h"
#include "transport/tcp-conn.h"

#define MAX_SENDING 2
#define STALL_NS    (10 * BPS_NS_PER_MS)
/* More cards than that share their turns. */
#define MAX_CARDS 16

struct bps_tcp_turns {
	struct bps_addr here;    /* port 0 */
	unsigned n_conns;        /* 0: of no card now */
	struct bps_list waiting; /* all zero: never used yet */
	unsigned n_sending;
};

/* Of the connections of one thread, as a connection belongs to one. */
static __thread struct bps_tcp_turns cards[MAX_CARDS];

/* The address of @conn here; all zero where it is not of a network. */
static void key_of(const struct bps_tcp_conn *conn, struct bps_addr *ret_here)
{
	struct bps_addr here, there;

	*ret_here = (struct bps_addr){ .bytes = 0 };
	if (bps_tcp_ends(&conn->base, &here, &there) < 0 ||
	    bps_addr_from(&here.sa, ret_here) < 0)
		*ret_here = (struct bps_addr){ .bytes = 0 };
	else
		bps_addr_set_port(ret_here, 0);
}

void bps_tcp_turns_join(struct bps_tcp_conn *conn)
{
	struct bps_tcp_turns *found = NULL;
	struct bps_addr here;

	key_of(conn, &here);
	for (int i = 0; i < MAX_CARDS && (!found || found->n_conns == 0); i++) {
		if (cards[i].n_conns > 0 && bps_addr_equal(&cards[i].here, &here))
			found = &cards[i];
		else if (cards[i].n_conns == 0 && !found)
			found = &cards[i];
	}
	if (!found)
		found = &cards[0];
	if (found->n_conns++ == 0)
		found->here = here;
	if (!found->waiting.next)
		bps_list_init(&found->waiting);
	conn->turns = found;
}

void bps_tcp_turns_leave(struct bps_tcp_conn *conn)
{
	bps_tcp_turn_end(conn);
	if (conn->turns)
		conn->turns->n_conns--;
	conn->turns = NULL;
}

static void begin(struct bps_tcp_conn *conn)
{
	conn->turn = BPS_TCP_SENDING;
	conn->turns->n_sending++;
}

static void call_next(struct bps_tcp_turns *turns)
{
	struct bps_list *link;

	while (turns->n_sending < MAX_SENDING &&
	       (link = bps_list_pop_front(&turns->waiting))) {
		struct bps_tcp_conn *next =
			BPS_CONTAINER_OF(link, struct bps_tcp_conn, turn_link);

		begin(next);
		bps_defer_add(next->loop, &next->settle);
	}
}

void bps_tcp_turn_end(struct bps_tcp_conn *conn)
{
	if (!conn->turns)
		return;
	if (conn->turn == BPS_TCP_WAITING)
		bps_list_remove(&conn->turn_link);
	if (conn->turn == BPS_TCP_SENDING)
		conn->turns->n_sending--;
	conn->turn = BPS_TCP_IDLE;
	bps_timer_cancel(&conn->stall);
	call_next(conn->turns);
}

bool bps_tcp_turn(struct bps_tcp_conn *conn)
{
	if (conn->turn == BPS_TCP_IDLE) {
		if (conn->turns->n_sending < MAX_SENDING) {
			begin(conn);
		} else {
			conn->turn = BPS_TCP_WAITING;
			bps_list_push_back(&conn->turns->waiting, &conn->turn_link);
		}
	}
	return conn->turn != BPS_TCP_WAITING;
}

void bps_tcp_turn_over(struct bps_tcp_conn *conn)
{
	bps_timer_cancel(&conn->stall);
	if (conn->turn == BPS_TCP_STALLED || !bps_list_empty(&conn->turns->waiting))
		bps_tcp_turn_end(conn);
}

void bps_tcp_turn_blocked(struct bps_tcp_conn *conn)
{
	if (conn->turn == BPS_TCP_SENDING && conn->stall.at_ns == 0)
		bps_timer_set(conn->loop, &conn->stall, bps_now_ns() + STALL_NS);
}

void bps_tcp_turn_stalled(struct bps_timer *timer)
{
	struct bps_tcp_conn *conn = BPS_CONTAINER_OF(timer, struct bps_tcp_conn, stall);

	if (conn->turn != BPS_TCP_SENDING)
		return;
	conn->turn = BPS_TCP_STALLED;
	conn->turns->n_sending--;
	call_next(conn->turns);
}
