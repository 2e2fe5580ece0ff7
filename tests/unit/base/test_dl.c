/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/base/unit.h"

#include "base/dl.h"

#include <errno.h>
#include <math.h>

#define MATH_SYMBOLS(X) X(cos) X(hypot)

struct math_table {
	MATH_SYMBOLS(BPS_DL_FIELD)
};

static const char *const math_names[] = { MATH_SYMBOLS(BPS_DL_NAME) };
static const char *const wrong_names[] = { "cos", "bps_no_such_function" };

BPS_DL_CHECK(struct math_table, math_names);

static void a_table_is_filled_with_typed_pointers(void **state)
{
	struct math_table math;
	char error[256] = "";
	void *handle;

	assert_int_equal(bps_dl_open("libm.so.6", math_names, BPS_DL_COUNT(math_names),
	                             &math, &handle, error, sizeof(error)),
	                 0);
	assert_true(math.hypot(3, 4) == 5);
	assert_true(math.cos(0) == 1);
	bps_dl_close(handle);
	bps_dl_close(NULL);
}

static void a_missing_library_is_named(void **state)
{
	struct math_table math;
	char error[256] = "";
	void *handle;

	memset(&math, 0xff, sizeof(math));
	assert_int_equal(bps_dl_open("libbps-none.so.1", math_names, 2, &math, &handle,
	                             error, sizeof(error)),
	                 -ENOENT);
	assert_contains(error, "libbps-none.so.1 cannot be loaded: ");
	assert_null(handle);
	assert_null(math.cos);
}

static void a_missing_symbol_is_named_with_its_library(void **state)
{
	struct math_table math;
	char error[256] = "";
	void *handle;

	assert_int_equal(bps_dl_open("libm.so.6", wrong_names, 2, &math, &handle, error,
	                             sizeof(error)),
	                 -ENOSYS);
	assert_contains(error, "libm.so.6 has no symbol bps_no_such_function");
	assert_null(handle);
	assert_null(math.cos);
	assert_int_equal(
		bps_dl_open("libm.so.6", wrong_names, 2, &math, &handle, NULL, 0),
		-ENOSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_is_filled_with_typed_pointers),
		cmocka_unit_test(a_missing_library_is_named),
		cmocka_unit_test(a_missing_symbol_is_named_with_its_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
