/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BytePS's names for our variables: what they set, when they give way, what is said.
 */
#include "tests/unit/base/unit.h"

#include "base/foreign.h"

#include <errno.h>

static struct bps_config config;
static struct capture capture;

/* Parses up to four settings; what was logged is in capture.text. */
static int parse(const char *a, const char *b, const char *c, const char *d)
{
	char *env[] = { (char *)(uintptr_t)a, (char *)(uintptr_t)b, (char *)(uintptr_t)c,
		        (char *)(uintptr_t)d, NULL };
	int r;

	capture_start(&capture);
	r = bps_config_parse(&config, env);
	(void)capture_end(&capture);
	return r;
}

static void their_names_set_ours_and_one_line_says_so(void **state)
{
	assert_int_equal(parse("BYTEPS_PARTITION_BYTES=65536",
	                       "BYTEPS_SERVER_ENGINE_THREAD=3", "DMLC_INTERFACE=ib0",
	                       NULL),
	                 0);
	assert_int_equal(config.partition_bytes, 65536);
	assert_int_equal(config.reducers, 3);
	assert_string_equal(config.interface, "ib0");
	assert_int_equal(config.source[BPS_CONFIG_ROW_reducers], BPS_CONFIG_FOREIGN);
	assert_int_equal(config.source[BPS_CONFIG_ROW_loops], BPS_CONFIG_DEFAULT);
	assert_int_equal(count_lines(capture.text), 1);
	assert_contains(capture.text, "BPSMPI_PARTITION_BYTES (BYTEPS_PARTITION_BYTES), "
	                              "BPSMPI_REDUCERS (BYTEPS_SERVER_ENGINE_THREAD), "
	                              "BPSMPI_INTERFACE (DMLC_INTERFACE)\n");
}

static void ours_win_and_one_line_says_so(void **state)
{
	assert_int_equal(
		parse("BPSMPI_REDUCERS=2", "BYTEPS_SERVER_ENGINE_THREAD=3", NULL, NULL),
		0);
	assert_int_equal(config.reducers, 2);
	assert_int_equal(config.source[BPS_CONFIG_ROW_reducers], BPS_CONFIG_ENVIRONMENT);
	assert_int_equal(count_lines(capture.text), 1);
	assert_contains(capture.text, "gives way to ours, which is set too: "
	                              "BPSMPI_REDUCERS (BYTEPS_SERVER_ENGINE_THREAD)\n");
	assert_int_equal(
		parse("BPSMPI_REDUCERS=", "BYTEPS_SERVER_ENGINE_THREAD=3", NULL, NULL),
		0);
	assert_int_equal(config.reducers, 3); /* ours is set to nothing: not set */
}

static void ours_alone_says_nothing(void **state)
{
	assert_int_equal(
		parse("BPSMPI_REDUCERS=2", "BYTEPS_SERVER_ENGINE_THREAD=", NULL, NULL),
		0);
	assert_string_equal(capture.text, "");
}

/* A value that is fine for BytePS must not stop a job: our default holds. */
static void a_value_that_is_none_here_is_a_warning(void **state)
{
	static struct bps_config defaults;

	bps_config_defaults(&defaults);
	assert_int_equal(parse("BYTEPS_SERVER_ENGINE_THREAD=1000", NULL, NULL, NULL), 0);
	assert_memory_equal(&config, &defaults, sizeof(config));
	assert_int_equal(count_lines(capture.text), 1);
	assert_contains(capture.text, "BYTEPS_SERVER_ENGINE_THREAD: '1000' is not a "
	                              "number of threads from 0 to 256; "
	                              "BPSMPI_REDUCERS keeps its default '0'\n");
	assert_int_equal(parse("BPSMPI_REDUCERS=1000", NULL, NULL, NULL), -EINVAL);
}

static void the_others_are_named_once(void **state)
{
	assert_int_equal(parse("BYTEPS_SCHEDULING_CREDIT=4", "DMLC_ROLE=worker",
	                       "DMLC_NUM_SERVER=4", "HOROVOD_FUSION_THRESHOLD=1"),
	                 0);
	assert_int_equal(count_lines(capture.text), 1);
	assert_contains(capture.text, "mean nothing here: BYTEPS_SCHEDULING_CREDIT, "
	                              "DMLC_ROLE, DMLC_NUM_SERVER; see bpsmpi-env(7)\n");
	assert_int_equal(config.source[BPS_CONFIG_ROW_window_bytes], BPS_CONFIG_DEFAULT);
}

/* However many there are, it is a line that ends as it should. */
static void very_many_others_are_still_one_line(void **state)
{
	static char texts[100][64];
	char *env[101] = { NULL };

	for (int i = 0; i < 100; i++) {
		(void)snprintf(texts[i], sizeof(texts[i]), "BYTEPS_A_LONG_NAME_%d=1", i);
		env[i] = texts[i];
	}
	capture_start(&capture);
	assert_int_equal(bps_config_parse(&config, env), 0);
	assert_int_equal(count_lines(capture_end(&capture)), 1);
	assert_contains(capture.text, "; see bpsmpi-env(7)\n");
}

static void the_number_of_servers_is_compared(void **state)
{
	assert_int_equal(parse("BPSMPI_SERVERS=s[1-4]", "DMLC_NUM_SERVER=4", NULL, NULL),
	                 0);
	assert_string_equal(capture.text, "");
	assert_int_equal(parse("BPSMPI_SERVERS=s[1-4]", "DMLC_NUM_SERVER=5", NULL, NULL),
	                 0);
	assert_int_equal(count_lines(capture.text), 1);
	assert_contains(capture.text, "BPSMPI_SERVERS names 4 servers, which is what "
	                              "counts; DMLC_NUM_SERVER is 5\n");
	assert_int_equal(parse("BPSMPI_SERVERS=s[1-", "DMLC_NUM_SERVER=5", NULL, NULL),
	                 0);
	assert_string_equal(capture.text, ""); /* who uses the list complains */
}

static void who_wants_no_infos_gets_none(void **state)
{
	static const char *const quiet[] = { "BPSMPI_LOG=warn", "BPSMPI_ENABLE=0" };

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(parse(quiet[i], "BYTEPS_PARTITION_BYTES=64K",
		                       "DMLC_ROLE=worker", NULL),
		                 0);
		assert_string_equal(capture.text, "");
		assert_int_equal(config.partition_bytes, 65536);
	}
	assert_int_equal(
		parse("BPSMPI_LOG=warn", "BPSMPI_SERVERS=a", "DMLC_NUM_SERVER=5", NULL),
		0);
	assert_int_equal(count_lines(capture.text), 1); /* a warning is one */
	assert_int_equal(
		parse("BPSMPI_LOG=error", "BPSMPI_SERVERS=a", "DMLC_NUM_SERVER=5", NULL),
		0);
	assert_string_equal(capture.text, "");
}

static void the_list_says_whose_name_it_was(void **state)
{
	const char *text;

	assert_int_equal(
		parse("BYTEPS_SERVER_ENGINE_THREAD=3", "BPSMPI_LOOPS=2", NULL, NULL), 0);
	text = print_config(&config, &capture);
	assert_contains(text, "BPSMPI_REDUCERS              3                threads  "
	                      "BYTEPS_SERVER_ENGINE_THREAD\n");
	assert_contains(text, "BPSMPI_LOOPS                 2                threads  "
	                      "environment\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(their_names_set_ours_and_one_line_says_so),
		cmocka_unit_test(ours_win_and_one_line_says_so),
		cmocka_unit_test(ours_alone_says_nothing),
		cmocka_unit_test(a_value_that_is_none_here_is_a_warning),
		cmocka_unit_test(the_others_are_named_once),
		cmocka_unit_test(very_many_others_are_still_one_line),
		cmocka_unit_test(the_number_of_servers_is_compared),
		cmocka_unit_test(who_wants_no_infos_gets_none),
		cmocka_unit_test(the_list_says_whose_name_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
