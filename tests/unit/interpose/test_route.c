/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The routing decision, row by row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>

#include "interpose/route.h"

#define THRESHOLD 1000u

static void calls_are_taken_or_passed(void **state)
{
	static const struct {
		struct bps_route_call call;
		enum bps_route route;
	} rows[] = {
		{ { BPS_ALLREDUCE, 1000, true, false, false }, BPS_ROUTE_TAKE },
		{ { BPS_ALLREDUCE, 999, true, false, false }, BPS_ROUTE_SMALL },
		{ { BPS_ALLREDUCE, 0, true, false, false }, BPS_ROUTE_EMPTY },
		{ { BPS_ALLREDUCE, 1000, false, false, false }, BPS_ROUTE_TYPE },
		{ { BPS_ALLREDUCE, 1000, true, true, false }, BPS_ROUTE_INVALID },
		{ { BPS_ALLREDUCE, 1000, true, false, true }, BPS_ROUTE_ALIAS },
		{ { BPS_ALLREDUCE, 1ull << 40, true, false, false }, BPS_ROUTE_TAKE },
		{ { BPS_BCAST, 1000, false, false, false }, BPS_ROUTE_TAKE },
		{ { BPS_BCAST, 999, false, false, false }, BPS_ROUTE_SMALL },
		{ { BPS_BCAST, 0, false, true, false }, BPS_ROUTE_EMPTY },
		{ { BPS_BCAST, INT_MAX, false, false, false }, BPS_ROUTE_TAKE },
		{ { BPS_BCAST, 1ull << 31, false, false, false }, BPS_ROUTE_LARGE },
		{ { BPS_BCAST, UINT64_MAX, false, false, false }, BPS_ROUTE_LARGE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(bps_route_call(&rows[i].call, THRESHOLD), rows[i].route);
}

static void communicators_are_taken_or_passed(void **state)
{
	static const struct {
		struct bps_route_comm comm;
		enum bps_route route;
	} rows[] = {
		{ { false, false, 2 }, BPS_ROUTE_TAKE },
		{ { false, false, 1 }, BPS_ROUTE_SINGLE },
		{ { false, true, 2 }, BPS_ROUTE_OUTSIDE },
		{ { true, false, 2 }, BPS_ROUTE_INTER },
		{ { true, true, 1 }, BPS_ROUTE_INTER },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(bps_route_comm(&rows[i].comm), rows[i].route);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_taken_or_passed),
		cmocka_unit_test(communicators_are_taken_or_passed),
	};

	return cmocka_run_group_tests_name("interpose-route", tests, NULL, NULL);
}
