/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/base/unit.h"

#include "base/cpuset.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct bps_cpuset parsed(const char *text)
{
	struct bps_cpuset set;

	assert_int_equal(bps_cpuset_parse("list", text, &set), 0);
	return set;
}

static void lists_are_read_and_written(void **state)
{
	static const char *const cases[][2] = {
		{ "", "" },
		{ "0", "0" },
		{ "0-3,8", "0-3,8" },
		{ "8,0,1,2,3", "0-3,8" },
		{ "5-5,63-64,8191", "5,63-64,8191" },
		{ "0-8191\n", "0-8191" },
	};
	char text[64];

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct bps_cpuset set = parsed(cases[i][0]);

		bps_cpuset_format(&set, text, sizeof(text));
		assert_string_equal(text, cases[i][1]);
	}
}

static void wrong_lists_are_refused(void **state)
{
	static const char *const cases[] = { "a",           "-1", "1-",   "3-1",
		                             "0 1",         "1;", "8192", "0-8192",
		                             "99999999999", ",1", "1,,2", "1,",
		                             "0-3,\n",      "," };

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct bps_cpuset set = { { 7 } };
		struct capture capture;

		capture_start(&capture);
		assert_int_equal(bps_cpuset_parse("BPSMPI_CPUS", cases[i], &set),
		                 -EINVAL);
		assert_contains(capture_end(&capture), "BPSMPI_CPUS: '");
		assert_int_equal(set.bits[0], 7);
	}
}

static void a_text_without_room_ends_in_dots(void **state)
{
	struct bps_cpuset set = parsed("1,3,5,7,9,11,13,15,17");
	char text[40];

	for (size_t n = 4; n < sizeof(text); n++) {
		memset(text, 'x', sizeof(text));
		bps_cpuset_format(&set, text, n);
		assert_true(strlen(text) < n);
		if (n > strlen("1,3,5,7,9,11,13,15,17"))
			assert_string_equal(text, "1,3,5,7,9,11,13,15,17");
		else
			assert_string_equal(text + strlen(text) - 3, "...");
	}
	bps_cpuset_format(&set, NULL, 0);
}

static void members_are_found(void **state)
{
	struct bps_cpuset set = parsed("2,4-5,1000");
	struct bps_cpuset other = parsed("0-4,999-1001");
	struct bps_cpuset both = parsed("2,4,1000");

	assert_int_equal(bps_cpuset_count(&set), 4);
	assert_int_equal(bps_cpuset_nth(&set, 0), 2);
	assert_int_equal(bps_cpuset_nth(&set, 2), 5);
	assert_int_equal(bps_cpuset_nth(&set, 3), 1000);
	assert_int_equal(bps_cpuset_nth(&set, 4), -1);
	assert_false(bps_cpuset_has(&set, 3));
	assert_false(bps_cpuset_has(&set, UINT32_MAX));
	bps_cpuset_add(&set, UINT32_MAX);
	bps_cpuset_intersect(&set, &other);
	assert_memory_equal(&set, &both, sizeof(set));
}

static void the_user_chooses_among_the_allowed(void **state)
{
	struct bps_cpuset allowed, usable;
	struct capture capture;
	char text[32];
	int cpu;

	assert_int_equal(bps_cpuset_allowed(&allowed), 0);
	assert_int_equal(bps_cpuset_usable("BPSMPI_CPUS", "", &usable), 0);
	assert_memory_equal(&usable, &allowed, sizeof(usable));
	cpu = bps_cpuset_nth(&allowed, 0);
	(void)snprintf(text, sizeof(text), "%d,8191", cpu);
	assert_int_equal(bps_cpuset_usable("BPSMPI_CPUS", text, &usable), 0);
	assert_int_equal(bps_cpuset_count(&usable), 1);
	assert_int_equal(bps_cpuset_n_threads(&usable), 1);
	capture_start(&capture);
	assert_int_equal(bps_cpuset_usable("BPSMPI_CPUS", "8191", &usable), -EINVAL);
	assert_contains(capture_end(&capture), "none of the CPUs '8191' is among those");
}

static void a_thread_is_bound(void **state)
{
	struct bps_cpuset before, one = { 0 }, after, none = { 0 };
	struct capture capture;

	assert_int_equal(bps_cpuset_allowed(&before), 0);
	bps_cpuset_add(&one, (uint32_t)bps_cpuset_nth(&before, 0));
	assert_int_equal(bps_cpuset_bind(&one), 0);
	assert_int_equal(bps_cpuset_allowed(&after), 0);
	assert_memory_equal(&after, &one, sizeof(one));
	assert_int_equal(bps_cpuset_bind(&before), 0);
	capture_start(&capture);
	assert_int_equal(bps_cpuset_bind(&none), -EINVAL);
	assert_contains(capture_end(&capture), "cannot be bound");
}

/* A made-up /proc and /sys in a folder of their own, removed with it. */
static char root[] = "/tmp/bpsmpi-root-XXXXXX";

static void put_file(const char *path, const char *content)
{
	char full[256];
	int fd;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = strchr(full + sizeof(root), '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(full, 0700);
		*slash = '/';
	}
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, strlen(content)), strlen(content));
	close(fd);
}

static int make_root(void **state)
{
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	char command[64];

	(void)snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void quotas_of_control_groups(void **state)
{
	assert_true(bps_cpu_quota(root) == UINT32_MAX);
	put_file("/proc/self/cgroup", "0::/a/b\n");
	assert_true(bps_cpu_quota(root) == UINT32_MAX);
	put_file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	assert_true(bps_cpu_quota(root) == UINT32_MAX);
	put_file("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
	assert_int_equal(bps_cpu_quota(root), 3);
	put_file("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
	assert_int_equal(bps_cpu_quota(root), 1);

	put_file("/proc/self/cgroup",
	         "3:cpuset:/a\n2:cpu,cpuacct:/x/y\n1:name=systemd:/\n");
	assert_true(bps_cpu_quota(root) == UINT32_MAX);
	put_file("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "400000\n");
	put_file("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
	put_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
	put_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	assert_int_equal(bps_cpu_quota(root), 4);

	/* A container sees its own group at the root, and a path that is not there. */
	put_file("/proc/self/cgroup", "0::/not/here\n");
	put_file("/sys/fs/cgroup/cpu.max", "200000 100000\n");
	assert_int_equal(bps_cpu_quota(root), 2);
	put_file("/proc/self/cgroup", "nonsense\n0:\n:\n\n");
	assert_true(bps_cpu_quota(root) == UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_read_and_written),
		cmocka_unit_test(wrong_lists_are_refused),
		cmocka_unit_test(a_text_without_room_ends_in_dots),
		cmocka_unit_test(members_are_found),
		cmocka_unit_test(the_user_chooses_among_the_allowed),
		cmocka_unit_test(a_thread_is_bound),
		cmocka_unit_test_setup_teardown(quotas_of_control_groups, make_root,
		                                remove_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
