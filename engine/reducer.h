/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys of a summation server. A key (job, group, op, part) collects one arrival from
 * every member of its group; when the last one is there, the parts are summed in the
 * order of members, whatever the order of arrival, and everyone is answered from the one
 * sum. A broadcast's key answers each leaf from the root's slot as soon as both are
 * there, and the root when every leaf has its answer.
 *
 * Bounded: a key exists only while some member's slot is held, and a sum only while some
 * member's answer is not out, so both are bounded by the windows that were granted.
 *
 * What fails, fails its whole group: members that disagree, or one that gave up. All that
 * is there of the group is answered with the reason, and so is all that still comes.
 *
 * A state machine; it belongs to one thread.
 */
#pragma once

#include <stdint.h>

struct bps_arrival;
struct bps_reducer;
struct bps_server;
struct bps_wire_hdr;

/* The most that a key of @n members takes. */
#define BPS_KEY_BYTES(n) (256 + 8 * (uint64_t)(n))

int bps_reducer_new(struct bps_server *server, struct bps_reducer **ret_reducer);
/** bps_reducer_free() - takes NULL; keys that are left are dropped. */
void bps_reducer_free(struct bps_reducer *reducer);

/** bps_reducer_take() - one arrival: a part, a question or a purge. Consumes it. */
void bps_reducer_take(struct bps_reducer *reducer, struct bps_arrival *arrival);

/** bps_reducer_of() - the reducer, of @n, that has the key in @hdr. */
uint32_t bps_reducer_of(const struct bps_wire_hdr *hdr, uint32_t n);

/** bps_reducer_n_keys() - keys that are open now. */
uint32_t bps_reducer_n_keys(const struct bps_reducer *reducer);
