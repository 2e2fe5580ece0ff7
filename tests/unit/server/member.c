/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/server/member.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/sim/cut.h"
#include "transport/tcp.h"

#define TURN_NS (200 * BPS_NS_PER_MS)

struct work {
	struct bps_op op;
	struct member *member;
	const uint8_t *in;
	uint8_t *out;
	bool over;
	int error;
};

static uint64_t offset_of(const struct bps_op *op, uint64_t position)
{
	uint32_t start = op->coll == BPS_BCAST ? op->root : op->group->member;
	uint64_t offset;
	uint32_t bytes;

	bps_cut_part(&op->cut, bps_cut_visit(&op->cut, start, (uint32_t)position),
	             &offset, &bytes);
	return offset;
}

static bool is_root(const struct bps_op *op)
{
	return op->coll == BPS_BCAST && op->root == op->group->member;
}

static const void *on_source(struct bps_op *op, uint64_t position)
{
	struct work *work = op->owner;

	if (op->coll == BPS_BCAST && !is_root(op))
		return NULL;
	return work->in + offset_of(op, position);
}

static void *on_place(struct bps_op *op, uint64_t position, uint32_t *ret_region,
                      uint64_t *ret_offset)
{
	struct work *work = op->owner;

	*ret_region = 0;
	*ret_offset = 0;
	if (is_root(op))
		return NULL;
	*ret_offset = offset_of(op, position);
	return work->out + *ret_offset;
}

static void on_landed(struct bps_op *op, uint64_t position)
{
	(void)op;
	(void)position;
}

static void on_finished(struct bps_op *op, const struct bps_reason *reason)
{
	struct work *work = op->owner;

	work->over = true;
	if (!reason)
		return;
	work->error = reason->error;
	work->member->reason = *reason;
}

static const struct bps_op_events events = {
	.source = on_source,
	.place = on_place,
	.landed = on_landed,
	.finished = on_finished,
};

static int turn(struct member *member)
{
	bps_client_tick(member->client, bps_now_ns());
	return bps_loop_turn(member->loop, TURN_NS);
}

static int run(struct member *member, struct work *work, uint64_t bytes)
{
	struct bps_slice slices[MEMBER_MAX_SERVERS];
	int r;

	work->member = member;
	work->op.events = &events;
	work->op.owner = work;
	r = bps_test_cut(bytes, member->slot_bytes, member->group.n_servers, slices,
	                 &work->op.cut);
	if (r == 0)
		r = bps_op_start(member->client, &member->group, &work->op, bps_now_ns());
	if (r < 0) {
		member->reason = member->group.broken;
		return r;
	}
	bps_op_ready(member->client, &work->op, work->op.cut.n_parts);
	while (r == 0 && !work->over)
		r = turn(member);
	return r < 0 ? r : work->error;
}

int member_allreduce(struct member *member, enum bps_dtype dtype, enum bps_redop redop,
                     const void *in, void *out, uint64_t bytes)
{
	struct work work = {
		.op = { .coll = BPS_ALLREDUCE, .dtype = dtype, .redop = redop },
		.in = in,
		.out = out,
	};

	return run(member, &work, bytes);
}

int member_bcast(struct member *member, uint16_t root, void *buf, uint64_t bytes)
{
	struct work work = {
		.op = { .coll = BPS_BCAST, .dtype = BPS_BYTE, .root = root },
		.in = buf,
		.out = buf,
	};

	return run(member, &work, bytes);
}

static int connect_to(struct member *member, uint32_t server, const struct bps_addr *addr)
{
	char name[BPS_ADDR_CHARS];
	struct bps_tcp_dial dial = {
		.name = bps_addr_format(addr, name, sizeof(name)),
		.addrs = addr,
		.n_addrs = 1,
		.retry_ns = 2 * BPS_NS_PER_S,
	};
	struct bps_conn *conn;
	int r;

	r = bps_tcp_dial(member->loop, &dial, NULL, NULL, &conn);
	return r < 0 ? r
	             : bps_client_attach(member->client, server, conn, name,
	                                 BPS_WIRE_GREETING_BYTES);
}

static int wait_for_window(struct member *member, uint32_t server)
{
	const struct bps_reason *reason = NULL;
	int r, error = 0;

	while ((r = bps_client_status(member->client, server, &reason)) == -EINPROGRESS) {
		error = turn(member);
		if (error < 0)
			return error;
	}
	if (r < 0 && reason)
		member->reason = *reason;
	return r;
}

static int join(struct member *member, const struct member_config *config)
{
	int r = 0;

	for (uint16_t i = 0; i < config->n_ranks; i++)
		member->leaders[i] = i;
	member->group = (struct bps_group){
		.id = 1,
		.member = config->rank,
		.n_members = config->n_ranks,
		.n_servers = config->n_servers,
		.servers = member->servers,
		.name = "the test's communicator",
		.leaders = member->leaders,
	};
	for (uint32_t i = 0; r == 0 && i < config->n_servers; i++) {
		member->servers[i] = i;
		r = connect_to(member, i, &config->servers[i]);
	}
	for (uint32_t i = 0; r == 0 && i < config->n_servers; i++)
		r = wait_for_window(member, i);
	return r < 0 ? r : bps_group_join(member->client, &member->group);
}

int member_open(struct member *member, const struct member_config *config)
{
	struct bps_client_config client = {
		.peer = config->rank,
		.n_peers = config->n_ranks,
		.host = "testhost",
		.slot_bytes = config->slot_bytes,
		.n_slots = config->n_slots,
		.timeout_ns = config->timeout_ns,
	};
	int r;

	memset(member, 0, sizeof(*member));
	memcpy(client.job, config->job, sizeof(client.job));
	member->slot_bytes = config->slot_bytes;
	r = bps_loop_new(&member->loop);
	if (r == 0)
		r = bps_client_new(&client, &member->client);
	if (r == 0)
		bps_client_tick(member->client, bps_now_ns());
	return r < 0 ? r : join(member, config);
}

void member_close(struct member *member)
{
	int r = 0;

	if (member->client)
		bps_client_close(member->client);
	while (r == 0 && member->loop &&
	       (!bps_loop_idle(member->loop) || !bps_client_closed(member->client)))
		r = bps_loop_turn(member->loop, TURN_NS);
	bps_client_free(member->client);
	bps_loop_free(member->loop);
	member->client = NULL;
	member->loop = NULL;
}
