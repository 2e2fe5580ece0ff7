/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/client-impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/server.h"

/*
 * A server that owes an answer and says nothing for so long is asked what it waits for;
 * sooner where the timeout is short.
 */
#define PING_NS BPS_NS_PER_S
/* A greeting that is lost again and again for so long. */
#define STUCK_NS (8 * BPS_NS_PER_S)

#define FATE_CHARS (2 * BPS_ADDR_CHARS + 48)

/* -- control messages -- */

static void control_sent(struct bps_send *send, int error)
{
	struct bps_uplink *uplink = send->owner;

	(void)error;
	uplink->n_sending--;
	if (send == &uplink->ping)
		uplink->ping_sending = false;
}

static void send_control(struct bps_uplink *uplink, struct bps_send *send)
{
	send->hdr.peer = uplink->client->config.peer;
	send->owner = uplink;
	send->done = control_sent;
	uplink->n_sending++;
	bps_conn_send(uplink->conn, send);
}

static void send_hello(struct bps_uplink *uplink, uint32_t number, uint32_t fill_bytes)
{
	const struct bps_client_config *config = &uplink->client->config;
	struct bps_wire_hello hello = {
		.peer = config->peer,
		.connection = number,
		.n_peers = config->n_peers,
		.n_slots = config->n_slots,
		.slot_bytes = config->slot_bytes,
		.version = BPS_VERSION,
	};

	memcpy(hello.job, config->job, sizeof(hello.job));
	snprintf(hello.host, sizeof(hello.host), "%s", config->host);
	uplink->hello.hdr.type = BPS_WIRE_HELLO;
	uplink->hello.hdr.payload_bytes = bps_wire_encode_hello(&hello, uplink->greeting);
	if (uplink->hello.hdr.payload_bytes < fill_bytes)
		uplink->hello.hdr.payload_bytes = fill_bytes;
	uplink->hello.payload = uplink->greeting;
	send_control(uplink, &uplink->hello);
}

struct cancel {
	struct bps_send send;
	struct bps_uplink *uplink;
	char text[];
};

static void cancel_sent(struct bps_send *send, int error)
{
	struct cancel *cancel = BPS_CONTAINER_OF(send, struct cancel, send);

	(void)error;
	cancel->uplink->n_sending--;
	free(cancel);
}

void bps_uplink_cancel(struct bps_uplink *uplink, uint64_t id, const char *text)
{
	size_t length = strlen(text);
	struct cancel *cancel;

	if (!uplink->conn || uplink->state != BPS_UPLINK_OPEN)
		return;
	cancel = calloc(1, sizeof(*cancel) + length + 1);
	if (!cancel)
		return; /* the others wait for us, with a warning, until we leave */
	cancel->uplink = uplink;
	memcpy(cancel->text, text, length);
	cancel->send.hdr.type = BPS_WIRE_ERROR;
	cancel->send.hdr.group = id;
	cancel->send.hdr.peer = uplink->client->config.peer;
	cancel->send.hdr.payload_bytes = (uint32_t)length;
	cancel->send.payload = cancel->text;
	cancel->send.done = cancel_sent;
	uplink->n_sending++;
	bps_conn_send(uplink->conn, &cancel->send);
}

/* -- what the server says -- */

static struct bps_push *find_push(struct bps_uplink *uplink,
                                  const struct bps_wire_hdr *hdr)
{
	const struct bps_wire_hdr *sent;
	struct bps_push *push;

	if (hdr->slot >= uplink->n_slots)
		return NULL;
	push = &uplink->slots[hdr->slot];
	sent = &push->send.hdr;
	if (!push->unanswered || push->sending || sent->group != hdr->group ||
	    sent->op != hdr->op || sent->part != hdr->part)
		return NULL;
	return push;
}

static uint64_t answer_bytes(const struct bps_push *push)
{
	return bps_total_bytes(push->send.hdr.dtype, push->part_bytes);
}

static int on_place(void *owner, const struct bps_wire_hdr *hdr, void **ret_dst)
{
	struct bps_uplink *uplink = owner;
	struct bps_push *push;
	uint32_t region;
	uint64_t offset;

	*ret_dst = uplink->greeting;
	if (hdr->type == BPS_WIRE_WELCOME)
		return uplink->state == BPS_UPLINK_GREETING ? 0 : -EBADMSG;
	*ret_dst = uplink->control;
	if (hdr->type != BPS_WIRE_ANSWER)
		return hdr->payload_bytes <= sizeof(uplink->control) ? 0 : -EBADMSG;
	push = find_push(uplink, hdr);
	if (!push || hdr->payload_bytes != answer_bytes(push))
		return -EBADMSG;
	*ret_dst = uplink->scratch;
	if (push->op)
		*ret_dst = push->op->events->place(push->op, push->position, &region,
		                                   &offset);
	return *ret_dst ? 0 : -EBADMSG;
}

/*
 * The first WELCOME says which server this is, the others have to say the same: behind
 * an address that exists in many places there may be another one.
 */
static int take_server(struct bps_uplink *uplink, const struct bps_wire_hello *hello)
{
	struct bps_rails *rails = uplink->rails;

	if (rails->n_welcomes++ == 0) {
		rails->id = hello->server;
		rails->n_addrs = hello->n_addrs;
		memcpy(rails->addrs, hello->addrs,
		       hello->n_addrs * sizeof(rails->addrs[0]));
		return 0;
	}
	if (hello->server == rails->id)
		return 0;
	bps_reason_set(&uplink->reason, -EADDRNOTAVAIL,
	               "another server answers there than the one that server %s is",
	               uplink->name);
	return -EADDRNOTAVAIL;
}

static int take_welcome(struct bps_uplink *uplink, const struct bps_wire_hdr *hdr)
{
	const struct bps_client_config *config = &uplink->client->config;
	struct bps_wire_hello hello;
	int r;

	r = bps_wire_decode_hello(uplink->greeting, hdr->payload_bytes, &hello);
	if (r < 0 || uplink->state != BPS_UPLINK_GREETING)
		return -EBADMSG;
	if (hello.n_slots <= BPS_SPARE_SLOTS ||
	    hello.n_slots - BPS_SPARE_SLOTS > config->n_slots ||
	    hello.slot_bytes != config->slot_bytes)
		return -EBADMSG;
	r = take_server(uplink, &hello);
	if (r == 0)
		r = bps_push_slots(uplink, hello.n_slots);
	if (r < 0)
		return r;
	if (bps_conn_ends(uplink->conn, &uplink->here, &uplink->there) < 0)
		uplink->here.bytes = 0;
	uplink->state = BPS_UPLINK_OPEN;
	bps_debug("server %s (version %s, host %s) granted %u slots of %u bytes",
	          uplink->name, hello.version, hello.host, hello.n_slots,
	          hello.slot_bytes);
	bps_rails_pump(uplink->rails);
	return 0;
}

/* Whether an answer without payload is what @push asked for. */
static bool wants_nothing(const struct bps_push *push)
{
	uint32_t region;
	uint64_t offset;

	return !push->op ||
	       !push->op->events->place(push->op, push->position, &region, &offset);
}

static int take_answer(struct bps_uplink *uplink, const struct bps_wire_hdr *hdr)
{
	struct bps_push *push = find_push(uplink, hdr);
	struct bps_op *op;

	if (!push || (hdr->payload_bytes == 0 && !wants_nothing(push)))
		return -EBADMSG;
	op = push->op;
	bps_push_answered(push);
	if (op)
		bps_op_landed(uplink->client, op, push->position);
	bps_rails_pump(uplink->rails);
	return 0;
}

/* Texts come from a peer and go into messages. */
static void take_text(struct bps_uplink *uplink, const struct bps_wire_hdr *hdr,
                      char *ret_text, size_t bytes)
{
	size_t n = hdr->payload_bytes < bytes - 1 ? hdr->payload_bytes : bytes - 1;
	size_t i;

	for (i = 0; i < n; i++) {
		char c = (char)uplink->control[i];

		ret_text[i] = c < ' ' || c > '~' ? '?' : c;
	}
	ret_text[n] = '\0';
}

static int take_refuse(struct bps_uplink *uplink, const struct bps_wire_hdr *hdr)
{
	char text[384];

	take_text(uplink, hdr, text, sizeof(text));
	bps_reason_set(&uplink->reason, -EPERM, "server %s refused this job: %s",
	               uplink->name, text);
	return -EPERM;
}

/* It answers a push: the group is finished. */
static int take_error(struct bps_uplink *uplink, const struct bps_wire_hdr *hdr)
{
	struct bps_group *group = bps_client_group(uplink->client, hdr->group);
	struct bps_push *push = find_push(uplink, hdr);
	struct bps_reason reason;
	char text[320];

	if (!push)
		return -EBADMSG;
	take_text(uplink, hdr, text, sizeof(text));
	bps_push_answered(push);
	if (group && group->broken.error == 0) {
		bps_reason_set(
			&reason, -EPROTO, "%s number %llu of %s failed at server %s: %s",
			bps_coll_name(push->send.hdr.coll), (unsigned long long)hdr->op,
			group->name, uplink->name, text);
		bps_group_break(uplink->client, group, &reason, text);
	}
	bps_rails_pump(uplink->rails);
	return 0;
}

static int take_pong(struct bps_uplink *uplink, const struct bps_wire_hdr *hdr)
{
	struct bps_group *group = bps_client_group(uplink->client, hdr->group);
	struct bps_op *op;
	size_t i;

	if (!uplink->ping_unanswered || uplink->ping_sending)
		return -EBADMSG;
	uplink->ping_unanswered = false;
	uplink->n_missing = hdr->payload_bytes / 2;
	uplink->missing_group = hdr->group;
	uplink->missing_op = hdr->op;
	for (i = 0; i < uplink->n_missing; i++)
		uplink->missing[i] = (uint16_t)(uplink->control[2 * i] |
		                                uplink->control[2 * i + 1] << 8);
	if (!group)
		return 0;
	BPS_LIST_FOREACH(op, &group->ops, link)
	{
		if (op->number == hdr->op)
			bps_op_late(uplink, op);
	}
	return 0;
}

static int take_lost(struct bps_uplink *uplink, const struct bps_wire_hdr *hdr)
{
	struct bps_reason reason;
	char host[BPS_WIRE_HOST_CHARS];

	take_text(uplink, hdr, host, sizeof(host));
	bps_reason_set(&reason, -ECONNRESET,
	               "rank %u%s%s lost its connection to server %s: that process died "
	               "or its network failed",
	               hdr->peer, host[0] ? " on " : "", host, uplink->name);
	return bps_client_leader_lost(uplink->client, hdr->peer, &reason);
}

static int on_message(void *owner, const struct bps_wire_hdr *hdr)
{
	struct bps_uplink *uplink = owner;

	uplink->heard_ns = bps_client_now(uplink->client);
	switch (hdr->type) {
	case BPS_WIRE_ANSWER:
		return take_answer(uplink, hdr);
	case BPS_WIRE_WELCOME:
		return take_welcome(uplink, hdr);
	case BPS_WIRE_REFUSE:
		return take_refuse(uplink, hdr);
	case BPS_WIRE_ERROR:
		return take_error(uplink, hdr);
	case BPS_WIRE_PONG:
		return take_pong(uplink, hdr);
	case BPS_WIRE_LOST:
		return take_lost(uplink, hdr);
	default:
		return -EBADMSG;
	}
}

/* -- life -- */

static void on_up(void *owner)
{
	struct bps_uplink *uplink = owner;

	uplink->up = true;
	uplink->heard_ns = bps_client_now(uplink->client);
}

/* Whether another connection to the server goes from or to another address. */
static bool is_one_of_ways(const struct bps_uplink *uplink)
{
	struct bps_addr here = uplink->here;
	uint32_t i;

	for (i = 0; i < uplink->rails->n && here.bytes > 0; i++) {
		const struct bps_uplink *other = uplink->rails->uplinks[i];

		if (other->here.bytes == 0)
			continue;
		bps_addr_set_port(&here, bps_addr_port(&other->here));
		if (!bps_addr_equal(&other->here, &here) ||
		    !bps_addr_equal(&other->there, &uplink->there))
			return true;
	}
	return false;
}

/* What became of the server, as far as this connection can tell. */
static const char *fate(const struct bps_uplink *uplink, char *buf, size_t bytes)
{
	char here[BPS_ADDR_CHARS], there[BPS_ADDR_CHARS];

	if (uplink->state != BPS_UPLINK_OPEN)
		return "cannot be used";
	if (!is_one_of_ways(uplink))
		return "died";
	snprintf(buf, bytes, "died, or the way from %s to %s broke",
	         bps_addr_format_host(&uplink->here, here, sizeof(here)),
	         bps_addr_format(&uplink->there, there, sizeof(there)));
	return buf;
}

static void die(struct bps_uplink *uplink)
{
	bool open = uplink->state == BPS_UPLINK_OPEN;

	uplink->state = BPS_UPLINK_DEAD;
	bps_client_server_died(uplink->client, uplink, open);
}

static const char *explain_down(int error)
{
	if (error == 0)
		return "it closed the connection";
	if (error == -EPROTONOSUPPORT)
		return "it speaks another version of the protocol: install the same "
		       "bytepsmpi everywhere";
	if (error == -EPROTO)
		return "it is not a bpsmpi-server: check the address and the port";
	if (error == -ECONNREFUSED)
		return "nothing listens there: start bpsmpi-server, or change "
		       "BPSMPI_SERVERS";
	if (error == -EHOSTUNREACH || error == -ENETUNREACH || error == -ETIMEDOUT)
		return "it cannot be reached: check its address, BPSMPI_INTERFACE and "
		       "the firewall";
	if (error == -EBADMSG)
		return "it sent a message that makes no sense";
	return strerror(-error);
}

static void on_down(void *owner, int error)
{
	struct bps_uplink *uplink = owner;
	char text[FATE_CHARS];

	uplink->conn = NULL;
	if (uplink->reason.error == 0)
		bps_reason_set(&uplink->reason, error ? error : -ECONNRESET,
		               "server %s %s (%s)", uplink->name,
		               fate(uplink, text, sizeof(text)), explain_down(error));
	die(uplink);
}

static const struct bps_conn_events uplink_events = {
	.up = on_up,
	.place = on_place,
	.message = on_message,
	.down = on_down,
};

int bps_uplink_new(struct bps_rails *rails, uint32_t number, struct bps_conn *conn,
                   const char *name, uint32_t fill_bytes, struct bps_uplink **ret_uplink)
{
	struct bps_uplink *uplink = calloc(1, sizeof(*uplink));

	if (!uplink) {
		bps_conn_close(conn);
		return -ENOMEM;
	}
	uplink->client = rails->client;
	uplink->rails = rails;
	uplink->conn = conn;
	uplink->free_slot = BPS_NO_SLOT;
	snprintf(uplink->name, sizeof(uplink->name), "%s", name);
	bps_conn_bind(conn, &uplink_events, uplink);
	send_hello(uplink, number, fill_bytes);
	*ret_uplink = uplink;
	return 0;
}

void bps_uplink_close(struct bps_uplink *uplink)
{
	if (!uplink->conn)
		return;
	uplink->bye.hdr.type = BPS_WIRE_BYE;
	send_control(uplink, &uplink->bye);
	bps_conn_close(uplink->conn);
	uplink->conn = NULL;
}

bool bps_uplink_closed(const struct bps_uplink *uplink)
{
	return !uplink->conn && uplink->n_sending == 0;
}

void bps_uplink_free(struct bps_uplink *uplink)
{
	if (!uplink)
		return;
	free(uplink->slots);
	free(uplink->scratch);
	free(uplink);
}

/* -- time -- */

/* Ask about the oldest op's part, or about any that is left of a failed op. */
static void send_ping(struct bps_uplink *uplink)
{
	const struct bps_push *oldest = NULL;
	uint32_t i;

	for (i = 0; i < uplink->n_slots; i++) {
		const struct bps_push *push = &uplink->slots[i];

		if (!push->unanswered)
			continue;
		if (!oldest || !oldest->op ||
		    (push->op && push->op->started_ns < oldest->op->started_ns))
			oldest = push;
	}
	if (!oldest)
		return;
	uplink->ping.hdr = oldest->send.hdr;
	uplink->ping.hdr.type = BPS_WIRE_PING;
	uplink->ping.hdr.payload_bytes = 0;
	uplink->ping_sending = uplink->ping_unanswered = true;
	uplink->asked_ns = uplink->client->now_ns;
	send_control(uplink, &uplink->ping);
}

/*
 * Whether the greetings, on a connection that is up, are lost again and again: ours is
 * not acknowledged, or the small end of the other one is there alone.
 */
static bool is_stuck(const struct bps_uplink *uplink)
{
	struct bps_conn_counts counts;

	bps_conn_count(uplink->conn, &counts);
	return (counts.n_unacked > 0 && counts.n_resent > 0) ||
	       (counts.n_ahead > 0 && uplink->conn->n_received_bytes == 0);
}

const char *bps_uplink_silence(const struct bps_uplink *uplink)
{
	if (!uplink->up)
		return "no answer: look for a firewall on the way";
	if (is_stuck(uplink))
		return "small packets arrive, large ones are lost: look at the MTU of the "
		       "cards and of all that is between them";
	return "it was greeted and says nothing: is it stopped?";
}

static void give_up(struct bps_uplink *uplink, uint64_t silent_ns)
{
	bool open = uplink->state == BPS_UPLINK_OPEN;
	char text[FATE_CHARS];

	bps_reason_set(&uplink->reason, -ETIMEDOUT,
	               "server %s %s (it has said nothing for %llu s%s%s)", uplink->name,
	               fate(uplink, text, sizeof(text)),
	               (unsigned long long)(silent_ns / BPS_NS_PER_S), open ? "" : "; ",
	               open ? "" : bps_uplink_silence(uplink));
	bps_conn_close(uplink->conn);
	uplink->conn = NULL;
	die(uplink);
}

/* A server gives a HELLO that does not arrive little more: BPS_SERVERD_HELLO_NS. */
static uint64_t patience_ns(const struct bps_uplink *uplink)
{
	uint64_t timeout_ns = uplink->client->config.timeout_ns;

	if (uplink->state == BPS_UPLINK_GREETING && timeout_ns > STUCK_NS &&
	    is_stuck(uplink))
		return STUCK_NS;
	return timeout_ns;
}

static bool waits_for_server(const struct bps_uplink *uplink)
{
	if (uplink->state == BPS_UPLINK_GREETING)
		return uplink->up;
	return uplink->state == BPS_UPLINK_OPEN && uplink->n_unanswered > 0;
}

void bps_uplink_tick(struct bps_uplink *uplink, bool stopped)
{
	const struct bps_client *client = uplink->client;
	uint64_t ping_ns = client->config.timeout_ns / 4, silent_ns;

	if (!uplink->conn || !waits_for_server(uplink))
		return;
	if (uplink->heard_ns == 0 || stopped)
		uplink->heard_ns = client->now_ns;
	if (ping_ns > PING_NS)
		ping_ns = PING_NS;
	silent_ns = client->now_ns - uplink->heard_ns;
	if (silent_ns >= patience_ns(uplink))
		give_up(uplink, silent_ns);
	else if (uplink->state == BPS_UPLINK_OPEN && silent_ns >= ping_ns &&
	         !uplink->ping_sending && !uplink->ping_unanswered &&
	         client->now_ns - uplink->asked_ns >= ping_ns)
		send_ping(uplink);
}
