/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer that says what it likes, message by message, and remembers what it is told.
 */
#pragma once

#include "tests/sim/job.h"

struct raw {
	struct bps_sim *sim;
	struct bps_conn *conn; /* NULL when it is over */
	uint8_t job[16];
	uint32_t rank, n_ranks, slot_bytes, n_slots;
	uint32_t connection;
	uint8_t payload[1 << 16]; /* of the last message */
	struct bps_wire_hdr hdr;  /* the last message */
	uint32_t n_by_type[BPS_WIRE_N_TYPES];
	int error; /* of its end */
};

/** raw_dial() - a connection to @server from a new node; nothing is said on it yet. */
void raw_dial(struct raw *raw, struct bps_sim *sim, struct bps_sim_server *server);
/** raw_accept() - for bps_sim_connect(): @raw is a server, for one client. */
void raw_accept(void *raw, struct bps_conn *conn);
/** raw_send() - @hdr with @bytes of payload, any memory. Not if it is over. */
void raw_send(struct raw *raw, const struct bps_wire_hdr *hdr, const void *payload,
              uint32_t bytes);
/** raw_hello() - HELLO, or WELCOME, with what @raw says of itself. */
void raw_hello(struct raw *raw, uint8_t type);
/** raw_push() - a PUSH that makes sense: @bytes of float32 to be summed by two members.
 */
struct bps_wire_hdr raw_push(const struct raw *raw, uint32_t slot, uint32_t part);
/** raw_close() - if it is not over. */
void raw_close(struct raw *raw);
/** raw_settle() - let everything that is under way arrive. */
void raw_settle(struct bps_sim *sim);
