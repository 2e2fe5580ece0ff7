/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client pushes to one server, and when: the slots of its windows, and the ops
 * that wait for them.
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

static uint64_t clock_ns(const struct bps_rails *rails)
{
	const struct bps_client_config *config = &rails->client->config;

	return config->clock ? config->clock(config->clock_owner) : 0;
}

/* After a change of how much is unanswered, or may be. */
static void note_full(struct bps_rails *rails)
{
	bool full = rails->n_unanswered >= rails->limit;

	if (full == rails->full)
		return;
	rails->full = full;
	if (full)
		rails->full_since_ns = clock_ns(rails);
	else
		rails->full_ns += clock_ns(rails) - rails->full_since_ns;
}

uint64_t bps_rails_full_ns(const struct bps_rails *rails)
{
	return rails->full_ns +
	       (rails->full ? clock_ns(rails) - rails->full_since_ns : 0);
}

static void choose_limit(struct bps_rails *rails, const struct bps_op *op)
{
	rails->limit = rails->window;
	if (op && op->window > 0 && op->window < rails->limit)
		rails->limit = op->window;
	note_full(rails);
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
	uplink->rails->n_unanswered--;
	note_full(uplink->rails);
	slot_free(push);
}

static struct bps_push *slot_take(struct bps_uplink *uplink)
{
	struct bps_push *push = &uplink->slots[uplink->free_slot];

	uplink->free_slot = push->next_free;
	push->sending = push->unanswered = true;
	uplink->n_sending++;
	if (uplink->n_unanswered++ == 0)
		uplink->heard_ns = bps_client_now(uplink->client);
	uplink->rails->n_unanswered++;
	note_full(uplink->rails);
	return push;
}

static const struct bps_op *latest_op(const struct bps_rails *rails)
{
	if (bps_list_empty(&rails->lanes))
		return NULL;
	return BPS_CONTAINER_OF(rails->lanes.prev, struct bps_op_lane, link)->op;
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
	uplink->rails->window += n_slots - BPS_SPARE_SLOTS;
	for (i = n_slots; i-- > 0;) {
		struct bps_push *push = &uplink->slots[i];

		push->uplink = uplink;
		push->send.owner = push;
		push->send.done = push_sent;
		slot_free(push);
	}
	choose_limit(uplink->rails, latest_op(uplink->rails));
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

static bool holds_older(const struct bps_uplink *uplink, const struct bps_op *op)
{
	uint32_t i;

	for (i = 0; i < uplink->n_slots; i++) {
		const struct bps_push *push = &uplink->slots[i];

		if (push->unanswered && push->send.hdr.group == op->group->id &&
		    push->send.hdr.op <= op->number)
			return true;
	}
	return false;
}

/* Whether nothing older of its group is on its way to this server, or waits to be. */
static bool is_oldest(const struct bps_rails *rails, const struct bps_op_lane *lane)
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
	for (i = 0; i < rails->n; i++) {
		if (holds_older(rails->uplinks[i], lane->op))
			return false;
	}
	return true;
}

/*
 * Members may have their windows full of different ops, each waiting for the others: so a
 * group may always push the oldest part that it owes, window or not.
 */
static struct bps_op_lane *next_lane(const struct bps_rails *rails)
{
	struct bps_op_lane *lane, *best = NULL;

	BPS_LIST_FOREACH(lane, &rails->lanes, link)
	{
		if (lane->position >= lane->op->n_ready)
			continue;
		if (best && best->op->priority <= lane->op->priority)
			continue;
		if (!rails->full || is_oldest(rails, lane))
			best = lane;
	}
	return best;
}

/* The connection that has most answered. NULL: none is free. */
static struct bps_uplink *next_uplink(const struct bps_rails *rails)
{
	struct bps_uplink *best = NULL;
	uint32_t i;

	for (i = 0; i < rails->n; i++) {
		struct bps_uplink *uplink = rails->uplinks[i];

		if (!uplink->conn || uplink->state != BPS_UPLINK_OPEN ||
		    uplink->free_slot == BPS_NO_SLOT)
			continue;
		if (!best || uplink->n_unanswered < best->n_unanswered)
			best = uplink;
	}
	return best;
}

void bps_rails_pump(struct bps_rails *rails)
{
	struct bps_op_lane *lane;
	struct bps_uplink *uplink;

	while ((uplink = next_uplink(rails)) && (lane = next_lane(rails)))
		lane_push(uplink, lane);
}

void bps_rails_push(struct bps_rails *rails, struct bps_op_lane *lane)
{
	bps_list_push_back(&rails->lanes, &lane->link);
	lane_advance(lane);
	choose_limit(rails, lane->op);
}

void bps_rails_forget(struct bps_rails *rails, struct bps_op *op,
                      struct bps_op_lane *lane)
{
	uint32_t i, j;

	bps_list_remove(&lane->link);
	for (i = 0; i < rails->n; i++) {
		for (j = 0; j < rails->uplinks[i]->n_slots; j++) {
			if (rails->uplinks[i]->slots[j].op == op)
				rails->uplinks[i]->slots[j].op = NULL;
		}
	}
}
