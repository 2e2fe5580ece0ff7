/* SPDX-License-Identifier: BSD-3-Clause */
/* What a sender knows of its segments, and what it sends next. */
#include <stdlib.h>

#include "base/clock.h"
#include "tests/sim/net-impl.h"

#define RTO_MIN_NS   (200 * BPS_NS_PER_MS)
#define PROBE_NS     (2 * BPS_NS_PER_MS)
#define MAX_BACKOFFS 6u
#define DUPLICATES   3u

static void on_timer(void *arg);

static uint32_t in_flight(const struct bps_sim_flow *flow)
{
	return flow->out - flow->sacked - flow->lost;
}

static uint64_t rto_ns(const struct bps_sim_flow *flow)
{
	uint64_t spread_ns =
		flow->rttvar_ns * 4 > RTO_MIN_NS ? flow->rttvar_ns * 4 : RTO_MIN_NS;

	return (flow->srtt_ns + spread_ns) << flow->n_backoffs;
}

/* After its round trip a segment is missing when a later one has arrived. */
static uint64_t patience_ns(const struct bps_sim_flow *flow)
{
	return flow->srtt_ns + flow->min_rtt_ns / 4;
}

static uint64_t patience_left(struct bps_sim_flow *flow)
{
	uint64_t end_ns = bps_sim_flow_seg(flow, flow->una)->sent_ns + patience_ns(flow);
	uint64_t now_ns = flow->end->sim->now_ns;

	return end_ns > now_ns ? end_ns - now_ns : 0;
}

/* Whether the first segment is missing, or only late: its time will tell. */
static bool in_doubt(struct bps_sim_flow *flow)
{
	const struct bps_sim_seg *seg = bps_sim_flow_seg(flow, flow->una);

	return flow->state == BPS_SIM_TCP_OPEN && flow->sacked > 0 &&
	       seg->state == BPS_SIM_SEG_SENT && seg->order < flow->rack_order;
}

static void arm(struct bps_sim_flow *flow)
{
	uint64_t now_ns = flow->end->sim->now_ns, wait_ns = rto_ns(flow), probe_ns;

	if (flow->out == 0 && flow->sent_seq == flow->write_seq) {
		flow->timer.due_ns = 0;
		return;
	}
	probe_ns =
		2 * flow->srtt_ns + (flow->next - flow->una == 1 ? RTO_MIN_NS : PROBE_NS);
	if (flow->state == BPS_SIM_TCP_OPEN && flow->out > 0 && flow->sacked == 0 &&
	    !flow->probed && probe_ns < wait_ns)
		wait_ns = probe_ns;
	if (in_doubt(flow))
		wait_ns = patience_left(flow);
	bps_sim_timer_set(flow, &flow->timer, now_ns + wait_ns, on_timer);
}

/* -- sending -- */

static void grow_ring(struct bps_sim_flow *flow)
{
	struct bps_sim_seg *old = flow->segs;
	uint64_t n_old = flow->n_segs, i;

	flow->n_segs = n_old ? 2 * n_old : 16;
	flow->segs = bps_sim_must(calloc(flow->n_segs, sizeof(*flow->segs)));
	for (i = flow->una; i < flow->next; i++)
		*bps_sim_flow_seg(flow, i) = old[i & (n_old - 1)];
	free(old);
}

/* Its sender is told at once that there is no room: it is not lost, and waits. */
static void refuse(struct bps_sim_flow *flow)
{
	flow->refused = true;
	flow->end->sim->stats.n_refused++;
	if (flow->state != BPS_SIM_TCP_OPEN)
		return;
	bps_sim_cubic_lost(flow);
	flow->state = BPS_SIM_TCP_RECOVERY;
	flow->recover_until = flow->next;
}

static bool transmit(struct bps_sim_flow *flow, uint64_t number, uint64_t start_seq)
{
	struct bps_sim_seg *seg = bps_sim_flow_seg(flow, number);
	struct bps_sim *sim = flow->end->sim;

	if (!bps_sim_nic_send(flow, number, (uint32_t)(seg->end_seq - start_seq))) {
		refuse(flow);
		return false;
	}
	sim->stats.n_packets += seg->n_packets;
	seg->sent_ns = flow->last_sent_ns = sim->now_ns;
	seg->order = ++flow->order;
	seg->state = BPS_SIM_SEG_SENT;
	return true;
}

static bool send_new(struct bps_sim_flow *flow)
{
	uint64_t most =
		BPS_SIM_MSS_BYTES * (uint64_t)flow->end->sim->config.segment_packets;
	uint64_t bytes = flow->write_seq - flow->sent_seq;
	struct bps_sim_seg *seg;

	if (flow->next - flow->una == flow->n_segs)
		grow_ring(flow);
	if (bytes > most)
		bytes = most;
	seg = bps_sim_flow_seg(flow, flow->next);
	*seg = (struct bps_sim_seg){
		.end_seq = flow->sent_seq + bytes,
		.n_packets =
			(uint8_t)((bytes + BPS_SIM_MSS_BYTES - 1) / BPS_SIM_MSS_BYTES),
	};
	if (!transmit(flow, flow->next, flow->sent_seq))
		return false;
	flow->next++;
	flow->sent_seq += bytes;
	flow->out += seg->n_packets;
	if (flow->out > flow->max_out)
		flow->max_out = flow->out;
	return true;
}

static uint64_t start_of(struct bps_sim_flow *flow, uint64_t number)
{
	return number == flow->una ? flow->una_seq
	                           : bps_sim_flow_seg(flow, number - 1)->end_seq;
}

static bool resend(struct bps_sim_flow *flow, uint64_t number)
{
	struct bps_sim_seg *seg = bps_sim_flow_seg(flow, number);
	bool was_lost = seg->state == BPS_SIM_SEG_LOST;

	if (!transmit(flow, number, start_of(flow, number)))
		return false;
	if (was_lost)
		flow->lost -= seg->n_packets;
	seg->resent = true;
	flow->force = false;
	flow->end->sim->stats.n_resent += was_lost ? seg->n_packets : 1;
	return true;
}

static bool resend_first_lost(struct bps_sim_flow *flow)
{
	uint64_t i = flow->una;

	while (bps_sim_flow_seg(flow, i)->state != BPS_SIM_SEG_LOST)
		i++;
	return resend(flow, i);
}

/* After a pause a window says nothing about the network any more. */
static void restart_idle(struct bps_sim_flow *flow)
{
	uint64_t idle_ns = flow->end->sim->now_ns - flow->last_sent_ns;

	if (flow->out > 0 || flow->last_sent_ns == 0 || idle_ns <= rto_ns(flow))
		return;
	if (flow->cubic.window > 10)
		flow->cubic.window = 10;
	flow->cubic.epoch_ns = 0;
}

static bool send_one(struct bps_sim_flow *flow)
{
	bool room = in_flight(flow) < (uint32_t)flow->cubic.window;

	if (flow->nic_bytes >= 2 * bps_sim_nic_burst(flow->end->node))
		return false;
	if (flow->lost > 0)
		return (room || flow->force) && resend_first_lost(flow);
	if (flow->write_seq == flow->sent_seq ||
	    flow->sent_seq - flow->una_seq >= flow->window_bytes)
		return false;
	flow->limited = flow->limited || !room;
	return room && send_new(flow);
}

void bps_sim_flow_send(struct bps_sim_flow *flow)
{
	bool any = false;

	flow->refused = false;
	restart_idle(flow);
	while (send_one(flow))
		any = true;
	if (in_flight(flow) >= (uint32_t)flow->cubic.window)
		flow->limited = true;
	if (any || (flow->refused && flow->timer.due_ns == 0))
		arm(flow);
}

/* -- acknowledgements -- */

void bps_sim_flow_rtt(struct bps_sim_flow *flow, uint64_t rtt_ns)
{
	uint64_t off_ns =
		rtt_ns > flow->srtt_ns ? rtt_ns - flow->srtt_ns : flow->srtt_ns - rtt_ns;

	if (flow->srtt_ns == 0) {
		flow->min_rtt_ns = flow->srtt_ns = rtt_ns;
		flow->rttvar_ns = rtt_ns / 2;
		return;
	}
	if (rtt_ns < flow->min_rtt_ns)
		flow->min_rtt_ns = rtt_ns;
	flow->rttvar_ns = (3 * flow->rttvar_ns + off_ns) / 4;
	flow->srtt_ns = (7 * flow->srtt_ns + rtt_ns) / 8;
}

static void lose(struct bps_sim_flow *flow, struct bps_sim_seg *seg)
{
	seg->state = BPS_SIM_SEG_LOST;
	flow->lost += seg->n_packets;
}

/* Return: packets that are new at the receiver. @ret_rtt_ns: of the last sent, or 0. */
static uint32_t deliver(struct bps_sim_flow *flow, struct bps_sim_seg *seg,
                        uint64_t *ret_rtt_ns)
{
	if (seg->state == BPS_SIM_SEG_SACKED)
		return 0;
	if (seg->state == BPS_SIM_SEG_LOST)
		flow->lost -= seg->n_packets;
	if (seg->order > flow->rack_order)
		flow->rack_order = seg->order;
	if (!seg->resent)
		*ret_rtt_ns = flow->end->sim->now_ns - seg->sent_ns;
	return seg->n_packets;
}

static uint32_t take_ack(struct bps_sim_flow *flow, uint64_t ack, uint64_t *ret_rtt_ns)
{
	uint32_t n = 0;

	while (flow->una < ack) {
		struct bps_sim_seg *seg = bps_sim_flow_seg(flow, flow->una++);

		if (seg->state == BPS_SIM_SEG_SACKED)
			flow->sacked -= seg->n_packets;
		n += deliver(flow, seg, ret_rtt_ns);
		flow->out -= seg->n_packets;
		flow->una_seq = seg->end_seq;
	}
	return n;
}

static uint32_t take_sacks(struct bps_sim_flow *flow, uint64_t high, uint64_t *ret_rtt_ns)
{
	uint32_t n = 0;
	uint64_t i;

	for (i = flow->una; i < high; i++) {
		struct bps_sim_seg *seg = bps_sim_flow_seg(flow, i);

		if (!seg->received || seg->state == BPS_SIM_SEG_SACKED)
			continue;
		n += deliver(flow, seg, ret_rtt_ns);
		seg->state = BPS_SIM_SEG_SACKED;
		flow->sacked += seg->n_packets;
	}
	return n;
}

/* Segments are lost when others that were sent after them have arrived: three, or some
 * time ago. */
static void find_lost(struct bps_sim_flow *flow, uint64_t high)
{
	bool sure = flow->state != BPS_SIM_TCP_OPEN || flow->sacked >= DUPLICATES;
	uint64_t now_ns = flow->end->sim->now_ns, i;

	for (i = flow->una; i < high; i++) {
		struct bps_sim_seg *seg = bps_sim_flow_seg(flow, i);

		if (seg->state != BPS_SIM_SEG_SENT || seg->order >= flow->rack_order)
			continue;
		if (sure || now_ns >= seg->sent_ns + patience_ns(flow))
			lose(flow, seg);
	}
	if (flow->lost == 0 || flow->state != BPS_SIM_TCP_OPEN)
		return;
	bps_sim_cubic_lost(flow);
	flow->state = BPS_SIM_TCP_RECOVERY;
	flow->recover_until = flow->next;
	flow->force = true;
}

void bps_sim_flow_acked(struct bps_sim_flow *flow, uint64_t ack, uint64_t high)
{
	uint64_t before = flow->una, rtt_ns = 0;
	uint32_t n;

	n = take_ack(flow, ack, &rtt_ns);
	n += take_sacks(flow, high, &rtt_ns);
	if (n == 0 && flow->una == before)
		return;
	if (rtt_ns > 0)
		bps_sim_flow_rtt(flow, rtt_ns);
	if (flow->una > before) {
		flow->n_backoffs = 0;
		flow->probed = false;
	}
	if (flow->state != BPS_SIM_TCP_OPEN && flow->una >= flow->recover_until)
		flow->state = BPS_SIM_TCP_OPEN;
	bps_sim_cubic_acked(flow, n, rtt_ns);
	arm(flow);
	if (flow->sacked > 0)
		find_lost(flow, high);
	bps_sim_flow_write(flow);
}

/* -- timeouts -- */

static void time_out(struct bps_sim_flow *flow)
{
	uint64_t i;

	flow->end->sim->stats.n_timeouts++;
	if (flow->state != BPS_SIM_TCP_LOSS)
		bps_sim_cubic_lost(flow);
	flow->cubic.window = 1;
	flow->state = BPS_SIM_TCP_LOSS;
	flow->recover_until = flow->next;
	if (flow->n_backoffs < MAX_BACKOFFS)
		flow->n_backoffs++;
	for (i = flow->una; i < flow->next; i++) {
		struct bps_sim_seg *seg = bps_sim_flow_seg(flow, i);

		if (seg->state == BPS_SIM_SEG_SENT)
			lose(flow, seg);
	}
}

/* The last segment once more: its acknowledgement shows what is missing before it. */
static void probe(struct bps_sim_flow *flow)
{
	flow->probed = true;
	if (flow->write_seq == flow->sent_seq || !send_new(flow))
		resend(flow, flow->next - 1);
}

static void on_timer(void *arg)
{
	struct bps_sim_flow *flow = arg;

	if (flow->end->over || !bps_sim_timer_due(flow, &flow->timer, on_timer))
		return;
	if (in_doubt(flow))
		find_lost(flow, flow->next);
	else if (flow->state == BPS_SIM_TCP_OPEN && flow->sacked == 0 && flow->out > 0 &&
	         !flow->probed)
		probe(flow);
	else if (flow->out > 0)
		time_out(flow);
	arm(flow);
	bps_sim_flow_write(flow);
}
