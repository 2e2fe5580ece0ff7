/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers that have no link of their own: who meets whom when they are measured, the plan
 * of a job that has them, and what is said of it. All links carry B; times are in units
 * of M/B.
 */
#include "tests/unit/base/unit.h"

#include <stdlib.h>

#include "check/job/impl.h"

#define MOST 10u
#define B    1e6 /* bytes a second */

static struct bps_job job;
static struct bps_machine machine;
static struct bps_host hosts[MOST];
static struct bps_doctor_server servers[MOST][MOST];
static struct bps_job_box boxes[MOST];
static struct bps_job_rank ranks[MOST]; /* one on each box */
static uint32_t numbers[MOST];
static char report[4096];

static int tear_down(void **state)
{
	free(job.links);
	free(job.on);
	free(job.plan.shares);
	free(job.plan.bcast);
	free(job.plan.rates);
	free(job.plan.taken);
	free(job.plan.apart);
	free(job.rates.peers);
	free(job.rates.alone);
	free(job.rates.together);
	job = (struct bps_job){ 0 };
	return 0;
}

/* Boxes h1, h2..., and servers s1:7000, s2:7000... on hosts of their own. */
static void begin(uint32_t n_boxes, uint32_t n_servers)
{
	tear_down(NULL);
	job = (struct bps_job){
		.n_boxes = n_boxes,
		.charter = { .hosts = hosts, .n_hosts = n_servers },
		.boxes = boxes,
		.ranks = ranks,
	};
	for (uint32_t s = 0; s < MOST; s++) {
		hosts[s].port = 7000;
		(void)snprintf(hosts[s].name, sizeof(hosts[s].name), "s%u", s + 1);
	}
	for (uint32_t b = 0; b < MOST; b++) {
		boxes[b] = (struct bps_job_box){ .machine = &machine,
			                         .servers = servers[b],
			                         .n_servers = n_servers,
			                         .ranks = &numbers[b],
			                         .n_ranks = 1 };
		numbers[b] = b;
		(void)snprintf(boxes[b].host, sizeof(boxes[b].host), "h%u", b + 1);
		(void)snprintf(ranks[b].host, sizeof(ranks[b].host), "h%u", b + 1);
		for (uint32_t s = 0; s < MOST; s++) {
			servers[b][s] =
				(struct bps_doctor_server){ .port = 7000, .id = s + 1 };
			(void)snprintf(servers[b][s].name, sizeof(servers[b][s].name),
			               "s%u:7000", s + 1);
		}
	}
}

static void put_together(uint32_t server, uint32_t back)
{
	for (uint32_t b = 0; b < job.n_boxes; b++)
		servers[b][server].back = back;
}

static void put_on_box(uint32_t server, uint32_t box)
{
	servers[box][server].here = true;
}

/* -- who meets whom -- */

/* Those with a link of their own need no more rounds than there are of them. */
static void assert_schedule(bool own)
{
	const uint32_t n = job.n_boxes, k = job.charter.n_hosts;
	uint32_t met[MOST][MOST] = { { 0 } }, other;

	assert_int_equal(bps_job_schedule(&job), 0);
	if (own && k > 0)
		assert_int_equal(job.rates.n_rounds, n > k ? n : k);
	for (uint32_t r = 0; r < job.rates.n_rounds; r++) {
		uint32_t busy[2 * MOST] = { 0 };

		for (uint32_t b = 0; b < n; b++) {
			uint32_t at = UINT32_MAX, link;

			if (!bps_job_partner(&job, b, r, &other))
				continue;
			assert_true(other < (k ? k : n));
			link = k ? n + other : other;
			assert_int_equal(busy[job.on[b]]++, 0);
			assert_int_equal(busy[job.on[link]]++, 0);
			met[b][other]++;
			assert_true(bps_job_exchange(&job, b, r, &at));
			assert_int_equal(at, b * job.rates.n_rounds + r);
			assert_true(bps_job_exchange(&job, link, r, &at));
			assert_int_equal(at, b * job.rates.n_rounds + r);
		}
	}
	for (uint32_t b = 0; b < n; b++)
		for (uint32_t s = 0; s < k; s++)
			assert_int_equal(met[b][s], job.on[n + s] == b ? 0 : 1);
}

static void no_link_has_two_at_once(void **state)
{
	for (uint32_t n = 2; n < 9; n++)
		for (uint32_t k = 0; k < MOST; k++) {
			begin(n, k);
			assert_schedule(true);
		}
}

static void nor_one_that_is_shared(void **state)
{
	for (uint32_t n = 2; n < 9; n++)
		for (uint32_t k = 1; k < MOST; k++) {
			begin(n, k);
			for (uint32_t s = 1; s < k; s++)
				put_together(s, s % 3 ? 1 : 0);
			assert_schedule(false);
			begin(n, k);
			for (uint32_t s = 0; s < k; s++)
				put_on_box(s, s % n);
			assert_schedule(false);
			begin(n, k);
			put_on_box(0, n - 1);
			for (uint32_t s = 1; s < k; s++)
				put_together(s, s == 1 ? 1 : 0);
			assert_schedule(false);
		}
}

/* -- the plan -- */

static const char *examine(void)
{
	struct bps_doctor_report to = { .host = "job" };

	report[0] = '\0';
	to.out = fmemopen(report, sizeof(report), "w");
	assert_non_null(to.out);
	assert_int_equal(bps_job_make_plan(&job), 0);
	bps_job_check_shared(&job, &to);
	assert_int_equal(fclose(to.out), 0);
	return report;
}

static void assert_bound(double allreduce, double gain)
{
	assert_float_equal(job.plan.allreduce_s / job.plan.slowest_s, allreduce, 1e-9);
	assert_float_equal(job.plan.ring_s / job.plan.allreduce_s, gain, 1e-9);
}

static void assert_shares(uint32_t first, uint32_t n, double share)
{
	for (uint32_t i = first; i < first + n; i++)
		assert_float_equal(job.plan.shares[i], share, 1e-9);
}

static void links_of_their_own_are_fine(void **state)
{
	begin(4, 2);
	assert_string_equal(examine(), "");
	/* 4 x to and from a server, 1 + 2 y to and from a box; 2 x + 4 y = 1. */
	assert_bound(1.2, 1.25);
	assert_shares(0, 2, 0.3);
	assert_shares(2, 4, 0.1);
}

/* Two on one machine are as good as one: 4 x = 1 + 2 y, x + 4 y = 1. */
static void two_servers_on_one_machine(void **state)
{
	begin(4, 2);
	put_together(1, 1);
	examine();
	assert_bound(4.0 / 3, 1.125);
	assert_shares(0, 2, 1.0 / 6);
	assert_shares(2, 4, 1.0 / 6);
	/* A broadcast: 3 x to others, 2 y of each that is not the root. */
	assert_float_equal(job.plan.bcast_s / job.plan.slowest_s, 1, 1e-9);
	assert_contains(report, "job, servers: servers s[1-2]:7000 are on one machine: "
	                        "they share its link\n");
	assert_contains(report, "takes at least 1.11 times as long");
	assert_contains(report, "export BPSMPI_SERVERS='s1:7000'\n");
}

/* One box is led elsewhere; then it does not answer that box. */
static void boxes_that_do_not_agree(void **state)
{
	begin(4, 2);
	put_together(1, 1);
	servers[2][1].back = 0;
	assert_string_equal(examine(), "");
	assert_bound(1.2, 1.25);
	begin(4, 2);
	put_together(1, 1);
	servers[2][1].back = 0;
	servers[2][1].id = 0;
	examine();
	assert_bound(4.0 / 3, 1.125);
}

/* Boxes carry none, where as many servers are named: 4 x of a half for each machine. */
static void four_servers_on_two_machines(void **state)
{
	begin(4, 4);
	put_together(1, 1);
	put_together(3, 1);
	examine();
	assert_bound(2, 0.75);
	assert_shares(0, 4, 0.25);
	assert_shares(4, 4, 0);
	assert_contains(report,
	                "servers s[1-4]:7000 are on 2 machines: those of one share "
	                "its link\n");
	assert_contains(report, "takes at least 2.00 times as long");
	assert_contains(report, "export BPSMPI_SERVERS='s[1,3]:7000'\n");
}

/* As a server in each box, which is no more than a ring. */
static void servers_on_all_boxes(void **state)
{
	begin(4, 4);
	for (uint32_t s = 0; s < 4; s++)
		put_on_box(s, 3 - s);
	examine();
	assert_bound(1.5, 1);
	assert_shares(0, 4, 0.25);
	assert_shares(4, 4, 0);
	assert_contains(report,
	                "servers s[1-4]:7000 are on boxes h[1-4] of the job: they "
	                "take from the links of boxes\n");
	assert_contains(report, "takes at least 1.50 times as long");
	assert_contains(report, "takes loopback for");
	assert_contains(report, "unset BPSMPI_SERVERS\n");
}

/* The other one is as one server: 4 x = 1 + 2 y, x + 4 y = 1. */
static void one_server_on_a_box(void **state)
{
	begin(4, 2);
	put_on_box(0, 2);
	examine();
	assert_bound(4.0 / 3, 1.125);
	assert_shares(0, 1, 1.0 / 6);
	assert_shares(1, 1, 1.0 / 3);
	assert_shares(2, 2, 1.0 / 6);
	assert_shares(4, 1, 0);
	assert_shares(5, 1, 1.0 / 6);
	assert_contains(report, "server s1:7000 is on box h3 of the job: it takes from "
	                        "that box's own link\n");
	assert_contains(report, "export BPSMPI_SERVERS='s2:7000'\n");
}

/* Another one answers at that address on each box, or none. */
static void what_one_box_reaches_is_nobody_s(void **state)
{
	begin(4, 2);
	put_on_box(0, 0);
	for (uint32_t b = 1; b < 4; b++)
		servers[b][0].id = b < 3 ? 100 + b : 0;
	assert_string_equal(examine(), "");
	assert_bound(1.2, 1.25);
}

/* A job believes it, and divides as among links of their own. */
static void bandwidths_that_are_said(void **state)
{
	begin(4, 2);
	(void)strcpy(job.config.bandwidth, "*=8Mbit");
	put_together(1, 1);
	examine();
	assert_shares(0, 2, 0.3);
	assert_shares(2, 4, 0.1);
	assert_bound(4 * 0.6, 1.5 / 2.4);
	assert_contains(report, "takes at least 2.00 times as long");
	begin(4, 2);
	(void)strcpy(job.config.bandwidth, "*=8Mbit");
	put_on_box(0, 2);
	examine();
	assert_shares(0, 2, 0.3);
	assert_bound(1 + 2 * 0.4, 1.5 / 1.8);
	assert_contains(report, "takes at least 1.50 times as long");
	assert_null(strstr(report, "loopback"));
}

/* Between two boxes all goes over each link once, wherever it is summed. */
static void what_costs_nothing_is_no_finding(void **state)
{
	begin(2, 2);
	put_on_box(0, 0);
	put_on_box(1, 1);
	assert_string_equal(examine(), "");
	assert_bound(1, 1);
	begin(2, 2);
	put_together(1, 1);
	examine();
	assert_bound(2, 0.5); /* but not over the link of one machine */
	assert_contains(report, "takes at least 2.00 times as long");
}

/* -- measured -- */

/* Each exchange alone as fast as its links, and all at once as much as these carry. */
static void measure(double machine_rate, double at_once)
{
	uint32_t n_exchanges = 0, at;

	assert_int_equal(bps_job_schedule(&job), 0);
	job.rates.alone = calloc((size_t)job.n_boxes * job.rates.n_rounds, 8);
	job.rates.together = calloc((size_t)job.n_boxes * job.rates.n_rounds, 8);
	for (uint32_t b = 0; b < job.n_boxes; b++)
		for (uint32_t r = 0; r < job.rates.n_rounds; r++)
			n_exchanges += bps_job_exchange(&job, b, r, &at);
	for (uint32_t b = 0; b < job.n_boxes; b++)
		for (uint32_t r = 0; r < job.rates.n_rounds; r++) {
			if (!bps_job_exchange(&job, b, r, &at))
				continue;
			job.rates.alone[at] = (int64_t)machine_rate;
			job.rates.together[at] = (int64_t)(at_once / n_exchanges);
		}
}

/* What a link carries counts once, however many servers have it. */
static void a_shared_link_is_no_crowd(void **state)
{
	begin(4, 2);
	put_together(1, 1);
	measure(B, B);
	assert_float_equal(bps_job_one_by_one(&job), B, 1);
	assert_false(bps_job_is_crowded(&job));
	begin(4, 4);
	for (uint32_t s = 0; s < 4; s++)
		put_on_box(s, s);
	measure(B, 2 * B);
	assert_float_equal(bps_job_one_by_one(&job), 2 * B, 1);
	assert_false(bps_job_is_crowded(&job));
	begin(4, 2);
	measure(B, B);
	assert_float_equal(bps_job_one_by_one(&job), 2 * B, 1);
	assert_true(bps_job_is_crowded(&job));
	begin(4, 0);
	measure(B, 2 * B);
	assert_float_equal(bps_job_one_by_one(&job), 2 * B, 1);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(no_link_has_two_at_once),
		TEST(nor_one_that_is_shared),
		TEST(links_of_their_own_are_fine),
		TEST(two_servers_on_one_machine),
		TEST(boxes_that_do_not_agree),
		TEST(four_servers_on_two_machines),
		TEST(servers_on_all_boxes),
		TEST(one_server_on_a_box),
		TEST(what_one_box_reaches_is_nobody_s),
		TEST(bandwidths_that_are_said),
		TEST(what_costs_nothing_is_no_finding),
		TEST(a_shared_link_is_no_crowd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
