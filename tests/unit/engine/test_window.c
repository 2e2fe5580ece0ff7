/* SPDX-License-Identifier: BSD-3-Clause */
/* How large a window is: given, or by the number of boxes. */
#include "engine/plan.h"
#include "engine/window.h"
#include "tests/unit/engine/unit.h"

static void by_the_number_of_boxes(void **state)
{
	struct bps_config config = { 0 };

	(void)state;
	assert_int_equal(bps_window_slot_bytes(&config, 2), 256 << 10);
	assert_int_equal(bps_window_slot_bytes(&config, 32), 256 << 10);
	assert_int_equal(bps_window_slot_bytes(&config, 33), 128 << 10);
	assert_int_equal(bps_window_slot_bytes(&config, 64), 128 << 10);
	assert_int_equal(bps_window_slot_bytes(&config, 65), 64 << 10);
	assert_int_equal(bps_window_slot_bytes(&config, UINT32_MAX / 2), 4 << 10);
	assert_int_equal(bps_window_slots(&config, 2), 8);
	assert_int_equal(bps_window_slots(&config, 65), 8);
}

static void as_given(void **state)
{
	struct bps_config config = { .partition_bytes = (1 << 20) + BPS_CUT_UNIT - 1 };

	(void)state;
	assert_int_equal(bps_window_slot_bytes(&config, 100), 1 << 20);
	assert_int_equal(bps_window_slots(&config, 100), 8);
	config.window_bytes = 5 << 20;
	assert_int_equal(bps_window_slots(&config, 100), 5);
	config.window_bytes = 1;
	assert_int_equal(bps_window_slots(&config, 100), 1);
	/* A window alone holds two slots at least, as long as these are not tiny. */
	config.partition_bytes = 0;
	config.window_bytes = 128 << 10;
	assert_int_equal(bps_window_slot_bytes(&config, 2), 64 << 10);
	assert_int_equal(bps_window_slots(&config, 2), 2);
	config.window_bytes = 1;
	assert_int_equal(bps_window_slot_bytes(&config, 2), 4 << 10);
	assert_int_equal(bps_window_slots(&config, 2), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_the_number_of_boxes),
		cmocka_unit_test(as_given),
	};

	return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
