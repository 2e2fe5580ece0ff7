/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/base/unit.h"

#include <errno.h>

static void a_line_says_who_speaks(void **state)
{
	struct capture capture;
	char host[65] = "", expected[256];

	gethostname(host, sizeof(host) - 1);
	capture_start(&capture);
	bps_log_init(BPS_LOG_INFO, 7);
	bps_info("%d of %s", 3, "these");
	bps_log_set_rank(-1);
	bps_warn("odd");
	(void)snprintf(expected, sizeof(expected),
	               "bpsmpi %s:%d r7 test: 3 of these\nbpsmpi %s:%d test: odd\n", host,
	               (int)getpid(), host, (int)getpid());
	assert_string_equal(capture_end(&capture), expected);
}

static void levels_are_kept(void **state)
{
	struct capture capture;
	const char *text;

	capture_start(&capture);
	bps_log_set_level(BPS_LOG_WARN);
	bps_error("one");
	bps_warn("two");
	bps_info("three");
	bps_debug("four");
	assert_false(bps_log_wants(BPS_LOG_INFO));
	bps_log_set_level(BPS_LOG_INFO);
	text = capture_end(&capture);
	assert_int_equal(count_lines(text), 2);
	assert_contains(text, "one");
	assert_contains(text, "two");
}

static void unwanted_arguments_are_not_evaluated(void **state)
{
	int n = 0;

	bps_debug("%d", ++n);
	assert_int_equal(n, 0);
}

static void long_text_is_cut(void **state)
{
	struct capture capture;
	char filler[2 * BPS_LOG_LINE_BYTES];
	const char *text;

	memset(filler, 'x', sizeof(filler) - 1);
	filler[sizeof(filler) - 1] = '\0';
	capture_start(&capture);
	bps_error("%s", filler);
	text = capture_end(&capture);
	assert_int_equal(strlen(text), BPS_LOG_LINE_BYTES);
	assert_string_equal(text + strlen(text) - 5, "x...\n");
}

/* The longest text that fits is not cut: try the lengths around it. */
static void the_last_fitting_length_is_whole(void **state)
{
	for (int n = BPS_LOG_LINE_BYTES - 200; n < BPS_LOG_LINE_BYTES + 10; n++) {
		struct capture capture;
		const char *text;
		size_t length;

		capture_start(&capture);
		bps_error("%*s", n, "end");
		text = capture_end(&capture);
		length = strlen(text);
		assert_int_equal(count_lines(text), 1);
		assert_true(length <= BPS_LOG_LINE_BYTES);
		if (length < BPS_LOG_LINE_BYTES)
			assert_string_equal(text + length - 4, "end\n");
	}
}

static void one_line_stays_one_line(void **state)
{
	struct capture capture;
	const char *text;

	capture_start(&capture);
	bps_error("a\nb\x1b[31m");
	text = capture_end(&capture);
	assert_int_equal(count_lines(text), 1);
	assert_contains(text, "a?b?[31m\n");
}

static void errno_is_kept_and_shown(void **state)
{
	struct capture capture;

	capture_start(&capture);
	errno = ENOENT;
	bps_error("open: %m");
	assert_int_equal(errno, ENOENT);
	assert_contains(capture_end(&capture), "open: No such file or directory\n");
}

static void a_closed_descriptor_is_no_harm(void **state)
{
	int before = bps_log_set_fd(-1);

	errno = 0;
	bps_error("nobody hears this");
	assert_int_equal(errno, 0);
	assert_int_equal(bps_log_set_fd(before), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_says_who_speaks),
		cmocka_unit_test(levels_are_kept),
		cmocka_unit_test(unwanted_arguments_are_not_evaluated),
		cmocka_unit_test(long_text_is_cut),
		cmocka_unit_test(the_last_fitting_length_is_whole),
		cmocka_unit_test(one_line_stays_one_line),
		cmocka_unit_test(errno_is_kept_and_shown),
		cmocka_unit_test(a_closed_descriptor_is_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
