/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the transport writes to its sockets, and whose turn it is: as transport/tcp.c and
 * tcp-turns.c do it, which see.
 */
#include "base/clock.h"
#include "tests/sim/net-impl.h"

#define UNSENT_BYTES 8192u
#define SMALL_BYTES  1024u
#define STALL_NS     (10 * BPS_NS_PER_MS)

/* A node's servers and its members have threads of their own. */
static struct bps_sim_turns *turns_of(struct bps_sim_flow *flow)
{
	return &flow->end->node->turns[flow->end->accept ? 1 : 0];
}

static void on_called(void *arg)
{
	struct bps_sim_flow *flow = arg;

	if (!flow->end->over)
		bps_sim_flow_write(flow);
}

static bool may_start(const struct bps_sim_turns *turns, const struct bps_sim *sim)
{
	return turns->n_sending < sim->config.n_turns;
}

static void call_next(struct bps_sim_turns *turns, struct bps_sim *sim)
{
	while (may_start(turns, sim) && !bps_list_empty(&turns->waiting)) {
		struct bps_sim_flow *flow =
			BPS_CONTAINER_OF(bps_list_pop_front(&turns->waiting),
		                         struct bps_sim_flow, turn_link);

		flow->turn = BPS_SIM_SENDING;
		turns->n_sending++;
		bps_sim_at(sim, flow->end->node, sim->now_ns, on_called, flow);
	}
}

static bool take_turn(struct bps_sim_flow *flow)
{
	struct bps_sim_turns *turns = turns_of(flow);

	if (flow->turn == BPS_SIM_IDLE && may_start(turns, flow->end->sim)) {
		flow->turn = BPS_SIM_SENDING;
		turns->n_sending++;
	} else if (flow->turn == BPS_SIM_IDLE) {
		flow->turn = BPS_SIM_WAITING;
		bps_list_push_back(&turns->waiting, &flow->turn_link);
	}
	return flow->turn != BPS_SIM_WAITING;
}

static void end_turn(struct bps_sim_flow *flow)
{
	struct bps_sim_turns *turns = turns_of(flow);

	if (flow->turn == BPS_SIM_WAITING)
		bps_list_remove(&flow->turn_link);
	if (flow->turn == BPS_SIM_SENDING)
		turns->n_sending--;
	flow->turn = BPS_SIM_IDLE;
	flow->stall_ns = 0;
	call_next(turns, flow->end->sim);
}

static void on_stalled(void *arg)
{
	struct bps_sim_flow *flow = arg;
	struct bps_sim_turns *turns = turns_of(flow);

	if (flow->stall_ns == 0 || flow->stall_ns > flow->end->sim->now_ns ||
	    flow->turn != BPS_SIM_SENDING)
		return;
	flow->turn = BPS_SIM_STALLED;
	turns->n_sending--;
	call_next(turns, flow->end->sim);
}

static void blocked(struct bps_sim_flow *flow)
{
	struct bps_sim *sim = flow->end->sim;

	if (flow->turn != BPS_SIM_SENDING || flow->stall_ns > 0)
		return;
	flow->stall_ns = sim->now_ns + STALL_NS;
	bps_sim_at(sim, flow->end->node, flow->stall_ns, on_stalled, flow);
}

/* The first that is not wholly in the socket, or NULL. */
static struct bps_sim_msg *first_unwritten(struct bps_sim_flow *flow)
{
	struct bps_sim_msg *msg;

	if (flow->write_seq == flow->queue_seq)
		return NULL;
	BPS_LIST_FOREACH(msg, &flow->end->flight, link)
	{
		if (msg->end_seq > flow->write_seq)
			return msg;
	}
	return NULL;
}

/* Return: whether the socket took something. */
static bool write_some(struct bps_sim_flow *flow)
{
	struct bps_sim_msg *msg = first_unwritten(flow);
	uint64_t burst = bps_sim_nic_burst(flow->end->node), bytes;
	bool small = msg && msg->hdr.payload_bytes <= SMALL_BYTES;

	if (!msg || (!small && !take_turn(flow)))
		return false;
	if (flow->write_seq - flow->sent_seq >= UNSENT_BYTES) {
		blocked(flow);
		return false;
	}
	bytes = msg->end_seq - flow->write_seq;
	flow->write_seq += bytes < burst ? bytes : burst;
	if (flow->write_seq == msg->end_seq) {
		bps_sim_msg_sent(msg);
		flow->stall_ns = 0;
		if (!small && (flow->turn == BPS_SIM_STALLED ||
		               !bps_list_empty(&turns_of(flow)->waiting)))
			end_turn(flow);
	}
	return true;
}

void bps_sim_flow_write(struct bps_sim_flow *flow)
{
	bps_sim_flow_send(flow);
	while (write_some(flow))
		bps_sim_flow_send(flow);
	if (flow->write_seq == flow->queue_seq && flow->turn != BPS_SIM_IDLE)
		end_turn(flow);
}

void bps_sim_flow_queue(struct bps_sim_flow *flow, struct bps_sim_msg *msg)
{
	uint32_t bytes =
		msg->fin ? 1 : bps_wire_hdr_bytes(&msg->hdr) + msg->hdr.payload_bytes;

	flow->queue_seq += bytes;
	msg->end_seq = flow->queue_seq;
	bps_sim_flow_write(flow);
}
