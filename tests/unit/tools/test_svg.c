/* SPDX-License-Identifier: BSD-3-Clause */
/* What a job may put into a picture and no command line can. How it all lies on the paper
 * is test-svg.py's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "check/svg/svg.h"
#include "tests/unit/topology/made-machine.h"

static struct made made;
static const struct bps_placement *placement;
static char document[1 << 18];

static void place_ranks(const struct bps_cpuset *ranks, uint32_t n_ranks, uint32_t n_nics)
{
	uint32_t nics[MADE_DEVICES];
	const struct bps_place_in in = { .machine = &made.machine,
		                         .ranks = ranks,
		                         .n_ranks = n_ranks,
		                         .nics = nics,
		                         .n_nics = n_nics };

	for (uint32_t i = 0; i < n_nics; i++)
		nics[i] = i;
	assert_int_equal(bps_place(&in, &placement), 0);
}

static void draw(const struct bps_picture *picture)
{
	FILE *out = fmemopen(document, sizeof(document), "w");

	assert_non_null(out);
	assert_int_equal(bps_picture_print(picture, out), 0);
	assert_int_equal(fclose(out), 0);
}

static void draw_box(const struct bps_picture_box *box)
{
	draw(&(struct bps_picture){ .title = "a job", .boxes = box, .n_boxes = 1 });
}

static struct bps_picture_box a_box(double wire)
{
	return (struct bps_picture_box){ .machine = &made.machine,
		                         .placement = placement,
		                         .names = "h1",
		                         .n_alike = 1,
		                         .wire = wire };
}

static int count(const char *text)
{
	int n = 0;

	for (const char *at = document; (at = strstr(at, text)); at++)
		n++;
	return n;
}

static int begin(void **state)
{
	made_init(&made);
	placement = NULL;
	return 0;
}

static int end(void **state)
{
	bps_place_free(placement);
	return 0;
}

/* -- nodes -- */

static void nodes_of_unequal_groups(void **state)
{
	const struct bps_cpuset ranks[] = { cpus(1, 0), cpus(1, 2), cpus(1, 4),
		                            cpus(1, 5) };
	struct bps_picture_box box;

	for (int i = 0; i < 3; i++)
		made_node(&made, 2, 1);
	place_ranks(ranks, 4, 0);
	box = a_box(0);
	draw_box(&box);
	/* Of a and b each, what the ranks of a own comes to a, and goes to b as a total;
	 * so in all a's and b's part, each way: 1/4 + 1/4, and 1/4 + 2/4 twice. */
	assert_int_equal(count("node 0: out 1.25 M, in 1.25 M"), 1);
	assert_int_equal(count("node 1: out 1.25 M, in 1.25 M"), 1);
	assert_int_equal(count("node 2: out 1.5 M, in 1.5 M"), 1);
	assert_int_equal(count(">0.5 M<"), 2);
	assert_int_equal(count(">0.75 M<"), 4);
	assert_int_equal(count(">2 ranks<"), 1);
	assert_int_equal(count("sums for the box"), 0);
	assert_int_equal(count("network</text>"), 0);
}

static void ranks_of_no_node(void **state)
{
	const struct bps_cpuset ranks[] = { cpus(2, 0, 2), cpus(2, 1, 3), cpus(1, 2) };
	struct bps_picture_box box;

	made_node(&made, 2, 1);
	made_node(&made, 2, 1);
	place_ranks(ranks, 3, 0);
	box = a_box(0);
	draw_box(&box);
	assert_int_equal(count(">2 ranks, bound to no node<"), 1);
	assert_int_equal(count(">1 rank<"), 1);
	assert_int_equal(count("class=\"link\""), 0);
	assert_int_equal(count("class=\"bar\""), 0);
}

/* -- the network -- */

static void cards_of_unequal_speed(void **state)
{
	const struct bps_cpuset rank = cpus(1, 0);
	const double speeds[] = { 5e9, 10e9, 1e8 };
	struct bps_picture_box box;

	made_node(&made, 2, 1);
	for (uint32_t i = 0; i < 3; i++) {
		made_nic(&made, 0, NONE, speeds[i]);
		(void)snprintf(made.nics[i].name, IF_NAMESIZE, "eth%u", i);
	}
	place_ranks(&rank, 1, 3);
	box = a_box(1.5);
	draw_box(&box);
	assert_int_equal(count("eth0: out 0.5 M, in 0.5 M"), 1);
	assert_int_equal(count("eth1: out 1 M, in 1 M"), 1);
	assert_int_equal(count("eth2: out"), 0);
	assert_int_equal(count("class=\"nic idle\""), 1);
	assert_int_equal(count("not used"), 1);
	assert_int_equal(count("40 Gbit/s<"), 2); /* and the hint */
}

static void cards_without_a_device_where_they_are_used(void **state)
{
	const struct bps_cpuset rank = cpus(1, 0);
	struct bps_picture_box box;

	made_node(&made, 1, 1);
	for (uint32_t i = 0; i < 3; i++) {
		made_nic(&made, NONE, NONE, 0);
		(void)snprintf(made.nics[i].name, IF_NAMESIZE, "veth%u", i);
		made.nics[i].is_virtual = true;
	}
	place_ranks(&rank, 1, 1);
	box = a_box(1);
	draw_box(&box);
	assert_int_equal(count("veth0: out 1 M, in 1 M"), 1);
	assert_int_equal(count("class=\"nic\""), 1);
	assert_int_equal(count("veth1"), 0);
}

/* Nothing is known of its inside but that it sends. */
static void a_box_without_cards_sends_too(void **state)
{
	struct bps_picture_box box = a_box(1.2);

	made_node(&made, 1, 1);
	draw_box(&box);
	assert_int_equal(count("h1: out 1.2 M, in 1.2 M"), 1);
	assert_int_equal(count("network</text>"), 1);
}

static void what_boxes_and_servers_send(void **state)
{
	/* Three boxes, one server that sums half of all, and a sixth in each box: a box
	 * sends 5/6 of its own and a sixth of the answers to two others. */
	assert_true(bps_picture_box_wire(3, 1 / 6.) > 7 / 6. - 1e-9);
	assert_true(bps_picture_box_wire(3, 1 / 6.) < 7 / 6. + 1e-9);
	assert_true(bps_picture_box_wire(2, 0.5) == 1);
	assert_true(bps_picture_box_wire(5, 0) == 1);
	assert_true(bps_picture_server_wire(3, 0.5) == 1.5);
}

/* -- text -- */

static void long_text_is_wrapped_and_cut(void **state)
{
	char names[600] = "", differs[200] = "";
	struct bps_picture_box box = a_box(0);

	made_node(&made, 1, 1);
	for (int i = 0; i < 60; i++)
		(void)snprintf(names + strlen(names), 16, "box%d,", 100 + i);
	for (int i = 0; i < 9; i++)
		strcat(differs, "NIC is slow; ");
	box.names = names;
	box.differs = differs;
	draw_box(&box);
	assert_int_equal(count("<text"), 1 + 3 + 3 + 1 + 2 + 1);
	assert_int_equal(count("...</text>"), 1);
	assert_int_equal(count(",</text>"), 2);
	assert_int_equal(count("box100,"), 3); /* the description, the hint, a line */
	assert_int_equal(count("box159"), 1);  /* the description has all */
}

static void small_parts_are_not_nothing(void **state)
{
	const struct bps_picture_server server = {
		.names = "s1", .n_alike = 1, .share = 1e-7, .wire = 3e-7
	};
	const struct bps_picture_box box = a_box(1);

	made_node(&made, 1, 1);
	draw(&(struct bps_picture){ .title = "a job",
	                            .boxes = &box,
	                            .n_boxes = 1,
	                            .servers = &server,
	                            .n_servers = 1 });
	assert_int_equal(count("sums &lt;0.001 M<"), 1);
	assert_int_equal(count("s1: out &lt;0.001 M, in &lt;0.001 M"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nodes_of_unequal_groups),
		TEST(ranks_of_no_node),
		TEST(cards_of_unequal_speed),
		TEST(cards_without_a_device_where_they_are_used),
		TEST(a_box_without_cards_sends_too),
		TEST(what_boxes_and_servers_send),
		TEST(long_text_is_wrapped_and_cut),
		TEST(small_parts_are_not_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
