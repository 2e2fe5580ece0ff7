/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/base/unit.h"

#include "base/config.h"

#include <errno.h>

/* Parses an environment of two strings; what was logged is in capture->text. */
static int parse(struct bps_config *config, struct capture *capture, const char *first,
                 const char *second)
{
	char *env[] = { (char *)(uintptr_t)first, (char *)(uintptr_t)second, NULL };
	int r;

	capture_start(capture);
	r = bps_config_parse(config, env);
	(void)capture_end(capture);
	return r;
}

static void defaults_are_what_the_table_says(void **state)
{
	static struct bps_config config;

	memset(&config, 0xff, sizeof(config));
	bps_config_defaults(&config);
	assert_true(config.enable);
	assert_int_equal(config.mode, BPS_MODE_AUTO);
	assert_false(config.stats);
	assert_string_equal(config.servers, "");
	assert_int_equal(config.threshold_bytes, 262144);
	assert_int_equal(config.partition_bytes, 0); /* auto */
	assert_int_equal(config.window_bytes, 0);
	assert_int_equal(config.mode, BPS_MODE_AUTO);
	assert_string_equal(config.bandwidth, "");
	assert_int_equal(config.staging_bytes, 1073741824);
	assert_int_equal(config.server_memory_bytes, 1073741824);
	assert_int_equal(config.timeout_s, 60);
	assert_int_equal(config.init_timeout_s, 10);
	assert_int_equal(config.retry_s, 60);
	assert_true(config.user_ops);
	assert_int_equal(config.connections, 0); /* auto */
	assert_int_equal(config.port, 0);
	assert_int_equal(config.reducers, 0);
	assert_int_equal(config.loops, 1);
	assert_int_equal(config.log, BPS_LOG_INFO);
}

/* Every default must be a value that a user could have set. */
static void every_default_is_allowed(void **state)
{
	for (int i = 0; i < BPS_CONFIG_N_ROWS; i++) {
		static struct bps_config config;
		struct capture capture;
		char text[512];

		(void)snprintf(text, sizeof(text), "%s=%s", bps_config_rows[i].name,
		               bps_config_rows[i].def);
		assert_int_equal(parse(&config, &capture, text, NULL), 0);
		assert_string_equal(capture.text, "");
		assert_int_equal(config.source[i], bps_config_rows[i].def[0]
		                                           ? BPS_CONFIG_ENVIRONMENT
		                                           : BPS_CONFIG_DEFAULT);
	}
}

static void every_row_is_complete(void **state)
{
	for (int i = 0; i < BPS_CONFIG_N_ROWS; i++) {
		const struct bps_config_row *row = &bps_config_rows[i];
		size_t n = strlen(row->help);

		assert_true(n > 10 && row->help[n - 1] != '.');
		assert_true(row->min <= row->max);
		assert_true(row->type != BPS_CONFIG_STRING ||
		            row->max <= BPS_CONFIG_TEXT_BYTES);
		assert_true(row->type != BPS_CONFIG_INT ||
		            (row->min >= INT32_MIN && row->max <= INT32_MAX));
	}
}

static void equal_environments_give_equal_bytes(void **state)
{
	static struct bps_config one, other;
	struct capture capture;

	memset(&one, 0xff, sizeof(one));
	memset(&other, 0x55, sizeof(other));
	assert_int_equal(parse(&one, &capture, "BPSMPI_SERVERS=a,b", "BPSMPI_PORT=7"), 0);
	assert_int_equal(parse(&other, &capture, "BPSMPI_PORT=7", "BPSMPI_SERVERS=a,b"),
	                 0);
	assert_memory_equal(&one, &other, sizeof(one));
}

static void values_and_sources_are_taken(void **state)
{
	static struct bps_config config;
	struct capture capture;

	assert_int_equal(
		parse(&config, &capture, "BPSMPI_TIMEOUT_S=5", "BPSMPI_LOG=debug"), 0);
	assert_int_equal(config.timeout_s, 5);
	assert_int_equal(config.log, BPS_LOG_DEBUG);
	assert_int_equal(config.source[BPS_CONFIG_ROW_timeout_s], BPS_CONFIG_ENVIRONMENT);
	assert_int_equal(config.source[BPS_CONFIG_ROW_port], BPS_CONFIG_DEFAULT);
}

static void nothing_counts_as_not_set(void **state)
{
	static struct bps_config config;
	struct capture capture;

	assert_int_equal(parse(&config, &capture, "BPSMPI_TIMEOUT_S=", "BPSMPI_STATS="),
	                 0);
	assert_int_equal(config.timeout_s, 60);
	assert_int_equal(config.source[BPS_CONFIG_ROW_timeout_s], BPS_CONFIG_DEFAULT);
	assert_string_equal(capture.text, "");
}

static void no_environment_is_an_empty_one(void **state)
{
	static struct bps_config config;

	assert_int_equal(bps_config_parse(&config, NULL), 0);
	assert_null(bps_env_get(NULL, "PATH"));
}

static void bad_values_are_refused(void **state)
{
	static const struct {
		const char *set;
		const char *said;
	} cases[] = {
		{ "BPSMPI_TIMEOUT_S=0",
		  "BPSMPI_TIMEOUT_S: '0' is not a number of seconds "
		  "from 1 to 86400; its default is '60'" },
		{ "BPSMPI_TIMEOUT_S=86401", "'86401'" },
		{ "BPSMPI_TIMEOUT_S=12x", "'12x'" },
		{ "BPSMPI_TIMEOUT_S= 12", "' 12'" },
		{ "BPSMPI_TIMEOUT_S=+12", "'+12'" },
		{ "BPSMPI_TIMEOUT_S=-", "'-'" },
		{ "BPSMPI_TIMEOUT_S=99999999999999999999", "99999999999999999999" },
		{ "BPSMPI_TIMEOUT_S=4294967297", "4294967297" },
		{ "BPSMPI_PORT=-1", "a number from 0 to 65535" },
		{ "BPSMPI_PARTITION_BYTES=512",
		  "'512' is not auto or a number of bytes from 1K to 16M" },
		{ "BPSMPI_PARTITION_BYTES=17M", "'17M'" },
		{ "BPSMPI_PARTITION_BYTES=64X", "'64X'" },
		{ "BPSMPI_PARTITION_BYTES=64Ki", "'64Ki'" },
		{ "BPSMPI_PARTITION_BYTES=-64K", "'-64K'" },
		{ "BPSMPI_PARTITION_BYTES=64K ", "'64K '" },
		{ "BPSMPI_WINDOW_BYTES=0", "from 1 to 1024T" },
		{ "BPSMPI_WINDOW_BYTES=18014398509481984K", "18014398509481984K" },
		{ "BPSMPI_CONNECTIONS=0",
		  "'0' is not auto or a number from 1 to 16; its default is 'auto'" },
		{ "BPSMPI_STATS=2", "is not 0 or 1; its default is '0'" },
		{ "BPSMPI_LOG=loud", "is not error, warn, info or debug" },
		{ "BPSMPI_MODE=bogus",
		  "'bogus' is not auto, always or never; its default is 'auto'" },
		{ "BPSMPI_HOSTID=0123456789012345678901234567890123456789012345678901234567"
		  "890123",
		  "at most 63 characters" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static struct bps_config config, defaults;
		struct capture capture;

		bps_config_defaults(&defaults);
		assert_int_equal(parse(&config, &capture, cases[i].set, NULL), -EINVAL);
		assert_contains(capture.text, cases[i].said);
		assert_int_equal(count_lines(capture.text), 1);
		assert_memory_equal(&config, &defaults, sizeof(config));
	}
}

static void each_bad_value_has_its_line_and_good_ones_hold(void **state)
{
	static struct bps_config config;
	struct capture capture;
	static char a[] = "BPSMPI_PORT=x", b[] = "BPSMPI_LOOPS=4",
		    c[] = "BPSMPI_RETRY_S=y";
	char *env[] = { a, b, c, NULL };

	capture_start(&capture);
	assert_int_equal(bps_config_parse(&config, env), -EINVAL);
	assert_int_equal(count_lines(capture_end(&capture)), 2);
	assert_int_equal(config.loops, 4);
}

static void the_limits_themselves_are_allowed(void **state)
{
	static struct bps_config config;
	struct capture capture;

	assert_int_equal(parse(&config, &capture, "BPSMPI_TIMEOUT_S=86400",
	                       "BPSMPI_PARTITION_BYTES=16M"),
	                 0);
	assert_int_equal(parse(&config, &capture, "BPSMPI_TIMEOUT_S=1",
	                       "BPSMPI_PARTITION_BYTES=1024"),
	                 0);
	assert_int_equal(parse(&config, &capture,
	                       "BPSMPI_HOSTID=0123456789012345678901234567890123456789"
	                       "01234567890123456789012",
	                       NULL),
	                 0);
	assert_int_equal(strlen(config.hostid), 63);
}

static void an_unknown_variable_gets_the_nearest_name(void **state)
{
	static const char *const cases[][2] = {
		{ "BPSMPI_TRESHOLD_BYTES=1", "BPSMPI_THRESHOLD_BYTES\n" },
		{ "BPSMPI_SERVER=a", "BPSMPI_SERVERS\n" },
		{ "BPSMPI_TRESHOLD=1", "BPSMPI_THRESHOLD_BYTES\n" },
		{ "BPSMPI_THRESHOLD=a", "BPSMPI_THRESHOLD_BYTES\n" },
		{ "BPSMPI_LOGS", "BPSMPI_LOG\n" },
		{ "BPSMPI_THRESHLD_BYTE=1", "BPSMPI_THRESHOLD_BYTES\n" },
		{ "BPSMPI_CPU=1", "BPSMPI_CPUS\n" },
		{ "BPSMPI_HOST=1", "BPSMPI_HOSTID\n" },
		{ "BPSMPI_TIMEOUT=1", "BPSMPI_TIMEOUT_S\n" },
		{ "BPSMPI_WINDOWS=1", "BPSMPI_WINDOW_BYTES\n" },
		{ "BPSMPI_PARTITON=1", "BPSMPI_PARTITION_BYTES\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static struct bps_config config;
		struct capture capture;

		assert_int_equal(parse(&config, &capture, cases[i][0], "BPSMP_X=1"), 0);
		assert_int_equal(count_lines(capture.text), 1);
		assert_contains(capture.text, "nearest");
		assert_contains(capture.text, cases[i][1]);
	}
}

static void none_is_suggested_where_none_is_near(void **state)
{
	static const char *const cases[] = {
		"BPSMPI_=1",        "BPSMPI_X=1",        "BPSMPI_S=1",
		"BPSMPI_LO=1",      "BPSMPI_timeout=1",  "BPSMPI_DEBUG=1",
		"BPSMPI_VERBOSE=1", "BPSMPI_ICECREAM=1", "BPSMPI_FUSION=1",
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static struct bps_config config;
		struct capture capture;

		assert_int_equal(parse(&config, &capture, cases[i], NULL), 0);
		assert_int_equal(count_lines(capture.text), 1);
		if (strstr(capture.text, "nearest"))
			fail_msg("%s", capture.text);
		assert_contains(capture.text,
		                "does nothing; bpsmpi-check --env lists all\n");
	}
}

static void sizes_are_read(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{ "0", 0 },           { "1000", 1000 },
		{ "12B", 12 },        { "64K", 65536 },
		{ "64k", 65536 },     { "32KiB", 32768 },
		{ "32KB", 32768 },    { "1M", 1048576 },
		{ "1G", 1073741824 }, { "2t", UINT64_C(2199023255552) },
		{ "007", 7 },         { "18446744073709551615", UINT64_MAX },
	};
	static const char *const wrong[] = { "",          "K",
		                             "1.5M",      "1 M",
		                             "0x10",      "-1",
		                             "16777216T", "18446744073709551616",
		                             "1KK",       "1iB" };
	uint64_t bytes;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(bps_bytes_parse(cases[i].text, &bytes), 0);
		assert_true(bytes == cases[i].bytes);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(bps_bytes_parse(wrong[i], &bytes), -EINVAL);
}

static void sizes_are_written_as_they_are_read(void **state)
{
	static const char *const same[] = {
		"0",    "1",  "1000", "1K", "1025",
		"256K", "3M", "1G",   "7T", "18446744073709551615"
	};
	char text[24];
	uint64_t bytes;

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		assert_int_equal(bps_bytes_parse(same[i], &bytes), 0);
		bps_bytes_format(bytes, text, sizeof(text));
		assert_string_equal(text, same[i]);
	}
}

static void the_list_names_value_unit_and_source(void **state)
{
	static struct bps_config config;
	struct capture capture;
	const char *text;

	assert_int_equal(parse(&config, &capture, "BPSMPI_WINDOW_BYTES=131072", NULL), 0);
	text = print_config(&config, &capture);
	assert_int_equal(count_lines(text), BPS_CONFIG_N_ROWS);
	assert_contains(text, "BPSMPI_WINDOW_BYTES          128K             bytes    "
	                      "environment\n");
	assert_contains(text, "BPSMPI_SERVERS               \"\"               -        "
	                      "default\n");
}

static void an_environment_is_searched_by_whole_names(void **state)
{
	static char a[] = "ABC=1", b[] = "AB=2", c[] = "AB=3",
		    d[] = "EMPTY=", e[] = "BARE";
	char *env[] = { a, b, c, d, e, NULL };

	assert_string_equal(bps_env_get(env, "AB"), "2");
	assert_string_equal(bps_env_get(env, "EMPTY"), "");
	assert_null(bps_env_get(env, "A"));
	assert_null(bps_env_get(env, "BARE"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_what_the_table_says),
		cmocka_unit_test(every_default_is_allowed),
		cmocka_unit_test(every_row_is_complete),
		cmocka_unit_test(equal_environments_give_equal_bytes),
		cmocka_unit_test(values_and_sources_are_taken),
		cmocka_unit_test(nothing_counts_as_not_set),
		cmocka_unit_test(no_environment_is_an_empty_one),
		cmocka_unit_test(bad_values_are_refused),
		cmocka_unit_test(each_bad_value_has_its_line_and_good_ones_hold),
		cmocka_unit_test(the_limits_themselves_are_allowed),
		cmocka_unit_test(an_unknown_variable_gets_the_nearest_name),
		cmocka_unit_test(none_is_suggested_where_none_is_near),
		cmocka_unit_test(sizes_are_read),
		cmocka_unit_test(sizes_are_written_as_they_are_read),
		cmocka_unit_test(the_list_names_value_unit_and_source),
		cmocka_unit_test(an_environment_is_searched_by_whole_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
