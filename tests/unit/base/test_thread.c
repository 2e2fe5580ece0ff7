/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/base/unit.h"

#include "base/cpuset.h"
#include "base/thread.h"

#include <signal.h>

struct seen {
	char name[16];
	size_t stack_bytes;
	struct bps_cpuset allowed;
	sigset_t blocked;
};

static void *look_around(void *arg)
{
	struct seen *seen = arg;
	pthread_attr_t attr;

	pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
	bps_cpuset_allowed(&seen->allowed);
	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstacksize(&attr, &seen->stack_bytes);
	pthread_attr_destroy(&attr);
	/* The name is given from outside, perhaps a moment later. */
	for (int i = 0; i < 1000; i++) {
		pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
		if (strncmp(seen->name, "bps-", 4) == 0)
			break;
		usleep(1000);
	}
	return NULL;
}

static void a_thread_is_named_quiet_and_bound(void **state)
{
	static struct seen seen;
	struct bps_cpuset allowed;
	pthread_t thread;
	sigset_t mask;
	int cpu;

	assert_int_equal(bps_cpuset_allowed(&allowed), 0);
	cpu = bps_cpuset_nth(&allowed, bps_cpuset_count(&allowed) - 1);
	assert_int_equal(bps_thread_start("bps-with-a-long-name", look_around, &seen, cpu,
	                                  &thread),
	                 0);
	bps_thread_join(thread);
	assert_string_equal(seen.name, "bps-with-a-long");
	assert_int_equal(bps_cpuset_count(&seen.allowed), 1);
	assert_true(bps_cpuset_has(&seen.allowed, (uint32_t)cpu));
	assert_true(sigismember(&seen.blocked, SIGINT) &&
	            sigismember(&seen.blocked, SIGUSR2) &&
	            sigismember(&seen.blocked, SIGPIPE));
	assert_in_range(seen.stack_bytes, 256 * 1024, 1024 * 1024);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	assert_false(sigismember(&mask, SIGINT));
}

static void an_unbound_thread_runs_where_its_maker_may(void **state)
{
	static struct seen seen;
	struct bps_cpuset allowed;
	pthread_t thread;

	assert_int_equal(bps_cpuset_allowed(&allowed), 0);
	assert_int_equal(bps_thread_start("bps-x", look_around, &seen, -1, &thread), 0);
	bps_thread_join(thread);
	assert_memory_equal(&seen.allowed, &allowed, sizeof(allowed));
}

static void a_cpu_that_is_not_there_is_an_error(void **state)
{
	struct capture capture;
	pthread_t thread;

	capture_start(&capture);
	assert_true(bps_thread_start("bps-x", look_around, NULL, BPS_CPU_MAX - 1,
	                             &thread) < 0);
	assert_contains(capture_end(&capture), "thread bps-x does not start on CPU 8191");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_is_named_quiet_and_bound),
		cmocka_unit_test(an_unbound_thread_runs_where_its_maker_may),
		cmocka_unit_test(a_cpu_that_is_not_there_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
