/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/base/unit.h"

#include "base/hostlist.h"

#include <errno.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char error[512];

static int parse(const char *text, struct bps_hostlist *ret_list)
{
	error[0] = '\0';
	return bps_hostlist_parse("BPSMPI_SERVERS", text, 7000, ret_list, error,
	                          sizeof(error));
}

/* Compares with "name port name port ...". */
static void assert_list(const char *text, const char *expected)
{
	struct bps_hostlist list;
	char got[1024] = "";
	size_t used = 0;

	if (parse(text, &list))
		fail_msg("'%s' is refused: %s", text, error);
	for (uint32_t i = 0; i < list.n_hosts; i++)
		used += (size_t)snprintf(got + used, sizeof(got) - used, "%s%s %u",
		                         i ? " " : "", list.hosts[i].name,
		                         list.hosts[i].port);
	assert_string_equal(got, expected);
	bps_hostlist_deinit(&list);
}

static void assert_refused(const char *text, int expected, const char *said)
{
	struct bps_hostlist list = { (void *)&list, 1 };
	int r = parse(text, &list);

	if (r != expected)
		fail_msg("'%s' gives %d: %s", text, r, error);
	assert_contains(error, said);
	assert_null(strchr(error, '\n'));
	assert_null(list.hosts);
	assert_int_equal(list.n_hosts, 0);
}

static void plain_entries(void **state)
{
	assert_list("a", "a 7000");
	assert_list("a:1", "a 1");
	assert_list("a:65535,b", "a 65535 b 7000");
	assert_list("10.0.0.5,x.y-z_1.example:80", "10.0.0.5 7000 x.y-z_1.example 80");
	assert_list("  a , b:2\tc\n,d ", "a 7000 b 2 c 7000 d 7000");
	assert_list("a:1,a:2", "a 1 a 2");
}

static void ranges(void **state)
{
	assert_list("cpu[1-3]:7001", "cpu1 7001 cpu2 7001 cpu3 7001");
	assert_list("cpu[09-11]", "cpu09 7000 cpu10 7000 cpu11 7000");
	assert_list("cpu[8-10]", "cpu8 7000 cpu9 7000 cpu10 7000");
	assert_list("n[1-2,7]a[0-1].x",
	            "n1a0.x 7000 n1a1.x 7000 n2a0.x 7000 n2a1.x 7000 n7a0.x 7000 "
	            "n7a1.x 7000");
	assert_list("[1-2]x,[3]", "1x 7000 2x 7000 3 7000");
	assert_list("n[5-5,000]", "n5 7000 n000 7000");
	assert_list("10.0.0.[1-2]:9", "10.0.0.1 9 10.0.0.2 9");
}

static void ipv6(void **state)
{
	assert_list("[fd00::2]:7001", "fd00::2 7001");
	assert_list("[fd00::2]", "fd00::2 7000");
	assert_list("fd00::1", "fd00::1 7000");
	assert_list("::1,[::1]:7", "::1 7000 ::1 7");
	assert_list("FD00:0:0::01", "fd00::1 7000");
	assert_list("fe80::1%eth0,[fe80::1%ib0.1]:8",
	            "fe80::1%eth0 7000 fe80::1%ib0.1 8");
	assert_list("::ffff:10.0.0.1", "::ffff:10.0.0.1 7000");
	assert_list("cpu[01-02]:7000,[fd00::2]:7001,10.0.0.5",
	            "cpu01 7000 cpu02 7000 fd00::2 7001 10.0.0.5 7000");
}

static void as_people_write_them(void **state)
{
	const struct bps_host name = { "cpu3", 7000 }, six = { "fd00::2", 65535 };
	char text[BPS_HOST_BYTES + 8];

	(void)state;
	assert_string_equal(bps_host_format(&name, text, sizeof(text)), "cpu3:7000");
	assert_string_equal(bps_host_format(&six, text, sizeof(text)), "[fd00::2]:65535");
	assert_string_equal(bps_host_format(&six, text, 6), "[fd00");
}

static void wrong_entries_say_what_is_wrong(void **state)
{
	static const struct {
		const char *text;
		const char *said;
	} cases[] = {
		{ "", "BPSMPI_SERVERS: there is no host in it" },
		{ " , ,", "there is no host before a comma" },
		{ ",a", "BPSMPI_SERVERS: there is no host before a comma" },
		{ "a,,b", "BPSMPI_SERVERS: there is no host before a comma" },
		{ "a, \t,b", "there is no host before a comma" },
		{ "a,", "BPSMPI_SERVERS: there is no host behind the last comma" },
		{ "a b ,\n", "there is no host behind the last comma" },
		{ "a,,", "there is no host before a comma" },
		{ "a,cpu[01-",
		  "BPSMPI_SERVERS: 'cpu[01-': the bracket is not closed; write "
		  "for example cpu[01-16]:7000" },
		{ "cpu[01-16", "not closed" },
		{ "[fd00::2", "not closed; write for example [fd00::2]:7000" },
		{ "cpu]", "has no '['" },
		{ "cpu[[1]]", "brackets within brackets" },
		{ "cpu[]", "something else than numbers" },
		{ "cpu[a-b]", "something else than numbers" },
		{ "cpu[1-]", "something else than numbers" },
		{ "cpu[1,]", "something else than numbers" },
		{ "cpu[,1]", "something else than numbers" },
		{ "cpu[1-2-3]", "something else than numbers" },
		{ "cpu[1;2]", "something else than numbers" },
		{ "cpu[3-1]", "the range 3-1 runs backwards; write 1-3" },
		{ "cpu[1-1234567890]", "at most 9 digits" },
		{ "a:", "'' is not a port; write a number from 1 to 65535" },
		{ "a:0", "'0' is not a port" },
		{ "a:65536", "'65536' is not a port" },
		{ "a:99999999999999999999", "is not a port" },
		{ "a:7000x", "'7000x' is not a port" },
		{ "a:-1", "'-1' is not a port" },
		{ ":7000", "no host before the port" },
		{ "[fd00::2]7000", "only a port may follow" },
		{ "[fd00::2]:", "is not a port" },
		{ "[fd00:::2]", "not an IPv6 address" },
		{ "fd00::12345", "not an IPv6 address" },
		{ "[:]:1", "not an IPv6 address" },
		{ "fe80::1%", "not an IPv6 address" },
		{ "fe80::1%a/b", "is not an interface's" },
		{ "a;b", "';' is not part of a host's name" },
		{ "a\x01", "'?' is not part of a host's name" },
		{ "a,@hosts", "at the start of the whole list" },
		{ "user@host", "at the start of the whole list" },
		{ "a,b,a", "a, port 7000, is there twice" },
		{ "a:7000,A", "is there twice" },
		{ "n[1-5],n3", "n3, port 7000, is there twice" },
		{ "[fd00::1],fd00:0::1", "fd00::1, port 7000, is there twice" },
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		assert_refused(cases[i].text, -EINVAL, cases[i].said);
}

static void limits(void **state)
{
	struct bps_hostlist list;
	char name[300];

	assert_int_equal(parse("n[1-4096]", &list), 0);
	assert_int_equal(list.n_hosts, 4096);
	assert_string_equal(list.hosts[4095].name, "n4096");
	bps_hostlist_deinit(&list);
	bps_hostlist_deinit(&list);
	assert_refused("n[1-4097]", -E2BIG, "more than 4096 hosts");
	assert_refused("n[0-999999999]x[0-999999999]", -E2BIG, "more than 4096 hosts");

	memset(name, 'h', sizeof(name));
	name[255] = '\0';
	assert_int_equal(parse(name, &list), 0);
	assert_string_equal(list.hosts[0].name, name);
	bps_hostlist_deinit(&list);
	name[255] = 'h';
	name[256] = '\0';
	assert_refused(name, -EINVAL, "more than 255 characters");
}

static void many_brackets_end_soon(void **state)
{
	char text[3 * 400 + 1];

	for (int i = 0; i < 400; i++)
		memcpy(text + 3 * i, "[1]", 4);
	assert_refused(text, -EINVAL, "more than 255 characters");
}

static void an_error_fits_its_buffer(void **state)
{
	struct bps_hostlist list;
	char small[8];

	memset(small, 'x', sizeof(small));
	assert_int_equal(
		bps_hostlist_parse("BPSMPI_SERVERS", "", 1, &list, small, sizeof(small)),
		-EINVAL);
	assert_string_equal(small, "BPSMPI_");
	assert_int_equal(bps_hostlist_parse("S", "", 1, &list, NULL, 0), -EINVAL);
}

/* Writes a file, reads the list "@file", and removes it again. */
static int parse_file(const char *content, size_t n_bytes, struct bps_hostlist *ret_list)
{
	char path[] = "/tmp/bpsmpi-hosts-XXXXXX";
	char text[64];
	int fd = mkstemp(path);
	int r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, n_bytes), n_bytes);
	close(fd);
	(void)snprintf(text, sizeof(text), "@%s", path);
	r = parse(text, ret_list);
	unlink(path);
	return r;
}

static void files(void **state)
{
	static const char good[] =
		"# servers\na, b:1 c # more\r\n\n  n[1-2]:5,\n[fd00::2]";
	static const char bad[] = "a\n# b\n\nx y[1 # oops\n";
	struct bps_hostlist list;

	assert_int_equal(parse_file(good, strlen(good), &list), 0);
	assert_int_equal(list.n_hosts, 6);
	assert_string_equal(list.hosts[2].name, "c");
	assert_int_equal(list.hosts[4].port, 5);
	assert_string_equal(list.hosts[5].name, "fd00::2");
	bps_hostlist_deinit(&list);

	assert_int_equal(parse_file(bad, strlen(bad), &list), -EINVAL);
	assert_contains(error, "BPSMPI_SERVERS: /tmp/bpsmpi-hosts-");
	assert_contains(error, ":4: 'y[1': the bracket is not closed");
	assert_int_equal(parse_file("a\na\n", 4, &list), -EINVAL);
	assert_contains(error, "BPSMPI_SERVERS: a, port 7000, is there twice");
	assert_int_equal(parse_file("a,\n\n,b\n", 7, &list), -EINVAL);
	assert_contains(error, ":3: there is no host before a comma");
	assert_int_equal(parse_file("a,\nb,\n", 6, &list), -EINVAL);
	assert_contains(error, "BPSMPI_SERVERS: there is no host behind the last comma");
	assert_int_equal(parse_file("a\0b\n", 4, &list), -EINVAL);
	assert_contains(error, "is not a text file");
	assert_int_equal(parse_file("# none\n", 7, &list), -EINVAL);
	assert_contains(error, "there is no host");
}

static void files_that_cannot_be_read(void **state)
{
	size_t n_bytes = (1 << 20) + 1;
	char *large = malloc(n_bytes);
	struct bps_hostlist list;

	assert_refused("@", -ENOENT, "cannot be read: No such file");
	assert_refused("@/nonexistent/hosts", -ENOENT,
	               "/nonexistent/hosts cannot be read: No such file or directory");
	assert_refused("@/tmp", -EINVAL, "cannot be read");
	assert_refused("@/dev/zero", -EINVAL, "cannot be read");
	assert_non_null(large);
	memset(large, ' ', n_bytes);
	assert_int_equal(parse_file(large, n_bytes, &list), -EFBIG);
	free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_entries),
		cmocka_unit_test(ranges),
		cmocka_unit_test(ipv6),
		cmocka_unit_test(as_people_write_them),
		cmocka_unit_test(wrong_entries_say_what_is_wrong),
		cmocka_unit_test(limits),
		cmocka_unit_test(many_brackets_end_soon),
		cmocka_unit_test(an_error_fits_its_buffer),
		cmocka_unit_test(files),
		cmocka_unit_test(files_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
