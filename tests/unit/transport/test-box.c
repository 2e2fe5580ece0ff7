/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What processes of one box share: memory and descriptors.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/fdpass.h"
#include "transport/memory.h"

static char name_a[64], name_b[64];

static int open_both(int socks[2])
{
	snprintf(name_a, sizeof(name_a), "test-%d-a", (int)getpid());
	snprintf(name_b, sizeof(name_b), "test-%d-b", (int)getpid());
	assert_int_equal(bps_fdpass_open(name_a, &socks[0]), 0);
	assert_int_equal(bps_fdpass_open(name_b, &socks[1]), 0);
	return 0;
}

static void close_both(int socks[2])
{
	close(socks[0]);
	close(socks[1]);
}

static void test_region(void **state)
{
	uint8_t *region = NULL;
	void *none = NULL;

	assert_int_equal(bps_region_alloc(100001, (void **)&region), 0);
	assert_int_equal((uintptr_t)region % 4096, 0);
	assert_int_equal(region[0] | region[100000], 0);
	memset(region, 1, 100001);
	bps_region_free(region, 100001);
	bps_region_free(NULL, 5);
	assert_int_equal(bps_region_alloc(0, &none), -EINVAL);
	assert_int_equal(bps_region_alloc(SIZE_MAX / 2, &none), -ENOMEM);
	assert_null(none);
}

static void test_memfd(void **state)
{
	void *map = NULL, *again = NULL, *more = NULL;
	int fd;

	assert_int_equal(bps_memfd_new("test", 70000, &fd, &map), 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(bps_memfd_map(fd, 70000, &again), 0);
	strcpy((char *)map + 69000, "seen");
	assert_string_equal((char *)again + 69000, "seen");
	/* Neither shorter nor longer, and no mapping beyond its end. */
	assert_int_equal(ftruncate(fd, 10), -1);
	assert_int_equal(ftruncate(fd, 700000), -1);
	assert_int_equal(bps_memfd_map(fd, 70001, &more), -EOVERFLOW);
	assert_int_equal(bps_memfd_map(fd, 0, &more), -EINVAL);
	assert_null(more);
	close(fd);
	strcpy(map, "still there");
	assert_string_equal(again, "still there");
	bps_region_free(map, 70000);
	bps_region_free(again, 70000);
}

static void test_memfd_bad(void **state)
{
	int unsealed = memfd_create("test", MFD_CLOEXEC), fd, r;
	void *map = NULL;

	assert_int_equal(ftruncate(unsealed, 4096), 0);
	/* Somebody could shorten it below our feet. */
	assert_true(bps_memfd_map(unsealed, 4096, &map) < 0);
	close(unsealed);
	assert_int_equal(bps_memfd_map(unsealed, 4096, &map), -EBADF);
	r = bps_memfd_new("test", SIZE_MAX, &fd, &map);
	assert_true(r < 0);
	assert_null(map);
}

static void test_pass_data(void **state)
{
	int socks[2], fds[BPS_FDPASS_MAX_FDS], n_fds = 9;
	char buf[16];

	open_both(socks);
	assert_true(fcntl(socks[0], F_GETFD) & FD_CLOEXEC);
	assert_int_equal(bps_fdpass_recv(socks[1], buf, sizeof(buf), fds, &n_fds),
	                 -EAGAIN);
	assert_int_equal(bps_fdpass_send(socks[0], name_b, "hello", 6, NULL, 0), 0);
	assert_int_equal(bps_fdpass_recv(socks[1], buf, sizeof(buf), fds, &n_fds), 6);
	assert_string_equal(buf, "hello");
	assert_int_equal(n_fds, 0);
	close_both(socks);
}

static void test_pass_fds(void **state)
{
	int socks[2], fds[BPS_FDPASS_MAX_FDS], n_fds, pipes[8];
	int n_before;
	char buf[16];

	open_both(socks);
	for (int i = 0; i < 8; i += 2)
		assert_int_equal(pipe(pipes + i), 0);
	n_before = count_fds();
	assert_int_equal(bps_fdpass_send(socks[0], name_b, "x", 1, pipes, 8), 0);
	assert_int_equal(bps_fdpass_recv(socks[1], buf, sizeof(buf), fds, &n_fds), 1);
	assert_int_equal(n_fds, 8);
	for (int i = 0; i < 8; i += 2) {
		assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
		assert_int_equal(write(fds[i + 1], "!", 1), 1);
		assert_int_equal(read(pipes[i], buf, 1), 1);
	}
	for (int i = 0; i < n_fds; i++)
		close(fds[i]);
	/* A datagram that does not fit is dropped with its descriptors. */
	assert_int_equal(bps_fdpass_send(socks[0], name_b, "too long", 9, pipes, 8), 0);
	assert_int_equal(bps_fdpass_send(socks[0], name_b, "fits", 5, NULL, 0), 0);
	assert_int_equal(bps_fdpass_recv(socks[1], buf, 8, fds, &n_fds), 5);
	assert_int_equal(n_fds, 0);
	assert_int_equal(count_fds(), n_before);
	assert_int_equal(bps_fdpass_send(socks[0], name_b, "x", 1, pipes, 9), -EINVAL);
	for (int i = 0; i < 8; i++)
		close(pipes[i]);
	close_both(socks);
}

static void test_pass_errors(void **state)
{
	int socks[2], again, r = 0, n = 0;
	char long_name[200];

	open_both(socks);
	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(bps_fdpass_open(name_a, &again), -EADDRINUSE);
	assert_int_equal(bps_fdpass_open(long_name, &again), -ENAMETOOLONG);
	assert_int_equal(bps_fdpass_send(socks[0], long_name, "x", 1, NULL, 0),
	                 -ENAMETOOLONG);
	assert_int_equal(bps_fdpass_send(socks[0], "nobody-has-this", "x", 1, NULL, 0),
	                 -ECONNREFUSED);
	while (r == 0 && n++ < 100000)
		r = bps_fdpass_send(socks[0], name_b, "x", 1, NULL, 0);
	assert_int_equal(r, -EAGAIN);
	close_both(socks);
	assert_int_equal(bps_fdpass_open(name_a, &socks[0]), 0);
	close(socks[0]);
}

/* A process with another user's identity is not heard; needs the right to become one. */
static void test_pass_other_user(void **state)
{
	int socks[2], fds[BPS_FDPASS_MAX_FDS], n_fds, status;
	char buf[16];
	pid_t pid;

	if (getuid() != 0)
		skip();
	open_both(socks);
	pid = fork();
	if (pid == 0) {
		int bad = setuid(65534) != 0 ||
		          bps_fdpass_send(socks[0], name_b, "bad", 4, socks, 1) != 0;

		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(bps_fdpass_recv(socks[1], buf, sizeof(buf), fds, &n_fds),
	                 -EAGAIN);
	assert_int_equal(bps_fdpass_send(socks[0], name_b, "good", 5, NULL, 0), 0);
	assert_int_equal(bps_fdpass_recv(socks[1], buf, sizeof(buf), fds, &n_fds), 5);
	close_both(socks);
}

/* All of it together, between two processes. */
static void test_share(void **state)
{
	int socks[2], fds[BPS_FDPASS_MAX_FDS], n_fds, fd, status;
	char buf[16];
	char *map;
	pid_t pid;

	open_both(socks);
	pid = fork();
	if (pid == 0) {
		int child_fd, bad;
		void *child_map;

		bad = bps_memfd_new("share", 8192, &child_fd, &child_map) != 0;
		if (!bad)
			strcpy((char *)child_map + 8000, "from the child");
		bad |= bps_fdpass_send(socks[0], name_b, "m", 1, &child_fd, 1) != 0;
		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(bps_fdpass_recv(socks[1], buf, sizeof(buf), fds, &n_fds), 1);
	assert_int_equal(n_fds, 1);
	fd = fds[0];
	assert_int_equal(bps_memfd_map(fd, 8192, (void **)&map), 0);
	assert_string_equal(map + 8000, "from the child");
	bps_region_free(map, 8192);
	close(fd);
	close_both(socks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_region),
		cmocka_unit_test(test_memfd),
		cmocka_unit_test(test_memfd_bad),
		cmocka_unit_test(test_pass_data),
		cmocka_unit_test(test_pass_fds),
		cmocka_unit_test(test_pass_errors),
		cmocka_unit_test(test_pass_other_user),
		cmocka_unit_test(test_share),
	};
	int n_fds = count_fds(), r;

	r = cmocka_run_group_tests_name("box", tests, NULL, NULL);
	return count_fds() == n_fds ? r : 1;
}
