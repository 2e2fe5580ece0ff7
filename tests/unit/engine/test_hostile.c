/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that are not ours, or gone mad: each loses its connection or gets an error; what
 * they can make the other side hold is bounded; jobs beside them stay exact.
 */
#include "tests/unit/engine/raw.h"
#include "tests/unit/engine/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/sim/cut.h"

static const struct bps_sim_config network = {
	.seed = 7,
	.delay_ns = 10000,
	.jitter_ns = 10000,
	.rto_ns = 100000,
};

static const struct bps_sim_nic no_nic = { 0 };
static const uint8_t bytes[4096];

static const struct bps_sim_job_config usual = {
	.n_members = 3,
	.slot_bytes = 512,
	.n_slots = 2,
	.max_ranks = 1,
	.n_groups = 2,
	.n_calls = 40,
	.max_in_flight = 2,
	.max_op_bytes = 10000,
	.gap_ns = 2000000,
	.timeout_ns = 60 * BPS_NS_PER_S,
};

/* -- to a server -- */

static void push_before_hello(struct raw *raw)
{
	struct bps_wire_hdr push = raw_push(raw, 0, 0);

	raw_send(raw, &push, bytes, 64);
}

static void ping_before_hello(struct raw *raw)
{
	raw_send(raw, &(struct bps_wire_hdr){ .type = BPS_WIRE_PING }, NULL, 0);
}

static void error_before_hello(struct raw *raw)
{
	raw_send(raw, &(struct bps_wire_hdr){ .type = BPS_WIRE_ERROR }, "x", 1);
}

static void hello_twice(struct raw *raw)
{
	raw_hello(raw, BPS_WIRE_HELLO);
	raw_hello(raw, BPS_WIRE_HELLO);
}

static void hello_too_short(struct raw *raw)
{
	raw_send(raw, &(struct bps_wire_hdr){ .type = BPS_WIRE_HELLO }, bytes, 20);
}

static void slot_out_of_range(struct raw *raw)
{
	struct bps_wire_hdr push = raw_push(raw, 2 + BPS_SPARE_SLOTS, 0);

	raw_hello(raw, BPS_WIRE_HELLO);
	raw_send(raw, &push, bytes, 64);
}

static void slot_busy(struct raw *raw)
{
	struct bps_wire_hdr push = raw_push(raw, 0, 0), other = raw_push(raw, 0, 1);

	raw_hello(raw, BPS_WIRE_HELLO);
	raw_send(raw, &push, bytes, 64);
	raw_send(raw, &other, bytes, 64);
}

static void payload_larger_than_a_slot(struct raw *raw)
{
	struct bps_wire_hdr push = raw_push(raw, 0, 0);

	raw_hello(raw, BPS_WIRE_HELLO);
	raw_send(raw, &push, bytes, 1028);
}

static void group_larger_than_the_job(struct raw *raw)
{
	struct bps_wire_hdr push = raw_push(raw, 0, 0);

	push.n_members = 3;
	raw_hello(raw, BPS_WIRE_HELLO);
	raw_send(raw, &push, bytes, 64);
}

static void a_servers_message(struct raw *raw)
{
	raw_hello(raw, BPS_WIRE_HELLO);
	raw_send(raw, &(struct bps_wire_hdr){ .type = BPS_WIRE_ANSWER }, bytes, 64);
}

static void control_too_large(struct raw *raw)
{
	raw_hello(raw, BPS_WIRE_HELLO);
	raw_send(raw, &(struct bps_wire_hdr){ .type = BPS_WIRE_PING }, bytes, 2000);
}

/* Each of these ends the connection. */
static void (*const outrages[])(struct raw *raw) = {
	push_before_hello,
	ping_before_hello,
	error_before_hello,
	hello_twice,
	hello_too_short,
	slot_out_of_range,
	slot_busy,
	payload_larger_than_a_slot,
	group_larger_than_the_job,
	a_servers_message,
	control_too_large,
};

static void an_outrage_ends_the_connection(void **state)
{
	struct bps_sim_world world;
	struct raw raw;
	size_t i;

	(void)state;
	bps_sim_world_open(&world, &network, 1, &no_nic, 0);
	bps_sim_world_add(&world, &usual);
	for (i = 0; i < sizeof(outrages) / sizeof(outrages[0]); i++) {
		raw_dial(&raw, world.sim, world.servers[0]);
		outrages[i](&raw);
		bps_sim_run(world.sim, bps_sim_now(world.sim) + BPS_NS_PER_MS);
		if (raw.conn || raw.error != -ECONNRESET)
			fail_msg("outrage %zu was borne", i);
		raw_close(&raw);
	}
	bps_sim_world_run(&world, 100 * BPS_NS_PER_S);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

/* Pushes that are answered by an error. */
static void nonsense_is_answered_by_an_error(void **state)
{
	struct bps_sim_world world;
	struct bps_wire_hdr pushes[10];
	struct raw raw;
	size_t i;

	(void)state;
	bps_sim_world_open(&world, &network, 1, &no_nic, 0);
	raw_dial(&raw, world.sim, world.servers[0]);
	raw_hello(&raw, BPS_WIRE_HELLO);
	for (i = 0; i < 10; i++)
		pushes[i] = raw_push(&raw, (uint32_t)i % 8, 0);
	pushes[0].member = 2;
	pushes[1].n_members = 0;
	pushes[2].part = 100;
	pushes[3].dtype = 200;
	pushes[4].redop = BPS_BXOR;
	pushes[5].coll = 77;
	pushes[6].coll = BPS_BCAST;
	pushes[6].root = 5;
	pushes[7].coll = BPS_BCAST;
	pushes[7].root = 1; /* a leaf that sends data */
	pushes[8].dtype = BPS_F16_WIDE;
	pushes[8].redop = BPS_MAX;
	pushes[9].dtype = BPS_BF16_WIDE; /* half of an fp32 is left over */
	for (i = 0; i < 10; i++) {
		raw_send(&raw, &pushes[i], bytes, i < 9 ? 64 : 62);
		raw_settle(world.sim);
	}
	assert_int_equal(raw.n_by_type[BPS_WIRE_ERROR], 10);
	raw_send(&raw, &(struct bps_wire_hdr){ .type = BPS_WIRE_BYE }, NULL, 0);
	raw_close(&raw);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

/* Twice the same part, of other sizes, no whole elements: the group ends for both. */
static void parts_that_do_not_fit_end_the_group(void **state)
{
	static const uint32_t sizes[] = { 64, 60, 63 };
	struct bps_sim_world world;
	struct raw one, two;
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		struct bps_wire_hdr push;

		bps_sim_world_open(&world, &network, 1, &no_nic, 0);
		raw_dial(&one, world.sim, world.servers[0]);
		raw_dial(&two, world.sim, world.servers[0]);
		two.rank = 1;
		raw_hello(&one, BPS_WIRE_HELLO);
		raw_hello(&two, BPS_WIRE_HELLO);
		raw_settle(world.sim);
		push = raw_push(&one, 0, 0);
		raw_send(&one, &push, bytes, 64);
		raw_settle(world.sim);
		assert_int_equal(bps_server_n_keys(world.servers[0]->server), 1);
		push = raw_push(i == 0 ? &one : &two, 1, 0);
		raw_send(&two, &push, bytes, sizes[i]);
		raw_settle(world.sim);
		assert_int_equal(two.n_by_type[BPS_WIRE_ERROR], 1);
		/* a part that makes no sense says nothing of the other member */
		assert_int_equal(one.n_by_type[BPS_WIRE_ERROR], i < 2);
		raw_close(&one);
		raw_close(&two);
		bps_sim_world_close(&world);
	}
	assert_int_equal(bps_sim_failures(), 0);
}

/* A root that nobody took anything from is told so too, and not that all went well. */
static void a_root_hears_of_a_disagreement(void **state)
{
	struct bps_sim_world world;
	struct bps_wire_hdr push;
	struct raw root, leaf;

	(void)state;
	bps_sim_world_open(&world, &network, 1, &no_nic, 0);
	raw_dial(&root, world.sim, world.servers[0]);
	raw_dial(&leaf, world.sim, world.servers[0]);
	leaf.rank = 1;
	raw_hello(&root, BPS_WIRE_HELLO);
	raw_hello(&leaf, BPS_WIRE_HELLO);
	push = raw_push(&root, 0, 0);
	push.coll = BPS_BCAST;
	raw_send(&root, &push, bytes, 64);
	raw_settle(world.sim);
	push.member = 1;
	push.op_bytes /= 2;
	raw_send(&leaf, &push, NULL, 0);
	raw_settle(world.sim);
	assert_int_equal(root.n_by_type[BPS_WIRE_ERROR], 1);
	assert_int_equal(root.n_by_type[BPS_WIRE_ANSWER], 0);
	assert_int_equal(leaf.n_by_type[BPS_WIRE_ERROR], 1);
	assert_int_equal(bps_server_n_keys(world.servers[0]->server), 0);
	raw_close(&root);
	raw_close(&leaf);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

static void hellos_that_make_no_sense_are_refused(void **state)
{
	static const struct {
		uint32_t rank, n_ranks, n_slots, slot_bytes, connection;
		const char *text;
	} cases[] = {
		{ 2, 2, 1, 1024, 0, "rank" },
		{ 0, 0, 1, 1024, 0, "rank" },
		{ 0, 2, 0, 1024, 0, "window" },
		{ 0, 2, 1, 64, 0, "window" },
		{ 0, 2, 1, 65 << 20, 0, "window" },
		{ 0, 2, 1, 64 << 20, 0, "memory" },
		{ 0, UINT32_MAX, UINT32_MAX, 1 << 20, 0, "memory" },
		{ 0, 2, 1, 1024, BPS_WIRE_MAX_CONNECTIONS, "too many connections" },
	};
	struct bps_sim_world world;
	struct raw raw;
	size_t i;

	(void)state;
	bps_sim_world_open(&world, &network, 1, &no_nic, 1 << 20);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		raw_dial(&raw, world.sim, world.servers[0]);
		raw.rank = cases[i].rank;
		raw.n_ranks = cases[i].n_ranks;
		raw.n_slots = cases[i].n_slots;
		raw.slot_bytes = cases[i].slot_bytes;
		raw.connection = cases[i].connection;
		raw_hello(&raw, BPS_WIRE_HELLO);
		raw_settle(world.sim);
		if (raw.n_by_type[BPS_WIRE_REFUSE] != 1 ||
		    !strstr((const char *)raw.payload, cases[i].text))
			fail_msg("case %zu: %s", i, (const char *)raw.payload);
		raw_close(&raw);
	}
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

/* A rank has several connections, but none of them twice. */
static void a_connection_comes_once(void **state)
{
	static const struct {
		uint32_t rank, connection;
		bool welcome;
	} cases[] = { { 0, 0, true },  { 0, 1, true }, { 1, 1, true },
		      { 0, 1, false }, { 1, 0, true }, { 0, 0, false } };
	struct raw raws[sizeof(cases) / sizeof(cases[0])];
	struct bps_sim_world world;
	size_t i;

	(void)state;
	bps_sim_world_open(&world, &network, 1, &no_nic, 0);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		raw_dial(&raws[i], world.sim, world.servers[0]);
		raws[i].rank = cases[i].rank;
		raws[i].connection = cases[i].connection;
		raw_hello(&raws[i], BPS_WIRE_HELLO);
		raw_settle(world.sim);
		assert_int_equal(raws[i].n_by_type[BPS_WIRE_WELCOME], cases[i].welcome);
		assert_int_equal(raws[i].n_by_type[BPS_WIRE_REFUSE], !cases[i].welcome);
	}
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		raw_close(&raws[i]);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

/* Slots have numbers of 16 bits, whatever a server may grant. */
static void windows_fit_the_wire(void **state)
{
	static const struct bps_server_config config = {
		.host = "h",
		.memory_bytes = UINT64_MAX,
		.n_reducers = 1,
		.max_slots = UINT32_MAX,
		.quiet = true,
	};
	struct bps_client_config client = { .host = "h", .slot_bytes = 512 };
	struct bps_sim *sim = bps_sim_new(&network);
	struct bps_sim_server *server;
	struct bps_wire_hello hello;
	struct bps_client *ours;
	struct raw raw;

	(void)state;
	bps_sim_servers_new(sim, 1, &no_nic, &config, &server);
	raw_dial(&raw, sim, server);
	raw.slot_bytes = 512;
	raw.n_slots = UINT32_MAX;
	raw_hello(&raw, BPS_WIRE_HELLO);
	raw_settle(sim);
	assert_int_equal(raw.n_by_type[BPS_WIRE_WELCOME], 1);
	assert_int_equal(
		bps_wire_decode_hello(raw.payload, raw.hdr.payload_bytes, &hello), 0);
	assert_int_equal(hello.n_slots, 65536);
	raw_close(&raw);
	raw_settle(sim);
	bps_sim_server_free(server);
	bps_sim_free(sim);
	client.n_slots = 65536 - BPS_SPARE_SLOTS + 1;
	assert_int_equal(bps_client_new(&client, &ours), -EINVAL);
	assert_int_equal(bps_sim_failures(), 0);
}

/* However much it asks and takes back, a member holds no more than it was granted. */
static void floods_are_bounded(void **state)
{
	struct bps_server_memory memory;
	struct bps_sim_world world;
	struct raw raw;
	uint32_t i;

	(void)state;
	bps_sim_world_open(&world, &network, 1, &no_nic, 0);
	bps_sim_world_add(&world, &usual);
	raw_dial(&raw, world.sim, world.servers[0]);
	raw_hello(&raw, BPS_WIRE_HELLO);
	for (i = 0; i < 10000; i++) {
		struct bps_wire_hdr push = raw_push(&raw, 0, 0);

		push.group = i;
		raw_send(&raw,
		         &(struct bps_wire_hdr){ .type = BPS_WIRE_ERROR, .group = i },
		         bytes, 600);
		raw_send(&raw, &push, bytes, 64);
		raw_send(&raw,
		         &(struct bps_wire_hdr){ .type = BPS_WIRE_PING, .group = i },
		         NULL, 0);
		bps_sim_run(world.sim, bps_sim_now(world.sim) + 50000);
	}
	raw_settle(world.sim);
	assert_int_equal(raw.n_by_type[BPS_WIRE_ERROR], 10000);
	assert_int_equal(raw.n_by_type[BPS_WIRE_PONG], 10000);
	bps_server_memory(world.servers[0]->server, &memory);
	assert_true(memory.used_bytes < 100000);
	for (i = 0; i < 100; i++) /* the second one comes while the first is unanswered */
		raw_send(&raw, &(struct bps_wire_hdr){ .type = BPS_WIRE_PING }, NULL, 0);
	raw_settle(world.sim);
	raw_close(&raw);
	bps_sim_world_run(&world, 100 * BPS_NS_PER_S);
	bps_sim_world_close(&world);
	assert_int_equal(bps_sim_failures(), 0);
}

/* -- to a client -- */

struct victim {
	struct bps_sim *sim;
	struct raw raw; /* its server */
	struct bps_client *client;
	struct bps_group group;
	struct bps_op op;
	enum bps_dtype dtype; /* of its next op */
	struct bps_slice slice;
	uint8_t source[4096], result[4096];
	uint32_t n_landed;
	bool over;
	struct bps_reason reason;
};

static const void *victim_source(struct bps_op *op, uint64_t position)
{
	return ((struct victim *)op->owner)->source + position * 512;
}

static void *victim_place(struct bps_op *op, uint64_t position, uint32_t *ret_region,
                          uint64_t *ret_offset)
{
	*ret_region = 3;
	*ret_offset = position * 512;
	return ((struct victim *)op->owner)->result + position * 512;
}

static void victim_landed(struct bps_op *op, uint64_t position)
{
	(void)position;
	((struct victim *)op->owner)->n_landed++;
}

static void victim_finished(struct bps_op *op, const struct bps_reason *reason)
{
	struct victim *victim = op->owner;

	assert_false(victim->over);
	victim->over = true;
	if (reason)
		victim->reason = *reason;
}

static const struct bps_op_events victim_events = {
	.source = victim_source,
	.place = victim_place,
	.landed = victim_landed,
	.finished = victim_finished,
};

static void victim_start(struct victim *victim)
{
	assert_int_equal(bps_group_join(victim->client, &victim->group), 0);
	victim->op = (struct bps_op){ .coll = BPS_ALLREDUCE,
		                      .dtype = victim->dtype,
		                      .redop = BPS_SUM,
		                      .events = &victim_events,
		                      .owner = victim };
	assert_int_equal(bps_test_cut(2 * 512, 512, 1, &victim->slice, &victim->op.cut),
	                 0);
	assert_int_equal(bps_op_start(victim->client, &victim->group, &victim->op, 1), 0);
	bps_op_ready(victim->client, &victim->op, 2);
	raw_settle(victim->sim);
}

/* A client with one op of two parts, which are at the server. */
static void victim_open_with(struct victim *victim, enum bps_dtype dtype, bool welcome)
{
	static const uint32_t server = 0;
	struct bps_client_config config = {
		.n_peers = 2,
		.host = "h",
		.slot_bytes = 512,
		.n_slots = 2,
		.timeout_ns = 60 * BPS_NS_PER_S,
	};
	struct bps_sim *sim = bps_sim_new(&network);
	struct bps_conn *conn;

	memset(victim, 0, sizeof(*victim));
	victim->dtype = dtype;
	victim->sim = victim->raw.sim = sim;
	victim->raw.slot_bytes = 512;
	victim->raw.n_slots = 2 + BPS_SPARE_SLOTS;
	victim->raw.n_ranks = 2;
	conn = bps_sim_connect(bps_sim_node(sim, &no_nic), bps_sim_node(sim, &no_nic),
	                       raw_accept, &victim->raw);
	assert_int_equal(bps_client_new(&config, &victim->client), 0);
	assert_int_equal(bps_client_attach(victim->client, 0, conn, "evil", 0), 0);
	victim->group = (struct bps_group){ .id = 1,
		                            .n_members = 2,
		                            .n_servers = 1,
		                            .servers = &server,
		                            .name = "comm" };
	victim_start(victim);
	if (!welcome)
		return;
	raw_hello(&victim->raw, BPS_WIRE_WELCOME);
	raw_settle(sim);
	assert_int_equal(victim->raw.n_by_type[BPS_WIRE_PUSH], 2);
}

static void victim_open(struct victim *victim, bool welcome)
{
	victim_open_with(victim, BPS_F32, welcome);
}

static void victim_close(struct victim *victim)
{
	bps_client_close(victim->client);
	raw_close(&victim->raw);
	bps_sim_run(victim->sim, bps_sim_now(victim->sim) + 20 * BPS_NS_PER_S);
	assert_true(bps_client_closed(victim->client));
	bps_sim_free(victim->sim);
	bps_client_free(victim->client);
}

static void answer(struct victim *victim, uint8_t type, uint32_t slot, uint32_t part,
                   uint32_t n_bytes)
{
	const struct bps_wire_hdr hdr = {
		.type = type, .slot = slot, .group = 1, .part = part, .peer = 9
	};

	raw_send(&victim->raw, &hdr, bytes, n_bytes);
}

/* What a server says that must end its connection: type, slot, part, payload bytes. */
static const struct {
	uint8_t type;
	uint32_t slot, part, n_bytes;
} lies[] = {
	{ BPS_WIRE_ANSWER, 5, 0, 512 },  /* a slot that is free */
	{ BPS_WIRE_ANSWER, 99, 0, 512 }, /* there is no such slot */
	{ BPS_WIRE_ANSWER, 0, 1, 512 },  /* another part than was pushed there */
	{ BPS_WIRE_ANSWER, 0, 0, 256 },  /* another size */
	{ BPS_WIRE_ANSWER, 0, 0, 0 },    /* nothing, where something was asked for */
	{ BPS_WIRE_ERROR, 5, 0, 10 },    /* for nothing */
	{ BPS_WIRE_PONG, 0, 0, 4 },      /* nobody asked */
	{ BPS_WIRE_LOST, 0, 0, 0 },      /* a rank that there is not */
	{ BPS_WIRE_WELCOME, 0, 0, BPS_WIRE_HELLO_BYTES }, /* again */
	{ BPS_WIRE_PUSH, 0, 0, 512 },                     /* a client's message */
	{ BPS_WIRE_HELLO, 0, 0, BPS_WIRE_HELLO_BYTES },
};

static void lies_end_the_connection_and_the_call(void **state)
{
	struct victim *victim = malloc(sizeof(*victim));
	size_t i;

	(void)state;
	assert_non_null(victim);
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		victim_open(victim, true);
		answer(victim, lies[i].type, lies[i].slot, lies[i].part, lies[i].n_bytes);
		raw_settle(victim->sim);
		if (!victim->over || victim->reason.error != -EBADMSG ||
		    victim->n_landed ||
		    bps_client_status(victim->client, 0, NULL) != -EBADMSG)
			fail_msg("lie %zu was believed", i);
		assert_non_null(strstr(victim->reason.text, "server evil"));
		victim_close(victim);
	}
	free(victim);
}

/* Of a wide type the total has half the bytes of a part: no more, and no less. */
static void a_wide_part_has_an_answer_of_its_own_size(void **state)
{
	static const uint32_t wrong[] = { 512, 128, 254, 258 };
	struct victim *victim = malloc(sizeof(*victim));
	size_t i;

	(void)state;
	assert_non_null(victim);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		victim_open_with(victim, BPS_F16_WIDE, true);
		answer(victim, BPS_WIRE_ANSWER, 0, 0, 256);
		raw_settle(victim->sim);
		assert_int_equal(victim->n_landed, 1);
		assert_false(victim->over);
		answer(victim, BPS_WIRE_ANSWER, 1, 1, wrong[i]);
		raw_settle(victim->sim);
		assert_true(victim->over);
		assert_int_equal(victim->n_landed, 1);
		assert_int_equal(victim->reason.error, -EBADMSG);
		victim_close(victim);
	}
	free(victim);
}

/* The right answer twice: the second one is a lie. */
static void an_answer_counts_once(void **state)
{
	struct victim *victim = malloc(sizeof(*victim));

	(void)state;
	assert_non_null(victim);
	victim_open(victim, true);
	answer(victim, BPS_WIRE_ANSWER, 0, 0, 512);
	answer(victim, BPS_WIRE_ANSWER, 0, 0, 512);
	raw_settle(victim->sim);
	assert_true(victim->over);
	assert_int_equal(victim->n_landed, 1);
	assert_int_equal(victim->reason.error, -EBADMSG);
	victim_close(victim);
	free(victim);
}

static void windows_that_make_no_sense_are_not_taken(void **state)
{
	static const struct {
		uint32_t n_slots, slot_bytes;
	} cases[] = {
		{ 0, 512 },
		{ BPS_SPARE_SLOTS, 512 },
		{ 3 + BPS_SPARE_SLOTS, 512 },
		{ UINT32_MAX, 512 },
		{ 2 + BPS_SPARE_SLOTS, 511 },
		{ 2 + BPS_SPARE_SLOTS, UINT32_MAX },
	};
	struct victim *victim = malloc(sizeof(*victim));
	size_t i;

	(void)state;
	assert_non_null(victim);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		victim_open(victim, false);
		victim->raw.n_slots = cases[i].n_slots;
		victim->raw.slot_bytes = cases[i].slot_bytes;
		raw_hello(&victim->raw, BPS_WIRE_WELCOME);
		raw_settle(victim->sim);
		if (!victim->over || victim->reason.error != -EBADMSG)
			fail_msg("window %zu was taken", i);
		victim_close(victim);
	}
	free(victim);
}

/* Group after group fails: the slots of their pushes come back. */
static void an_error_frees_its_slot(void **state)
{
	struct victim *victim = malloc(sizeof(*victim));
	uint32_t i;

	(void)state;
	assert_non_null(victim);
	victim_open(victim, true);
	for (i = 1; i < 50; i++) {
		struct bps_wire_hdr hdr = victim->raw.hdr;

		assert_int_equal(victim->raw.n_by_type[BPS_WIRE_PUSH], 2 * i);
		hdr.type = BPS_WIRE_ERROR;
		raw_send(&victim->raw, &hdr, "no", 2);
		hdr.part--;
		hdr.slot = 1 - hdr.slot;
		raw_send(&victim->raw, &hdr, "no", 2);
		raw_settle(victim->sim);
		assert_true(victim->over);
		assert_int_equal(victim->raw.n_by_type[BPS_WIRE_ERROR], i);
		bps_group_leave(victim->client, &victim->group);
		victim->over = false;
		victim->group.id++;
		victim_start(victim);
	}
	victim_close(victim);
	free(victim);
}

static void a_refusal_is_passed_on(void **state)
{
	struct victim *victim = malloc(sizeof(*victim));
	const struct bps_reason *reason;

	(void)state;
	assert_non_null(victim);
	victim_open(victim, false);
	raw_send(&victim->raw, &(struct bps_wire_hdr){ .type = BPS_WIRE_REFUSE },
	         "go\n\x1b away", 9);
	raw_settle(victim->sim);
	assert_int_equal(bps_client_status(victim->client, 0, &reason), -EPERM);
	assert_string_equal(reason->text, "server evil refused this job: go?? away");
	assert_true(victim->over);
	victim_close(victim);
	free(victim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_outrage_ends_the_connection),
		cmocka_unit_test(nonsense_is_answered_by_an_error),
		cmocka_unit_test(parts_that_do_not_fit_end_the_group),
		cmocka_unit_test(a_root_hears_of_a_disagreement),
		cmocka_unit_test(hellos_that_make_no_sense_are_refused),
		cmocka_unit_test(a_connection_comes_once),
		cmocka_unit_test(windows_fit_the_wire),
		cmocka_unit_test(floods_are_bounded),
		cmocka_unit_test(lies_end_the_connection_and_the_call),
		cmocka_unit_test(a_wide_part_has_an_answer_of_its_own_size),
		cmocka_unit_test(an_answer_counts_once),
		cmocka_unit_test(windows_that_make_no_sense_are_not_taken),
		cmocka_unit_test(an_error_frees_its_slot),
		cmocka_unit_test(a_refusal_is_passed_on),
	};

	bps_log_set_level(BPS_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
