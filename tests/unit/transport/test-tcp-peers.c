/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP connection of ours with a peer that is slow, broken, or not ours at all: the
 * other end is a plain socket.
 */
#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "transport/tcp-conn.h"

#define HELLO_NS (200 * BPS_NS_PER_MS)

struct peer {
	struct bps_loop *loop;
	struct end *end;
	int fd; /* the peer's; -1 once closed */
	int log[2], old_log;
};

static int setup(void **state)
{
	struct peer *peer = calloc(1, sizeof(*peer));
	int fds[2];

	assert_non_null(peer);
	peer->end = end_new();
	assert_int_equal(bps_loop_new(&peer->loop), 0);
	tcp_pair(AF_INET, fds);
	peer->fd = fds[0];
	assert_int_equal(pipe(peer->log), 0);
	peer->old_log = bps_log_set_fd(peer->log[1]);
	assert_int_equal(bps_tcp_adopt(peer->loop, fds[1], HELLO_NS, &end_events,
	                               peer->end, &peer->end->conn),
	                 0);
	*state = peer;
	return 0;
}

static int teardown(void **state)
{
	struct peer *peer = *state;

	if (peer->fd >= 0)
		close(peer->fd);
	end_close(peer->end);
	pump_idle(peer->loop);
	bps_log_set_fd(peer->old_log);
	close(peer->log[0]);
	close(peer->log[1]);
	assert_int_equal(peer->end->n_up, 0);
	end_free(peer->end);
	free(peer);
	return 0;
}

static bool is_down(void *arg)
{
	return ((struct peer *)arg)->end->n_down;
}

static void peer_write(struct peer *peer, const void *data, size_t bytes)
{
	assert_int_equal(write(peer->fd, data, bytes), bytes);
}

static bool taken(void *arg)
{
	struct peer *peer = arg;
	int left = 0;

	/* What the peer has sent and the other side not yet acknowledged. */
	return peer->end->n_down || ioctl(peer->fd, TIOCOUTQ, &left) < 0 || left == 0;
}

/* Let our side see what was written. */
static void peer_seen(struct peer *peer)
{
	pump(peer->loop, taken, peer, 1000);
	assert_int_equal(bps_loop_turn(peer->loop, 0), 0);
	assert_int_equal(bps_loop_turn(peer->loop, 0), 0);
}

static void expect_down(struct peer *peer, int error)
{
	assert_true(pump(peer->loop, is_down, peer, 3000));
	assert_int_equal(peer->end->error, error);
}

/* What was logged has @text in it; NULL: nothing was. */
static void expect_log(struct peer *peer, const char *text)
{
	char line[2048] = "";
	int n = 0;

	ioctl(peer->log[0], FIONREAD, &n);
	if (n > 0)
		assert_true(read(peer->log[0], line, sizeof(line) - 1) > 0);
	if (!text)
		assert_string_equal(line, "");
	else if (!strstr(line, text))
		fail_msg("'%s' is not in '%s'", text, line);
}

/* An answer as the harness's ends expect it, but for its contents, or a push. */
static size_t make_typed(uint8_t *buf, uint8_t type, uint32_t dead_n, uint64_t number,
                         uint32_t payload_bytes, uint32_t extra_bytes)
{
	struct bps_wire_hdr hdr = {
		.type = type,
		.op = number,
		.payload_bytes = payload_bytes,
		.peer = 77,
		.op_bytes = 1000 + number,
		.offset = 64 * number,
		.dead_n = dead_n,
		.dead_hash = dead_n ? 0x1234567890abcdef + number : 0,
	};
	uint32_t ours_bytes = bps_wire_encode(&hdr, buf);
	uint32_t hdr_bytes = ours_bytes + extra_bytes;

	buf[6] = (uint8_t)hdr_bytes;
	buf[7] = (uint8_t)(hdr_bytes >> 8);
	memset(buf + ours_bytes, 0xee, extra_bytes);
	for (uint32_t i = 0; i < payload_bytes; i++)
		buf[hdr_bytes + i] = (uint8_t)(number * 131 + i * 7 + (i >> 8));
	return hdr_bytes + payload_bytes;
}

static size_t make_message(uint8_t *buf, uint64_t number, uint32_t payload_bytes,
                           uint32_t extra_bytes)
{
	return make_typed(buf, BPS_WIRE_ANSWER, 0, number, payload_bytes, extra_bytes);
}

static void test_byte_at_a_time(void **state)
{
	struct peer *peer = *state;
	uint8_t buf[4096];
	size_t n = 0;

	n += make_message(buf + n, 0, 0, 0);
	n += make_message(buf + n, 1, 77, 0);
	n += make_message(buf + n, 2, 1, 33);
	n += make_message(buf + n, 3, 0, 5);
	n += make_message(buf + n, 4, 300, BPS_WIRE_MAX_HDR - BPS_WIRE_MIN_HDR);
	for (size_t i = 0; i < n; i++) {
		peer_write(peer, buf + i, 1);
		peer_seen(peer);
	}
	assert_int_equal(peer->end->n_received, 5);
	assert_int_equal(peer->end->n_place, 3);
}

/* The three lengths of a header that we write, and longer ones of newer peers. */
static const struct shape {
	uint8_t type;
	uint32_t dead_n, extra_bytes, hdr_bytes;
} shapes[] = {
	{ BPS_WIRE_ANSWER, 0, 0, 40 },   { BPS_WIRE_ANSWER, 0, 20, 60 },
	{ BPS_WIRE_ANSWER, 0, 90, 130 }, { BPS_WIRE_PUSH, 0, 0, 68 },
	{ BPS_WIRE_PUSH, 0, 11, 79 },    { BPS_WIRE_PUSH, 3, 0, 80 },
	{ BPS_WIRE_PUSH, 3, 20, 100 },
};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* That the last message, @number, has what a header of its shape carries. */
static void assert_shape(const struct end *end, const struct shape *shape,
                         uint64_t number)
{
	bool push = shape->type == BPS_WIRE_PUSH, dead = shape->dead_n > 0;

	assert_int_equal(end->hdr.type, shape->type);
	assert_int_equal(end->hdr.peer, 77);
	if (push || shape->hdr_bytes < 68) {
		assert_int_equal(end->hdr.op_bytes, push ? 1000 + number : 0);
		assert_int_equal(end->hdr.offset, push ? 64 * number : 0);
	}
	if (push) {
		assert_int_equal(end->hdr.dead_n, shape->dead_n);
		assert_int_equal(end->hdr.dead_hash,
		                 dead ? 0x1234567890abcdef + number : 0);
	}
}

/* Each before one of each shape: no length may be taken from the message before. */
static void test_split_everywhere(void **state)
{
	struct peer *peer = *state;
	uint64_t number = 0;

	for (size_t i = 0; i < N_SHAPES * N_SHAPES; i++) {
		const struct shape *one = &shapes[i / N_SHAPES],
				   *two = &shapes[i % N_SHAPES];
		uint8_t buf[512];
		size_t first, n;

		for (size_t at = 1; at < one->hdr_bytes + two->hdr_bytes + 80; at++) {
			first = make_typed(buf, one->type, one->dead_n, number, 40,
			                   one->extra_bytes);
			assert_int_equal(first, one->hdr_bytes + 40);
			n = first + make_typed(buf + first, two->type, two->dead_n,
			                       number + 1, 40, two->extra_bytes);
			peer_write(peer, buf, at);
			peer_seen(peer);
			assert_int_equal(peer->end->n_received, number + (at >= first));
			if (at >= first)
				assert_shape(peer->end, one, number);
			peer_write(peer, buf + at, n - at);
			peer_seen(peer);
			number += 2;
			assert_int_equal(peer->end->n_received, number);
			assert_shape(peer->end, two, number - 1);
		}
	}
}

/* Many messages in one segment, then cut at random. */
static void test_random_cuts(void **state)
{
	enum { N = 400 };
	struct peer *peer = *state;
	static uint8_t buf[N * 1200];
	struct bps_prng prng;
	size_t n = 0, at = 0;

	bps_prng_init(&prng, 7);
	for (uint64_t i = 0; i < N; i++) {
		const struct shape *shape = &shapes[bps_prng_below(&prng, N_SHAPES)];

		n += make_typed(buf + n, shape->type, shape->dead_n, i,
		                (uint32_t)bps_prng_below(&prng, 600), shape->extra_bytes);
	}
	while (at < n) {
		size_t some = 1 + bps_prng_below(&prng, 3000);

		some = some < n - at ? some : n - at;
		peer_write(peer, buf + at, some);
		at += some;
		if (bps_prng_below(&prng, 3))
			peer_seen(peer);
	}
	peer_seen(peer);
	assert_int_equal(peer->end->n_received, N);
}

static void test_http(void **state)
{
	struct peer *peer = *state;
	const char *get = "GET / HTTP/1.1\r\n\r\n";

	peer_write(peer, get, strlen(get));
	expect_down(peer, -EPROTO);
	assert_int_equal(peer->end->n_place, 0);
	expect_log(peer, "not a bytepsmpi peer (its first bytes are 'GET / HTTP/1.1..')");
}

static void test_megabyte_of_noise(void **state)
{
	struct peer *peer = *state;
	static uint8_t noise[1 << 20];
	struct bps_prng prng;
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL;

	bps_prng_init(&prng, 3);
	bps_prng_fill(&prng, noise, sizeof(noise));
	assert_true(send(peer->fd, noise, sizeof(noise), flags) > 0);
	expect_down(peer, -EPROTO);
	assert_int_equal(peer->end->n_place, 0);
	expect_log(peer, "not a bytepsmpi peer");
}

/* One wrong byte is enough: nobody waits for the rest of a header. */
static void test_one_byte(void **state)
{
	peer_write(*state, "\n", 1);
	expect_down(*state, -EPROTO);
}

static void test_huge_lengths(void **state)
{
	struct peer *peer = *state;
	uint8_t buf[BPS_WIRE_MIN_HDR + 1];

	make_message(buf, 0, 0, 0);
	memset(buf + 8, 0xff, 4);
	peer_write(peer, buf, BPS_WIRE_MIN_HDR);
	expect_down(peer, -EBADMSG);
	assert_int_equal(peer->end->n_place, 0);
	expect_log(peer, "no valid header");
}

static void test_huge_header(void **state)
{
	struct peer *peer = *state;
	uint8_t buf[BPS_WIRE_MIN_HDR];

	make_message(buf, 0, 0, 0);
	buf[7] = 0xff;
	peer_write(peer, buf, sizeof(buf));
	expect_down(peer, -EBADMSG);
}

/* After a good message, what is no header is a broken peer, not a stranger. */
static void test_noise_later(void **state)
{
	struct peer *peer = *state;
	uint8_t buf[BPS_WIRE_MIN_HDR + 50];

	peer_write(peer, buf, make_message(buf, 0, 50, 0));
	peer_write(peer, "GET", 3);
	expect_down(peer, -EBADMSG);
	assert_int_equal(peer->end->n_received, 1);
	expect_log(peer, "its message 2 has no valid header");
}

/* What a peer of version 1 says first: a header of 96 bytes and a hello of 112. */
static void test_version_1(void **state)
{
	static const uint8_t first[8] = { 'T', 'B', 'P', 'S', 1, BPS_WIRE_HELLO, 96, 0 };
	struct peer *peer = *state;
	uint8_t buf[512] = { 0 };
	struct bps_wire_hdr hdr;
	uint32_t hdr_bytes;
	ssize_t n;

	memcpy(buf, first, sizeof(first));
	buf[8] = 112;
	peer_write(peer, buf, 96 + 112);
	expect_down(peer, -EPROTONOSUPPORT);
	expect_log(peer, "speaks protocol 1, we speak 3: install the same version of "
	                 "bytepsmpi on both sides");
	n = recv(peer->fd, buf, sizeof(buf) - 1, MSG_DONTWAIT);
	assert_true(n > 40);
	assert_int_equal(bps_wire_decode(buf, (uint32_t)n, &hdr, &hdr_bytes), 0);
	assert_int_equal(hdr.type, BPS_WIRE_REFUSE);
	buf[n] = 0;
	assert_string_equal((char *)buf + hdr_bytes,
	                    "you speak protocol 1, this server 3: "
	                    "install the same version");
}

static void test_other_version(void **state)
{
	struct peer *peer = *state;
	uint8_t buf[512];
	struct bps_wire_hdr hdr;
	uint32_t hdr_bytes;
	ssize_t n;

	/* Longer than what we look at: closing must not make the answer undone. */
	make_message(buf, 0, 300, 0);
	buf[4] = 4;
	peer_write(peer, buf, BPS_WIRE_MIN_HDR + 300);
	expect_down(peer, -EPROTONOSUPPORT);
	expect_log(peer, "speaks protocol 4, we speak 3");
	n = recv(peer->fd, buf, sizeof(buf), MSG_DONTWAIT);
	assert_true(n > (ssize_t)BPS_WIRE_MIN_HDR);
	assert_int_equal(bps_wire_decode(buf, (uint32_t)n, &hdr, &hdr_bytes), 0);
	assert_int_equal(hdr.type, BPS_WIRE_REFUSE);
	assert_int_equal(n, BPS_WIRE_MIN_HDR + hdr.payload_bytes);
	assert_int_equal(recv(peer->fd, buf, sizeof(buf), MSG_DONTWAIT), 0);
}

static void test_half_open(void **state)
{
	struct peer *peer = *state;
	uint64_t start_ns = bps_now_ns();
	uint8_t buf[200];

	/* A whole header, but not the whole message. */
	make_message(buf, 0, 20, 0);
	peer_write(peer, buf, BPS_WIRE_MIN_HDR + 5);
	expect_down(peer, -ETIMEDOUT);
	assert_in_range(bps_now_ns() - start_ns, HELLO_NS - BPS_NS_PER_MS, 5 * HELLO_NS);
	expect_log(peer, "sent no whole message in time");
}

static void test_no_timeout_later(void **state)
{
	struct peer *peer = *state;
	uint8_t buf[200];

	peer_write(peer, buf, make_message(buf, 0, 20, 0));
	pump_for(peer->loop, 400);
	assert_int_equal(peer->end->n_down, 0);
	expect_log(peer, NULL);
}

static void peer_reset(struct peer *peer)
{
	struct linger linger = { .l_onoff = 1 };

	setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(peer->fd);
	peer->fd = -1;
}

static void test_reset(void **state)
{
	peer_reset(*state);
	expect_down(*state, -ECONNRESET);
}

/* With messages in the queue, which come back. */
static void test_reset_sending(void **state)
{
	struct peer *peer = *state;

	end_start(peer->end, 1000, END_MAX_BYTES);
	pump_for(peer->loop, 20);
	assert_true(peer->end->n_done < 1000);
	peer_reset(peer);
	assert_true(pump(peer->loop, is_down, peer, 3000));
	assert_true(peer->end->error == -ECONNRESET || peer->end->error == -EPIPE);
	assert_true(peer->end->n_canceled > 0);
}

/* What the peer sent before it broke off is heard, though sending fails first. */
static void test_last_words(void **state)
{
	struct peer *peer = *state;
	uint8_t buf[BPS_WIRE_MIN_HDR + 50];

	peer_write(peer, buf, make_message(buf, 0, 50, 0));
	peer_reset(peer);
	usleep(20000);
	end_start(peer->end, 1, 100);
	assert_true(pump(peer->loop, is_down, peer, 3000));
	assert_int_equal(peer->end->n_received, 1);
	assert_true(peer->end->error == -ECONNRESET || peer->end->error == -EPIPE);
}

static void peer_end(struct peer *peer)
{
	close(peer->fd);
	peer->fd = -1;
}

static void test_end_at_once(void **state)
{
	peer_end(*state);
	expect_down(*state, 0);
	expect_log(*state, NULL);
}

static void test_end_after_message(void **state)
{
	struct peer *peer = *state;
	uint8_t buf[BPS_WIRE_MIN_HDR + 50];

	/* Both in one: the edge of the end comes with that of the message. */
	peer_write(peer, buf, make_message(buf, 0, 50, 0));
	peer_end(peer);
	usleep(10000);
	expect_down(peer, 0);
	assert_int_equal(peer->end->n_received, 1);
}

static void test_end_in_header(void **state)
{
	struct peer *peer = *state;
	uint8_t buf[BPS_WIRE_MIN_HDR];

	make_message(buf, 0, 0, 0);
	peer_write(peer, buf, 30);
	peer_end(peer);
	expect_down(peer, -ECONNRESET);
}

static void test_end_in_payload(void **state)
{
	struct peer *peer = *state;
	uint8_t buf[BPS_WIRE_MIN_HDR + 50];

	make_message(buf, 0, 50, 0);
	peer_write(peer, buf, BPS_WIRE_MIN_HDR + 49);
	peer_end(peer);
	expect_down(peer, -ECONNRESET);
	assert_int_equal(peer->end->n_place, 1);
	assert_int_equal(peer->end->n_received, 0);
}

/* The log does not grow with the number of strangers. */
static void test_rate_limit(void **state)
{
	struct peer *peer = *state;
	char lines[16384];
	int n_lines = 0;
	ssize_t n;

	for (int i = 0; i < 100; i++) {
		int fds[2];

		peer_write(peer, "x", 1);
		assert_true(pump(peer->loop, is_down, peer, 3000));
		close(peer->fd);
		tcp_pair(AF_INET, fds);
		peer->fd = fds[0];
		peer->end->n_down = 0;
		assert_int_equal(bps_tcp_adopt(peer->loop, fds[1], HELLO_NS, &end_events,
		                               peer->end, &peer->end->conn),
		                 0);
	}
	assert_int_equal(write(peer->log[1], "\n", 1), 1);
	n = read(peer->log[0], lines, sizeof(lines));
	for (ssize_t i = 0; i < n; i++)
		n_lines += lines[i] == '\n';
	assert_in_range(n_lines, 1, 11);
}

/* The dialing side: what it hears from something that is no server of ours. */

struct host {
	struct bps_loop *loop;
	struct end *end;
	int listening, fd;
};

static bool host_up(void *arg)
{
	return ((struct host *)arg)->end->n_up;
}

static bool host_down(void *arg)
{
	return ((struct host *)arg)->end->n_down;
}

static void dial_and_answer(const void *answer, size_t bytes, int error, const char *text)
{
	struct bps_addr addr = loopback(AF_INET, 0);
	struct bps_tcp_dial dial = { .name = "cpu3", .addrs = &addr, .n_addrs = 1 };
	struct host host = { .end = end_new() };
	struct peer log = { 0 };
	int old;

	host.listening = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(host.listening, &addr.sa, addr.bytes), 0);
	assert_int_equal(getsockname(host.listening, &addr.sa, &addr.bytes), 0);
	assert_int_equal(listen(host.listening, 1), 0);
	assert_int_equal(bps_loop_new(&host.loop), 0);
	assert_int_equal(pipe(log.log), 0);
	old = bps_log_set_fd(log.log[1]);
	assert_int_equal(
		bps_tcp_dial(host.loop, &dial, &end_events, host.end, &host.end->conn),
		0);
	assert_true(pump(host.loop, host_up, &host, 1000));
	host.fd = accept(host.listening, NULL, NULL);
	assert_int_equal(write(host.fd, answer, bytes), bytes);
	assert_true(pump(host.loop, host_down, &host, 1000));
	bps_log_set_fd(old);
	assert_int_equal(host.end->error, error);
	expect_log(&log, text);
	close(host.fd);
	close(host.listening);
	close(log.log[0]);
	close(log.log[1]);
	pump_idle(host.loop);
	end_free(host.end);
}

static void test_dial_noise(void **state)
{
	dial_and_answer("SSH-2.0-Open", 12, -EPROTO, "cpu3 (127.0.0.1:");
	dial_and_answer("SSH-2.0-Open", 12, -EPROTO,
	                "is not a bytepsmpi server (its first "
	                "bytes are 'SSH-2.0-Open')");
}

static void test_dial_other_version(void **state)
{
	dial_and_answer("TBPS\1\3\x60", 8, -EPROTONOSUPPORT,
	                "speaks protocol 1, we speak 3");
}

#define PEER_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PEER_TEST(test_byte_at_a_time),
		PEER_TEST(test_split_everywhere),
		PEER_TEST(test_random_cuts),
		PEER_TEST(test_http),
		PEER_TEST(test_megabyte_of_noise),
		PEER_TEST(test_one_byte),
		PEER_TEST(test_huge_lengths),
		PEER_TEST(test_huge_header),
		PEER_TEST(test_noise_later),
		PEER_TEST(test_other_version),
		PEER_TEST(test_version_1),
		PEER_TEST(test_half_open),
		PEER_TEST(test_no_timeout_later),
		PEER_TEST(test_reset),
		PEER_TEST(test_reset_sending),
		PEER_TEST(test_last_words),
		PEER_TEST(test_end_at_once),
		PEER_TEST(test_end_after_message),
		PEER_TEST(test_end_in_header),
		PEER_TEST(test_end_in_payload),
		PEER_TEST(test_rate_limit),
		cmocka_unit_test(test_dial_noise),
		cmocka_unit_test(test_dial_other_version),
	};
	int n_fds = count_fds(), r;

	r = cmocka_run_group_tests_name("tcp-peers", tests, NULL, NULL);
	if (count_fds() != n_fds) {
		print_error("%d descriptors before, %d after\n", n_fds, count_fds());
		return 1;
	}
	return r;
}
