/* SPDX-License-Identifier: BSD-3-Clause */
/* Which network cards carry: those that are fast enough, and lead out of the box. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/cards.h"
#include "tests/unit/engine/unit.h"

/* The names that are left of eth0, eth1, ... with these speeds, as "02". */
static const char *fast(const double *bytes_per_s, int n)
{
	static char text[16];
	struct bps_netif list[8] = { 0 };

	for (int i = 0; i < n; i++)
		snprintf(list[i].name, IF_NAMESIZE, "eth%d", i);
	n = bps_cards_fast(list, n, bytes_per_s);
	text[0] = '\0';
	for (int i = 0; i < n; i++)
		strcat(text, list[i].name + 3);
	return text;
}

static void slow_cards_carry_nothing(void **state)
{
	(void)state;
	assert_string_equal(fast((double[]){ 0 }, 0), "");
	assert_string_equal(fast((double[]){ 1e9 }, 1), "0");
	assert_string_equal(fast((double[]){ 1e9, 12.5e9 }, 2), "1");
	assert_string_equal(fast((double[]){ 10e9, 2e9, 1.99e9 }, 3), "01");
	assert_string_equal(fast((double[]){ 0, 0 }, 2), "01");
	assert_string_equal(fast((double[]){ 0, 12.5e9, 1e9, 12.5e9 }, 4), "013");
}

static void those_that_lead_out_are_chosen(void **state)
{
	struct bps_netif list[BPS_NETIF_MAX];
	char why[256];
	int n = bps_cards_choose("", list, BPS_NETIF_MAX, why, sizeof(why));
	bool outer = false;

	(void)state;
	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		assert_true(list[i].usable);
		outer = outer || !list[i].loopback;
		assert_false(list[i].inner || (outer && list[i].loopback));
	}
	n = bps_cards_choose("127.0.0.0/8", list, BPS_NETIF_MAX, why, sizeof(why));
	assert_true(n == -ENODEV || (n > 0 && list[0].loopback));
	assert_int_equal(bps_cards_choose("no.such.card.invalid", list, BPS_NETIF_MAX,
	                                  why, sizeof(why)),
	                 -ENODEV);
	assert_non_null(strstr(why, "no usable network interface is 'no.such"));
}

/* A server tells what it listens on, and no address that is of this box alone. */
static void servers_tell_their_addresses(void **state)
{
	struct bps_addr any = { .in.sin_family = AF_INET, .bytes = sizeof(any.in) };
	struct bps_addr lo = any;
	struct bps_card_addr told[BPS_NETIF_MAX];
	struct bps_netif list[BPS_NETIF_MAX];
	int n = bps_netif_list(list, BPS_NETIF_MAX), n_told;

	(void)state;
	bps_addr_set_port(&any, 7001);
	n_told = bps_cards_listening(&any, 1, told, BPS_NETIF_MAX);
	assert_in_range(n_told, 0, n);
	for (int i = 0; i < n_told; i++) {
		assert_int_equal(told[i].addr.sa.sa_family, AF_INET);
		assert_int_equal(bps_addr_port(&told[i].addr), 7001);
		assert_false(bps_addr_is_loopback(&told[i].addr));
		assert_non_null(bps_netif_find(list, n, &told[i].addr));
	}
	lo.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	bps_addr_set_port(&lo, 7001);
	assert_int_equal(bps_cards_listening(&lo, 1, told, BPS_NETIF_MAX), 0);
	if (n_told > 1)
		assert_int_equal(bps_cards_listening(&any, 1, told, 1), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_cards_carry_nothing),
		cmocka_unit_test(those_that_lead_out_are_chosen),
		cmocka_unit_test(servers_tell_their_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
