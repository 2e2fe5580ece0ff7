/* SPDX-License-Identifier: BSD-3-Clause */
/* NICs, their queues, packets, and what a receiver does with them. */
#include "tests/sim/net.h"

#include <stdlib.h>

#include "base/clock.h"
#include "tests/sim/net-impl.h"

#define ACK_EVERY          2u
#define ACK_DELAY_NS       (40 * BPS_NS_PER_MS)
#define FIRST_WINDOW_BYTES 65536u
/* What a connection hands to its NIC as one, unless that takes less. */
#define MAX_BURST_BYTES 65536u

/* -- timers -- */

void bps_sim_timer_set(struct bps_sim_flow *flow, struct bps_sim_timer *timer,
                       uint64_t at_ns, void (*fn)(void *flow))
{
	timer->due_ns = at_ns;
	if (timer->event_ns != 0 && timer->event_ns <= at_ns)
		return;
	timer->event_ns = at_ns;
	bps_sim_at(flow->end->sim, NULL, at_ns, fn, flow);
}

bool bps_sim_timer_due(struct bps_sim_flow *flow, struct bps_sim_timer *timer,
                       void (*fn)(void *flow))
{
	uint64_t now_ns = flow->end->sim->now_ns;

	if (timer->event_ns <= now_ns)
		timer->event_ns = 0;
	if (timer->due_ns == 0)
		return false;
	if (timer->due_ns > now_ns) {
		bps_sim_timer_set(flow, timer, timer->due_ns, fn);
		return false;
	}
	timer->due_ns = 0;
	return true;
}

/* -- the receiver -- */

static void on_ack_timer(void *arg);

/* What goes back to its sender, with data or alone. */
static void fill_ack(struct bps_sim_packet *packet)
{
	struct bps_sim_flow *other = packet->from->peer->flow;

	packet->ack = other->rcv_next;
	packet->high = other->high;
	other->n_unacked = 0;
	other->ack_timer.due_ns = 0;
}

static void send_ack(struct bps_sim_flow *flow)
{
	if (!flow->end->over)
		bps_sim_nic_send(flow->end->peer->flow, BPS_SIM_NO_SEG, 0);
}

static void on_ack_timer(void *arg)
{
	struct bps_sim_flow *flow = arg;

	if (bps_sim_timer_due(flow, &flow->ack_timer, on_ack_timer))
		send_ack(flow);
}

/* Twice of what is read in a round trip. */
static void grow_window(struct bps_sim_flow *flow)
{
	uint64_t now_ns = flow->end->sim->now_ns;
	uint64_t bytes = flow->rcv_seq - flow->window_seq;

	if (now_ns - flow->window_ns < flow->min_rtt_ns)
		return;
	if (2 * bytes > flow->window_bytes)
		flow->window_bytes = 2 * bytes;
	flow->window_ns = now_ns;
	flow->window_seq = flow->rcv_seq;
}

static void acknowledge(struct bps_sim_flow *flow, uint32_t n_packets, bool at_once)
{
	flow->n_unacked += n_packets;
	if (at_once || flow->n_unacked >= ACK_EVERY)
		send_ack(flow);
	else
		bps_sim_timer_set(flow, &flow->ack_timer,
		                  flow->end->sim->now_ns + ACK_DELAY_NS, on_ack_timer);
}

static void whole_messages(struct bps_sim_flow *flow)
{
	struct bps_sim_msg *msg;

	BPS_LIST_FOREACH(msg, &flow->end->flight, link)
	{
		if (msg->end_seq == 0 || msg->end_seq > flow->rcv_seq)
			return;
		if (!msg->complete) {
			msg->complete = true;
			bps_sim_msg_here(msg);
		}
	}
}

static void receive(struct bps_sim_flow *flow, uint64_t number)
{
	struct bps_sim_seg *seg = bps_sim_flow_seg(flow, number);
	bool in_order = number == flow->rcv_next;

	if (number < flow->rcv_next || seg->received) {
		acknowledge(flow, 0, true);
		return;
	}
	seg->received = true;
	if (number >= flow->high)
		flow->high = number + 1;
	while (flow->rcv_next < flow->high &&
	       bps_sim_flow_seg(flow, flow->rcv_next)->received)
		flow->rcv_seq = bps_sim_flow_seg(flow, flow->rcv_next++)->end_seq;
	grow_window(flow);
	acknowledge(flow, seg->n_packets, !in_order || flow->high > number + 1);
	whole_messages(flow);
}

/* -- NICs and the queue before them -- */

static uint64_t wire_ns(const struct bps_sim_node *node, uint64_t bytes)
{
	return node->nic.bits_per_s ? bytes * 8 * BPS_NS_PER_S / node->nic.bits_per_s : 0;
}

/* When @bytes that come at @at_ns are through a NIC that is busy until @free_ns. */
static uint64_t through(const struct bps_sim_node *node, uint64_t free_ns, uint64_t at_ns,
                        uint64_t bytes)
{
	uint64_t burst_ns = wire_ns(node, node->nic.burst_bytes);
	uint64_t full_ns = at_ns > burst_ns ? at_ns - burst_ns : 0;

	return (free_ns > full_ns ? free_ns : full_ns) + wire_ns(node, bytes);
}

uint64_t bps_sim_nic_burst(const struct bps_sim_node *node)
{
	uint64_t bytes = node->nic.burst_bytes;

	if (bytes == 0 || bytes > MAX_BURST_BYTES)
		return MAX_BURST_BYTES;
	return bytes < 2 * BPS_SIM_MSS_BYTES ? 2 * BPS_SIM_MSS_BYTES : bytes;
}

static void on_arrived(void *arg)
{
	struct bps_sim_packet *packet = arg;
	struct bps_sim_end *from = packet->from, *to = from->peer;

	if (!from->node->crashed && !to->node->crashed) {
		if (!to->over)
			bps_sim_flow_acked(to->flow, packet->ack, packet->high);
		if (packet->seg != BPS_SIM_NO_SEG && !from->over)
			receive(from->flow, packet->seg);
	}
	free(packet);
}

/* Everything on a link takes as long, so packets queue in the order in which they left.
 */
static void cross(struct bps_sim_packet *packet)
{
	struct bps_sim_node *to = packet->from->peer->node;
	struct bps_sim *sim = to->sim;
	uint64_t there_ns = sim->now_ns + sim->config.delay_ns;
	uint64_t free_ns = through(to, to->in_free_ns, there_ns, packet->bytes);

	if (packet->from->node->silent || to->silent ||
	    (to->nic.queue_bytes > 0 &&
	     free_ns > there_ns + wire_ns(to, to->nic.queue_bytes))) {
		sim->stats.n_lost++;
		free(packet);
		return;
	}
	to->in_free_ns = free_ns;
	bps_sim_at(sim, NULL, free_ns > there_ns ? free_ns : there_ns, on_arrived,
	           packet);
}

static void on_left(void *arg);

static void start_next(struct bps_sim_node *node)
{
	const struct bps_sim_packet *packet = node->out_first;

	if (!packet)
		return;
	node->out_free_ns =
		through(node, node->out_free_ns, node->sim->now_ns, packet->bytes);
	bps_sim_at(node->sim, NULL, node->out_free_ns, on_left, node);
}

static void on_left(void *arg)
{
	struct bps_sim_node *node = arg;
	struct bps_sim_packet *packet = node->out_first;
	struct bps_sim_flow *flow = packet->from->flow;

	node->out_first = packet->next;
	node->out_bytes -= packet->bytes;
	node->sim->stats.n_bytes += packet->bytes;
	start_next(node);
	flow->nic_bytes -= packet->bytes;
	cross(packet);
	if (!flow->end->over)
		bps_sim_flow_write(flow);
}

bool bps_sim_nic_send(struct bps_sim_flow *flow, uint64_t seg, uint32_t bytes)
{
	struct bps_sim_node *node = flow->end->node;
	uint32_t n_headers = (bytes + BPS_SIM_MSS_BYTES - 1) / BPS_SIM_MSS_BYTES;
	uint32_t whole = bytes + BPS_SIM_HEADERS_BYTES * (n_headers ? n_headers : 1);
	uint64_t most = node->nic.out_queue_bytes;
	struct bps_sim_packet *packet;

	if (most > 0 && node->out_bytes + whole > most + bps_sim_nic_burst(node))
		return false;
	packet = bps_sim_must(calloc(1, sizeof(*packet)));
	packet->from = flow->end;
	packet->seg = seg;
	packet->bytes = whole;
	fill_ack(packet);
	flow->nic_bytes += whole;
	node->out_bytes += whole;
	if (node->out_first)
		node->out_last->next = packet;
	else
		node->out_first = packet;
	node->out_last = packet;
	if (node->out_first == packet)
		start_next(node);
	return true;
}

/* -- life -- */

/* What a connection knows of the round trip before it carries data. */
static uint64_t handshake_ns(const struct bps_sim_end *end)
{
	return 2 *
	       (end->sim->config.delay_ns + wire_ns(end->node, BPS_SIM_HEADERS_BYTES) +
	        wire_ns(end->peer->node, BPS_SIM_HEADERS_BYTES));
}

struct bps_sim_flow *bps_sim_flow_new(struct bps_sim_end *end)
{
	struct bps_sim_flow *flow = bps_sim_must(calloc(1, sizeof(*flow)));

	flow->end = end;
	flow->window_bytes = FIRST_WINDOW_BYTES;
	bps_list_init(&flow->turn_link);
	bps_sim_cubic_start(&flow->cubic);
	bps_sim_flow_rtt(flow, handshake_ns(end));
	return flow;
}

void bps_sim_flow_free(struct bps_sim_flow *flow)
{
	if (flow)
		free(flow->segs);
	free(flow);
}

void bps_sim_net_drop_event(const struct bps_sim_event *event)
{
	if (event->fn == on_arrived)
		free(event->arg);
}

void bps_sim_net_drop_node(struct bps_sim_node *node)
{
	struct bps_sim_packet *packet;

	while ((packet = node->out_first)) {
		node->out_first = packet->next;
		free(packet);
	}
}
