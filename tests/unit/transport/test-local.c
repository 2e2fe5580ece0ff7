/* SPDX-License-Identifier: BSD-3-Clause */
#include "harness.h"

#include <errno.h>
#include <stdlib.h>

#include "transport/local.h"

struct both {
	struct bps_loop *loop;
	struct end *a, *b;
};

static int setup(void **state)
{
	struct both *both = calloc(1, sizeof(*both));

	assert_non_null(both);
	both->a = end_new();
	both->b = end_new();
	assert_int_equal(bps_loop_new(&both->loop), 0);
	assert_int_equal(bps_local_pair(both->loop, &both->a->conn, &both->b->conn), 0);
	bps_conn_bind(both->a->conn, &end_events, both->a);
	bps_conn_bind(both->b->conn, &end_events, both->b);
	*state = both;
	return 0;
}

static int teardown(void **state)
{
	struct both *both = *state;

	end_close(both->a);
	end_close(both->b);
	pump_idle(both->loop);
	end_free(both->a);
	end_free(both->b);
	free(both);
	return 0;
}

static void turn(struct both *both)
{
	assert_int_equal(bps_loop_turn(both->loop, 0), 0);
}

static bool all_received(void *arg)
{
	struct both *both = arg;

	return both->a->n_received == both->b->n_to_send &&
	       both->b->n_received == both->a->n_to_send;
}

static void test_up(void **state)
{
	struct both *both = *state;

	assert_int_equal(both->a->n_up + both->b->n_up, 0);
	turn(both);
	turn(both);
	assert_int_equal(both->a->n_up, 1);
	assert_int_equal(both->b->n_up, 1);
}

static void test_stream(void **state)
{
	struct both *both = *state;

	end_start(both->a, 30000, 4096);
	end_start(both->b, 20000, 4096);
	assert_int_equal(both->a->n_received, 0);
	assert_true(pump(both->loop, all_received, both, 20000));
	assert_int_equal(both->a->conn->n_sent_bytes, both->b->conn->n_received_bytes);
	assert_int_equal(both->b->hdr.version, BPS_WIRE_VERSION);
}

static void test_close_with_queue(void **state)
{
	struct both *both = *state;

	turn(both);
	end_start(both->a, END_N_SENDS, 4096);
	end_start(both->b, END_N_SENDS, 4096);
	end_close(both->a);
	turn(both);
	turn(both);
	assert_int_equal(both->b->n_received, END_N_SENDS);
	assert_int_equal(both->b->n_down, 1);
	assert_int_equal(both->b->error, 0);
	assert_int_equal(both->a->n_received, 0);
	assert_int_equal(both->a->n_down, 0);
	assert_int_equal(both->b->n_canceled, END_N_SENDS);
}

static void test_close_inside(void **state)
{
	struct both *both = *state;

	both->b->close_in_message = true;
	end_start(both->a, 10, 4096);
	turn(both);
	turn(both);
	assert_int_equal(both->b->n_received, 1);
	assert_int_equal(both->a->n_down, 1);
	assert_int_equal(both->a->error, 0);
	assert_int_equal(both->a->n_canceled, 9);
}

static void test_close_in_place(void **state)
{
	struct both *both = *state;

	both->b->close_in_place = true;
	end_start(both->a, 10, 4096);
	turn(both);
	turn(both);
	assert_int_equal(both->b->n_place, 1);
	assert_int_equal(both->a->n_down, 1);
}

static void test_close_in_up(void **state)
{
	struct both *both = *state;

	both->a->close_in_up = true;
	turn(both);
	turn(both);
	assert_int_equal(both->b->n_down, 1);
}

static void test_close_in_done(void **state)
{
	struct both *both = *state;

	both->a->close_in_done = true;
	end_start(both->a, 10, 100);
	turn(both);
	turn(both);
	assert_int_equal(both->b->n_received, 10);
	assert_int_equal(both->b->n_down, 1);
}

static void test_place_fails(void **state)
{
	struct both *both = *state;

	both->b->place_error = -EOVERFLOW;
	end_start(both->a, 10, 4096);
	end_start(both->b, 10, 4096);
	turn(both);
	assert_int_equal(both->b->n_down, 1);
	assert_int_equal(both->b->error, -EOVERFLOW);
	assert_int_equal(both->a->n_down, 1);
	assert_int_equal(both->a->error, -ECONNRESET);
}

static void test_close_at_once(void **state)
{
	struct both *both = *state;

	end_close(both->b);
	turn(both);
	assert_int_equal(both->b->n_up, 0);
	assert_int_equal(both->a->n_down, 1);
}

#define LOCAL_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOCAL_TEST(test_up),
		LOCAL_TEST(test_stream),
		LOCAL_TEST(test_close_with_queue),
		LOCAL_TEST(test_close_inside),
		LOCAL_TEST(test_close_in_place),
		LOCAL_TEST(test_close_in_up),
		LOCAL_TEST(test_close_in_done),
		LOCAL_TEST(test_place_fails),
		LOCAL_TEST(test_close_at_once),
	};

	return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
