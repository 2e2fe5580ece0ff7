/* SPDX-License-Identifier: BSD-3-Clause */
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "transport/netif.h"
#include "transport/ratelimit.h"

static struct bps_netif make(const char *name, const char *address, bool usable)
{
	struct bps_netif netif = { .usable = usable };

	snprintf(netif.name, sizeof(netif.name), "%s", name);
	if (inet_pton(AF_INET, address, &netif.addr.in.sin_addr) == 1) {
		netif.addr.sa.sa_family = AF_INET;
		netif.addr.bytes = sizeof(netif.addr.in);
	} else {
		inet_pton(AF_INET6, address, &netif.addr.in6.sin6_addr);
		netif.addr.sa.sa_family = AF_INET6;
		netif.addr.bytes = sizeof(netif.addr.in6);
	}
	return netif;
}

static struct bps_netif list[6];

static int setup(void **state)
{
	list[0] = make("eth0", "10.1.2.3", true);
	list[1] = make("eth0", "fd00::3", true);
	list[2] = make("eth1", "10.200.0.1", true);
	list[3] = make("ib0", "192.168.77.1", true);
	list[4] = make("lo", "127.0.0.1", true);
	list[5] = make("ib1", "192.168.78.1", false);
	return 0;
}

/* The addresses that @spec names, as "A B C". */
static const char *match(const char *spec)
{
	static char text[512];
	struct bps_addr found[8];
	char why[512] = "", one[BPS_ADDR_CHARS];
	int n;

	n = bps_netif_match(list, 6, spec, found, 8, why, sizeof(why));
	text[0] = '\0';
	if (n < 0) {
		assert_int_equal(n, -ENODEV);
		snprintf(text, sizeof(text), "%s", why);
		return text;
	}
	for (int i = 0; i < n; i++) {
		strcat(text, i ? " " : "");
		strcat(text, bps_addr_format_host(&found[i], one, sizeof(one)));
	}
	return text;
}

static void test_match(void **state)
{
	assert_string_equal(match("eth0"), "10.1.2.3 fd00::3");
	assert_string_equal(match("eth"), "10.1.2.3 fd00::3 10.200.0.1");
	assert_string_equal(match("ib"), "192.168.77.1");
	assert_string_equal(match("10.0.0.0/8"), "10.1.2.3 10.200.0.1");
	assert_string_equal(match("10.1.0.0/15"), "10.1.2.3");
	assert_string_equal(match("10.128.0.0/9"), "10.200.0.1");
	assert_string_equal(match("10.200.0.1/32"), "10.200.0.1");
	assert_string_equal(match("0.0.0.0/0"), "10.1.2.3 10.200.0.1 192.168.77.1 "
	                                        "127.0.0.1");
	assert_string_equal(match("fd00::/8"), "fd00::3");
	assert_string_equal(match("fd00::3"), "fd00::3");
	assert_string_equal(match("192.168.77.1"), "192.168.77.1");
	assert_string_equal(match("127.0.0.1"), "127.0.0.1");
}

static void test_match_none(void **state)
{
	static const char *const bad[] = {
		"wlan0",
		"ib1",
		"192.168.78.1",
		"10.1.2.4",
		"10.0.0.0/33",
		"10.0.0.0/",
		"10.0.0.0/8x",
		"10.0.0.0/-1",
		"/8",
		"fd00::/129",
		"no.such.host.invalid",
		"1234567890123456789012345678901234567890123456789012345678901234567890/8",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *why = match(bad[i]);

		assert_non_null(strstr(why, "no usable network interface is '"));
		assert_non_null(strstr(why, "eth0 10.1.2.3, eth0 fd00::3, "));
		assert_non_null(strstr(why, "ib1 192.168.78.1 (down)"));
	}
}

static void test_match_bounds(void **state)
{
	struct bps_addr found[1];
	char why[40];

	assert_int_equal(bps_netif_match(list, 6, "eth", found, 1, why, sizeof(why)), 1);
	assert_int_equal(bps_netif_match(list, 6, "xx", found, 1, why, sizeof(why)),
	                 -ENODEV);
	assert_int_equal(strlen(why), sizeof(why) - 1);
	assert_int_equal(bps_netif_match(list, 0, "xx", found, 1, why, sizeof(why)),
	                 -ENODEV);
}

/* On the machine that the test runs on: there is a loopback interface at least. */
static void test_here(void **state)
{
	struct bps_netif here[BPS_NETIF_MAX];
	struct bps_addr addrs[BPS_NETIF_MAX];
	char why[512];
	int n = bps_netif_list(here, BPS_NETIF_MAX), n_usable = 0;
	bool seen_loopback = false;

	assert_in_range(n, 1, BPS_NETIF_MAX);
	for (int i = 0; i < n; i++) {
		n_usable += here[i].usable;
		if (i && here[i].usable)
			assert_true(here[i - 1].usable);
		assert_false(seen_loopback && !here[i].loopback && here[i].usable);
		seen_loopback |= here[i].loopback && here[i].usable;
		assert_int_equal(bps_addr_port(&here[i].addr), 0);
	}
	assert_int_equal(bps_netif_candidates(addrs, BPS_NETIF_MAX), n_usable);
	assert_int_equal(bps_netif_list(here, 1), 1);
	if (seen_loopback)
		assert_int_equal(
			bps_netif_select("127.0.0.0/8", addrs, 1, why, sizeof(why)), 1);
}

static void test_resolve(void **state)
{
	struct bps_addr addrs[4];
	char why[256] = "", text[BPS_ADDR_CHARS];

	assert_int_equal(bps_addr_resolve("10.0.0.5", 7000, addrs, 4, why, sizeof(why)),
	                 1);
	assert_string_equal(bps_addr_format(&addrs[0], text, sizeof(text)),
	                    "10.0.0.5:7000");
	assert_int_equal(bps_addr_resolve("fd00::2", 65535, addrs, 4, why, sizeof(why)),
	                 1);
	assert_string_equal(bps_addr_format(&addrs[0], text, sizeof(text)),
	                    "[fd00::2]:65535");
	assert_true(bps_addr_resolve("localhost", 1, addrs, 4, why, sizeof(why)) >= 1);
	assert_true(bps_addr_resolve("no.such.host.invalid", 1, addrs, 4, why,
	                             sizeof(why)) < 0);
	assert_non_null(strstr(why, "'no.such.host.invalid': "));
	assert_true(bps_addr_resolve("", 1, addrs, 4, why, sizeof(why)) < 0);
}

static void test_addr(void **state)
{
	struct bps_addr a = loopback(AF_INET, 5), b = loopback(AF_INET6, 5), c;
	struct sockaddr sa = { .sa_family = AF_UNIX };
	char tiny[5];

	assert_true(bps_addr_equal(&a, &a));
	assert_true(bps_addr_equal(&b, &b));
	assert_false(bps_addr_equal(&a, &b));
	c = a;
	bps_addr_set_port(&c, 6);
	assert_false(bps_addr_equal(&a, &c));
	assert_int_equal(bps_addr_from(&sa, &c), -EAFNOSUPPORT);
	assert_int_equal(bps_addr_from(&b.sa, &c), 0);
	assert_true(bps_addr_equal(&b, &c));
	assert_true(strlen(bps_addr_format(&a, tiny, sizeof(tiny))) < sizeof(tiny));
}

static void test_ratelimit(void **state)
{
	struct bps_ratelimit limit = { 0 };
	uint64_t now_ns = 5 * BPS_NS_PER_S;

	for (int i = 0; i < BPS_RATELIMIT_LINES; i++)
		assert_int_equal(bps_ratelimit_hit(&limit, now_ns++), 1);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(bps_ratelimit_hit(&limit, now_ns++), 0);
	now_ns += BPS_RATELIMIT_PAUSE_NS;
	assert_int_equal(bps_ratelimit_hit(&limit, now_ns), 1001);
	assert_int_equal(bps_ratelimit_hit(&limit, now_ns), 0);
	now_ns += BPS_RATELIMIT_PAUSE_NS - 1;
	assert_int_equal(bps_ratelimit_hit(&limit, now_ns), 0);
	assert_int_equal(bps_ratelimit_hit(&limit, now_ns + 1), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_match, setup),
		cmocka_unit_test_setup(test_match_none, setup),
		cmocka_unit_test_setup(test_match_bounds, setup),
		cmocka_unit_test(test_here),
		cmocka_unit_test(test_resolve),
		cmocka_unit_test(test_addr),
		cmocka_unit_test(test_ratelimit),
	};

	return cmocka_run_group_tests_name("netif", tests, NULL, NULL);
}
