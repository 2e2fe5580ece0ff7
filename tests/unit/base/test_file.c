/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/base/unit.h"

#include "base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

static void a_file_is_read_whole_or_not(void **state)
{
	char path[] = "/tmp/bpsmpi-file-XXXXXX";
	char text[9];
	int fd = mkstemp(path);

	assert_int_equal(bps_file_read(path, text, sizeof(text)), 0);
	assert_string_equal(text, "");
	assert_int_equal(write(fd, "12345678", 8), 8);
	assert_int_equal(bps_file_read(path, text, sizeof(text)), 8);
	assert_string_equal(text, "12345678");
	assert_int_equal(bps_file_read(path, text, sizeof(text) - 1), -EFBIG);
	unlink(path);
	close(fd);
	assert_int_equal(bps_file_read(path, text, sizeof(text)), -ENOENT);
}

static void files_of_the_kernel_are_read(void **state)
{
	char text[65536];

	assert_true(bps_file_read("/proc/self/status", text, sizeof(text)) > 100);
	assert_contains(text, "Pid:");
}

static void what_is_no_plain_file_is_refused_at_once(void **state)
{
	char path[] = "/tmp/bpsmpi-fifo-XXXXXX";
	char text[16];

	assert_int_equal(bps_file_read("/dev/zero", text, sizeof(text)), -EINVAL);
	assert_int_equal(bps_file_read("/", text, sizeof(text)), -EINVAL);
	close(mkstemp(path));
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(bps_file_read(path, text, sizeof(text)), -EINVAL);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_read_whole_or_not),
		cmocka_unit_test(files_of_the_kernel_are_read),
		cmocka_unit_test(what_is_no_plain_file_is_refused_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
