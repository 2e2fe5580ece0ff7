/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whatever members can say, in any order, to a summation server: decoded messages from a
 * few connections at once, which end when they like, with answers that are given back
 * early, late or never. The entry point is libFuzzer's; without it, the program makes its
 * own inputs from a seed: fuzz-server [iterations [seed]].
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/server.h"

#define MAX_INPUT    8192
#define N_CONNS      4
#define MEMORY_BYTES (1u << 18)

/* Not assert(): the check is the purpose of this program, with NDEBUG too. */
#define CHECK(what)                                                                \
	do {                                                                       \
		if (!(what)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
			abort();                                                   \
		}                                                                  \
	} while (0)

/* A connection as the server sees it; what it sends is kept until it is given back. */
struct fake {
	struct bps_conn conn;
	struct bps_list sends;
	bool over; /* closed by the server, or down */
};

static void fake_send(struct bps_conn *conn, struct bps_send *send)
{
	struct fake *fake = BPS_CONTAINER_OF(conn, struct fake, conn);

	CHECK(!fake->over);
	CHECK(send->hdr.payload_bytes == 0 || send->payload);
	bps_list_push_back(&fake->sends, &send->link);
}

static void fake_close(struct bps_conn *conn)
{
	BPS_CONTAINER_OF(conn, struct fake, conn)->over = true;
}

static const struct bps_conn_ops fake_ops = { .send = fake_send, .close = fake_close };

static void give_back(struct fake *fake, unsigned n, int error)
{
	struct bps_list *link;

	while (n-- > 0 && (link = bps_list_pop_front(&fake->sends))) {
		struct bps_send *send = BPS_CONTAINER_OF(link, struct bps_send, link);
		uint8_t sum = 0;

		for (uint32_t i = 0; i < send->hdr.payload_bytes; i++)
			sum ^= ((const uint8_t *)send->payload)[i];
		fake->conn.n_sent_bytes += sum;
		send->done(send, error);
	}
}

static void fake_open(struct fake *fake, struct bps_server *server)
{
	memset(fake, 0, sizeof(*fake));
	fake->conn.ops = &fake_ops;
	bps_list_init(&fake->sends);
	snprintf(fake->conn.name, sizeof(fake->conn.name), "fuzz");
	CHECK(bps_server_accept(server, NULL, &fake->conn) == 0);
}

static void fake_down(struct fake *fake, int error)
{
	if (!fake->over)
		fake->conn.events->down(fake->conn.owner, error);
	fake->over = true;
	give_back(fake, UINT32_MAX, -ECANCELED);
}

/* What is left of the input; zeroes after its end. */
struct input {
	const uint8_t *at, *end;
};

static uint8_t next(struct input *input)
{
	return input->at < input->end ? *input->at++ : 0;
}

/* Mostly small numbers, so that messages meet; sometimes any. */
static uint32_t number(struct input *input, uint32_t usual)
{
	uint8_t first = next(input);

	if (first < 250)
		return first % usual;
	return (uint32_t)next(input) << (next(input) % 32);
}

static uint32_t make_hello(struct input *input, uint8_t *payload)
{
	struct bps_wire_hello hello = {
		.peer = number(input, N_CONNS),
		.n_peers = N_CONNS + (next(input) > 250 ? number(input, 100) : 0),
		.n_slots = 1 + number(input, 4),
		.slot_bytes = next(input) > 250 ? number(input, 100) : 256,
		.connection = number(input, 3),
	};

	memset(hello.job, next(input) % 2, sizeof(hello.job));
	bps_wire_encode_hello(&hello, payload);
	return next(input) > 250 ? number(input, 200) : BPS_WIRE_HELLO_BYTES;
}

static void make_push(struct input *input, struct bps_wire_hdr *hdr)
{
	hdr->slot = number(input, 12);
	hdr->group = number(input, 2);
	hdr->op = number(input, 2);
	hdr->part = number(input, 4);
	hdr->n_parts = 4 + (next(input) > 250);
	hdr->op_bytes = 1024;
	hdr->member = (uint16_t)number(input, 3);
	hdr->n_members = next(input) > 250 ? (uint16_t)number(input, 5) : 3;
	hdr->coll = next(input) % 4 == 0 ? BPS_BCAST : BPS_ALLREDUCE;
	hdr->dtype = next(input) > 250 ? (uint8_t)number(input, 20) : BPS_I32;
	hdr->redop = next(input) > 250 ? (uint8_t)number(input, 12) : BPS_SUM;
	hdr->root = 1;
	if (hdr->coll == BPS_ALLREDUCE || hdr->member == hdr->root)
		hdr->payload_bytes = next(input) > 245 ? number(input, 300) : 256;
	hdr->peer = number(input, 4);
}

static uint8_t make_type(struct input *input)
{
	static const uint8_t types[] = { BPS_WIRE_PUSH, BPS_WIRE_PUSH, BPS_WIRE_PUSH,
		                         BPS_WIRE_PUSH, BPS_WIRE_PUSH, BPS_WIRE_PUSH,
		                         BPS_WIRE_PING, BPS_WIRE_HELLO };
	uint8_t first = next(input);

	if (first < 240)
		return types[first % 8];
	return (uint8_t)(first < 244   ? BPS_WIRE_ERROR
	                 : first < 246 ? BPS_WIRE_BYE
	                               : first % BPS_WIRE_N_TYPES);
}

/* One message, as a transport hands it over. */
static void say(struct fake *fake, struct input *input)
{
	const struct bps_conn_events *events = fake->conn.events;
	struct bps_wire_hdr hdr = { .type = make_type(input) };
	uint8_t payload[BPS_WIRE_HELLO_BYTES + 512];
	void *dst = NULL;
	int r = 0;

	memset(payload, next(input), sizeof(payload));
	if (hdr.type == BPS_WIRE_HELLO)
		hdr.payload_bytes = make_hello(input, payload);
	else
		make_push(input, &hdr);
	if (hdr.type == BPS_WIRE_PING)
		hdr.payload_bytes = 0;
	if (hdr.payload_bytes > sizeof(payload))
		hdr.payload_bytes = sizeof(payload);
	if (hdr.payload_bytes > 0)
		r = events->place(fake->conn.owner, &hdr, &dst);
	if (r == 0 && dst)
		memcpy(dst, payload, hdr.payload_bytes);
	if (r == 0)
		r = events->message(fake->conn.owner, &hdr);
	CHECK(r <= 0);
	if (r < 0 && !fake->over)
		fake_down(fake, r);
}

static void check_memory(struct bps_server *server)
{
	struct bps_server_memory memory;

	bps_server_memory(server, &memory);
	CHECK(memory.used_bytes <= MEMORY_BYTES);
	CHECK(memory.sum_bytes <= memory.used_bytes);
	CHECK(bps_server_n_keys(server) <= N_CONNS * 1024);
}

static void act(struct fake *fake, struct bps_server *server, struct input *input)
{
	uint8_t what = next(input);

	if (fake->over) {
		give_back(fake, UINT32_MAX, -ECANCELED);
		fake_open(fake, server);
	} else if (what < 200) {
		say(fake, input);
	} else if (what < 250) {
		give_back(fake, what % 8, 0);
	} else if (what < 255) {
		fake_down(fake, what % 2 ? -ECONNRESET : 0);
	} else {
		bps_server_close_peers(server, NULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct bps_server_config config = {
		.host = "fuzz",
		.memory_bytes = MEMORY_BYTES,
		.n_reducers = 2,
		.max_slots = 8,
		.quiet = true,
	};
	struct input input = { data, data + bytes };
	struct fake fakes[N_CONNS];
	struct bps_server *server;
	struct bps_server_memory memory;

	bps_log_set_level(BPS_LOG_ERROR);
	CHECK(bps_server_new(&config, NULL, NULL, &server) == 0);
	for (int i = 0; i < N_CONNS; i++)
		fake_open(&fakes[i], server);
	while (input.at < input.end) {
		act(&fakes[next(&input) % N_CONNS], server, &input);
		check_memory(server);
	}
	for (int i = 0; i < N_CONNS; i++)
		fake_down(&fakes[i], -ECONNRESET);
	bps_server_memory(server, &memory);
	CHECK(memory.used_bytes == 0 && bps_server_n_peers(server) == 0);
	CHECK(bps_server_n_keys(server) == 0 && bps_server_n_jobs(server) == 0);
	bps_server_free(server);
	return 0;
}

#ifndef BPS_LIBFUZZER

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 100000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : bps_now_ns();
	static uint8_t buf[MAX_INPUT];
	struct bps_prng prng;

	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	bps_prng_init(&prng, seed);
	for (unsigned long i = 0; i < n; i++) {
		size_t bytes = bps_prng_below(&prng, MAX_INPUT);

		bps_prng_fill(&prng, buf, bytes);
		LLVMFuzzerTestOneInput(buf, bytes);
	}
	return 0;
}

#endif
