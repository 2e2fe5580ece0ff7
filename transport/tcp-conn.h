/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP connection from the inside, for the files tcp*.c alone. It belongs to the thread
 * of its loop.
 *
 *	DIALING -> UP -> FLUSHING -> DRAINING -> DEAD
 *
 * The owner's interest and the socket's life end apart: `closed` is set when the owner
 * closed the connection or was told that it is down, and no event follows; DEAD has no
 * socket any more. What ends for the owner ends in one place, the deferred function at
 * the end of the turn: done() of what is queued, then down(), then, when DEAD, the
 * memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "transport/tcp.h"

#define BPS_TCP_RX_BYTES 4096u
/* A connection moves about this much each way in a turn, then others have theirs. */
#define BPS_TCP_TURN_BYTES (256u << 10)
#define BPS_TCP_CLOSE_NS   (2 * BPS_NS_PER_S)

enum bps_tcp_state {
	BPS_TCP_DIALING,
	BPS_TCP_UP,
	BPS_TCP_FLUSHING, /* the owner has closed; the queue still goes out */
	BPS_TCP_DRAINING, /* we have ended our side, and wait for the peer's end */
	BPS_TCP_DEAD,
};

/* Of a connection that has something to send; see tcp-turns.c. */
enum bps_tcp_turn {
	BPS_TCP_IDLE,    /* it has nothing, or has not asked */
	BPS_TCP_WAITING, /* for its turn */
	BPS_TCP_SENDING,
	BPS_TCP_STALLED, /* sending, but too slowly to be counted */
};

/* What the next received byte belongs to. */
enum bps_tcp_rx { BPS_TCP_RX_HEADER, BPS_TCP_RX_SKIP, BPS_TCP_RX_PAYLOAD };

struct bps_tcp_dialing; /* tcp-dial.c's */
struct bps_tcp_turns;   /* tcp-turns.c's */

struct bps_tcp_conn {
	struct bps_conn base;
	struct bps_loop *loop;
	enum bps_tcp_state state;
	bool closed;
	bool dialed;
	bool eof;  /* the peer has ended its side; seen while FLUSHING */
	int error; /* for down() */
	int fd;    /* -1: none */
	struct bps_watch watch;
	struct bps_timer timer; /* an attempt, the first message, or the end */
	struct bps_defer settle;
	struct bps_tcp_dialing *dialing; /* owned; NULL once it is up */

	struct bps_list queue;       /* of struct bps_send */
	size_t sent_bytes;           /* of the first in the queue, header included */
	struct bps_tcp_turns *turns; /* of its card, once it is up; borrowed */
	enum bps_tcp_turn turn;
	struct bps_list turn_link;
	struct bps_timer stall;

	enum bps_tcp_rx rx;
	uint64_t n_messages;     /* received */
	struct bps_wire_hdr hdr; /* of the message that is being received */
	uint32_t hdr_bytes;      /* as its sender wrote it */
	uint32_t skip_bytes;     /* what is left of that, already read or unknown */
	uint32_t left_bytes;     /* of the payload */
	uint8_t *dst;            /* where they go */
	uint32_t head, tail;     /* what is buffered; 0, 0 while in a payload */
	uint8_t buf[BPS_TCP_RX_BYTES];
};

/** bps_tcp_conn_new() - without a socket, DIALING. Owned by the caller until its end. */
int bps_tcp_conn_new(struct bps_loop *loop, const struct bps_conn_events *events,
                     void *owner, struct bps_tcp_conn **ret_conn);
/** bps_tcp_conn_attach() - take over @fd and watch it. Consumes @fd, on failure too. */
int bps_tcp_conn_attach(struct bps_tcp_conn *conn, int fd, uint32_t wanted);
/** bps_tcp_conn_detach() - close the socket, if there is one. */
void bps_tcp_conn_detach(struct bps_tcp_conn *conn);
/** bps_tcp_conn_up() - the socket is connected: messages may flow. */
void bps_tcp_conn_up(struct bps_tcp_conn *conn);
/**
 * bps_tcp_conn_fail() - end it at once; the owner hears @error (0: in order) at the end
 * of the turn, unless there was an error before.
 */
void bps_tcp_conn_fail(struct bps_tcp_conn *conn, int error);
/** bps_tcp_conn_drain() - end our side, and wait for the peer's end. */
void bps_tcp_conn_drain(struct bps_tcp_conn *conn);

/** bps_tcp_count() - bps_conn_count() of a connection over TCP. */
void bps_tcp_count(const struct bps_conn *base, struct bps_conn_counts *ret_counts);

/** bps_tcp_ends() - bps_conn_ends() of a connection over TCP. */
int bps_tcp_ends(const struct bps_conn *base, struct bps_addr *ret_here,
                 struct bps_addr *ret_there);

/** bps_tcp_turns_join() - it is connected: it takes turns with those of its card. */
void bps_tcp_turns_join(struct bps_tcp_conn *conn);
/** bps_tcp_turns_leave() - it is over. Idempotent. */
void bps_tcp_turns_leave(struct bps_tcp_conn *conn);
/** bps_tcp_turn() - ask for a turn; whether @conn may send now. */
bool bps_tcp_turn(struct bps_tcp_conn *conn);
/** bps_tcp_turn_over() - a message is out: others go first, if there are any. */
void bps_tcp_turn_over(struct bps_tcp_conn *conn);
/** bps_tcp_turn_end() - it has nothing to send any more, or is over. Idempotent. */
void bps_tcp_turn_end(struct bps_tcp_conn *conn);
/** bps_tcp_turn_blocked() - the kernel takes no more for now. */
void bps_tcp_turn_blocked(struct bps_tcp_conn *conn);
/** bps_tcp_turn_stalled() - the timer of bps_tcp_turn_blocked(). */
void bps_tcp_turn_stalled(struct bps_timer *timer);

/** bps_tcp_receive() - UP: take what is there to the owner. */
void bps_tcp_receive(struct bps_tcp_conn *conn);
/**
 * bps_tcp_discard() - FLUSHING, DRAINING: nobody wants it any more; read so that the peer
 * can write on, and come to its end.
 */
void bps_tcp_discard(struct bps_tcp_conn *conn);

/** bps_tcp_dial_ready() - the attempt has come out. */
void bps_tcp_dial_ready(struct bps_tcp_conn *conn);
/** bps_tcp_dial_timer() - the attempt took too long, or it is time for another. */
void bps_tcp_dial_timer(struct bps_tcp_conn *conn);
/** bps_tcp_is_self() - whether @fd is connected to itself, as two ephemeral ports can. */
bool bps_tcp_is_self(int fd);

/**
 * bps_tcp_reject() - the header at conn->buf + conn->head is not acceptable: say so, tell
 * a peer of another version (conn->hdr.version), end the connection.
 * @reason: what bps_wire_decode() returned
 */
void bps_tcp_reject(struct bps_tcp_conn *conn, int reason);
/** bps_tcp_reject_silent() - no whole message came in time. */
void bps_tcp_reject_silent(struct bps_tcp_conn *conn);
