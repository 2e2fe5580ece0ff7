/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP connections between two ends of ours: streams, closing, dialing.
 */
#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/tcp-conn.h"

#define HELLO_NS (5 * BPS_NS_PER_S)

struct net {
	struct bps_loop *loop;
	struct bps_tcp_listener *listener;
	struct end *client, *server;
	int buffer_bytes; /* to send from, of each socket; 0: the kernel's choice */
	int n_accepted;
};

/* A receive buffer below a segment of loopback would have the kernel wait for timers. */
static void set_buffers(int fd, int bytes)
{
	static const int receive_bytes = 32768;

	if (!bytes)
		return;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	assert_int_equal(
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(int)), 0);
}

static void on_accepted(void *owner, int fd, const struct bps_addr *peer)
{
	struct net *net = owner;

	assert_true(bps_addr_port(peer) != 0);
	net->n_accepted++;
	set_buffers(fd, net->buffer_bytes);
	assert_int_equal(bps_tcp_adopt(net->loop, fd, HELLO_NS, &end_events, net->server,
	                               &net->server->conn),
	                 0);
}

static void net_open(struct net *net, int family)
{
	struct bps_addr addr = loopback(family, 0);

	memset(net, 0, sizeof(*net));
	net->client = end_new();
	net->server = end_new();
	assert_int_equal(bps_loop_new(&net->loop), 0);
	assert_int_equal(
		bps_tcp_listen(net->loop, &addr, on_accepted, net, &net->listener), 0);
	assert_true(bps_addr_port(bps_tcp_listener_addr(net->listener)) != 0);
}

static void net_close(struct net *net)
{
	end_close(net->client);
	end_close(net->server);
	bps_tcp_listener_close(net->listener);
	pump_idle(net->loop);
	end_free(net->client);
	end_free(net->server);
}

static void net_dial(struct net *net)
{
	struct bps_tcp_dial dial = {
		.name = "server",
		.addrs = bps_tcp_listener_addr(net->listener),
		.n_addrs = 1,
	};

	assert_int_equal(bps_tcp_dial(net->loop, &dial, &end_events, net->client,
	                              &net->client->conn),
	                 0);
	/* No event before the loop turns. */
	assert_int_equal(net->client->n_up, 0);
}

static bool is_connected(void *arg)
{
	struct net *net = arg;

	return net->client->n_up && net->n_accepted;
}

static void net_connect(struct net *net)
{
	net_dial(net);
	assert_true(pump(net->loop, is_connected, net, 5000));
	set_buffers(BPS_CONTAINER_OF(net->client->conn, struct bps_tcp_conn, base)->fd,
	            net->buffer_bytes);
	assert_non_null(strstr(net->client->conn->name, "server ("));
}

static bool both_received(void *arg)
{
	struct net *net = arg;

	return net->client->n_received == net->server->n_to_send &&
	       net->server->n_received == net->client->n_to_send &&
	       net->client->n_done == net->client->n_started &&
	       net->server->n_done == net->server->n_started;
}

static void stream(int family, uint64_t n, uint32_t max_bytes, int buffer_bytes)
{
	struct net net;

	net_open(&net, family);
	net.buffer_bytes = buffer_bytes;
	net_connect(&net);
	end_start(net.client, n, max_bytes);
	end_start(net.server, n, max_bytes);
	assert_true(pump(net.loop, both_received, &net, 60000));
	assert_int_equal(net.client->n_canceled + net.server->n_canceled, 0);
	assert_true(net.client->conn->n_sent_bytes >= n * BPS_WIRE_MIN_HDR);
	assert_int_equal(net.client->conn->n_sent_bytes,
	                 net.server->conn->n_received_bytes);
	assert_int_equal(net.server->conn->n_sent_bytes,
	                 net.client->conn->n_received_bytes);
	net_close(&net);
}

static void test_stream(void **state)
{
	stream(AF_INET, 100000, 16384, 0);
}

static void test_stream_large(void **state)
{
	stream(AF_INET, 3000, END_MAX_BYTES, 0);
}

static void test_stream_ipv6(void **state)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct bps_addr addr = loopback(AF_INET6, 0);
	bool there = fd >= 0 && bind(fd, &addr.sa, addr.bytes) == 0;

	if (fd >= 0)
		close(fd);
	if (!there)
		skip();
	stream(AF_INET6, 5000, 16384, 0);
}

/* Every sendmsg() stops somewhere in the middle. */
static void test_stream_tiny_buffers(void **state)
{
	stream(AF_INET, 20000, 20000, 1);
}

/* And every recvmsg(): the buffers of both sides together hold some 2 KiB. */
static void test_stream_unix(void **state)
{
	struct net net;
	int fds[2];

	net_open(&net, AF_INET);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	set_buffers(fds[0], 1);
	set_buffers(fds[1], 1);
	assert_int_equal(bps_tcp_adopt(net.loop, fds[0], HELLO_NS, &end_events,
	                               net.client, &net.client->conn),
	                 0);
	assert_int_equal(bps_tcp_adopt(net.loop, fds[1], HELLO_NS, &end_events,
	                               net.server, &net.server->conn),
	                 0);
	end_start(net.client, 20000, 20000);
	end_start(net.server, 20000, 20000);
	assert_true(pump(net.loop, both_received, &net, 60000));
	net_close(&net);
}

static bool server_down(void *arg)
{
	return ((struct net *)arg)->server->n_down == 1;
}

static bool client_down(void *arg)
{
	return ((struct net *)arg)->client->n_down == 1;
}

/* What is queued when the connection is closed arrives whole, then an orderly end. */
static void close_with_queue(int buffer_bytes)
{
	struct net net;

	net_open(&net, AF_INET);
	net.buffer_bytes = buffer_bytes;
	net_connect(&net);
	end_start(net.client, END_N_SENDS, END_MAX_BYTES);
	end_close(net.client);
	assert_true(pump(net.loop, server_down, &net, 20000));
	assert_int_equal(net.server->n_received, END_N_SENDS);
	assert_int_equal(net.server->error, 0);
	assert_int_equal(net.client->n_canceled, 0);
	net_close(&net);
}

static void test_close_with_queue(void **state)
{
	close_with_queue(0);
	close_with_queue(1);
}

static void test_close_both(void **state)
{
	struct net net;

	net_open(&net, AF_INET);
	net.buffer_bytes = 1;
	net_connect(&net);
	end_start(net.client, END_N_SENDS, END_MAX_BYTES);
	end_start(net.server, END_N_SENDS, END_MAX_BYTES);
	end_close(net.client);
	end_close(net.server);
	net_close(&net);
}

/* The peer neither reads nor ends: the deadline does. */
static void test_close_stuck(void **state)
{
	struct bps_loop *loop;
	struct end *end = end_new();
	uint64_t start_ns;
	int fds[2];

	assert_int_equal(bps_loop_new(&loop), 0);
	tcp_pair(AF_INET, fds);
	set_buffers(fds[0], 1);
	set_buffers(fds[1], 1);
	assert_int_equal(
		bps_tcp_adopt(loop, fds[0], HELLO_NS, &end_events, end, &end->conn), 0);
	end_start(end, 1000, END_MAX_BYTES);
	pump_for(loop, 50);
	start_ns = bps_now_ns();
	end_close(end);
	pump_idle(loop);
	assert_true(end->n_canceled > 0);
	assert_in_range(bps_now_ns() - start_ns, 2 * BPS_NS_PER_S - BPS_NS_PER_MS,
	                4 * BPS_NS_PER_S);
	end_free(end);
	close(fds[1]);
}

/* Peers that never read have the first turns, more of them than send at a time. */
static void test_stalled_peers(void **state)
{
	enum { N = 5, GOOD = N - 1 };
	struct bps_loop *loop;
	struct end *ends[N];
	uint8_t *heard = malloc(1 << 20);
	size_t n_heard = 0;
	int fds[N][2];

	assert_int_equal(bps_loop_new(&loop), 0);
	for (int i = 0; i < N; i++) {
		ends[i] = end_new();
		tcp_pair(AF_INET, fds[i]);
		set_buffers(fds[i][0], 1);
		set_buffers(fds[i][1], 1);
		assert_int_equal(bps_tcp_adopt(loop, fds[i][0], HELLO_NS, &end_events,
		                               ends[i], &ends[i]->conn),
		                 0);
		end_start(ends[i], END_N_SENDS, END_MAX_BYTES);
	}
	for (int i = 0; i < 5000 && ends[GOOD]->n_done < END_N_SENDS; i++) {
		ssize_t n = recv(fds[GOOD][1], heard, 1 << 20, MSG_DONTWAIT);

		n_heard += n > 0 ? (size_t)n : 0;
		pump_for(loop, 1);
	}
	assert_int_equal(ends[GOOD]->n_done, END_N_SENDS);
	assert_true(n_heard > 0);
	assert_true(ends[0]->n_done < END_N_SENDS);
	for (int i = 0; i < N; i++) {
		close(fds[i][1]);
		end_close(ends[i]);
	}
	pump_idle(loop);
	for (int i = 0; i < N; i++)
		end_free(ends[i]);
	free(heard);
}

static void close_inside(void (*arrange)(struct net *net))
{
	struct net net;

	net_open(&net, AF_INET);
	arrange(&net);
	net_dial(&net);
	end_start(net.client, 2 * END_N_SENDS, 4096);
	if (net.client->close_in_up)
		assert_true(pump(net.loop, server_down, &net, 5000));
	else if (net.client->close_in_done)
		assert_true(pump(net.loop, server_down, &net, 5000));
	else
		assert_true(pump(net.loop, client_down, &net, 5000));
	net_close(&net);
}

static void in_place(struct net *net)
{
	net->server->close_in_place = true;
}

static void in_message(struct net *net)
{
	net->server->close_in_message = true;
}

static void in_up(struct net *net)
{
	net->client->close_in_up = true;
}

static void in_done(struct net *net)
{
	net->client->close_in_done = true;
}

static void test_close_inside(void **state)
{
	close_inside(in_place);
	close_inside(in_message);
	close_inside(in_up);
	close_inside(in_done);
}

static void event_fails(int place_error, int message_error)
{
	struct net net;

	net_open(&net, AF_INET);
	net.server->place_error = place_error;
	net.server->message_error = message_error;
	net_connect(&net);
	end_start(net.client, 10, END_MAX_BYTES);
	assert_true(pump(net.loop, server_down, &net, 5000));
	assert_int_equal(net.server->error, place_error ? place_error : message_error);
	assert_true(net.server->n_received <= 1);
	assert_true(pump(net.loop, client_down, &net, 5000));
	net_close(&net);
}

static void test_event_fails(void **state)
{
	event_fails(-EOVERFLOW, 0);
	event_fails(0, -EBADMSG);
}

static void test_connect_close(void **state)
{
	struct net net;

	net_open(&net, AF_INET);
	for (int i = 0; i < 1000; i++) {
		net.client->n_up = 0;
		net.n_accepted = 0;
		net.server->n_down = 0;
		net_dial(&net);
		if (i % 3)
			assert_true(pump(net.loop, is_connected, &net, 5000));
		end_close(net.client);
		if (net.n_accepted)
			assert_true(pump(net.loop, server_down, &net, 5000));
		else
			pump_for(net.loop, 1);
		end_close(net.server);
		net.server->conn = NULL;
	}
	net.client->n_down = net.server->n_down = 0;
	net_close(&net);
}

/* Dialing. */

static int dial_with(struct net *net, const struct bps_tcp_dial *dial,
                     unsigned timeout_ms)
{
	assert_int_equal(bps_tcp_dial(net->loop, dial, &end_events, net->client,
	                              &net->client->conn),
	                 0);
	assert_true(pump(net->loop, client_down, net, timeout_ms));
	assert_int_equal(net->client->n_up, 0);
	return net->client->error;
}

static void test_dial_refused(void **state)
{
	struct bps_addr addr = loopback(AF_INET, free_port());
	struct bps_tcp_dial dial = { .name = "x", .addrs = &addr, .n_addrs = 1 };
	struct net net;
	uint64_t start_ns = bps_now_ns();

	net_open(&net, AF_INET);
	assert_int_equal(dial_with(&net, &dial, 1000), -ECONNREFUSED);
	assert_true(bps_now_ns() - start_ns < BPS_NS_PER_S);
	/* With retries it is refused for all that time, and no longer. */
	net.client->n_down = 0;
	dial.retry_ns = 300 * BPS_NS_PER_MS;
	start_ns = bps_now_ns();
	assert_int_equal(dial_with(&net, &dial, 2000), -ECONNREFUSED);
	assert_in_range(bps_now_ns() - start_ns, 300 * BPS_NS_PER_MS, BPS_NS_PER_S);
	/* Messages that waited for it come back. */
	net.client->n_down = 0;
	assert_int_equal(
		bps_tcp_dial(net.loop, &dial, &end_events, net.client, &net.client->conn),
		0);
	end_start(net.client, 3, 100);
	assert_true(pump(net.loop, client_down, &net, 2000));
	assert_int_equal(net.client->n_canceled, 3);
	net_close(&net);
}

static void test_dial_server_appears(void **state)
{
	struct bps_addr addr = loopback(AF_INET, free_port());
	struct bps_tcp_dial dial = {
		.name = "late",
		.addrs = &addr,
		.n_addrs = 1,
		.retry_ns = 10 * BPS_NS_PER_S,
	};
	struct net net;

	net_open(&net, AF_INET);
	assert_int_equal(
		bps_tcp_dial(net.loop, &dial, &end_events, net.client, &net.client->conn),
		0);
	pump_for(net.loop, 150);
	assert_int_equal(net.client->n_up + net.client->n_down, 0);
	bps_tcp_listener_close(net.listener);
	assert_int_equal(
		bps_tcp_listen(net.loop, &addr, on_accepted, &net, &net.listener), 0);
	assert_true(pump(net.loop, is_connected, &net, 2000));
	net_close(&net);
}

static void test_dial_addresses(void **state)
{
	struct bps_addr local = loopback(AF_INET, 0);
	struct bps_addr addrs[3] = {
		loopback(AF_INET6, 1), /* not of the family of the source address */
		loopback(AF_INET, free_port()),
	};
	struct bps_tcp_dial dial = {
		.name = "third",
		.addrs = addrs,
		.n_addrs = 3,
		.local = &local,
	};
	struct net net;

	net_open(&net, AF_INET);
	addrs[2] = *bps_tcp_listener_addr(net.listener);
	assert_int_equal(
		bps_tcp_dial(net.loop, &dial, &end_events, net.client, &net.client->conn),
		0);
	assert_true(pump(net.loop, is_connected, &net, 2000));
	net_close(&net);
}

/* Faults of this box end the dialing, retries or not. */
static void test_dial_hopeless(void **state)
{
	struct bps_addr local = loopback(AF_INET, 0), addr = loopback(AF_INET, 1);
	struct bps_tcp_dial dial = {
		.name = "x",
		.addrs = &addr,
		.n_addrs = 1,
		.local = &local,
		.retry_ns = 60 * BPS_NS_PER_S,
	};
	struct net net;

	local.in.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1: nobody's */
	net_open(&net, AF_INET);
	assert_int_equal(dial_with(&net, &dial, 1000), -EADDRNOTAVAIL);
	net.client->n_down = 0;
	local = loopback(AF_INET6, 0);
	assert_int_equal(dial_with(&net, &dial, 1000), -EAFNOSUPPORT);
	dial.n_addrs = 0;
	assert_int_equal(
		bps_tcp_dial(net.loop, &dial, &end_events, net.client, &net.client->conn),
		-EINVAL);
	dial.n_addrs = BPS_TCP_MAX_ADDRS + 1;
	assert_int_equal(
		bps_tcp_dial(net.loop, &dial, &end_events, net.client, &net.client->conn),
		-EINVAL);
	net_close(&net);
}

/* A listener that accepts nobody: SYNs beyond its queue are dropped. */
static void test_dial_timeout(void **state)
{
	struct bps_addr addr = loopback(AF_INET, 0);
	struct bps_tcp_dial dial = { .name = "deaf", .addrs = &addr, .n_addrs = 1 };
	uint64_t start_ns = bps_now_ns();
	int fd = socket(AF_INET, SOCK_STREAM, 0), fillers[4];
	struct net net;

	assert_int_equal(bind(fd, &addr.sa, addr.bytes), 0);
	assert_int_equal(getsockname(fd, &addr.sa, &addr.bytes), 0);
	assert_int_equal(listen(fd, 0), 0);
	for (int i = 0; i < 4; i++) {
		fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(fillers[i], &addr.sa, addr.bytes);
	}
	net_open(&net, AF_INET);
	assert_int_equal(dial_with(&net, &dial, 6000), -ETIMEDOUT);
	assert_in_range(bps_now_ns() - start_ns, 3 * BPS_NS_PER_S, 5 * BPS_NS_PER_S);
	net_close(&net);
	for (int i = 0; i < 4; i++)
		close(fillers[i]);
	close(fd);
}

static void test_dial_close(void **state)
{
	struct net net;

	net_open(&net, AF_INET);
	net_dial(&net);
	end_start(net.client, 2, 100);
	end_close(net.client);
	pump_for(net.loop, 20);
	assert_int_equal(net.client->n_canceled, 2);
	net_close(&net);
}

/* Messages may be sent before it is up. */
static void test_dial_early_send(void **state)
{
	struct net net;

	net_open(&net, AF_INET);
	net_dial(&net);
	end_start(net.client, 100, 1000);
	assert_true(pump(net.loop, both_received, &net, 5000));
	net_close(&net);
}

static void test_dial_self(void **state)
{
	struct bps_addr addr = loopback(AF_INET, free_port());
	struct bps_tcp_dial dial = {
		.name = "me",
		.addrs = &addr,
		.n_addrs = 1,
		.local = &addr,
	};
	struct net net;
	int fds[2], fd = socket(AF_INET, SOCK_STREAM, 0);

	/* It does happen: */
	assert_int_equal(bind(fd, &addr.sa, addr.bytes), 0);
	assert_int_equal(connect(fd, &addr.sa, addr.bytes), 0);
	assert_true(bps_tcp_is_self(fd));
	close(fd);
	tcp_pair(AF_INET, fds);
	assert_false(bps_tcp_is_self(fds[0]));
	close(fds[0]);
	close(fds[1]);
	/* And is seen: */
	bps_addr_set_port(&addr, free_port());
	net_open(&net, AF_INET);
	assert_int_equal(dial_with(&net, &dial, 1000), -ECONNREFUSED);
	net_close(&net);
}

static void test_listen_taken(void **state)
{
	struct bps_tcp_listener *second;
	struct net net;
	int old, fds[2];
	char line[256];
	ssize_t n;

	net_open(&net, AF_INET);
	assert_int_equal(pipe(fds), 0);
	old = bps_log_set_fd(fds[1]);
	assert_int_equal(bps_tcp_listen(net.loop, bps_tcp_listener_addr(net.listener),
	                                on_accepted, &net, &second),
	                 -EADDRINUSE);
	bps_log_set_fd(old);
	n = read(fds[0], line, sizeof(line) - 1);
	assert_true(n > 0);
	line[n] = '\0';
	assert_non_null(strstr(line, "cannot listen on 127.0.0.1:"));
	assert_non_null(strstr(line, "another program has this port"));
	close(fds[0]);
	close(fds[1]);
	net_close(&net);
}

/* Out of descriptors: newcomers wait, nothing spins, and it goes on when there are some.
 */
static void test_accept_pause(void **state)
{
	struct rlimit limit, low;
	struct net net;
	int n_turns = 0;

	net_open(&net, AF_INET);
	net_dial(&net);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	for (uint64_t start_ns = bps_now_ns();
	     bps_now_ns() - start_ns < 250 * BPS_NS_PER_MS; n_turns++)
		assert_int_equal(bps_loop_turn(net.loop, 50 * BPS_NS_PER_MS), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(net.n_accepted, 0);
	assert_true(n_turns < 50);
	assert_true(pump(net.loop, is_connected, &net, 1000));
	net_close(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_stream_large),
		cmocka_unit_test(test_stream_ipv6),
		cmocka_unit_test(test_stream_tiny_buffers),
		cmocka_unit_test(test_stream_unix),
		cmocka_unit_test(test_close_with_queue),
		cmocka_unit_test(test_close_both),
		cmocka_unit_test(test_close_stuck),
		cmocka_unit_test(test_stalled_peers),
		cmocka_unit_test(test_close_inside),
		cmocka_unit_test(test_event_fails),
		cmocka_unit_test(test_connect_close),
		cmocka_unit_test(test_dial_refused),
		cmocka_unit_test(test_dial_server_appears),
		cmocka_unit_test(test_dial_addresses),
		cmocka_unit_test(test_dial_hopeless),
		cmocka_unit_test(test_dial_timeout),
		cmocka_unit_test(test_dial_close),
		cmocka_unit_test(test_dial_early_send),
		cmocka_unit_test(test_dial_self),
		cmocka_unit_test(test_listen_taken),
		cmocka_unit_test(test_accept_pause),
	};
	int n_fds = count_fds(), r;

	r = cmocka_run_group_tests_name("tcp", tests, NULL, NULL);
	if (count_fds() != n_fds) {
		print_error("%d descriptors before, %d after\n", n_fds, count_fds());
		return 1;
	}
	return r;
}
