/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network by packets, as TCP and a NIC make them of messages; with
 * bps_sim_config.tcp, in place of what wire.c does with whole messages. For questions of
 * flow control: how long, how many packets lost. What a job computes is the same.
 *
 *	message -> turn -> socket -> window of TCP -> NIC -> link -> queue -> NIC ->
 * message
 *
 * Modelled after Linux: initial window of 10 packets, slow start with the exit by delay,
 * cubic, growth only of windows that are used, selective acknowledgements, loss seen by
 * three of them or by time, the probe of a lost tail, retransmission timeout of 200 ms
 * and more, delayed acknowledgements, a receive window that follows its use, restart
 * after idleness, two bursts of a connection in the NIC's queue at most, a full queue at
 * the sender that refuses and does not lose. The transport's turns are modelled too.
 *
 * Not modelled: pacing, ECN, undoing a reduction, reordering, checks of the sequence of
 * connection and end. An acknowledgement tells what the receiver had when it left, but
 * for holes below that, of which it tells what the receiver has when it arrives.
 */
#pragma once

#include "tests/sim/sim-impl.h"

struct bps_sim_flow;

/** bps_sim_flow_new() - the direction from @end to its peer. Owned by @end. */
struct bps_sim_flow *bps_sim_flow_new(struct bps_sim_end *end);
/** bps_sim_flow_free() - takes NULL; no packet of it is left. */
void bps_sim_flow_free(struct bps_sim_flow *flow);
/** bps_sim_flow_queue() - @msg, in its end's flight, goes out after those before it. */
void bps_sim_flow_queue(struct bps_sim_flow *flow, struct bps_sim_msg *msg);
/** bps_sim_net_drop_event() - @event will not happen: let go of what it holds. */
void bps_sim_net_drop_event(const struct bps_sim_event *event);
/** bps_sim_net_drop_node() - free what waits in @node's NIC. */
void bps_sim_net_drop_node(struct bps_sim_node *node);
