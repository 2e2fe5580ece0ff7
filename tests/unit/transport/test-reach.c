/* SPDX-License-Identifier: BSD-3-Clause */
#include "harness.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "transport/reach.h"

#define MAX 12

/* Address @i of this box, or of the server; what it is does not matter to a pair. */
static struct bps_addr make_addr(const char *net, int i)
{
	struct bps_addr addr = { .in.sin_family = AF_INET, .bytes = sizeof(addr.in) };
	char text[32];

	snprintf(text, sizeof(text), "%s.%d", net, i + 1);
	assert_int_equal(inet_pton(AF_INET, text, &addr.in.sin_addr), 1);
	return addr;
}

struct bench {
	struct bps_netif here[MAX];
	struct bps_card_addr there[MAX];
	enum bps_way ways[MAX * MAX];
	struct bps_reach reach;
	struct bps_rail rails[BPS_REACH_MAX_RAILS];
	uint32_t n;
};

/* A card for each address; ways as text, a row an address of this box: "oh.r" */
static void open_bench(struct bench *bench, int n_here, int n_there, const char *ways)
{
	static const char letters[] = "ohru.";

	memset(bench, 0, sizeof(*bench));
	for (int h = 0; h < n_here; h++) {
		bench->here[h].addr = make_addr("10.0.0", h);
		snprintf(bench->here[h].name, IF_NAMESIZE, "eth%d", h);
	}
	for (int t = 0; t < n_there; t++) {
		bench->there[t].addr = make_addr("10.0.1", t);
		bps_addr_set_port(&bench->there[t].addr, 7000);
		bench->there[t].card = (uint32_t)t;
	}
	for (int i = 0; ways && i < n_here * n_there; i++)
		bench->ways[i] = (enum bps_way)(strchr(letters, ways[i]) - letters);
	bench->reach = (struct bps_reach){
		.here = bench->here,
		.n_here = n_here,
		.there = bench->there,
		.n_there = n_there,
		.ways = bench->ways,
	};
}

/* Which address an end of a rail is. */
static int index_here(const struct bench *bench, uint32_t rail)
{
	int h = 0;

	while (!bps_addr_equal(&bench->rails[rail].from, &bench->here[h].addr))
		assert_true(++h < bench->reach.n_here);
	assert_string_equal(bench->rails[rail].card, bench->here[h].name);
	return h;
}

static int index_there(const struct bench *bench, uint32_t rail)
{
	int t = 0;

	while (!bps_addr_equal(&bench->rails[rail].to, &bench->there[t].addr))
		assert_true(++t < bench->reach.n_there);
	return t;
}

/* The rails as "02 11": address 0 here to 2 there, 1 to 1. */
static const char *pair(struct bench *bench)
{
	static char text[4 * BPS_REACH_MAX_RAILS];

	text[0] = '\0';
	bench->n = bps_reach_pair(&bench->reach, bench->rails);
	for (uint32_t i = 0; i < bench->n; i++)
		sprintf(text + strlen(text), "%s%d%d", i ? " " : "", index_here(bench, i),
		        index_there(bench, i));
	return text;
}

static void test_pairs(void **state)
{
	static const struct {
		int n_here, n_there;
		const char *ways, *rails;
	} cases[] = {
		{ 1, 1, "o", "00" },
		{ 1, 1, ".", "" },
		{ 1, 0, "", "" },
		{ 0, 1, "", "" },
		{ 2, 2, "o..o", "00 11" }, /* two networks */
		{ 2, 2, "oohh", "00 11" }, /* one, of which the kernel takes card 0 */
		{ 2, 2, "oo..", "00 01" }, /* where card 1 cannot be used */
		{ 2, 2, "ro.o", "11 00" }, /* the better ones first */
		{ 2, 2, "o.rr", "00 11" }, /* by a router what is not near */
		{ 2, 1, "oh", "00 10" },   /* the server has one card */
		{ 1, 2, "oo", "00 01" },   /* the box has */
		{ 2, 2, "ooo.", "01 10" }, /* what came first is not needed at last */
		{ 3, 3, "o....o.o.", "00 12 21" },
		{ 3, 2, "o..o.h", "00 11 21" },
		{ 2, 2, "uuuu", "00 11" },
	};
	struct bench bench;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_bench(&bench, cases[i].n_here, cases[i].n_there, cases[i].ways);
		if (strcmp(pair(&bench), cases[i].rails) != 0)
			fail_msg("case %zu: %s", i, pair(&bench));
	}
}

/* Several addresses of a card are one card, at both ends. */
static void test_cards(void **state)
{
	struct bench bench;

	open_bench(&bench, 2, 2,
	           "oo"
	           "oo");
	strcpy(bench.here[1].name, "eth0");
	bench.there[1].card = 0;
	assert_string_equal(pair(&bench), "00");
	open_bench(&bench, 3, 3,
	           "o..r.."
	           "..o");
	strcpy(bench.here[1].name, "eth0");
	bench.there[1].card = 0;
	assert_string_equal(pair(&bench), "00 22");
}

/* Of ways that are as good, the one that works already. */
static void test_known(void **state)
{
	struct bench bench;
	struct bps_addr from = make_addr("10.0.0", 1), to = make_addr("10.0.1", 0);

	open_bench(&bench, 2, 2, "oooo");
	bps_addr_set_port(&from, 40000);
	bps_addr_set_port(&to, 7000);
	bench.reach.from = &from;
	bench.reach.to = &to;
	assert_string_equal(pair(&bench), "10 01");
	open_bench(&bench, 2, 2, "ohho");
	bench.reach.from = &from;
	bench.reach.to = &to;
	assert_string_equal(pair(&bench), "00 11");
}

static void test_bound(void **state)
{
	struct bench bench;

	open_bench(&bench, 10, 10, NULL); /* all BPS_WAY_OWN */
	assert_int_equal(bps_reach_pair(&bench.reach, bench.rails), BPS_REACH_MAX_RAILS);
}

/* Each card is in as many rails as this counts. */
static int n_uses(const struct bench *bench, int h, int t)
{
	int n = 0;

	for (uint32_t i = 0; i < bench->n; i++)
		n += index_here(bench, i) == h || index_there(bench, i) == t;
	return n;
}

static bool has_way(const struct bench *bench, int h, int t)
{
	return bench->ways[h * bench->reach.n_there + t] != BPS_WAY_NONE;
}

/* Any cards and ways: who has a way has a rail, and each rail serves somebody. */
static void test_random(void **state)
{
	struct bps_prng prng;
	struct bench bench;

	bps_prng_init(&prng, 6);
	for (int round = 0; round < 20000; round++) {
		int n_here = 1 + (int)bps_prng_below(&prng, 4);
		int n_there = 1 + (int)bps_prng_below(&prng, 4);

		open_bench(&bench, n_here, n_there, NULL);
		for (int i = 0; i < n_here * n_there; i++)
			bench.ways[i] = (enum bps_way)bps_prng_below(&prng, 5);
		pair(&bench);
		for (int h = 0; h < n_here; h++) {
			bool any = false;

			for (int t = 0; t < n_there; t++)
				any = any || has_way(&bench, h, t);
			assert_int_equal(n_uses(&bench, h, -1) > 0, any);
		}
		for (int t = 0; t < n_there; t++) {
			bool any = false;

			for (int h = 0; h < n_here; h++)
				any = any || has_way(&bench, h, t);
			assert_int_equal(n_uses(&bench, -1, t) > 0, any);
		}
		for (uint32_t i = 0; i < bench.n; i++) {
			int h = index_here(&bench, i), t = index_there(&bench, i);

			assert_true(has_way(&bench, h, t));
			assert_true(n_uses(&bench, h, -1) == 1 ||
			            n_uses(&bench, -1, t) == 1);
		}
	}
}

/* On the machine that the test runs on: its own addresses are no way out. */
static void test_here(void **state)
{
	struct bps_netif list[BPS_NETIF_MAX];
	struct bps_rail rails[BPS_REACH_MAX_RAILS];
	bool reaches[BPS_NETIF_MAX];
	int n = bps_netif_list(list, BPS_NETIF_MAX);

	assert_true(n > 0);
	for (int i = 0; i < n; i++) {
		struct bps_card_addr own = { list[i].addr, 0 };
		struct bps_addr from;

		bps_addr_set_port(&own.addr, 7000);
		assert_int_equal(bps_reach_rails(list, n, &own, 1, NULL, NULL, rails), 0);
		bps_reach_list(list, n, &own.addr, 1, reaches);
		for (int h = 0; h < n; h++)
			assert_false(reaches[h]);
		if (!list[i].usable)
			continue;
		assert_int_equal(bps_reach_route(&own.addr, &from), 0);
		assert_true(bps_addr_equal(&from, &list[i].addr));
		if (!list[i].loopback && list[i].n_bits < 24)
			continue;
		assert_true(bps_netif_near(&list[i], &own.addr));
	}
}

static void test_near(void **state)
{
	struct bps_netif netif = { .addr = make_addr("10.1.2", 2), .n_bits = 25 };
	struct bps_addr near = make_addr("10.1.2", 126), far = make_addr("10.1.2", 127);

	assert_true(bps_netif_near(&netif, &near));
	assert_false(bps_netif_near(&netif, &far));
	netif.n_bits = 0;
	assert_false(bps_netif_near(&netif, &near));
	netif.n_bits = 8;
	netif.addr.sa.sa_family = AF_INET6;
	assert_false(bps_netif_near(&netif, &near));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs),  cmocka_unit_test(test_cards),
		cmocka_unit_test(test_known),  cmocka_unit_test(test_bound),
		cmocka_unit_test(test_random), cmocka_unit_test(test_here),
		cmocka_unit_test(test_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
