/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/engine/raw.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static void on_up(void *owner)
{
	(void)owner;
}

static int on_place(void *owner, const struct bps_wire_hdr *hdr, void **ret_dst)
{
	struct raw *raw = owner;

	if (hdr->payload_bytes > sizeof(raw->payload))
		abort();
	*ret_dst = raw->payload;
	return 0;
}

static int on_message(void *owner, const struct bps_wire_hdr *hdr)
{
	struct raw *raw = owner;

	raw->hdr = *hdr;
	raw->n_by_type[hdr->type]++;
	if (hdr->payload_bytes < sizeof(raw->payload))
		raw->payload[hdr->payload_bytes] = '\0';
	return 0;
}

static void on_down(void *owner, int error)
{
	struct raw *raw = owner;

	raw->conn = NULL;
	raw->error = error;
}

static const struct bps_conn_events raw_events = {
	.up = on_up,
	.place = on_place,
	.message = on_message,
	.down = on_down,
};

void raw_dial(struct raw *raw, struct bps_sim *sim, struct bps_sim_server *server)
{
	const struct bps_sim_nic nic = { 0 };

	memset(raw, 0, sizeof(*raw));
	raw->sim = sim;
	memset(raw->job, 0x5a, sizeof(raw->job));
	raw->n_ranks = 2;
	raw->slot_bytes = 1024;
	raw->n_slots = 2;
	raw->conn = bps_sim_connect(bps_sim_node(sim, &nic), server->node,
	                            bps_sim_server_accept, server);
	bps_conn_bind(raw->conn, &raw_events, raw);
}

void raw_accept(void *owner, struct bps_conn *conn)
{
	struct raw *raw = owner;

	raw->conn = conn;
	bps_conn_bind(conn, &raw_events, raw);
}

struct raw_msg {
	struct bps_send send;
	uint8_t bytes[];
};

static void sent(struct bps_send *send, int error)
{
	(void)error;
	free(BPS_CONTAINER_OF(send, struct raw_msg, send));
}

void raw_send(struct raw *raw, const struct bps_wire_hdr *hdr, const void *payload,
              uint32_t bytes)
{
	struct raw_msg *msg;

	if (!raw->conn)
		return;
	msg = calloc(1, sizeof(*msg) + bytes + 1);
	if (!msg)
		abort();
	msg->send.hdr = *hdr;
	msg->send.hdr.payload_bytes = bytes;
	if (bytes > 0)
		memcpy(msg->bytes, payload, bytes);
	msg->send.payload = msg->bytes;
	msg->send.done = sent;
	bps_conn_send(raw->conn, &msg->send);
}

void raw_hello(struct raw *raw, uint8_t type)
{
	struct bps_wire_hello hello = {
		.peer = raw->rank,
		.n_peers = raw->n_ranks,
		.n_slots = raw->n_slots,
		.slot_bytes = raw->slot_bytes,
		.connection = raw->connection,
		.version = "raw",
		.host = "evil",
	};
	uint8_t buf[BPS_WIRE_HELLO_BYTES];

	memcpy(hello.job, raw->job, sizeof(hello.job));
	bps_wire_encode_hello(&hello, buf);
	raw_send(raw, &(struct bps_wire_hdr){ .type = type }, buf, sizeof(buf));
}

struct bps_wire_hdr raw_push(const struct raw *raw, uint32_t slot, uint32_t part)
{
	return (struct bps_wire_hdr){
		.type = BPS_WIRE_PUSH,
		.slot = slot,
		.group = 1,
		.part = part,
		.n_parts = 100,
		.op_bytes = 100000,
		.member = (uint16_t)raw->rank,
		.n_members = 2,
		.dtype = BPS_F32,
		.redop = BPS_SUM,
		.coll = BPS_ALLREDUCE,
		.peer = raw->rank,
	};
}

void raw_close(struct raw *raw)
{
	if (raw->conn)
		bps_conn_close(raw->conn);
	raw->conn = NULL;
}

void raw_settle(struct bps_sim *sim)
{
	bps_sim_run(sim, bps_sim_now(sim) + BPS_NS_PER_S);
}
