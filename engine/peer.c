/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/server-impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/log.h"
#include "engine/plan.h"
#include "transport/memory.h"
#include "transport/ratelimit.h"

struct bps_arrival *bps_peer_notice(struct bps_peer *peer, enum bps_arrival_kind kind)
{
	struct bps_arrival *arrival = calloc(1, sizeof(*arrival));

	if (!arrival)
		return NULL;
	arrival->kind = kind;
	arrival->peer = peer;
	arrival->job = peer->job;
	bps_fetch_add(&peer->refs, 1);
	return arrival;
}

static void peer_unref(struct bps_peer *peer)
{
	if (bps_fetch_sub(&peer->refs, 1) > 1)
		return;
	if (peer->window)
		bps_region_free(peer->window, (size_t)peer->n_slots * peer->slot_bytes);
	free(peer->slots);
	bps_server_drop_peer(peer->server, peer);
	free(peer);
}

/* -- HELLO -- */

static int allocate_window(struct bps_peer *peer)
{
	size_t bytes = (size_t)peer->n_slots * peer->slot_bytes;
	void *window;
	uint32_t i;

	if (bps_region_alloc(bytes, &window) < 0)
		return -ENOMEM;
	peer->window = window;
	peer->slots = calloc(peer->n_slots, sizeof(*peer->slots));
	if (!peer->slots)
		return -ENOMEM;
	for (i = 0; i < peer->n_slots; i++) {
		peer->slots[i].kind = BPS_ARRIVAL_PUSH;
		peer->slots[i].peer = peer;
		peer->slots[i].job = peer->job;
		peer->slots[i].data = peer->window + (size_t)i * peer->slot_bytes;
	}
	peer->ping.kind = BPS_ARRIVAL_PING;
	peer->ping.peer = peer;
	peer->ping.job = peer->job;
	return 0;
}

/* What a HELLO asks for, within our bounds. NULL: fine. */
static const char *check_hello(struct bps_peer *peer, const struct bps_wire_hello *hello)
{
	uint32_t max_slots = peer->server->config.max_slots;

	if (max_slots > BPS_WIRE_MAX_SLOTS - BPS_SPARE_SLOTS)
		max_slots = BPS_WIRE_MAX_SLOTS - BPS_SPARE_SLOTS;
	if (hello->n_peers == 0 || hello->peer >= hello->n_peers)
		return "its rank is not below the size of its job";
	if (hello->slot_bytes < BPS_CUT_MIN_PARTITION ||
	    hello->slot_bytes > BPS_WIRE_MAX_PAYLOAD || hello->n_slots == 0)
		return "its window makes no sense";
	if (hello->connection >= BPS_WIRE_MAX_CONNECTIONS)
		return "it has too many connections";
	memcpy(peer->host, hello->host, sizeof(peer->host));
	peer->world_rank = hello->peer;
	peer->connection = hello->connection;
	peer->slot_bytes = hello->slot_bytes;
	peer->n_slots = hello->n_slots < max_slots ? hello->n_slots : max_slots;
	peer->n_slots += BPS_SPARE_SLOTS;
	return NULL;
}

/* One a kind of line, and a thread. */
static _Thread_local struct bps_ratelimit refusals, losses, strangers;

static void refuse(struct bps_peer *peer)
{
	const char *why = (const char *)peer->greeting;

	bps_add_relaxed(&peer->server->counters.n_refused, 1);
	if (peer->server->config.quiet) /* the peer says so, where it matters */
		bps_debug("refused %s: %s", peer->conn->name, why);
	else
		bps_warn_limited(&refusals, "refused %s: %s", peer->conn->name, why);
	peer->welcome.hdr.type = BPS_WIRE_REFUSE;
	peer->welcome.hdr.payload_bytes = (uint32_t)strlen(why);
}

/* As long as the HELLO of @hello_bytes, or longer. */
static int welcome(struct bps_peer *peer, uint32_t hello_bytes)
{
	struct bps_wire_hello hello = {
		.peer = peer->world_rank,
		.n_slots = peer->n_slots,
		.slot_bytes = peer->slot_bytes,
		.connection = peer->connection,
		.version = BPS_VERSION,
		.server = peer->server->number,
	};
	struct bps_server *server = peer->server;
	uint32_t bytes;
	int n = 0;

	if (allocate_window(peer) < 0)
		return -ENOMEM;
	if (server->config.addrs && peer->connection == 0) /* the first of a member */
		n = server->config.addrs(server->owner, hello.addrs, BPS_WIRE_MAX_ADDRS);
	hello.n_addrs = n > 0 ? (uint32_t)n : 0;
	hello.left_bytes = bps_server_left(server);
	if (hello.left_bytes == 0)
		hello.left_bytes = 1; /* 0 says nothing */
	memcpy(hello.job, peer->job->id, sizeof(hello.job));
	snprintf(hello.host, sizeof(hello.host), "%s", peer->server->host);
	peer->welcome.hdr.type = BPS_WIRE_WELCOME;
	bytes = bps_wire_encode_hello(&hello, peer->greeting);
	peer->welcome.hdr.payload_bytes = bytes > hello_bytes ? bytes : hello_bytes;
	bps_add_relaxed(&peer->server->counters.n_peers, 1);
	bps_debug("%s (host %s) joined as rank %u", peer->conn->name, peer->host,
	          peer->world_rank);
	return 0;
}

static void welcome_sent(struct bps_send *send, int error)
{
	(void)error;
	peer_unref(send->owner);
}

static int take_hello(struct bps_peer *peer, const struct bps_wire_hdr *hdr)
{
	char *text = (char *)peer->greeting;
	struct bps_wire_hello hello;
	const char *why;
	int r = 0;

	if (peer->welcome.owner ||
	    bps_wire_decode_hello(peer->greeting, hdr->payload_bytes, &hello) < 0)
		return -EBADMSG;
	memset(peer->greeting, 0, sizeof(peer->greeting));
	why = check_hello(peer, &hello);
	if (why)
		snprintf(text, BPS_WIRE_CTL_PAYLOAD, "%s", why);
	else
		bps_server_join(peer, &hello, text, BPS_WIRE_CTL_PAYLOAD);
	if (peer->job)
		r = welcome(peer, hdr->payload_bytes);
	else
		refuse(peer);
	if (r < 0)
		return r;
	peer->welcome.payload = peer->greeting;
	peer->welcome.owner = peer;
	peer->welcome.done = welcome_sent;
	bps_fetch_add(&peer->refs, 1);
	bps_conn_send(peer->conn, &peer->welcome);
	if (!peer->job)
		bps_peer_close(peer); /* it hears why, and is not kept */
	return 0;
}

/* -- what a member says -- */

static struct bps_arrival *slot_of(struct bps_peer *peer, const struct bps_wire_hdr *hdr)
{
	struct bps_arrival *arrival;

	if (!peer->job || hdr->slot >= peer->n_slots ||
	    hdr->payload_bytes > peer->slot_bytes ||
	    hdr->n_members > peer->job->n_peers_max)
		return NULL;
	arrival = &peer->slots[hdr->slot];
	return arrival->busy ? NULL : arrival;
}

static int on_place(void *owner, const struct bps_wire_hdr *hdr, void **ret_dst)
{
	struct bps_peer *peer = owner;
	struct bps_arrival *arrival;

	*ret_dst = peer->greeting;
	if (hdr->type == BPS_WIRE_HELLO) /* a second one must not spoil the WELCOME */
		return peer->welcome.owner ? -EBADMSG : 0;
	*ret_dst = peer->control;
	if (hdr->type != BPS_WIRE_PUSH)
		return hdr->payload_bytes <= sizeof(peer->control) ? 0 : -EBADMSG;
	arrival = slot_of(peer, hdr);
	if (!arrival)
		return -EBADMSG;
	*ret_dst = arrival->data;
	return 0;
}

/* To the reducer and back. */
static int send_round(struct bps_peer *peer, struct bps_arrival *arrival,
                      const struct bps_wire_hdr *hdr)
{
	struct bps_server *server = peer->server;

	arrival->busy = true;
	arrival->failed = false;
	arrival->hdr = *hdr;
	bps_fetch_add(&peer->refs, 1);
	server->ops->to_reducer(server, bps_reducer_of(hdr, server->config.n_reducers),
	                        arrival);
	return 0;
}

static int take_push(struct bps_peer *peer, const struct bps_wire_hdr *hdr)
{
	struct bps_arrival *arrival = slot_of(peer, hdr);
	struct bps_server *server = peer->server;

	if (!arrival)
		return -EBADMSG;
	peer->pushed = true;
	bps_add_relaxed(&server->counters.n_pushes, 1);
	bps_add_relaxed(&server->counters.n_push_bytes, hdr->payload_bytes);
	return send_round(peer, arrival, hdr);
}

static int take_ping(struct bps_peer *peer, const struct bps_wire_hdr *hdr)
{
	return peer->job && !peer->ping.busy ? send_round(peer, &peer->ping, hdr)
	                                     : -EBADMSG;
}

/* The member gave its group up: every reducer fails what there is of it, and will be. */
static int take_error(struct bps_peer *peer, const struct bps_wire_hdr *hdr)
{
	struct bps_server *server = peer->server;
	uint32_t i;

	if (!peer->job)
		return -EBADMSG;
	for (i = 0; i < server->config.n_reducers; i++) {
		struct bps_arrival *cancel = calloc(1, sizeof(*cancel));
		char *text = strndup((const char *)peer->control, hdr->payload_bytes);

		if (!cancel || !text) {
			free(cancel);
			free(text);
			return -ENOMEM;
		}
		cancel->kind = BPS_ARRIVAL_CANCEL;
		cancel->job = peer->job;
		cancel->hdr = *hdr;
		cancel->text = text;
		server->ops->to_reducer(server, i, cancel);
	}
	return 0;
}

static int on_message(void *owner, const struct bps_wire_hdr *hdr)
{
	struct bps_peer *peer = owner;

	switch (hdr->type) {
	case BPS_WIRE_PUSH:
		return take_push(peer, hdr);
	case BPS_WIRE_HELLO:
		return take_hello(peer, hdr);
	case BPS_WIRE_PING:
		return take_ping(peer, hdr);
	case BPS_WIRE_ERROR:
		return take_error(peer, hdr);
	case BPS_WIRE_BYE:
		peer->said_bye = true;
		return 0;
	default:
		return -EBADMSG;
	}
}

/* -- answers -- */

static void arrival_done(struct bps_arrival *arrival)
{
	struct bps_peer *peer = arrival->peer;

	if (arrival->hold)
		bps_hold_put(arrival->hold);
	arrival->hold = NULL;
	free(arrival->text);
	arrival->text = NULL;
	arrival->busy = false;
	if (arrival->kind == BPS_ARRIVAL_LOST)
		free(arrival);
	peer_unref(peer);
}

static void answer_sent(struct bps_send *send, int error)
{
	(void)error;
	arrival_done(send->owner);
}

static uint8_t answer_type(const struct bps_arrival *arrival)
{
	if (arrival->failed)
		return BPS_WIRE_ERROR;
	if (arrival->kind == BPS_ARRIVAL_PING)
		return BPS_WIRE_PONG;
	if (arrival->kind == BPS_ARRIVAL_LOST)
		return BPS_WIRE_LOST;
	return BPS_WIRE_ANSWER;
}

static void fill_answer(struct bps_arrival *arrival)
{
	struct bps_send *send = &arrival->send;

	if (arrival->failed) {
		arrival->answer = arrival->text;
		arrival->answer_bytes =
			arrival->text ? (uint32_t)strnlen(arrival->text, 512) : 0;
	}
	send->hdr = arrival->hdr;
	send->hdr.type = answer_type(arrival);
	send->hdr.payload_bytes = arrival->answer_bytes;
	send->payload = arrival->answer;
	send->owner = arrival;
	send->done = answer_sent;
}

void bps_peer_take(struct bps_arrival *arrival)
{
	struct bps_peer *peer = arrival->peer;
	struct bps_server_counters *counters = &peer->server->counters;

	if (!peer->conn) {
		arrival_done(arrival);
		return;
	}
	fill_answer(arrival);
	if (arrival->kind == BPS_ARRIVAL_PUSH) {
		bps_add_relaxed(&counters->n_answers, 1);
		bps_add_relaxed(&counters->n_answer_bytes, arrival->answer_bytes);
	}
	bps_conn_send(peer->conn, &arrival->send);
}

/* -- life -- */

static void on_up(void *owner)
{
	(void)owner; /* an accepted connection waits for the peer's HELLO */
}

static void on_down(void *owner, int error)
{
	struct bps_peer *peer = owner;

	const char *why = error ? strerror(-error) : "closed without a goodbye";

	if (peer->job && !peer->said_bye && !peer->server->config.quiet)
		bps_warn_limited(&losses, "lost rank %u (%s, host %s): %s",
		                 peer->world_rank, peer->conn->name, peer->host, why);
	if (!peer->job && error == -EBADMSG)
		bps_warn_limited(
			&strangers,
			"closed a connection from %s: it did not begin with a valid "
			"greeting",
			peer->conn->name);
	peer->conn = NULL;
	bps_server_leave(peer, !peer->said_bye);
	peer_unref(peer);
}

void bps_peer_close(struct bps_peer *peer)
{
	bps_conn_close(peer->conn);
	peer->conn = NULL;
	bps_server_leave(peer, false);
	peer_unref(peer);
}

static const struct bps_conn_events peer_events = {
	.up = on_up,
	.place = on_place,
	.message = on_message,
	.down = on_down,
};

int bps_server_accept(struct bps_server *server, struct bps_loop *loop,
                      struct bps_conn *conn)
{
	struct bps_peer *peer = calloc(1, sizeof(*peer));

	if (!peer) {
		bps_conn_close(conn);
		return -ENOMEM;
	}
	peer->server = server;
	peer->loop = loop;
	peer->conn = conn;
	peer->refs = 1;
	bps_list_init(&peer->link);
	bps_server_add_peer(server, peer);
	bps_conn_bind(conn, &peer_events, peer);
	return 0;
}
