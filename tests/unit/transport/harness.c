/* SPDX-License-Identifier: BSD-3-Clause */
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= 0x9e3779b97f4a7c15;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9;
	return x ^ x >> 32;
}

/* Mostly small, some empty, some long, all odd ones and even ones. */
static uint32_t size_of(uint64_t number, uint32_t max_bytes)
{
	uint64_t x = mix(number + 1);
	uint32_t max = max_bytes;

	if (x % 7 == 0)
		return 0;
	if (x % 8)
		max = max_bytes / 64 + 1;
	return (uint32_t)(mix(x) % (max + 1));
}

static uint8_t byte_of(uint64_t number, uint32_t i)
{
	return (uint8_t)(number * 131 + i * 7 + (i >> 8));
}

static void send_next(struct end_send *slot)
{
	struct end *end = slot->end;
	uint64_t number = end->n_started++;
	struct bps_send *send = &slot->send;

	memset(&send->hdr, 0, sizeof(send->hdr));
	/* Headers of all three lengths. */
	send->hdr.type = number % 3 ? BPS_WIRE_PUSH : BPS_WIRE_ANSWER;
	send->hdr.dead_n = number % 5 == 0;
	send->hdr.op = number;
	send->hdr.payload_bytes = size_of(number, end->max_bytes);
	for (uint32_t i = 0; i < send->hdr.payload_bytes; i++)
		slot->payload[i] = byte_of(number, i);
	send->payload = slot->payload;
	bps_conn_send(end->conn, send);
}

static void on_done(struct bps_send *send, int error)
{
	struct end_send *slot = BPS_CONTAINER_OF(send, struct end_send, send);
	struct end *end = slot->end;

	end->n_done++;
	if (error) {
		assert_int_equal(error, -ECANCELED);
		end->n_canceled++;
		return;
	}
	if (end->close_in_done)
		end_close(end);
	if (end->conn && end->n_started < end->n_to_send)
		send_next(slot);
}

void end_start(struct end *end, uint64_t n, uint32_t max_bytes)
{
	end->n_to_send = n;
	end->max_bytes = max_bytes;
	for (int i = 0; i < END_N_SENDS && end->n_started < n; i++) {
		end->sends[i].end = end;
		end->sends[i].send.done = on_done;
		send_next(&end->sends[i]);
	}
}

static void on_up(void *owner)
{
	struct end *end = owner;

	end->n_up++;
	if (end->close_in_up)
		end_close(end);
}

static int on_place(void *owner, const struct bps_wire_hdr *hdr, void **ret_dst)
{
	struct end *end = owner;

	end->n_place++;
	assert_non_null(end->conn);
	assert_true(hdr->payload_bytes > 0 && hdr->payload_bytes <= END_MAX_BYTES);
	if (end->close_in_place)
		end_close(end);
	*ret_dst = end->place;
	return end->place_error;
}

static int on_message(void *owner, const struct bps_wire_hdr *hdr)
{
	struct end *end = owner;

	assert_non_null(end->conn);
	end->hdr = *hdr;
	if (!end->unchecked) {
		assert_int_equal(hdr->op, end->n_received);
		for (uint32_t i = 0; i < hdr->payload_bytes; i++) {
			if (end->place[i] != byte_of(hdr->op, i))
				fail_msg("message %llu differs at byte %u",
				         (unsigned long long)hdr->op, i);
		}
	}
	end->n_received++;
	if (end->close_in_message)
		end_close(end);
	return end->message_error;
}

static void on_down(void *owner, int error)
{
	struct end *end = owner;

	assert_non_null(end->conn);
	end->conn = NULL;
	end->error = error;
	end->n_down++;
}

const struct bps_conn_events end_events = {
	.up = on_up,
	.place = on_place,
	.message = on_message,
	.down = on_down,
};

struct end *end_new(void)
{
	struct end *end = calloc(1, sizeof(*end));

	assert_non_null(end);
	return end;
}

/* Every message that was given to the transport came back exactly once. */
void end_free(struct end *end)
{
	assert_int_equal(end->n_done, end->n_started);
	assert_true(end->n_down <= 1);
	assert_null(end->conn);
	free(end);
}

void end_close(struct end *end)
{
	struct bps_conn *conn = end->conn;

	end->conn = NULL;
	if (conn)
		bps_conn_close(conn);
}

bool pump(struct bps_loop *loop, bool (*done)(void *arg), void *arg, unsigned timeout_ms)
{
	uint64_t until_ns = bps_now_ns() + timeout_ms * BPS_NS_PER_MS;

	while (!done(arg)) {
		if (bps_now_ns() >= until_ns)
			return false;
		assert_int_equal(bps_loop_turn(loop, 10 * BPS_NS_PER_MS), 0);
	}
	return true;
}

static bool is_idle(void *arg)
{
	return bps_loop_idle(arg);
}

void pump_idle(struct bps_loop *loop)
{
	assert_true(pump(loop, is_idle, loop, 5000));
	bps_loop_free(loop);
}

static bool never(void *arg)
{
	return false;
}

void pump_for(struct bps_loop *loop, unsigned ms)
{
	pump(loop, never, NULL, ms);
}

struct bps_addr loopback(int family, uint16_t port)
{
	struct bps_addr addr = { 0 };

	addr.sa.sa_family = (sa_family_t)family;
	if (family == AF_INET6) {
		addr.in6.sin6_addr = in6addr_loopback;
		addr.bytes = sizeof(addr.in6);
	} else {
		addr.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		addr.bytes = sizeof(addr.in);
	}
	bps_addr_set_port(&addr, port);
	return addr;
}

static int listen_any(int family, struct bps_addr *ret_addr)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*ret_addr = loopback(family, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, &ret_addr->sa, ret_addr->bytes), 0);
	assert_int_equal(getsockname(fd, &ret_addr->sa, &ret_addr->bytes), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

void tcp_pair(int family, int fds[2])
{
	struct bps_addr addr;
	int fd = listen_any(family, &addr);

	fds[0] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fds[0], &addr.sa, addr.bytes), 0);
	fds[1] = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fds[1] >= 0);
	close(fd);
}

uint16_t free_port(void)
{
	struct bps_addr addr;
	int fd = listen_any(AF_INET, &addr);

	close(fd);
	return bps_addr_port(&addr);
}
