/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placing memory. Which nodes there are is the machine's business: what is asked for is
 * what the kernel lists, and where it refuses, that is what is expected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/numa.h"

#define BYTES (16u * 4096)

static char *map_new(void)
{
	char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	                 -1, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	return map;
}

/* A node that this process may have memory of; the last one. */
static uint32_t a_node(void)
{
	uint32_t node = 0;
	char line[256];
	FILE *file = fopen("/proc/self/status", "r");
	const char *at;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Mems_allowed_list: %u", &node) != 1)
			continue;
		for (at = line; *at; at++) {
			if (*at == '-' || *at == ',')
				assert_int_equal(sscanf(at + 1, "%u", &node), 1);
		}
	}
	fclose(file);
	return node;
}

/* Whether the kernel lets this process ask; else the test says so and is skipped. */
static bool may_ask(void)
{
	char *map = map_new();
	int error = bps_numa_place(map, BYTES, a_node());

	munmap(map, BYTES);
	if (error == -EPERM || error == -ENOSYS)
		print_message("# memory cannot be placed here: %d\n", error);
	return error != -EPERM && error != -ENOSYS;
}

static void test_place(void **state)
{
	uint32_t node = a_node(), where = BPS_NUMA_NONE, i;
	char *map;

	(void)state;
	if (!may_ask())
		skip();
	map = map_new();
	assert_int_equal(bps_numa_place(map, BYTES, node), 0);
	for (i = 0; i < BYTES; i += 4096) {
		map[i] = 1;
		assert_int_equal(bps_numa_where(map + i, &where), 0);
		assert_int_equal(where, node);
	}
	munmap(map, BYTES);
}

/* It is touched by looking, and lies somewhere. */
static void test_where(void **state)
{
	uint32_t where = BPS_NUMA_NONE;
	char *map;

	(void)state;
	if (!may_ask())
		skip();
	map = map_new();
	assert_int_equal(bps_numa_where(map, &where), 0);
	assert_in_range(where, 0, 1023);
	munmap(map, BYTES);
	assert_int_equal(bps_numa_where(map, &where), -EFAULT);
}

static void test_no_such_node(void **state)
{
	char *map;

	(void)state;
	if (!may_ask())
		skip();
	map = map_new();
	assert_int_equal(bps_numa_place(map, BYTES, 1023), -EINVAL);
	assert_int_equal(bps_numa_place(map, BYTES, 1024), -EINVAL);
	assert_int_equal(bps_numa_place(map, BYTES, BPS_NUMA_NONE), -EINVAL);
	assert_int_equal(bps_numa_place(map + 1, BYTES, a_node()), -EINVAL);
	map[0] = 1; /* and nothing has happened to it */
	munmap(map, BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_place),
		cmocka_unit_test(test_where),
		cmocka_unit_test(test_no_such_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
