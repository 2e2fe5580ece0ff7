/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pair;

struct side {
	struct bps_conn base;
	struct pair *pair;
	struct bps_list queue; /* of struct bps_send, to the other side */
	bool closed;           /* by its owner, or the owner was told: no more events */
	bool over;             /* down at the end of the turn, with this error */
	int error;
};

struct pair {
	struct side sides[2];
	struct bps_loop *loop;
	struct bps_defer turn;
	bool up;
};

static struct side *other(struct side *side)
{
	return &side->pair->sides[side == &side->pair->sides[0]];
}

static struct side *of_base(struct bps_conn *base)
{
	return BPS_CONTAINER_OF(base, struct side, base);
}

static void local_send(struct bps_conn *base, struct bps_send *send)
{
	struct side *side = of_base(base);

	bps_list_push_back(&side->queue, &send->link);
	bps_defer_add(side->pair->loop, &side->pair->turn);
}

static void local_close(struct bps_conn *base)
{
	struct side *side = of_base(base);

	side->closed = true;
	bps_defer_add(side->pair->loop, &side->pair->turn);
}

static const struct bps_conn_ops local_ops = {
	.send = local_send,
	.close = local_close,
};

static void end(struct side *side, int error)
{
	if (side->over)
		return;
	side->over = true;
	side->error = error;
}

static int hand_over(struct side *to, const struct bps_send *send)
{
	const struct bps_conn_events *events = to->base.events;
	struct bps_wire_hdr hdr = send->hdr;
	void *dst = NULL;
	int r;

	hdr.version = BPS_WIRE_VERSION;
	if (hdr.payload_bytes) {
		r = events->place(to->base.owner, &hdr, &dst);
		if (r < 0)
			return r;
		/* It may have closed. */
		if (to->closed)
			return 0;
		memcpy(dst, send->payload, hdr.payload_bytes);
	}
	return events->message(to->base.owner, &hdr);
}

static void deliver_one(struct side *from, struct side *to, struct bps_send *send)
{
	uint64_t n_bytes =
		bps_wire_hdr_bytes(&send->hdr) + (uint64_t)send->hdr.payload_bytes;
	int r;

	if (from->over || to->over || to->closed) {
		send->done(send, -ECANCELED);
		return;
	}
	from->base.n_sent_bytes += n_bytes;
	to->base.n_received_bytes += n_bytes;
	r = hand_over(to, send);
	if (r < 0) {
		end(to, r);
		end(from, -ECONNRESET);
	}
	send->done(send, 0);
}

/* What was sent before this turn's end; answers to it go in the next. */
static void deliver(struct side *from)
{
	struct bps_list todo, *link;

	bps_list_init(&todo);
	bps_list_splice_back(&todo, &from->queue);
	while ((link = bps_list_pop_front(&todo)))
		deliver_one(from, other(from),
		            BPS_CONTAINER_OF(link, struct bps_send, link));
}

/* One side has left and all that it sent has arrived: the other comes to its end. */
static void settle(struct side *side)
{
	struct side *peer = other(side);

	if (peer->closed && bps_list_empty(&peer->queue))
		end(side, 0);
	if (!side->over)
		return;
	deliver(side); /* gives back what is queued */
	if (side->closed)
		return;
	side->closed = true;
	side->base.events->down(side->base.owner, side->error);
}

static void on_turn(struct bps_defer *defer)
{
	struct pair *pair = BPS_CONTAINER_OF(defer, struct pair, turn);
	struct side *a = &pair->sides[0], *b = &pair->sides[1];

	if (!pair->up) {
		pair->up = true;
		if (!a->closed)
			a->base.events->up(a->base.owner);
		if (!b->closed)
			b->base.events->up(b->base.owner);
	}
	deliver(a);
	deliver(b);
	settle(a);
	settle(b);
	if (a->closed && b->closed && bps_list_empty(&a->queue) &&
	    bps_list_empty(&b->queue)) {
		bps_defer_cancel(&pair->turn);
		free(pair);
	}
}

int bps_local_pair(struct bps_loop *loop, struct bps_conn **ret_a,
                   struct bps_conn **ret_b)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	if (!pair)
		return -ENOMEM;
	pair->loop = loop;
	pair->turn.fn = on_turn;
	for (int i = 0; i < 2; i++) {
		struct side *side = &pair->sides[i];

		side->base.ops = &local_ops;
		snprintf(side->base.name, sizeof(side->base.name), "this process");
		side->pair = pair;
		bps_list_init(&side->queue);
	}
	bps_defer_add(loop, &pair->turn);
	*ret_a = &pair->sides[0].base;
	*ret_b = &pair->sides[1].base;
	return 0;
}
