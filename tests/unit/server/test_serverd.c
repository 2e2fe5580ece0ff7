/* SPDX-License-Identifier: BSD-3-Clause */
/* The threaded server inside this process, and real clients over loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/serverd.h"
#include "tests/unit/base/descriptors.h"
#include "tests/unit/server/job.h"
#include "tests/unit/server/member.h"

#define N_JOBS 3

static struct bps_cpuset cpus;

static struct bps_addr loopback(uint16_t port)
{
	struct bps_addr addr;
	char why[128];

	assert_int_equal(bps_addr_resolve("127.0.0.1", port, &addr, 1, why, sizeof(why)),
	                 1);
	return addr;
}

static int start_server(uint16_t port, uint32_t n_loops, uint32_t n_reducers,
                        uint32_t max_connections, struct bps_serverd **ret_serverd)
{
	struct bps_addr addr = loopback(port);
	const struct bps_serverd_config config = {
		.host = "server",
		.addrs = &addr,
		.n_addrs = 1,
		.cpus = &cpus,
		.n_loops = n_loops,
		.n_reducers = n_reducers,
		.memory_bytes = 64 << 20,
		.max_slots = 64,
		.max_connections = max_connections,
	};

	return bps_serverd_start(&config, ret_serverd);
}

static struct bps_serverd *new_server(uint32_t n_loops, uint32_t n_reducers)
{
	struct bps_serverd *serverd;

	assert_int_equal(start_server(0, n_loops, n_reducers, 100, &serverd), 0);
	assert_int_not_equal(bps_addr_port(bps_serverd_addr(serverd, 0)), 0);
	return serverd;
}

/* Log lines from capture_start() to capture_end() go to a file in memory. */
static int capture_fd, fd_before;

static void capture_start(void)
{
	capture_fd = memfd_create("log", MFD_CLOEXEC);
	assert_true(capture_fd >= 0);
	fd_before = bps_log_set_fd(capture_fd);
}

static const char *capture_end(void)
{
	static char text[16384];
	ssize_t n = pread(capture_fd, text, sizeof(text) - 1, 0);

	bps_log_set_fd(fd_before);
	close(capture_fd);
	assert_true(n >= 0);
	text[n] = '\0';
	return text;
}

/* Everybody left: what the server keeps for a job is gone a moment later. */
static void assert_empty(struct bps_serverd *serverd)
{
	struct bps_server *server = bps_serverd_server(serverd);
	uint64_t end_ns = bps_now_ns() + 5 * BPS_NS_PER_S;

	while (bps_server_n_peers(server) && bps_now_ns() < end_ns)
		usleep(1000);
	assert_int_equal(bps_server_n_peers(server), 0);
	assert_int_equal(bps_server_n_jobs(server), 0);
}

static void test_start_stop(void **state)
{
	int before = count_fds();

	(void)state;
	for (uint32_t i = 1; i <= 4; i++)
		bps_serverd_stop(new_server(i, 5 - i));
	bps_serverd_stop(new_server(1, 0));
	bps_serverd_stop(NULL);
	assert_int_equal(count_fds(), before);
}

static void run_one(uint32_t n_loops, uint32_t n_reducers, uint32_t n_servers,
                    uint16_t n_members, uint64_t seed)
{
	struct bps_serverd *serverds[2];
	struct bps_addr addrs[2];
	struct job job = {
		.servers = addrs,
		.n_servers = n_servers,
		.n_members = n_members,
		.seed = seed,
		.n_ops = 40,
		.max_bytes = 300000,
		.slot_bytes = 8192,
		.n_slots = 3,
	};

	for (uint32_t i = 0; i < n_servers; i++) {
		serverds[i] = new_server(n_loops, n_reducers);
		addrs[i] = *bps_serverd_addr(serverds[i], 0);
	}
	if (!job_run(&job))
		fail_msg("%s", job.failure);
	assert_int_equal(job.n_ops_done, job.n_ops);
	for (uint32_t i = 0; i < n_servers; i++) {
		struct bps_server *server = bps_serverd_server(serverds[i]);

		assert_empty(serverds[i]);
		assert_int_equal(bps_server_counters(server)->n_jobs, 1);
		assert_int_equal(bps_server_counters(server)->n_peers, n_members);
		assert_int_equal(bps_server_counters(server)->n_answers,
		                 bps_server_counters(server)->n_pushes);
		bps_serverd_stop(serverds[i]);
	}
}

static void test_one_job(void **state)
{
	(void)state;
	run_one(1, 1, 1, 2, 1);
	run_one(2, 2, 1, 4, 2);
	run_one(2, 2, 2, 5, 3);
	run_one(3, 4, 1, 1, 4);
}

static void *run_job(void *arg)
{
	(void)job_run(arg);
	return NULL;
}

/* All of them call their group by the same number. */
static void test_jobs_at_once(void **state)
{
	struct bps_serverd *serverd = new_server(2, 2);
	struct bps_addr addr = *bps_serverd_addr(serverd, 0);
	struct job jobs[N_JOBS];
	pthread_t threads[N_JOBS];

	(void)state;
	for (uint32_t i = 0; i < N_JOBS; i++) {
		jobs[i] = (struct job){
			.servers = &addr,
			.n_servers = 1,
			.n_members = (uint16_t)(2 + i),
			.seed = 100 + i,
			.n_ops = 60,
			.max_bytes = 200000,
			.slot_bytes = 4096u << i,
			.n_slots = 1 + i,
		};
		assert_int_equal(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
	}
	for (uint32_t i = 0; i < N_JOBS; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t i = 0; i < N_JOBS; i++) {
		if (jobs[i].failure[0])
			fail_msg("job %u: %s", i, jobs[i].failure);
	}
	assert_empty(serverd);
	bps_serverd_stop(serverd);
}

/* A member that waits for another one which never comes. */
struct waiter {
	struct member member;
	struct member_config config;
	pthread_t thread;
	int result;
};

static void *wait_in_op(void *arg)
{
	static uint8_t in[65536];
	struct waiter *waiter = arg;
	uint8_t out[4096];

	waiter->result = member_open(&waiter->member, &waiter->config);
	if (waiter->result == 0)
		waiter->result = member_allreduce(&waiter->member, BPS_I32, BPS_SUM, in,
		                                  out, sizeof(out));
	member_close(&waiter->member);
	return NULL;
}

static void start_waiter(struct waiter *waiter, const struct bps_addr *addr,
                         uint16_t rank)
{
	waiter->config = (struct member_config){
		.job = "the same job",
		.rank = rank,
		.n_ranks = 2,
		.servers = addr,
		.n_servers = 1,
		.slot_bytes = 1024,
		.n_slots = 2,
		.timeout_ns = 20 * BPS_NS_PER_S,
	};
	assert_int_equal(pthread_create(&waiter->thread, NULL, wait_in_op, waiter), 0);
}

static void wait_for_pushes(struct bps_serverd *serverd, uint64_t n)
{
	struct bps_server_counters *counters =
		bps_server_counters(bps_serverd_server(serverd));
	uint64_t end_ns = bps_now_ns() + 5 * BPS_NS_PER_S;

	while (__atomic_load_n(&counters->n_pushes, __ATOMIC_RELAXED) < n &&
	       bps_now_ns() < end_ns)
		usleep(1000);
	assert_true(__atomic_load_n(&counters->n_pushes, __ATOMIC_RELAXED) >= n);
}

/* The stop does not wait for a job; its members learn that the server left. */
static void test_stop_in_op(void **state)
{
	struct bps_serverd *serverd = new_server(2, 2);
	struct bps_addr addr = *bps_serverd_addr(serverd, 0);
	static struct waiter waiter;
	uint64_t start_ns;

	(void)state;
	start_waiter(&waiter, &addr, 0);
	wait_for_pushes(serverd, 2);
	assert_int_equal(bps_server_n_jobs(bps_serverd_server(serverd)), 1);
	start_ns = bps_now_ns();
	bps_serverd_drain(serverd);
	bps_serverd_drain(serverd);
	bps_serverd_stop(serverd);
	assert_true(bps_now_ns() - start_ns < 5 * BPS_NS_PER_S);
	pthread_join(waiter.thread, NULL);
	assert_true(waiter.result < 0);
	assert_non_null(strstr(waiter.member.reason.text, "127.0.0.1"));
}

static int connect_plain(const struct bps_addr *addr)
{
	int fd = socket(addr->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, &addr->sa, addr->bytes), 0);
	return fd;
}

/* Rank 1 of the waiter's job says hello and is welcome. */
static int join_plain(const struct bps_addr *addr, const struct member_config *config)
{
	struct bps_wire_hdr hdr = { .type = BPS_WIRE_HELLO,
		                    .payload_bytes = BPS_WIRE_HELLO_BYTES };
	struct bps_wire_hello hello = { .peer = 1,
		                        .n_peers = 2,
		                        .n_slots = config->n_slots,
		                        .slot_bytes = config->slot_bytes,
		                        .host = "victim" };
	uint8_t buf[BPS_WIRE_MIN_HDR + BPS_WIRE_HELLO_BYTES];
	int fd = connect_plain(addr);

	memcpy(hello.job, config->job, sizeof(hello.job));
	assert_int_equal(bps_wire_encode(&hdr, buf), BPS_WIRE_MIN_HDR);
	bps_wire_encode_hello(&hello, buf + BPS_WIRE_MIN_HDR);
	assert_int_equal(send(fd, buf, sizeof(buf), 0), sizeof(buf));
	assert_int_equal(recv(fd, buf, sizeof(buf), MSG_WAITALL), sizeof(buf));
	assert_int_equal(buf[5], BPS_WIRE_WELCOME);
	return fd;
}

/* Dies without a goodbye while the other one waits in an op; the server goes on. */
static void test_lost_member(void **state)
{
	struct bps_serverd *serverd = new_server(2, 2);
	struct bps_addr addr = *bps_serverd_addr(serverd, 0);
	static struct waiter waiter;
	const char *log;
	int fd;

	(void)state;
	capture_start();
	start_waiter(&waiter, &addr, 0);
	wait_for_pushes(serverd, 2);
	fd = join_plain(&addr, &waiter.config);
	close(fd);
	pthread_join(waiter.thread, NULL);
	log = capture_end();
	assert_true(waiter.result < 0);
	assert_non_null(strstr(waiter.member.reason.text, "rank 1"));
	assert_non_null(strstr(log, "lost rank 1"));
	assert_empty(serverd);
	bps_serverd_stop(serverd);
}

static void test_port_in_use(void **state)
{
	int before = count_fds();
	struct bps_serverd *serverd = new_server(1, 1), *second = NULL;
	uint16_t port = bps_addr_port(bps_serverd_addr(serverd, 0));
	char text[32];
	const char *log;

	(void)state;
	capture_start();
	assert_int_equal(start_server(port, 2, 2, 100, &second), -EADDRINUSE);
	log = capture_end();
	snprintf(text, sizeof(text), "127.0.0.1:%u", port);
	assert_non_null(strstr(log, text));
	assert_ptr_equal(strchr(log, '\n'), log + strlen(log) - 1);
	bps_serverd_stop(serverd);
	/* Free again at once. */
	assert_int_equal(start_server(port, 1, 1, 100, &serverd), 0);
	bps_serverd_stop(serverd);
	assert_int_equal(count_fds(), before);
}

/* Whether the server closes @fd within @timeout_ms. */
static bool gets_closed(int fd, int timeout_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	char byte;

	return poll(&ready, 1, timeout_ms) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

static void test_max_connections(void **state)
{
	struct bps_serverd *serverd;
	struct bps_addr addr;
	const char *log;
	int fds[6];

	(void)state;
	capture_start();
	assert_int_equal(start_server(0, 2, 1, 4, &serverd), 0);
	addr = *bps_serverd_addr(serverd, 0);
	for (int i = 0; i < 6; i++)
		fds[i] = connect_plain(&addr);
	assert_true(gets_closed(fds[4], 5000));
	assert_true(gets_closed(fds[5], 5000));
	for (int i = 0; i < 4; i++)
		assert_false(gets_closed(fds[i], 20));
	for (int i = 0; i < 6; i++)
		close(fds[i]);
	assert_empty(serverd);
	fds[0] = connect_plain(&addr);
	assert_false(gets_closed(fds[0], 50));
	close(fds[0]);
	bps_serverd_stop(serverd);
	log = capture_end();
	assert_non_null(strstr(log, "--max-connections"));
}

/* Members come and go, each after the other, in every loop. */
static void test_many_jobs_in_turn(void **state)
{
	struct bps_serverd *serverd = new_server(2, 2);
	struct bps_addr addr = *bps_serverd_addr(serverd, 0);
	int before = count_fds();

	(void)state;
	for (uint64_t i = 0; i < 30; i++) {
		struct job job = {
			.servers = &addr,
			.n_servers = 1,
			.n_members = (uint16_t)(1 + i % 3),
			.seed = i,
			.n_ops = 3,
			.max_bytes = 20000,
			.slot_bytes = 1024,
			.n_slots = 2,
		};

		if (!job_run(&job))
			fail_msg("%s", job.failure);
	}
	assert_empty(serverd);
	assert_int_equal(count_fds(), before);
	bps_serverd_stop(serverd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_stop),
		cmocka_unit_test(test_one_job),
		cmocka_unit_test(test_jobs_at_once),
		cmocka_unit_test(test_many_jobs_in_turn),
		cmocka_unit_test(test_stop_in_op),
		cmocka_unit_test(test_lost_member),
		cmocka_unit_test(test_port_in_use),
		cmocka_unit_test(test_max_connections),
	};

	if (bps_cpuset_allowed(&cpus) < 0)
		return 1;
	return cmocka_run_group_tests_name("serverd", tests, NULL, NULL);
}
