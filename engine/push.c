/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client pushes to one server, and when: the slots of its window, and the ops that
 * wait for them.
 */
#include "engine/client-impl.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/server.h"

/* -- slots -- */

static void push_sent(struct bps_send *send, int error)
{
	struct bps_push *push = send->owner;

	(void)error;
	push->sending = false;
	push->uplink->n_sending--;
}

static uint64_t clock_ns(const struct bps_uplink *uplink)
{
	const struct bps_client_config *config = &uplink->client->config;

	return config->clock ? config->clock(config->clock_owner) : 0;
}

/* After a change of how much is unanswered, or may be. */
static void note_full(struct bps_uplink *uplink)
{
	bool full = uplink->n_unanswered >= uplink->limit;

	if (full == uplink->full)
		return;
	uplink->full = full;
	if (full)
		uplink->full_since_ns = clock_ns(uplink);
	else
		uplink->full_ns += clock_ns(uplink) - uplink->full_since_ns;
}

static void choose_limit(struct bps_uplink *uplink, const struct bps_op *op)
{
	uplink->limit = uplink->window;
	if (op && op->window > 0 && op->window < uplink->limit)
		uplink->limit = op->window;
	note_full(uplink);
}

static void slot_free(struct bps_push *push)
{
	struct bps_uplink *uplink = push->uplink;

	push->op = NULL;
	push->unanswered = false;
	push->next_free = uplink->free_slot;
	uplink->free_slot = (uint32_t)(push - uplink->slots);
}

void bps_push_answered(struct bps_push *push)
{
	struct bps_uplink *uplink = push->uplink;

	uplink->n_unanswered--;
	note_full(uplink);
	slot_free(push);
}

void bps_uplink_load(const struct bps_uplink *uplink, struct bps_load *ret_load)
{
	*ret_load = (struct bps_load){ .full_ns = uplink->full_ns };
	if (uplink->full)
		ret_load->full_ns += clock_ns(uplink) - uplink->full_since_ns;
	if (uplink->conn)
		bps_conn_count(uplink->conn, &ret_load->packets);
}

static struct bps_push *slot_take(struct bps_uplink *uplink)
{
	struct bps_push *push = &uplink->slots[uplink->free_slot];

	uplink->free_slot = push->next_free;
	push->sending = push->unanswered = true;
	uplink->n_sending++;
	if (uplink->n_unanswered++ == 0)
		uplink->heard_ns = uplink->client->now_ns;
	note_full(uplink);
	return push;
}

/* The slots that the server granted: its window, and spare ones beyond it. */
int bps_push_slots(struct bps_uplink *uplink, uint32_t n_slots)
{
	uint32_t i;

	uplink->slots = calloc(n_slots, sizeof(*uplink->slots));
	uplink->scratch = malloc(uplink->client->config.slot_bytes);
	if (!uplink->slots || !uplink->scratch)
		return -ENOMEM;
	uplink->n_slots = n_slots;
	uplink->window = n_slots - BPS_SPARE_SLOTS;
	for (i = n_slots; i-- > 0;) {
		struct bps_push *push = &uplink->slots[i];

		push->uplink = uplink;
		push->send.owner = push;
		push->send.done = push_sent;
		slot_free(push);
	}
	choose_limit(uplink, bps_list_empty(&uplink->lanes)
	                             ? NULL
	                             : BPS_CONTAINER_OF(uplink->lanes.prev,
	                                                struct bps_op_lane, link)
	                                       ->op);
	return 0;
}

/* -- pushing -- */

static uint32_t op_start_server(const struct bps_op *op)
{
	return op->coll == BPS_BCAST ? op->root : op->group->member;
}

static void lane_advance(struct bps_op_lane *lane)
{
	struct bps_op *op = lane->op;

	lane->position = bps_cut_position(&op->cut, op_start_server(op), lane->slice,
	                                  lane->n_pushed);
	if (lane->position >= op->cut.n_parts)
		bps_list_remove(&lane->link);
}

static void fill_push(struct bps_push *push, struct bps_op *op, uint32_t part,
                      bool payload)
{
	struct bps_group *group = op->group;

	push->send.hdr = (struct bps_wire_hdr){
		.type = BPS_WIRE_PUSH,
		.payload_bytes = payload ? push->part_bytes : 0,
		.slot = (uint32_t)(push - push->uplink->slots),
		.group = group->id,
		.op = op->number,
		.part = part,
		.n_parts = op->cut.n_parts,
		.op_bytes = op->cut.op_bytes,
		.member = group->member,
		.n_members = group->n_members,
		.dtype = (uint8_t)op->dtype,
		.redop = (uint8_t)op->redop,
		.coll = (uint8_t)op->coll,
		.priority = op->priority,
		.root = op->root,
		.acked = BPS_CONTAINER_OF(group->ops.next, struct bps_op, link)->number,
		.peer = push->uplink->client->config.peer,
	};
}

static void lane_push(struct bps_uplink *uplink, struct bps_op_lane *lane)
{
	struct bps_push *push = slot_take(uplink);
	struct bps_op *op = lane->op;
	uint64_t position = lane->position, offset;
	uint32_t part = bps_cut_visit(&op->cut, op_start_server(op), (uint32_t)position);
	const void *source = op->events->source(op, position);

	push->op = op;
	push->position = position;
	bps_cut_part(&op->cut, part, &offset, &push->part_bytes);
	fill_push(push, op, part, source != NULL);
	op->events->place(op, position, &push->send.hdr.region, &push->send.hdr.offset);
	push->send.payload = source;
	lane->n_pushed++;
	lane_advance(lane);
	bps_conn_send(uplink->conn, &push->send);
}

/* Whether nothing older of its group is on its way to this server, or waits to be. */
static bool is_oldest(const struct bps_uplink *uplink, const struct bps_op_lane *lane)
{
	const struct bps_group *group = lane->op->group;
	const struct bps_op *op;
	uint32_t i;

	BPS_LIST_FOREACH(op, &group->ops, link)
	{
		if (op == lane->op)
			break;
		if (op->lanes[lane->server].position < op->cut.n_parts)
			return false;
	}
	for (i = 0; i < uplink->n_slots; i++) {
		const struct bps_push *push = &uplink->slots[i];

		if (push->unanswered && push->send.hdr.group == group->id &&
		    push->send.hdr.op <= lane->op->number)
			return false;
	}
	return true;
}

/*
 * Members may have their windows full of different ops, each waiting for the others: so a
 * group may always push the oldest part that it owes, window or not.
 */
static struct bps_op_lane *next_lane(struct bps_uplink *uplink)
{
	struct bps_op_lane *lane, *best = NULL;

	BPS_LIST_FOREACH(lane, &uplink->lanes, link)
	{
		if (lane->position >= lane->op->n_ready)
			continue;
		if (best && best->op->priority <= lane->op->priority)
			continue;
		if (!uplink->full || is_oldest(uplink, lane))
			best = lane;
	}
	return best;
}

void bps_uplink_pump(struct bps_uplink *uplink)
{
	struct bps_op_lane *lane;

	while (uplink->conn && uplink->state == BPS_UPLINK_OPEN &&
	       uplink->free_slot != BPS_NO_SLOT && (lane = next_lane(uplink)))
		lane_push(uplink, lane);
}

void bps_uplink_add(struct bps_uplink *uplink, struct bps_op_lane *lane)
{
	bps_list_push_back(&uplink->lanes, &lane->link);
	lane_advance(lane);
	choose_limit(uplink, lane->op);
}

void bps_uplink_forget(struct bps_uplink *uplink, struct bps_op *op,
                       struct bps_op_lane *lane)
{
	uint32_t i;

	bps_list_remove(&lane->link);
	for (i = 0; i < uplink->n_slots; i++) {
		if (uplink->slots[i].op == op)
			uplink->slots[i].op = NULL;
	}
}
