/* SPDX-License-Identifier: BSD-3-Clause */
/* Several connections to one server: which one a push takes, which ones are kept. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/client.h"
#include "engine/server.h"
#include "tests/unit/engine/unit.h"
#include "transport/transport.h"

#define SLOT_BYTES 4096u
#define N_SLOTS    4u
#define MOST_PARTS 32u

/* A connection that remembers what was sent on it. */
struct fake {
	struct bps_conn conn;
	bool closed;
	uint32_t n_hellos, n_byes, n_pushes, n_open;
	uint32_t number; /* as its HELLO said */
	uint32_t n_hello_bytes;
	struct bps_wire_hdr pushes[MOST_PARTS]; /* that were not answered */
	struct bps_send *queued[MOST_PARTS];    /* done() is due */
	uint32_t n_queued;
	struct bps_conn_counts counts;
	uint16_t net; /* its way is from 10.0.net.1 to 10.0.net.9:7000; 0: it has none */
};

static void sent(struct fake *fake)
{
	while (fake->n_queued > 0) {
		struct bps_send *send = fake->queued[--fake->n_queued];

		send->done(send, 0);
	}
}

static void fake_send(struct bps_conn *conn, struct bps_send *send)
{
	struct fake *fake = (struct fake *)conn;
	struct bps_wire_hello hello;

	assert_false(fake->closed);
	if (send->hdr.type == BPS_WIRE_HELLO) {
		fake->n_hellos++;
		assert_int_equal(bps_wire_decode_hello(send->payload,
		                                       send->hdr.payload_bytes, &hello),
		                 0);
		fake->number = hello.connection;
		fake->n_hello_bytes = send->hdr.payload_bytes;
	}
	if (send->hdr.type == BPS_WIRE_BYE)
		fake->n_byes++;
	if (send->hdr.type == BPS_WIRE_PUSH) {
		fake->pushes[fake->n_open++] = send->hdr;
		fake->n_pushes++;
	}
	assert_true(fake->n_queued < MOST_PARTS);
	fake->queued[fake->n_queued++] = send;
}

static void fake_close(struct bps_conn *conn)
{
	((struct fake *)conn)->closed = true;
}

static void fake_count(const struct bps_conn *conn, struct bps_conn_counts *ret_counts)
{
	*ret_counts = ((const struct fake *)conn)->counts;
}

static void make_addr(struct bps_addr *addr, uint32_t address, uint16_t port)
{
	*addr = (struct bps_addr){ .bytes = sizeof(addr->in) };
	addr->in.sin_family = AF_INET;
	addr->in.sin_addr.s_addr = htonl(address);
	bps_addr_set_port(addr, port);
}

/* Each connection has another port here, as they have. */
static int fake_ends(const struct bps_conn *conn, struct bps_addr *ret_here,
                     struct bps_addr *ret_there)
{
	const struct fake *fake = (const struct fake *)conn;

	if (fake->net == 0)
		return -ENOTCONN;
	make_addr(ret_here, 0x0a000001 | (uint32_t)fake->net << 8,
	          (uint16_t)(40000 + fake->number));
	make_addr(ret_there, 0x0a000009 | (uint32_t)fake->net << 8, 7000);
	return 0;
}

static const struct bps_conn_ops fake_ops = {
	.send = fake_send,
	.close = fake_close,
	.count = fake_count,
	.ends = fake_ends,
};

static void say(struct fake *fake, const struct bps_wire_hdr *hdr, const void *payload)
{
	const struct bps_conn_events *events = fake->conn.events;
	void *dst;

	sent(fake);
	if (hdr->payload_bytes > 0) {
		assert_int_equal(events->place(fake->conn.owner, hdr, &dst), 0);
		memcpy(dst, payload, hdr->payload_bytes);
	}
	assert_int_equal(events->message(fake->conn.owner, hdr), 0);
}

/* From the server with this number, which listens on 10.0.0.1 too. */
static int welcome_from(struct fake *fake, uint64_t server)
{
	struct bps_wire_hello hello = {
		.n_slots = N_SLOTS + BPS_SPARE_SLOTS,
		.slot_bytes = SLOT_BYTES,
		.server = server,
		.n_addrs = 1,
	};
	struct bps_wire_hdr hdr = { .type = BPS_WIRE_WELCOME };
	const struct bps_conn_events *events = fake->conn.events;
	uint8_t payload[BPS_WIRE_HELLO_MOST];
	void *dst;

	make_addr(&hello.addrs[0].addr, 0x0a000001, 7000);
	events->up(fake->conn.owner);
	hdr.payload_bytes = bps_wire_encode_hello(&hello, payload);
	sent(fake);
	assert_int_equal(events->place(fake->conn.owner, &hdr, &dst), 0);
	memcpy(dst, payload, hdr.payload_bytes);
	return events->message(fake->conn.owner, &hdr);
}

static void welcome(struct fake *fake)
{
	assert_int_equal(welcome_from(fake, 1), 0);
}

static void refuse(struct fake *fake)
{
	const struct bps_wire_hdr hdr = { .type = BPS_WIRE_REFUSE, .payload_bytes = 2 };
	const struct bps_conn_events *events = fake->conn.events;
	void *owner = fake->conn.owner, *dst;

	assert_int_equal(events->place(owner, &hdr, &dst), 0);
	memcpy(dst, "no", 2);
	events->down(owner, events->message(owner, &hdr));
}

/* Answer its oldest push. */
static void answer(struct fake *fake)
{
	static const uint8_t total[SLOT_BYTES];
	struct bps_wire_hdr hdr = fake->pushes[0];

	assert_true(fake->n_open > 0);
	memmove(fake->pushes, fake->pushes + 1, --fake->n_open * sizeof(hdr));
	hdr.type = BPS_WIRE_ANSWER;
	say(fake, &hdr, total);
}

/* -- a client with one server, and one op -- */

static uint8_t input[SLOT_BYTES], output[SLOT_BYTES];
static uint32_t n_landed;
static bool finished, may_fail;

static const void *source(struct bps_op *op, uint64_t position)
{
	(void)op;
	(void)position;
	return input;
}

static void *place(struct bps_op *op, uint64_t position, uint32_t *ret_region,
                   uint64_t *ret_offset)
{
	(void)op;
	(void)position;
	*ret_region = 0;
	*ret_offset = 0;
	return output;
}

static void landed(struct bps_op *op, uint64_t position)
{
	(void)op;
	(void)position;
	n_landed++;
}

static void on_finished(struct bps_op *op, const struct bps_reason *reason)
{
	(void)op;
	assert_true(!reason || may_fail);
	finished = true;
}

static const struct bps_op_events events = {
	.source = source, .place = place, .landed = landed, .finished = on_finished
};

struct bench {
	struct bps_client *client;
	struct fake fakes[BPS_WIRE_MAX_CONNECTIONS + 1];
	struct bps_group group;
	struct bps_slice slice;
	struct bps_op op;
};

static void attach(struct bench *bench, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		bench->fakes[i].conn.ops = &fake_ops;
		assert_int_equal(bps_client_attach(bench->client, 0,
		                                   &bench->fakes[i].conn, "s",
		                                   i % 2 ? 5000 : 0),
		                 0);
		assert_int_equal(bench->fakes[i].n_hellos, 1);
		assert_int_equal(bench->fakes[i].number, i);
		assert_int_equal(bench->fakes[i].n_hello_bytes, i % 2 ? 5000 : 116);
	}
	assert_int_equal(bps_client_n_connections(bench->client, 0), n);
}

static const struct bps_client_config usual = {
	.n_peers = 1,
	.host = "h",
	.slot_bytes = SLOT_BYTES,
	.n_slots = N_SLOTS,
	.timeout_ns = 60 * BPS_NS_PER_S,
};

static void open_bench_as(struct bench *bench, uint32_t n_connections,
                          const struct bps_client_config *config)
{
	memset(bench, 0, sizeof(*bench));
	n_landed = 0;
	finished = false;
	assert_int_equal(bps_client_new(config, &bench->client), 0);
	attach(bench, n_connections);
}

static void open_bench(struct bench *bench, uint32_t n_connections)
{
	open_bench_as(bench, n_connections, &usual);
}

/* An op of @n_parts parts, all ready. */
static void start(struct bench *bench, uint32_t n_parts, uint32_t window)
{
	static const uint32_t server, weight = BPS_SHARE_ONE;
	const struct bps_plan plan = {
		.n_servers = 1,
		.weights = &weight,
		.max_bytes = SLOT_BYTES,
		.cost_bytes = UINT32_MAX,
	};

	bench->group = (struct bps_group){
		.id = 1, .n_members = 1, .n_servers = 1, .servers = &server, .name = "c"
	};
	assert_int_equal(bps_group_join(bench->client, &bench->group), 0);
	bench->op = (struct bps_op){
		.coll = BPS_ALLREDUCE,
		.dtype = BPS_BYTE,
		.redop = BPS_BOR,
		.window = window,
		.events = &events,
	};
	/* The first and the last round are half as long: one part more. */
	assert_int_equal(bps_cut_make(&plan, (n_parts - 1) * (uint64_t)SLOT_BYTES, 0,
	                              &bench->slice, &bench->op.cut),
	                 0);
	assert_int_equal(bench->op.cut.n_parts, n_parts);
	assert_int_equal(bps_op_start(bench->client, &bench->group, &bench->op, 1), 0);
	bps_op_ready(bench->client, &bench->op, n_parts);
}

static uint32_t n_open(const struct bench *bench)
{
	uint32_t i, n = 0;

	for (i = 0; i < BPS_WIRE_MAX_CONNECTIONS; i++)
		n += bench->fakes[i].n_open;
	return n;
}

static void close_bench(struct bench *bench)
{
	uint32_t i;

	if (!finished && bench->group.n_members > 0) {
		for (i = 0; i < BPS_WIRE_MAX_CONNECTIONS; i++) {
			while (bench->fakes[i].n_open > 0)
				answer(&bench->fakes[i]);
		}
	}
	if (bench->group.n_members > 0)
		bps_group_leave(bench->client, &bench->group);
	bps_client_close(bench->client);
	for (i = 0; i < BPS_WIRE_MAX_CONNECTIONS; i++)
		sent(&bench->fakes[i]);
	assert_true(bps_client_closed(bench->client));
	bps_client_free(bench->client);
}

static void a_push_goes_where_most_is_answered(void **state)
{
	struct bench bench;
	uint32_t i;

	(void)state;
	open_bench(&bench, 3);
	for (i = 0; i < 3; i++)
		welcome(&bench.fakes[i]);
	start(&bench, 16, 6);
	/* Six in all, as the window of the op says, two on each. */
	for (i = 0; i < 3; i++)
		assert_int_equal(bench.fakes[i].n_open, 2);
	answer(&bench.fakes[1]);
	answer(&bench.fakes[1]);
	answer(&bench.fakes[1]);
	assert_int_equal(bench.fakes[0].n_pushes, 2);
	assert_int_equal(bench.fakes[1].n_pushes, 5);
	assert_int_equal(bench.fakes[2].n_pushes, 2);
	assert_int_equal(n_open(&bench), 6);
	while (!finished) {
		for (i = 0; i < 3; i++) {
			if (bench.fakes[i].n_open > 0)
				answer(&bench.fakes[i]);
		}
	}
	assert_int_equal(n_landed, 16);
	close_bench(&bench);
}

static void windows_add_up(void **state)
{
	struct bench bench;

	(void)state;
	open_bench(&bench, 2);
	welcome(&bench.fakes[0]);
	welcome(&bench.fakes[1]);
	start(&bench, 16, 0);
	assert_int_equal(n_open(&bench), 2 * N_SLOTS);
	close_bench(&bench);
}

static void those_not_kept_say_goodbye(void **state)
{
	struct bench bench;

	(void)state;
	open_bench(&bench, 3);
	welcome(&bench.fakes[0]);
	welcome(&bench.fakes[1]);
	welcome(&bench.fakes[2]);
	bps_client_keep(bench.client, 0, 1);
	assert_int_equal(bps_client_n_connections(bench.client, 0), 1);
	assert_false(bench.fakes[0].closed);
	assert_true(bench.fakes[1].closed && bench.fakes[2].closed);
	assert_int_equal(bench.fakes[0].n_byes, 0);
	assert_int_equal(bench.fakes[1].n_byes + bench.fakes[2].n_byes, 2);
	start(&bench, 8, 0);
	assert_int_equal(bench.fakes[0].n_open, N_SLOTS);
	close_bench(&bench);
}

static void one_refused_is_told_and_can_be_dropped(void **state)
{
	const struct bps_reason *reason;
	struct bench bench;

	(void)state;
	open_bench(&bench, 2);
	welcome(&bench.fakes[0]);
	assert_int_equal(bps_client_status(bench.client, 0, NULL), -EINPROGRESS);
	refuse(&bench.fakes[1]);
	assert_int_equal(bps_client_status(bench.client, 0, &reason), -EPERM);
	assert_non_null(strstr(reason->text, "no"));
	bps_client_keep(bench.client, 0, 1);
	assert_int_equal(bps_client_status(bench.client, 0, NULL), 0);
	start(&bench, 4, 0);
	while (!finished)
		answer(&bench.fakes[0]);
	close_bench(&bench);
}

static void one_not_welcomed_says_goodbye(void **state)
{
	struct bench bench;

	(void)state;
	open_bench(&bench, 3);
	welcome(&bench.fakes[0]);
	refuse(&bench.fakes[1]);
	bps_client_keep(bench.client, 0, 1);
	assert_true(bench.fakes[2].closed);
	assert_int_equal(bench.fakes[2].n_byes, 1);
	close_bench(&bench);
}

static void what_a_dead_one_owed_is_forgotten(void **state)
{
	struct bench bench;

	(void)state;
	open_bench(&bench, 2);
	welcome(&bench.fakes[0]);
	welcome(&bench.fakes[1]);
	start(&bench, 8, 4);
	sent(&bench.fakes[1]);
	may_fail = true;
	bench.fakes[1].conn.events->down(bench.fakes[1].conn.owner, -ECONNRESET);
	bench.fakes[1].n_open = 0;
	assert_true(finished);
	sent(&bench.fakes[0]);
	while (bench.fakes[0].n_open > 0)
		answer(&bench.fakes[0]);
	bps_group_leave(bench.client, &bench.group);
	bps_client_keep(bench.client, 0, 1);
	finished = may_fail = false;
	start(&bench, 8, 2);
	assert_int_equal(bench.fakes[0].n_open, 2);
	close_bench(&bench);
}

/* A rail that is given up, of several: those after it move up, numbers stay. */
static void one_in_the_middle_is_dropped(void **state)
{
	struct bps_connection look;
	struct bench bench;

	(void)state;
	open_bench(&bench, 3);
	welcome(&bench.fakes[0]);
	refuse(&bench.fakes[1]);
	welcome(&bench.fakes[2]);
	assert_int_equal(bps_client_look(bench.client, 0, 1, &look), 0);
	assert_int_equal(look.status, -EPERM);
	assert_int_equal(look.here.bytes, 0);
	bps_client_drop(bench.client, 0, 1);
	assert_int_equal(bps_client_status(bench.client, 0, NULL), 0);
	assert_int_equal(bps_client_n_connections(bench.client, 0), 2);
	bps_client_drop(bench.client, 0, 0);
	assert_true(bench.fakes[0].closed);
	assert_int_equal(bench.fakes[0].n_byes, 1);
	assert_int_equal(bps_client_look(bench.client, 0, 0, &look), 0);
	assert_int_equal(bps_client_look(bench.client, 0, 1, &look), -ENOENT);
	bench.fakes[3].conn.ops = &fake_ops;
	assert_int_equal(bps_client_attach(bench.client, 0, &bench.fakes[3].conn, "s", 0),
	                 0);
	assert_int_equal(bench.fakes[3].number, 3);
	welcome(&bench.fakes[3]);
	start(&bench, 16, 0);
	assert_int_equal(bench.fakes[2].n_open, N_SLOTS);
	assert_int_equal(bench.fakes[3].n_open, N_SLOTS);
	assert_int_equal(n_open(&bench), 2 * N_SLOTS);
	close_bench(&bench);
}

/* The same address may be on many boxes: who answers there has to be the same server. */
static void another_server_is_not_the_same(void **state)
{
	const struct bps_card_addr *addrs;
	const struct bps_reason *reason;
	struct bench bench;

	(void)state;
	open_bench(&bench, 3);
	assert_int_equal(bps_client_told(bench.client, 0, &addrs), 0);
	assert_int_equal(bps_client_id(bench.client, 0), 0);
	assert_int_equal(bps_client_id(bench.client, 1), 0);
	assert_int_equal(welcome_from(&bench.fakes[0], 7), 0);
	assert_int_equal(bps_client_told(bench.client, 0, &addrs), 1);
	assert_int_equal(bps_addr_port(&addrs[0].addr), 7000);
	assert_int_equal(welcome_from(&bench.fakes[1], 7), 0);
	assert_int_equal(welcome_from(&bench.fakes[2], 8), -EADDRNOTAVAIL);
	bench.fakes[2].conn.events->down(bench.fakes[2].conn.owner, -EADDRNOTAVAIL);
	assert_int_equal(bps_client_status(bench.client, 0, &reason), -EADDRNOTAVAIL);
	assert_non_null(strstr(reason->text, "another server"));
	bps_client_keep(bench.client, 0, 2);
	assert_int_equal(bps_client_status(bench.client, 0, NULL), 0);
	assert_int_equal(bps_client_id(bench.client, 0), 7);
	close_bench(&bench);
}

/* Whoever is told the time less often did not run meanwhile. */
static void pass(struct bps_client *client, uint64_t from_s, uint64_t to_s)
{
	while (++from_s <= to_s)
		bps_client_tick(client, from_s * BPS_NS_PER_S);
}

/* The 8 s of a HELLO that does not arrive: 10 s are all that a server gives it. */
static void a_hello_that_is_lost_is_given_up(void **state)
{
	const struct bps_reason *reason;
	struct bps_connection look;
	struct bench bench;

	(void)state;
	open_bench(&bench, 2);
	assert_int_equal(bps_client_look(bench.client, 0, 0, &look), 0);
	assert_non_null(strstr(look.silence, "firewall"));
	welcome(&bench.fakes[0]);
	assert_int_equal(bps_client_look(bench.client, 0, 0, &look), 0);
	assert_null(look.silence);
	bps_client_tick(bench.client, BPS_NS_PER_S);
	bench.fakes[1].conn.events->up(bench.fakes[1].conn.owner);
	assert_int_equal(bps_client_look(bench.client, 0, 1, &look), 0);
	assert_non_null(strstr(look.silence, "is it stopped?"));
	bench.fakes[1].counts = (struct bps_conn_counts){ .n_sent = 10, .n_unacked = 10 };
	pass(bench.client, 1, 10);
	assert_int_equal(bps_client_status(bench.client, 0, NULL), -EINPROGRESS);
	bench.fakes[1].counts.n_resent = 3;
	assert_int_equal(bps_client_look(bench.client, 0, 1, &look), 0);
	assert_non_null(strstr(look.silence, "large ones are lost: look at the MTU"));
	bench.fakes[1].counts = (struct bps_conn_counts){ .n_sent = 2, .n_ahead = 1 };
	assert_int_equal(bps_client_look(bench.client, 0, 1, &look), 0);
	assert_non_null(strstr(look.silence, "large ones are lost: look at the MTU"));
	bps_client_tick(bench.client, 10 * BPS_NS_PER_S);
	assert_int_equal(bps_client_status(bench.client, 0, &reason), -ETIMEDOUT);
	assert_non_null(strstr(reason->text, "server s cannot be used"));
	assert_non_null(strstr(reason->text, "look at the MTU"));
	assert_true(bench.fakes[1].closed);
	bps_client_keep(bench.client, 0, 1);
	close_bench(&bench);
}

/* What is said when the last of @n connections, at @nets, breaks in mid-op. */
static void break_last(struct bench *bench, const uint16_t *nets, uint32_t n, char *text)
{
	struct fake *last = &bench->fakes[n - 1];
	uint32_t i;

	open_bench(bench, n);
	for (i = 0; i < n; i++) {
		bench->fakes[i].net = nets[i];
		welcome(&bench->fakes[i]);
	}
	start(bench, 8, 4);
	sent(last);
	may_fail = true;
	last->conn.events->down(last->conn.owner, -EHOSTUNREACH);
	last->n_open = 0;
	assert_true(finished);
	strcpy(text, bench->group.broken.text);
	bps_group_leave(bench->client, &bench->group);
	bps_client_keep(bench->client, 0, n - 1);
	may_fail = false;
	close_bench(bench);
}

static void a_way_that_breaks_is_named(void **state)
{
	char text[BPS_REASON_CHARS];
	struct bench bench;

	(void)state;
	break_last(&bench, (uint16_t[]){ 1, 1, 2 }, 3, text);
	assert_non_null(strstr(text, "server s died, or the way from 10.0.2.1 to "
	                             "10.0.2.9:7000 broke (it cannot be reached"));
	break_last(&bench, (uint16_t[]){ 1, 1 }, 2, text);
	assert_non_null(strstr(text, "server s died (it cannot be reached"));
	break_last(&bench, (uint16_t[]){ 0, 0 }, 2, text);
	assert_non_null(strstr(text, "server s died (it cannot be reached"));
}

/* One more connection to a server of the job that fails, and is dropped, ends nothing. */
static void a_trial_that_fails_is_no_loss(void **state)
{
	struct bench bench;

	(void)state;
	open_bench(&bench, 2);
	bps_client_carried(bench.client, 0);
	welcome(&bench.fakes[0]);
	bench.fakes[1].conn.events->down(bench.fakes[1].conn.owner, -ECONNREFUSED);
	bps_client_drop(bench.client, 0, 1);
	start(&bench, 4, 2);
	pass(bench.client, 0, 20);
	assert_false(finished);
	close_bench(&bench);
}

/* The time goes on while it is asked for. */
static uint64_t running_clock(void *now_ns)
{
	return ++*(uint64_t *)now_ns;
}

/* As pass(), until all is finished; return: the last second. */
static uint64_t pass_by(struct bench *bench, uint64_t *clock_ns, uint64_t from_s,
                        uint64_t to_s)
{
	while (from_s < to_s && !finished) {
		*clock_ns = ++from_s * BPS_NS_PER_S;
		bps_client_tick(bench->client, *clock_ns);
	}
	return from_s;
}

/* When it dies while there is nothing to do, and so no tick, the grace is as long. */
static void a_loss_in_idle_times_has_its_grace(void **state)
{
	uint64_t now_ns = 100 * BPS_NS_PER_S;
	struct bps_client_config config = usual;
	struct bench bench;

	(void)state;
	config.clock = running_clock;
	config.clock_owner = &now_ns;
	open_bench_as(&bench, 1, &config);
	bps_client_carried(bench.client, 0);
	welcome(&bench.fakes[0]);
	bps_client_tick(bench.client, BPS_NS_PER_S);
	bench.fakes[0].conn.events->down(bench.fakes[0].conn.owner, 0);
	assert_true(bps_client_busy(bench.client));
	start(&bench, 4, 2);
	may_fail = true;
	assert_in_range(pass_by(&bench, &now_ns, 100, 110), 104, 105);
	assert_true(finished);
	may_fail = false;
	close_bench(&bench);
}

/* A tick that finds out that a server is silent does not take the grace for over. */
static void a_silence_has_its_grace(void **state)
{
	struct bps_client_config config = usual;
	uint64_t now_ns = 1;
	struct bench bench;

	(void)state;
	config.clock = running_clock;
	config.clock_owner = &now_ns;
	open_bench_as(&bench, 1, &config);
	bps_client_carried(bench.client, 0);
	welcome(&bench.fakes[0]);
	start(&bench, 4, 2);
	sent(&bench.fakes[0]);
	may_fail = true;
	/* 60 s of silence, and four more. */
	assert_in_range(pass_by(&bench, &now_ns, 0, 100), 64, 66);
	assert_true(finished);
	may_fail = false;
	bench.fakes[0].n_open = 0;
	close_bench(&bench);
}

/* Who was stopped has heard nothing, and knows nothing of the server for that. */
static void a_stop_is_not_the_servers_silence(void **state)
{
	struct bench bench;

	(void)state;
	open_bench(&bench, 1);
	welcome(&bench.fakes[0]);
	start(&bench, 4, 2);
	sent(&bench.fakes[0]);
	pass(bench.client, 0, 5);
	pass(bench.client, 1000, 1058);
	assert_false(finished);
	may_fail = true;
	pass(bench.client, 1058, 1062);
	assert_true(finished);
	may_fail = false;
	bench.fakes[0].n_open = 0;
	close_bench(&bench);
}

static void there_is_a_most(void **state)
{
	struct bench bench;
	struct fake *last;

	(void)state;
	open_bench(&bench, BPS_WIRE_MAX_CONNECTIONS);
	last = &bench.fakes[BPS_WIRE_MAX_CONNECTIONS];
	last->conn.ops = &fake_ops;
	assert_int_equal(bps_client_attach(bench.client, 0, &last->conn, "s", 0),
	                 -ENOSPC);
	assert_true(last->closed);
	close_bench(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_push_goes_where_most_is_answered),
		cmocka_unit_test(windows_add_up),
		cmocka_unit_test(those_not_kept_say_goodbye),
		cmocka_unit_test(one_refused_is_told_and_can_be_dropped),
		cmocka_unit_test(one_not_welcomed_says_goodbye),
		cmocka_unit_test(what_a_dead_one_owed_is_forgotten),
		cmocka_unit_test(one_in_the_middle_is_dropped),
		cmocka_unit_test(another_server_is_not_the_same),
		cmocka_unit_test(a_hello_that_is_lost_is_given_up),
		cmocka_unit_test(a_way_that_breaks_is_named),
		cmocka_unit_test(a_trial_that_fails_is_no_loss),
		cmocka_unit_test(a_loss_in_idle_times_has_its_grace),
		cmocka_unit_test(a_silence_has_its_grace),
		cmocka_unit_test(a_stop_is_not_the_servers_silence),
		cmocka_unit_test(there_is_a_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
