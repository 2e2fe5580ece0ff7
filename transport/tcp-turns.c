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
 * slow or dead peer) does not keep the others waiting.
 *
 * It works only where the kernel takes no more than it can send soon: TCP_NOTSENT_LOWAT.
 */
#include "base/list.h"
#include "transport/tcp-conn.h"

#define MAX_SENDING 2
#define STALL_NS    (10 * BPS_NS_PER_MS)

/* Of the connections of one thread, as a connection belongs to one. */
static __thread struct {
	struct bps_list waiting; /* all zero: not used yet */
	unsigned n_sending;
} turns;

static struct bps_list *waiting(void)
{
	if (!turns.waiting.next)
		bps_list_init(&turns.waiting);
	return &turns.waiting;
}

static void begin(struct bps_tcp_conn *conn)
{
	conn->turn = BPS_TCP_SENDING;
	turns.n_sending++;
}

static void call_next(void)
{
	struct bps_list *link;

	while (turns.n_sending < MAX_SENDING && (link = bps_list_pop_front(waiting()))) {
		struct bps_tcp_conn *next =
			BPS_CONTAINER_OF(link, struct bps_tcp_conn, turn_link);

		begin(next);
		bps_defer_add(next->loop, &next->settle);
	}
}

void bps_tcp_turn_end(struct bps_tcp_conn *conn)
{
	if (conn->turn == BPS_TCP_WAITING)
		bps_list_remove(&conn->turn_link);
	if (conn->turn == BPS_TCP_SENDING)
		turns.n_sending--;
	conn->turn = BPS_TCP_IDLE;
	bps_timer_cancel(&conn->stall);
	call_next();
}

bool bps_tcp_turn(struct bps_tcp_conn *conn)
{
	if (conn->turn == BPS_TCP_IDLE) {
		if (turns.n_sending < MAX_SENDING) {
			begin(conn);
		} else {
			conn->turn = BPS_TCP_WAITING;
			bps_list_push_back(waiting(), &conn->turn_link);
		}
	}
	return conn->turn != BPS_TCP_WAITING;
}

void bps_tcp_turn_over(struct bps_tcp_conn *conn)
{
	bps_timer_cancel(&conn->stall);
	if (conn->turn == BPS_TCP_STALLED || !bps_list_empty(waiting()))
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
	turns.n_sending--;
	call_next();
}
