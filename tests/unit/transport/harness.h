/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of the transport share: an end of a connection that counts and checks
 * what happens to it, a loop to turn, descriptors to count.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/base/descriptors.h"
#include "transport/tcp.h"
#include "transport/transport.h"

#define END_MAX_BYTES (256u << 10)
#define END_N_SENDS   24

struct end;

struct end_send {
	struct bps_send send;
	struct end *end;
	uint8_t payload[END_MAX_BYTES];
};

/* One end of a connection. All sizes and contents follow from a message's number. */
struct end {
	struct bps_conn *conn; /* NULL once it is down or closed */
	uint32_t max_bytes;    /* of a payload; at most END_MAX_BYTES */
	uint64_t n_to_send, n_started, n_done, n_canceled;
	uint64_t n_received;
	int n_up, n_down, n_place, error;
	int place_error, message_error; /* what the events return from now on */
	bool close_in_place, close_in_message, close_in_up, close_in_done;
	bool unchecked;          /* any message will do */
	struct bps_wire_hdr hdr; /* of the last message */
	uint8_t place[END_MAX_BYTES];
	struct end_send sends[END_N_SENDS];
};

extern const struct bps_conn_events end_events;

struct end *end_new(void);
void end_free(struct end *end);
/** end_start() - keep END_N_SENDS messages under way until @n are sent. */
void end_start(struct end *end, uint64_t n, uint32_t max_bytes);
void end_close(struct end *end);

/** pump() - turn @loop until @done(@arg) or for at most @timeout_ms; which of the two. */
bool pump(struct bps_loop *loop, bool (*done)(void *arg), void *arg, unsigned timeout_ms);
/** pump_idle() - turn until nothing is left in the loop (5 s), then free it. */
void pump_idle(struct bps_loop *loop);
/** pump_for() - turn for @ms. */
void pump_for(struct bps_loop *loop, unsigned ms);

struct bps_addr loopback(int family, uint16_t port);
/** tcp_pair() - two connected TCP sockets over loopback, blocking. */
void tcp_pair(int family, int fds[2]);
/** free_port() - a TCP port of 127.0.0.1 that nobody has now. */
uint16_t free_port(void);
