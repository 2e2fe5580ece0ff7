/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of whole engines, with their threads and sockets: nothing of them is left. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "tests/unit/base/descriptors.h"

#define N_PEERS 3u
#define N_TIMES 10

static struct bps_engine *start(uint32_t peer)
{
	const struct bps_engine_config config = {
		.client = { .peer = peer,
		            .n_peers = N_PEERS,
		            .host = "h",
		            .slot_bytes = 4096,
		            .n_slots = 2,
		            .timeout_ns = 10 * BPS_NS_PER_S },
		.server_memory_bytes = 1 << 20,
		.retry_ns = BPS_NS_PER_S,
	};
	struct bps_engine *engine;

	assert_int_equal(bps_engine_start(&config, &engine), 0);
	return engine;
}

static void connect_to(struct bps_engine *engine, const struct bps_addr *addr, bool local)
{
	const struct bps_engine_server server = { .name = "s",
		                                  .addrs = addr,
		                                  .n_addrs = 1,
		                                  .local = local,
		                                  .n_connections = 3 };
	struct bps_reason reason;

	assert_int_equal(bps_engine_connect(engine, &server, 1, &reason), 0);
}

/* Three engines, of which the first carries the server; ended from @first on. */
static void live(uint32_t first)
{
	struct bps_addr addr = { .bytes = sizeof(struct sockaddr_in) }, at;
	struct bps_engine *engines[N_PEERS];
	uint32_t i;

	addr.in.sin_family = AF_INET;
	addr.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (i = 0; i < N_PEERS; i++)
		engines[i] = start(i);
	assert_int_equal(bps_engine_serve(engines[0], &addr, 1, &at), 0);
	for (i = 0; i < N_PEERS; i++)
		connect_to(engines[i], &at, i == 0);
	for (i = 0; i < N_PEERS; i++)
		bps_engine_stop(engines[(first + i) % N_PEERS]);
}

/*
 * A connection waits for its peer to end it too; that must not outlive the engine. The
 * one with the server is the last or, once, since it waits for the others then, the
 * first.
 */
static void no_connection_is_left(void **state)
{
	int before, i;

	(void)state;
	live(1);
	before = count_fds();
	for (i = 0; i < N_TIMES; i++) {
		live(i > 0);
		assert_int_equal(count_fds(), before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_connection_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
