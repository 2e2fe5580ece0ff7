/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random text for what people and files feed us: whatever comes, the answer is a good one
 * or an error that says something, and (under the sanitizers) no byte beyond the ends is
 * touched. The seed is printed; BASE_FUZZ_SEED=N runs it again.
 */
#include "tests/unit/base/unit.h"

#include "base/config.h"
#include "base/cpuset.h"
#include "base/hostlist.h"
#include "base/random.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#define N_ROUNDS  20000
#define MAX_CHARS 120

static uint64_t seed;

/* A random string of its own size on the heap, so that sanitizers see its ends: pieces
 * that matter to the parsers, mixed with any byte. */
static char *random_text(struct bps_prng *prng, const char *const *pieces,
                         size_t n_pieces)
{
	char text[MAX_CHARS + 1] = "";
	size_t used = 0, wanted = bps_prng_below(prng, MAX_CHARS);

	while (used < wanted) {
		char byte[2] = { (char)(1 + bps_prng_below(prng, 255)), '\0' };
		const char *piece = pieces[bps_prng_below(prng, n_pieces)];

		if (bps_prng_below(prng, 20) == 0)
			piece = byte;
		(void)snprintf(text + used, sizeof(text) - used, "%s", piece);
		used = strlen(text);
	}
	return strdup(text);
}

static void check_hosts(const struct bps_hostlist *list)
{
	assert_true(list->n_hosts > 0 && list->n_hosts <= BPS_HOSTLIST_MAX);
	for (uint32_t i = 0; i < list->n_hosts; i++) {
		const char *name = list->hosts[i].name;

		assert_true(name[0] && strnlen(name, BPS_HOST_BYTES) < BPS_HOST_BYTES);
		assert_true(list->hosts[i].port != 0);
		for (; *name; name++)
			assert_true(isalnum((unsigned char)*name) ||
			            strchr("-._:%", *name));
	}
}

static void host_lists(void **state)
{
	static const char *const pieces[] = { "[",  "]",     ",",         ":",   "-",
		                              "1",  "09",    "7000",      "cpu", "a",
		                              "::", "fd00",  "%",         ".",   " ",
		                              "\n", "[1-3]", "[fd00::2]", ":80", ",b" };
	struct bps_prng prng;
	int n_good = 0;

	bps_prng_init(&prng, seed);
	for (int i = 0; i < N_ROUNDS; i++) {
		char *text =
			random_text(&prng, pieces, sizeof(pieces) / sizeof(pieces[0]));
		char error[200] = "";
		struct bps_hostlist list;
		int r = bps_hostlist_parse("list", text, 7000, &list, error,
		                           sizeof(error));

		if (r == 0) {
			check_hosts(&list);
			n_good++;
		} else {
			assert_true(r == -EINVAL || r == -E2BIG ||
			            (text[0] == '@' && r < 0));
			assert_memory_equal(error, "list: ", 6);
			assert_true(list.n_hosts == 0 && !list.hosts);
		}
		bps_hostlist_deinit(&list);
		free(text);
	}
	assert_true(n_good > N_ROUNDS / 200); /* the pieces are not all nonsense */
}

/* Where a value was taken it must be inside its row's range, read from the fields. */
static void check_config(const struct bps_config *config)
{
	assert_in_range(config->timeout_s, 1, 86400);
	assert_in_range(config->port, 0, 65535);
	assert_in_range(config->loops, 1, 64);
	if (config->partition_bytes != 0) /* auto */
		assert_in_range(config->partition_bytes, 1024, 16 << 20);
	assert_in_range(config->log, BPS_LOG_ERROR, BPS_LOG_DEBUG);
	assert_true(strnlen(config->servers, sizeof(config->servers)) <
	            sizeof(config->servers));
	assert_true(strnlen(config->hostid, sizeof(config->hostid)) <
	            sizeof(config->hostid));
}

static char *random_variable(struct bps_prng *prng)
{
	static const char *const pieces[] = { "1", "0",  "64",       "K",  "M",
		                              "-", "iB", "99999999", "on", "debug",
		                              "x", " ",  "=" };
	char *value = random_text(prng, pieces, sizeof(pieces) / sizeof(pieces[0]));
	size_t row = bps_prng_below(prng, BPS_CONFIG_N_ROWS + 1);
	char *variable = NULL;
	int n;

	assert_non_null(value);
	value[bps_prng_below(prng, strlen(value) + 1)] = '\0';
	if (row < BPS_CONFIG_N_ROWS)
		n = asprintf(&variable, "%s=%s", bps_config_rows[row].name, value);
	else
		n = asprintf(&variable, "BPSMPI_%s", value);
	assert_true(n > 0);
	free(value);
	return variable;
}

static void configurations(void **state)
{
	static struct bps_config config;
	struct bps_prng prng;
	int null_fd = memfd_create("none", MFD_CLOEXEC);
	int before = bps_log_set_fd(null_fd);
	int n_good = 0;

	bps_prng_init(&prng, seed + 1);
	for (int i = 0; i < N_ROUNDS; i++) {
		char *env[4] = { NULL };
		int r;

		for (size_t j = bps_prng_below(&prng, 4); j > 0; j--)
			env[j - 1] = random_variable(&prng);
		r = bps_config_parse(&config, env);
		assert_true(r == 0 || r == -EINVAL);
		n_good += r == 0;
		check_config(&config);
		for (size_t j = 0; j < 3; j++)
			free(env[j]);
		assert_int_equal(ftruncate(null_fd, 0), 0);
	}
	bps_log_set_fd(before);
	close(null_fd);
	assert_true(n_good > N_ROUNDS / 20);
}

/* What was read and written again must read the same. */
static void cpu_lists(void **state)
{
	static const char *const pieces[] = { "0",    "1", "7", "63", "64",
		                              "8191", "-", ",", ",2", "," };
	struct bps_prng prng;
	int null_fd = memfd_create("none", MFD_CLOEXEC);
	int before = bps_log_set_fd(null_fd);

	bps_prng_init(&prng, seed + 2);
	for (int i = 0; i < N_ROUNDS; i++) {
		char *text =
			random_text(&prng, pieces, sizeof(pieces) / sizeof(pieces[0]));
		struct bps_cpuset set, again;
		char written[1024];

		text[bps_prng_below(&prng, strlen(text) + 1)] = '\0';
		if (bps_cpuset_parse("list", text, &set) == 0) {
			bps_cpuset_format(&set, written, sizeof(written));
			assert_int_equal(bps_cpuset_parse("list", written, &again), 0);
			assert_memory_equal(&set, &again, sizeof(set));
		}
		free(text);
		assert_int_equal(ftruncate(null_fd, 0), 0);
	}
	bps_log_set_fd(before);
	close(null_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host_lists),
		cmocka_unit_test(configurations),
		cmocka_unit_test(cpu_lists),
	};
	const char *given = getenv("BASE_FUZZ_SEED");

	if (given)
		seed = strtoull(given, NULL, 0);
	else if (bps_random_bytes(&seed, sizeof(seed)))
		return 1;
	fprintf(stderr, "# BASE_FUZZ_SEED=%llu\n", (unsigned long long)seed);
	(void)fflush(stdout);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
