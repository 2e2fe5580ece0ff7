/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whatever a peer can send, to the header decoder and to the receiving half of a TCP
 * connection, in pieces. The entry point is libFuzzer's; without it, the program makes
 * its own inputs from a seed: fuzz-wire [iterations [seed]].
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "transport/tcp.h"

#define MAX_INPUT 8192

/* Not assert(): the check is the purpose of this program, with NDEBUG too. */
#define CHECK(what)                                                                \
	do {                                                                       \
		if (!(what)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
			abort();                                                   \
		}                                                                  \
	} while (0)

static void try_header(const uint8_t *data, size_t bytes)
{
	struct bps_wire_hdr hdr, back;
	uint8_t again[BPS_WIRE_FULL_HDR], *exact;
	uint32_t hdr_bytes = 0, again_bytes;
	int r;

	/* Exactly as long as what is there, for the sanitizer's sake. */
	exact = malloc(bytes + 1);
	CHECK(exact);
	memcpy(exact + 1, data, bytes);
	r = bps_wire_decode(exact + 1, (uint32_t)bytes, &hdr, &hdr_bytes);
	free(exact);
	if (bytes >= BPS_WIRE_FULL_HDR)
		CHECK(r != BPS_WIRE_E_SHORT);
	if (bytes < BPS_WIRE_MIN_HDR)
		CHECK(r > 0);
	if (r)
		return;
	CHECK(hdr_bytes >= BPS_WIRE_MIN_HDR && hdr_bytes <= BPS_WIRE_MAX_HDR);
	CHECK(hdr.payload_bytes <= BPS_WIRE_MAX_PAYLOAD);
	CHECK(hdr.type > 0 && hdr.type < BPS_WIRE_N_TYPES);
	again_bytes = bps_wire_encode(&hdr, again);
	CHECK(again_bytes <= hdr_bytes);
	CHECK(bps_wire_decode(again, again_bytes, &back, &hdr_bytes) == 0);
	CHECK(hdr_bytes == again_bytes && back.op == hdr.op && back.peer == hdr.peer);
	if (hdr.type == BPS_WIRE_PUSH)
		CHECK(back.acked == hdr.acked && back.offset == hdr.offset);
}

static void try_hello(const uint8_t *data, size_t bytes)
{
	struct bps_wire_hello hello;
	int r = bps_wire_decode_hello(data, (uint32_t)bytes, &hello);

	CHECK((r == 0) == (bytes >= BPS_WIRE_HELLO_BYTES));
	if (r == 0)
		CHECK(memchr(hello.host, 0, sizeof(hello.host)) &&
		      memchr(hello.version, 0, sizeof(hello.version)));
}

/* An owner as the server is: a place for messages up to a size, none for others. */
struct owner {
	struct bps_conn *conn;
	uint32_t placed_bytes;
	uint8_t *
		place; /* exactly as long as what is received, for the sanitizer's sake */
};

static int on_place(void *arg, const struct bps_wire_hdr *hdr, void **ret_dst)
{
	struct owner *owner = arg;

	CHECK(hdr->payload_bytes > 0 && hdr->payload_bytes <= BPS_WIRE_MAX_PAYLOAD);
	if (hdr->payload_bytes > MAX_INPUT)
		return -1;
	free(owner->place);
	owner->place = malloc(hdr->payload_bytes);
	CHECK(owner->place);
	owner->placed_bytes = hdr->payload_bytes;
	*ret_dst = owner->place;
	return 0;
}

static int on_message(void *arg, const struct bps_wire_hdr *hdr)
{
	struct owner *owner = arg;

	CHECK(hdr->payload_bytes == 0 || hdr->payload_bytes == owner->placed_bytes);
	if (hdr->op == 0xdead) {
		bps_conn_close(owner->conn);
		owner->conn = NULL;
	}
	return 0;
}

static void on_down(void *arg, int error)
{
	struct owner *owner = arg;

	CHECK(error <= 0);
	owner->conn = NULL;
}

static const struct bps_conn_events events = {
	.place = on_place,
	.message = on_message,
	.down = on_down,
};

static void turn_until_idle(struct bps_loop *loop)
{
	for (int i = 0; i < 1000 && !bps_loop_idle(loop); i++)
		CHECK(bps_loop_turn(loop, BPS_NS_PER_MS) == 0);
	CHECK(bps_loop_idle(loop));
}

/* The first byte says how large the pieces are. */
static void try_connection(struct bps_loop *loop, const uint8_t *data, size_t bytes)
{
	struct owner owner = { 0 };
	size_t piece = bytes ? 1 + (size_t)data[0] * 17 : 1, at = 0;
	int fds[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	CHECK(bps_tcp_adopt(loop, fds[0], BPS_NS_PER_S, &events, &owner, &owner.conn) ==
	      0);
	while (at + 1 < bytes && owner.conn) {
		size_t some = bytes - 1 - at < piece ? bytes - 1 - at : piece;

		if (send(fds[1], data + 1 + at, some, MSG_NOSIGNAL) != (ssize_t)some)
			break;
		at += some;
		CHECK(bps_loop_turn(loop, 0) == 0);
	}
	close(fds[1]);
	turn_until_idle(loop);
	CHECK(!owner.conn);
	free(owner.place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct bps_loop *loop;

	if (!loop) {
		bps_log_set_level(BPS_LOG_ERROR);
		CHECK(bps_loop_new(&loop) == 0);
	}
	if (bytes > MAX_INPUT)
		return 0;
	try_header(data, bytes);
	if (bytes > 0)
		try_header(data + 1, bytes - 1);
	try_hello(data, bytes);
	try_connection(loop, data, bytes);
	return 0;
}

#ifndef BPS_LIBFUZZER

/* Good messages, one after the other, some of them with a few bytes changed. */
static size_t make_input(struct bps_prng *prng, uint8_t *buf)
{
	size_t n = 1;

	buf[0] = (uint8_t)bps_prng_u64(prng);
	if (bps_prng_below(prng, 8) == 0) {
		n = bps_prng_below(prng, MAX_INPUT);
		bps_prng_fill(prng, buf, n);
		return n;
	}
	while (n + 2048 < MAX_INPUT && bps_prng_below(prng, 8)) {
		struct bps_wire_hdr hdr = { 0 };
		uint32_t hdr_bytes;

		hdr.type = (uint8_t)(1 + bps_prng_below(prng, BPS_WIRE_N_TYPES - 1));
		hdr.payload_bytes = (uint32_t)bps_prng_below(prng, BPS_WIRE_CTL_PAYLOAD);
		hdr.op = bps_prng_below(prng, 16) ? 0 : 0xdead;
		hdr.dead_n = (uint32_t)bps_prng_below(prng, 2);
		hdr_bytes = bps_wire_encode(&hdr, buf + n);
		if (bps_prng_below(prng, 8) == 0)
			buf[n + bps_prng_below(prng, 12)] = (uint8_t)bps_prng_u64(prng);
		n += hdr_bytes;
		bps_prng_fill(prng, buf + n, hdr.payload_bytes);
		n += hdr.payload_bytes;
	}
	return n;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 100000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : bps_now_ns();
	static uint8_t buf[MAX_INPUT];
	struct bps_prng prng;

	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	bps_prng_init(&prng, seed);
	for (unsigned long i = 0; i < n; i++)
		LLVMFuzzerTestOneInput(buf, make_input(&prng, buf));
	return 0;
}

#endif
