/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/sim-impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/sim/net-impl.h"
#include "tests/sim/net.h"

/* How long the owner of a connection that was closed waits for its last messages. */
#define CLOSE_NS (5 * BPS_NS_PER_S)
/* How long a connection is tried. */
#define DIAL_NS (10 * BPS_NS_PER_S)
/* Bytes of a payload's packets on the wire but what they carry. */
#define OVERHEAD_BYTES(payload) (66 + (payload) / 1448 * 66)

static bool chance(struct bps_sim *sim, uint32_t ppm)
{
	return ppm > 0 && bps_prng_below(&sim->prng, 1000000) < ppm;
}

/* -- messages -- */

static void note(const struct bps_sim_msg *msg, const char *what)
{
	static const char *const types[] = { "FIN",  "HELLO",  "WELCOME", "REFUSE",
		                             "PUSH", "ANSWER", "ERROR",   "PING",
		                             "PONG", "BYE",    "LOST" };
	const struct bps_wire_hdr *hdr = &msg->hdr;
	struct bps_sim *sim = msg->from->sim;

	bps_sim_mix(sim, (uint64_t)what[0] << 56 ^ (uint64_t)msg->from->number << 24 ^
	                         (uint64_t)hdr->slot << 8 ^ hdr->type);
	bps_sim_mix(sim, hdr->group << 40 ^ hdr->op << 20 ^ hdr->part);
	if (sim->config.trace)
		bps_sim_trace(sim,
		              "%-8s n%u>n%u c%u %s slot %u group %llu op %llu part %u "
		              "member %u, %u bytes",
		              what, msg->from->node->number,
		              msg->from->peer->node->number, msg->from->number,
		              types[hdr->type < BPS_WIRE_N_TYPES ? hdr->type : 0],
		              hdr->slot, (unsigned long long)hdr->group,
		              (unsigned long long)hdr->op, hdr->part, hdr->member,
		              hdr->payload_bytes);
}

static void msg_unref(struct bps_sim_msg *msg)
{
	if (--msg->refs > 0)
		return;
	free(msg->bytes);
	free(msg);
}

static void msg_at(struct bps_sim_msg *msg, struct bps_sim_node *node, uint64_t at_ns,
                   void (*fn)(void *arg))
{
	msg->refs++;
	bps_sim_at(msg->from->sim, node, at_ns, fn, msg);
}

/* Whether its payload is more than a size. */
static bool is_moved(const struct bps_sim_msg *msg)
{
	return !msg->from->sim->config.no_bytes ||
	       (msg->hdr.type != BPS_WIRE_PUSH && msg->hdr.type != BPS_WIRE_ANSWER);
}

/* Give it back to its owner; its bytes are read as late as a transport may. */
static void msg_done(struct bps_sim_msg *msg, int error)
{
	struct bps_send *send = msg->send;
	uint32_t bytes = msg->hdr.payload_bytes;

	if (!send)
		return;
	if (error == 0 && bytes > 0 && is_moved(msg)) {
		msg->bytes = bps_sim_must(malloc(bytes));
		memcpy(msg->bytes, send->payload, bytes);
	}
	if (memcmp(&send->hdr, &msg->hdr, sizeof(msg->hdr)) != 0)
		bps_sim_misuse("a message changed before it was done");
	msg->send = NULL;
	note(msg, error ? "canceled" : "done");
	send->done(send, error);
}

static uint64_t wire_ns(const struct bps_sim_node *node, uint64_t bytes)
{
	if (node->nic.bits_per_s == 0)
		return 0;
	return bytes * 8 * BPS_NS_PER_S / node->nic.bits_per_s;
}

static uint64_t msg_bytes(const struct bps_sim_msg *msg)
{
	return bps_wire_hdr_bytes(&msg->hdr) + msg->hdr.payload_bytes +
	       OVERHEAD_BYTES(msg->hdr.payload_bytes);
}

/* Whether nothing gets from @end to its peer. */
static bool cut_off(const struct bps_sim_end *end)
{
	const struct bps_sim_node *from = end->node, *to = end->peer->node;

	return from->silent || to->silent || from->crashed || to->crashed;
}

static void end_deliver(struct bps_sim_end *end);
static void msg_depart(struct bps_sim_msg *msg);

static void msg_again(void *arg)
{
	struct bps_sim_msg *msg = arg;

	if (!msg->from->over)
		msg_depart(msg);
	msg_unref(msg);
}

static void msg_lose(struct bps_sim_msg *msg)
{
	struct bps_sim *sim = msg->from->sim;
	uint32_t shift = msg->n_tries < 5 ? msg->n_tries : 5;

	msg->n_tries++;
	sim->stats.n_lost++;
	note(msg, "lost");
	msg_at(msg, NULL, sim->now_ns + (sim->config.rto_ns << shift), msg_again);
}

static void msg_complete(void *arg)
{
	struct bps_sim_msg *msg = arg;
	struct bps_sim_end *from = msg->from;

	if (!from->over && cut_off(from)) {
		msg_lose(msg);
	} else {
		msg->arrived = true;
		end_deliver(from);
	}
	msg_unref(msg);
}

static bool queue_full(const struct bps_sim_node *node, uint64_t now_ns, uint64_t bytes)
{
	double waiting;

	if (node->nic.queue_bytes == 0 || node->in_free_ns <= now_ns)
		return false;
	waiting = (double)(node->in_free_ns - now_ns) * 1e-9 *
	          (double)node->nic.bits_per_s / 8;
	return waiting + (double)bytes > (double)node->nic.queue_bytes;
}

/* Its first byte is at its receiver's NIC. */
static void msg_arrive(void *arg)
{
	struct bps_sim_msg *msg = arg;
	struct bps_sim_end *from = msg->from, *to = from->peer;
	struct bps_sim *sim = from->sim;
	uint64_t start_ns, end_ns, bytes = msg_bytes(msg);

	if (from->over) {
		msg_unref(msg);
		return;
	}
	if (from->node->silent || to->node->silent || to->node->crashed ||
	    (from->node != to->node && (chance(sim, sim->config.loss_ppm) ||
	                                queue_full(to->node, sim->now_ns, bytes)))) {
		msg_lose(msg);
		msg_unref(msg);
		return;
	}
	start_ns = sim->now_ns;
	end_ns = msg->sent_ns;
	if (from->node != to->node) {
		if (to->node->in_free_ns > start_ns)
			start_ns = to->node->in_free_ns;
		to->node->in_free_ns = start_ns + wire_ns(to->node, bytes);
		if (to->node->in_free_ns > end_ns)
			end_ns = to->node->in_free_ns;
	}
	msg_at(msg, NULL, end_ns, msg_complete);
	msg_unref(msg);
}

static void msg_early_done(void *arg)
{
	struct bps_sim_msg *msg = arg;

	msg_done(msg, 0);
	msg_unref(msg);
}

/* It leaves through its sender's NIC; its last byte arrives a link's delay later. */
static void msg_depart(struct bps_sim_msg *msg)
{
	struct bps_sim_end *from = msg->from;
	struct bps_sim *sim = from->sim;
	struct bps_sim_node *node = from->node;
	uint64_t start_ns = sim->now_ns, flight_ns = 0, wire = 0;

	if (from->flow) {
		bps_sim_flow_queue(from->flow, msg);
		return;
	}
	if (node != from->peer->node) {
		if (node->out_free_ns > start_ns)
			start_ns = node->out_free_ns;
		wire = wire_ns(node, msg_bytes(msg));
		node->out_free_ns = start_ns + wire;
		flight_ns =
			sim->config.delay_ns + bps_sim_up_to(sim, sim->config.jitter_ns);
	}
	sim->stats.n_bytes += msg_bytes(msg);
	if (!msg->late)
		msg_at(msg, NULL, start_ns + bps_sim_up_to(sim, wire), msg_early_done);
	msg->sent_ns = start_ns + wire + flight_ns;
	msg_at(msg, NULL, start_ns + flight_ns, msg_arrive);
}

/* -- with packets -- */

void bps_sim_msg_sent(struct bps_sim_msg *msg)
{
	if (!msg->late)
		msg_at(msg, NULL, msg->from->sim->now_ns, msg_early_done);
}

static void msg_read(void *arg)
{
	struct bps_sim_msg *msg = arg;

	msg->arrived = true;
	end_deliver(msg->from);
	msg_unref(msg);
}

void bps_sim_msg_here(struct bps_sim_msg *msg)
{
	struct bps_sim *sim = msg->from->sim;

	msg_at(msg, NULL, sim->now_ns + bps_sim_up_to(sim, sim->config.jitter_ns),
	       msg_read);
}

/* What a message costs the node that sends or takes it. */
static void charge_message(struct bps_sim *sim, uint32_t bytes)
{
	bps_sim_charge(sim, sim->config.message_ns + bytes * sim->config.kib_ns / 1024);
}

/* -- connections -- */

static void dead_send(struct bps_conn *conn, struct bps_send *send)
{
	(void)conn;
	(void)send;
	bps_sim_misuse("a connection that is over was sent to");
}

static void dead_close(struct bps_conn *conn)
{
	(void)conn;
	bps_sim_misuse("a connection that is over was closed");
}

static const struct bps_conn_ops dead_ops = { .send = dead_send, .close = dead_close };

/* Give back what is in flight; nothing of it arrives any more. */
static void end_cancel(struct bps_sim_end *end)
{
	struct bps_list *link;

	while ((link = bps_list_pop_front(&end->flight))) {
		struct bps_sim_msg *msg =
			BPS_CONTAINER_OF(link, struct bps_sim_msg, link);

		msg_done(msg, -ECANCELED);
		msg_unref(msg);
	}
}

/* The end of @end, if it is not over yet. */
void bps_sim_end_down(struct bps_sim_end *end, int error)
{
	bool late = bps_sim_up_to(end->sim, 1) == 1;

	if (end->over)
		return;
	end->over = true;
	bps_sim_trace(end->sim, "down     n%u c%u: %s", end->node->number, end->number,
	              strerror(-error));
	bps_sim_mix(end->sim, (uint64_t)end->number << 32 ^ (uint64_t)-error);
	if (!late)
		end_cancel(end);
	end->conn.ops = &dead_ops;
	if (!end->closed && end->conn.events)
		end->conn.events->down(end->conn.owner, error);
	end->closed = true;
	end_cancel(end);
}

static void end_reset(void *arg)
{
	struct bps_sim_end *end = arg;

	bps_sim_end_down(end, end->error);
}

/* It failed at this end; the other one is told by a reset. */
static void end_fail(struct bps_sim_end *end, int error)
{
	struct bps_sim *sim = end->sim;

	end->peer->error = -ECONNRESET;
	bps_sim_at(sim, NULL, sim->now_ns + sim->config.delay_ns, end_reset, end->peer);
	bps_sim_end_down(end, error);
}

/* What the wire leaves of a header; what it would not carry comes to the owner whole. */
static struct bps_wire_hdr received(const struct bps_sim_msg *msg)
{
	uint8_t buf[BPS_WIRE_FULL_HDR];
	uint32_t n_bytes = bps_wire_encode(&msg->hdr, buf);
	struct bps_wire_hdr hdr;

	return bps_wire_decode(buf, n_bytes, &hdr, &n_bytes) == 0 ? hdr : msg->hdr;
}

/* The header, and the payload unless it comes later. Return: whether @msg is whole. */
static bool msg_place(struct bps_sim_msg *msg, struct bps_sim_end *to)
{
	struct bps_sim *sim = to->sim;
	struct bps_wire_hdr hdr = received(msg);
	int r;

	if (hdr.payload_bytes == 0 || msg->placed)
		return true;
	r = to->conn.events->place(to->conn.owner, &hdr, &msg->dst);
	if (r < 0) {
		end_fail(to, r);
		return false;
	}
	msg->placed = true;
	if (bps_prng_below(&sim->prng, 100) >= sim->config.split_percent)
		return true;
	msg->arrived = false;
	msg_at(msg, NULL, sim->now_ns + bps_sim_up_to(sim, sim->config.jitter_ns),
	       msg_complete);
	return false;
}

static void msg_take(struct bps_sim_msg *msg, struct bps_sim_end *to)
{
	struct bps_wire_hdr hdr = received(msg);
	uint32_t bytes = hdr.payload_bytes;
	int r;

	msg_done(msg, 0);
	if (bytes > 0 && msg->bytes)
		memcpy(msg->dst, msg->bytes, bytes);
	to->sim->stats.n_messages++;
	note(msg, "arrives");
	charge_message(to->sim, bytes);
	r = to->conn.events->message(to->conn.owner, &hdr);
	if (r < 0 && !to->closed)
		end_fail(to, r);
}

static void deliver_later(void *arg)
{
	struct bps_sim_msg *msg = arg;

	end_deliver(msg->from);
	msg_unref(msg);
}

/* Return: whether the next one may follow. @msg is out of the flight then. */
static bool msg_deliver(struct bps_sim_msg *msg)
{
	struct bps_sim_end *from = msg->from, *to = from->peer;
	struct bps_sim_node *node = to->node;

	if (node->stalled_ns > to->sim->now_ns) {
		msg_at(msg, NULL, node->stalled_ns, deliver_later);
		return false;
	}
	if (!to->over && !to->closed && !msg->fin && !msg_place(msg, to))
		return false;
	bps_list_remove(&msg->link);
	to->sim->current = node;
	if (msg->fin)
		bps_sim_end_down(to, 0);
	else if (!to->over && !to->closed)
		msg_take(msg, to);
	else
		msg_done(msg, 0);
	if (msg->fin) {
		from->over = true;
		end_cancel(from);
	}
	to->sim->current = NULL;
	msg_unref(msg);
	return true;
}

/* What has arrived of @end's messages, in order. */
static void end_deliver(struct bps_sim_end *end)
{
	while (!bps_list_empty(&end->flight)) {
		struct bps_sim_msg *msg =
			BPS_CONTAINER_OF(end->flight.next, struct bps_sim_msg, link);

		if (!msg->arrived || !msg_deliver(msg))
			return;
	}
}

static struct bps_sim_msg *msg_new(struct bps_sim_end *end, struct bps_send *send)
{
	struct bps_sim_msg *msg = bps_sim_must(calloc(1, sizeof(*msg)));

	msg->from = end;
	msg->refs = 1;
	msg->send = send;
	msg->fin = send == NULL;
	if (send)
		memcpy(&msg->hdr, &send->hdr, sizeof(msg->hdr));
	msg->late = bps_sim_up_to(end->sim, 1) == 1;
	bps_list_push_back(&end->flight, &msg->link);
	return msg;
}

static void leave_queue(void *arg)
{
	struct bps_sim_msg *msg = arg;

	if (!msg->from->over)
		msg_depart(msg);
	msg_unref(msg);
}

/* Not before the work that led to it is done. */
static void end_queue(struct bps_sim_end *end, struct bps_send *send)
{
	struct bps_sim_msg *msg = msg_new(end, send);
	struct bps_sim *sim = end->sim;

	if (!end->up)
		return;
	if (end->node->stalled_ns > sim->now_ns)
		msg_at(msg, NULL, end->node->stalled_ns, leave_queue);
	else
		msg_depart(msg);
}

static void conn_send(struct bps_conn *conn, struct bps_send *send)
{
	struct bps_sim_end *end = BPS_CONTAINER_OF(conn, struct bps_sim_end, conn);

	if (send->hdr.payload_bytes > 0 && !send->payload)
		bps_sim_misuse("a payload that is not there");
	conn->n_sent_bytes += bps_wire_hdr_bytes(&send->hdr) + send->hdr.payload_bytes;
	charge_message(end->sim, send->hdr.payload_bytes);
	end_queue(end, send);
}

/* Its peer hears of it as soon as anything gets through. */
static void close_reset(void *arg)
{
	struct bps_sim_end *end = arg;
	struct bps_sim *sim = end->sim;

	if (end->peer->over)
		return;
	if (cut_off(end)) {
		bps_sim_at(sim, NULL, sim->now_ns + BPS_NS_PER_S, close_reset, end);
		return;
	}
	end->peer->error = -ECONNRESET;
	end_reset(end->peer);
}

static void close_deadline(void *arg)
{
	struct bps_sim_end *end = arg;

	if (end->over)
		return;
	end->over = true;
	end_cancel(end);
	close_reset(end);
}

static void conn_close(struct bps_conn *conn)
{
	struct bps_sim_end *end = BPS_CONTAINER_OF(conn, struct bps_sim_end, conn);

	end->closed = true;
	end->conn.ops = &dead_ops;
	end_queue(end, NULL);
	bps_sim_at(end->sim, NULL, end->sim->now_ns + CLOSE_NS, close_deadline, end);
}

static const struct bps_conn_ops conn_ops = { .send = conn_send, .close = conn_close };

static struct bps_sim_end *end_new(struct bps_sim_node *node)
{
	struct bps_sim_end *end = bps_sim_must(calloc(1, sizeof(*end)));

	end->sim = node->sim;
	end->node = node;
	end->number = node->sim->n_ends++;
	end->conn.ops = &conn_ops;
	snprintf(end->conn.name, sizeof(end->conn.name), "n%u (c%u)", node->number,
	         end->number);
	bps_list_init(&end->flight);
	bps_list_push_back(&node->sim->ends, &end->link);
	return end;
}

static void end_up(void *arg)
{
	struct bps_sim_end *end = arg;
	struct bps_list *link;

	if (end->over)
		return;
	end->up = true;
	for (link = end->flight.next; link != &end->flight; link = link->next)
		msg_depart(BPS_CONTAINER_OF(link, struct bps_sim_msg, link));
	if (!end->closed && end->conn.events)
		end->conn.events->up(end->conn.owner);
}

static void end_dial(void *arg)
{
	struct bps_sim_end *end = arg, *peer = end->peer;
	struct bps_sim *sim = end->sim;
	uint64_t delay_ns = end->node == peer->node ? 0 : sim->config.delay_ns;

	if (end->over)
		return;
	if (sim->now_ns - end->dialed_ns >= DIAL_NS) {
		bps_sim_end_down(end, -ETIMEDOUT);
		return;
	}
	if (end->node->silent || peer->node->silent) {
		bps_sim_at(sim, NULL,
		           sim->now_ns + (sim->config.rto_ns
		                          << (end->n_tries < 5 ? end->n_tries++ : 5)),
		           end_dial, end);
		return;
	}
	if (peer->node->crashed) {
		end->error = -ECONNREFUSED;
		bps_sim_at(sim, NULL, sim->now_ns + delay_ns, end_reset, end);
		return;
	}
	peer->up = true;
	end->accept(end->accept_owner, &peer->conn);
	bps_sim_at(sim, NULL, sim->now_ns + delay_ns, end_up, end);
}

struct bps_conn *bps_sim_connect(struct bps_sim_node *from, struct bps_sim_node *to,
                                 void (*accept)(void *owner, struct bps_conn *conn),
                                 void *owner)
{
	struct bps_sim_end *end = end_new(from), *peer = end_new(to);
	struct bps_sim *sim = from->sim;

	end->peer = peer;
	peer->peer = end;
	if (sim->config.tcp && from != to) {
		end->flow = bps_sim_flow_new(end);
		peer->flow = bps_sim_flow_new(peer);
	}
	end->accept = accept;
	end->accept_owner = owner;
	end->dialed_ns = sim->now_ns;
	bps_sim_at(sim, NULL,
	           sim->now_ns +
	                   (from == to
	                            ? 0
	                            : sim->config.delay_ns +
	                                      bps_sim_up_to(sim, sim->config.jitter_ns)),
	           end_dial, end);
	return &end->conn;
}

void bps_sim_end_reset_at(struct bps_sim_end *end, uint64_t at_ns, int error)
{
	end->error = error;
	bps_sim_at(end->sim, NULL, at_ns, end_reset, end);
}

void bps_sim_drop_event(const struct bps_sim_event *event)
{
	if (event->fn == msg_complete || event->fn == msg_again ||
	    event->fn == msg_arrive || event->fn == msg_early_done ||
	    event->fn == deliver_later || event->fn == leave_queue ||
	    event->fn == msg_read)
		msg_unref(event->arg);
	else
		bps_sim_net_drop_event(event);
}
