/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rates as text, lists of them, and what is believed of a tree that looks like sysfs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "topology/bandwidth.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

static void rates_are_read(void **state)
{
	static const struct {
		const char *text;
		double bytes_per_s;
	} cases[] = {
		{ "10Gbit", 1.25e9 },     { "100Mbit", 12.5e6 },  { "100mbit", 12.5e6 },
		{ "1.25GB", 1.25e9 },     { "1kbit", 125 },       { "1000bit", 125 },
		{ "2.5Gbit/s", 312.5e6 }, { "400GBIT", 50e9 },    { "1MiB", 1048576 },
		{ "8Kibit", 1024 },       { "100Tbit", 12.5e12 }, { "0.1MB/s", 1e5 },
		{ "125B", 125 },
	};

	(void)state;
	for (size_t i = 0; i < N(cases); i++) {
		double rate = 0;

		assert_int_equal(bps_rate_parse(cases[i].text, &rate), 0);
		assert_true(rate == cases[i].bytes_per_s);
	}
}

static void what_is_no_rate_is_refused(void **state)
{
	static const char *const wrong[] = {
		"",          "10",     "10G",     "10Gb",  "10Gbps",
		"Gbit",      "1,5MB",  "1.",      ".5MB",  "1.5.2MB",
		"1e3MB",     "-1MB",   " 1MB",    "1MB ",  "1 MB",
		"1Mbit/min", "999bit", "101Tbit", "0Mbit", "1234567890123456bit",
		"1iB",       "1Mb",    "nanMB",   "1gb",   "10Mbits",
		"0x10MB",
	};

	(void)state;
	for (size_t i = 0; i < N(wrong); i++) {
		double rate = 7;

		if (bps_rate_parse(wrong[i], &rate) != -EINVAL || rate != 7)
			fail_msg("'%s' was taken", wrong[i]);
	}
}

static void rates_are_written_for_people(void **state)
{
	char text[BPS_RATE_CHARS];

	(void)state;
	assert_string_equal(bps_rate_format(1.25e9, text), "10 Gbit/s");
	assert_string_equal(bps_rate_format(12.5e6, text), "100 Mbit/s");
	assert_string_equal(bps_rate_format(312.5e6, text), "2.5 Gbit/s");
	assert_string_equal(bps_rate_format(125, text), "1 kbit/s");
	assert_string_equal(bps_rate_format(12.5e12, text), "100 Tbit/s");
}

static void parse(const char *text, struct bps_bandwidths *ret)
{
	char error[256] = "";
	int r = bps_bandwidths_parse("BW", text, ret, error, sizeof(error));

	if (r)
		fail_msg("'%s': %d, %s", text, r, error);
}

static void one_rate_is_everybodys(void **state)
{
	struct bps_bandwidths list;

	(void)state;
	parse("10Gbit", &list);
	assert_true(bps_bandwidths_of(&list, "n1") == 1.25e9);
	assert_true(bps_bandwidths_of(&list, "fd00::1") == 1.25e9);
	bps_bandwidths_deinit(&list);
	parse("", &list);
	assert_true(bps_bandwidths_of(&list, "n1") == 0);
	bps_bandwidths_deinit(&list);
}

static void a_list_has_names_and_the_rest(void **state)
{
	struct bps_bandwidths list;

	(void)state;
	parse("n[01-3,7]a=8Gbit,10.0.0.5=16Gbit,fd00:0::2=24Gbit,*=8Mbit", &list);
	assert_int_equal(list.n_rows, 6);
	assert_string_equal(bps_bandwidths_name(&list, 0), "n01a");
	assert_true(bps_bandwidths_of(&list, "n01a") == 1e9);
	assert_true(bps_bandwidths_of(&list, "N03A") == 1e9);
	assert_true(bps_bandwidths_of(&list, "n7a") == 1e9);
	assert_true(bps_bandwidths_of(&list, "n04a") == 1e6);
	assert_true(bps_bandwidths_of(&list, "10.0.0.5") == 2e9);
	assert_true(bps_bandwidths_of(&list, "fd00::2") == 3e9);
	bps_bandwidths_deinit(&list);
}

static void domains_may_be_left_out(void **state)
{
	struct bps_bandwidths list;

	(void)state;
	parse("n1=8Gbit,n2.b.org=16Gbit,n1.c.org=24Gbit,10=32Gbit", &list);
	assert_true(bps_bandwidths_of(&list, "n1.b.org") == 1e9);
	assert_true(bps_bandwidths_of(&list, "n1.c.org") == 3e9); /* by its whole name */
	assert_true(bps_bandwidths_of(&list, "n2") == 2e9);
	assert_true(bps_bandwidths_of(&list, "n2.c.org") == 0); /* another one */
	assert_true(bps_bandwidths_of(&list, "n") == 0);
	assert_true(bps_bandwidths_of(&list, "10.0.0.1") == 0); /* not host "10" */
	assert_true(bps_bandwidths_of(&list, "10") == 4e9);
	bps_bandwidths_deinit(&list);
}

static void wrong_lists_say_what_to_write(void **state)
{
	static const struct {
		const char *text, *said;
	} cases[] = {
		{ "fast",
		  "BW: 'fast' is not a rate from 1kbit to 100Tbit; write for example "
		  "10Gbit, or 1.25GB for bytes" },
		{ "10G", "'10G' is not a rate" },
		{ "n1=10", "'10' is not a rate" },
		{ "n1=", "'' is not a rate" },
		{ "1Gbit,2Gbit", "'1Gbit' does not say whose rate it is" },
		{ "n1=1Gbit,2Gbit", "'2Gbit' does not say whose" },
		{ "n1=1Gbit,", "nothing on one side of a comma" },
		{ ",n1=1Gbit", "nothing on one side of a comma" },
		{ "n1=1Gbit,,n2=1Gbit", "nothing on one side of a comma" },
		{ ", n1=1Gbit", "nothing on one side of a comma" },
		{ " ", "nothing" },
		{ ",", "nothing on one side of a comma" },
		{ "=1Gbit", "there is no host" },
		{ "n1=1Gbit,n1=2Gbit", "n1 has two rates; name it once" },
		{ "n[1-2]=1Gbit,N2=2Gbit", "N2 has two rates" },
		{ "*=1Gbit,*=1Gbit", "* has two rates" },
		{ "n1:7000=1Gbit",
		  "'n1:7000' is not the name of a host; leave out the port" },
		{ "[fd00::1]:70=1Gbit", "leave out the port" },
		{ "@hosts=1Gbit", "leave out the @" },
		{ "n[1-=1Gbit", "'n[1-': the bracket is not closed" },
		{ "n[2-1]=1Gbit", "runs backwards" },
		{ "n1=1Gbit=2Gbit", "'1Gbit=2Gbit' is not a rate" },
		{ "n[1-5000]=1Gbit", "more than 4096" },
		{ "a[1-4000]=1Gbit,b[1-4000]=1Gbit", "more than 4096" },
	};

	(void)state;
	for (size_t i = 0; i < N(cases); i++) {
		struct bps_bandwidths list = { .n_rows = 9 };
		char error[256] = "";

		assert_true(bps_bandwidths_parse("BW", cases[i].text, &list, error,
		                                 sizeof(error)) < 0);
		if (!strstr(error, cases[i].said) || strncmp(error, "BW: ", 4) != 0)
			fail_msg("'%s': %s", cases[i].text, error);
		assert_null(list.rows);
		assert_int_equal(list.n_rows, 0);
	}
}

/* Whatever comes is a good list, or an error that says something. */
static void any_text_is_borne(void **state)
{
	static const char *const pieces[] = {
		"n",   "[",  "]", "1-3", "-", "=",  "*", ",", "10",    ".",        "M",
		"bit", "Gi", "B", ":",   "@", "/s", " ", "9", "1Gbit", "n1=1Gbit,"
	};
	struct bps_prng prng;

	(void)state;
	bps_prng_init(&prng, 4);
	for (int i = 0; i < 20000; i++) {
		char text[128] = "", error[64] = "";
		struct bps_bandwidths list;
		int n = (int)bps_prng_below(&prng, 12);
		int r;

		for (int j = 0; j < n; j++)
			strcat(text, pieces[bps_prng_below(&prng, N(pieces))]);
		r = bps_bandwidths_parse("BW", text, &list, error, sizeof(error));
		if (r < 0 ? !error[0] : error[0] || (n && !list.n_rows && !list.others))
			fail_msg("'%s': %d, '%s'", text, r, error);
		for (uint32_t row = 0; row < list.n_rows; row++)
			assert_true(bps_bandwidths_of(
					    &list, bps_bandwidths_name(&list, row)) > 0);
		bps_bandwidths_deinit(&list);
	}
}

/* -- a tree that looks like /sys/class/net -- */

static char tree[] = "/tmp/bpsmpi-sysfs-XXXXXX";

static void make_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* An interface; no device where @driver is NULL, no speed file where @speed is. */
static void make_interface(const char *name, const char *driver, const char *speed)
{
	char path[PATH_MAX], target[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", tree, name);
	assert_int_equal(mkdir(path, 0700), 0);
	if (driver) {
		(void)snprintf(path, sizeof(path), "%s/%s/device", tree, name);
		assert_int_equal(mkdir(path, 0700), 0);
		(void)snprintf(path, sizeof(path), "%s/%s/device/driver", tree, name);
		(void)snprintf(target, sizeof(target), "../../../bus/pci/drivers/%s",
		               driver);
		assert_int_equal(symlink(target, path), 0);
	}
	if (speed) {
		(void)snprintf(path, sizeof(path), "%s/%s/speed", tree, name);
		make_file(path, speed);
	}
}

static int make_tree(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(tree));
	make_interface("eth0", "mlx5_core", "25000\n");
	make_interface("eth1", "igb", "1000\n");
	make_interface("down", "igb", "-1\n");
	make_interface("old", "igb", "4294967295\n");
	make_interface("nothing", "igb", NULL);
	make_interface("text", "igb", "fast\n");
	make_interface("zero", "igb", "0\n");
	make_interface("veth0", NULL, "10000\n");
	make_interface("br0", NULL, "10000\n");
	make_interface("tun0", NULL, "10\n");
	make_interface("virtio", "virtio_net", "-1\n");
	make_interface("virtio1", "virtio_net", "100000\n");
	make_interface("vmxnet", "vmxnet3", "10000\n");
	make_interface("azure", "hv_netvsc", "50000\n");
	return 0;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *at)
{
	(void)stat;
	(void)type;
	(void)at;
	return remove(path);
}

static int remove_tree(void **state)
{
	(void)state;
	return nftw(tree, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void hardware_is_believed(void **state)
{
	double rate = 0;

	(void)state;
	assert_int_equal(bps_nic_speed(tree, "eth0", &rate), 0);
	assert_true(rate == 3.125e9);
	assert_int_equal(bps_nic_speed(tree, "eth1", &rate), 0);
	assert_true(rate == 125e6);
}

static void what_is_virtual_or_says_nothing_is_not(void **state)
{
	static const char *const unknown[] = { "down",   "old",     "nothing", "text",
		                               "zero",   "veth0",   "br0",     "tun0",
		                               "virtio", "virtio1", "vmxnet",  "azure" };
	double rate = 7;

	(void)state;
	for (size_t i = 0; i < N(unknown); i++) {
		if (bps_nic_speed(tree, unknown[i], &rate) != BPS_NIC_E_UNKNOWN)
			fail_msg("%s was believed", unknown[i]);
		assert_true(rate == 7);
	}
}

static void names_that_lead_elsewhere_are_refused(void **state)
{
	double rate;

	(void)state;
	assert_int_equal(bps_nic_speed(tree, "eth9", &rate), -ENODEV);
	assert_int_equal(bps_nic_speed("/nowhere/at/all", "eth0", &rate), -ENODEV);
	assert_int_equal(bps_nic_speed(tree, "", &rate), -EINVAL);
	assert_int_equal(bps_nic_speed(tree, "..", &rate), -EINVAL);
	assert_int_equal(bps_nic_speed(tree, "../x", &rate), -EINVAL);
	assert_int_equal(bps_nic_speed(tree, "eth0/x", &rate), -EINVAL);
}

static void loopback_of_this_machine_is_unknown(void **state)
{
	double rate;

	(void)state;
	if (access("/sys/class/net/lo", F_OK) < 0)
		skip();
	assert_int_equal(bps_nic_speed("/sys/class/net", "lo", &rate), BPS_NIC_E_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_are_read),
		cmocka_unit_test(what_is_no_rate_is_refused),
		cmocka_unit_test(rates_are_written_for_people),
		cmocka_unit_test(one_rate_is_everybodys),
		cmocka_unit_test(a_list_has_names_and_the_rest),
		cmocka_unit_test(domains_may_be_left_out),
		cmocka_unit_test(wrong_lists_say_what_to_write),
		cmocka_unit_test(any_text_is_borne),
		cmocka_unit_test(hardware_is_believed),
		cmocka_unit_test(what_is_virtual_or_says_nothing_is_not),
		cmocka_unit_test(names_that_lead_elsewhere_are_refused),
		cmocka_unit_test(loopback_of_this_machine_is_unknown),
	};

	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
