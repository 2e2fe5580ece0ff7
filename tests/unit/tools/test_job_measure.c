/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is measured, and how often: by the first of four boxes with two servers, on an MPI
 * library and meters that are made up here. The other boxes are what these say.
 */
#include "tests/unit/base/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "check/job/meter.h"

#define N_BOXES   4u
#define N_SERVERS 2u
#define N_ROUNDS  4u
#define N_RATES   (N_BOXES * N_ROUNDS)
#define FINE      10000000 /* bytes a second */
#define LUMP      50000000 /* bytes, long before the others begin */

static struct bps_job job;
static struct bps_mpi mpi;
static uint32_t box_of[N_BOXES] = { 0, 1, 2, 3 }, first[N_BOXES] = { 0, 1, 2, 3 };
static struct bps_host hosts[N_SERVERS] = { { "127.0.0.1", 7000 },
	                                    { "127.0.0.1", 7001 } };
static struct bps_doctor_server servers[N_SERVERS] = {
	{ "s1:7000", .round_trip_ns = 1 }, { "s2:7001", .round_trip_ns = 1 }
};

/* Of the first box, which meets server r in round r. */
static uint64_t rates[N_ROUNDS][8], looked_ns[N_ROUNDS][8];
static uint32_t n_looks[N_ROUNDS], n_together;
static uint64_t began_ns[N_ROUNDS];
static double each_together[8]; /* of the first box and server, in each try */
static int64_t others_alone;    /* of the other boxes */

/* -- the MPI library -- */

static int meet(bps_handle comm)
{
	return 0;
}

static int tell(void *buf, int n, bps_handle type, int root, bps_handle comm)
{
	return 0;
}

static int gather(const void *mine, int n, bps_handle type, void *all, int n_all,
                  bps_handle type_all, bps_handle comm)
{
	memcpy(all, mine, (size_t)n);
	return 0;
}

/* The other boxes say what they saw: alone, and while all were at work nothing. */
static int greatest(const void *mine, void *all, int n, bps_handle type, bps_handle op,
                    bps_handle comm)
{
	int64_t *ret = all;

	assert_int_equal(n, N_RATES);
	memcpy(ret, mine, N_RATES * sizeof(*ret));
	for (uint32_t i = N_ROUNDS; i < N_RATES && n_together == 0; i++)
		ret[i] = (i / N_ROUNDS + i % N_ROUNDS) % N_BOXES < N_SERVERS
		                 ? others_alone
		                 : 0;
	return 0;
}

/* -- meters -- */

int bps_meter_carry(const struct bps_meter_job *common, struct bps_engine **ret,
                    struct bps_addr *ret_addr)
{
	return -ENOSYS;
}

int bps_meter_start(const struct bps_meter_job *common, struct bps_meter *meter,
                    uint32_t peer, const char *name, const struct bps_addr *addrs,
                    int n_addrs)
{
	meter->engine = (struct bps_engine *)(rates[peer]); /* tells them apart */
	return 0;
}

static uint32_t round_of(const struct bps_meter *meter)
{
	return (uint32_t)((uint64_t(*)[8])(void *)meter->engine - rates);
}

void *bps_meter_run(void *arg)
{
	struct bps_meter *meter = arg;
	const uint32_t r = round_of(meter), look = n_looks[r]++;

	looked_ns[r][look] = meter->least_ns;
	meter->bytes_per_s = rates[r][look];
	return NULL;
}

void *bps_meter_keep(void *arg)
{
	struct bps_meter *meter = arg;

	bps_store_release(&began_ns[round_of(meter)], bps_now_ns());
	meter->bytes_per_s = 1;
	while (!bps_load_relaxed(&meter->enough))
		(void)usleep(1000);
	return NULL;
}

/* A lump at once, and then at one rate. */
uint64_t bps_meter_bytes(const struct bps_meter *meter)
{
	const uint32_t r = round_of(meter);
	const uint64_t began = bps_load_acquire(&began_ns[r]);
	uint32_t try = n_together / 4; /* two meters are asked twice in each */

	n_together++;
	return LUMP + (uint64_t)((double)(bps_now_ns() - began) / BPS_NS_PER_S *
	                         each_together[try]);
}

void bps_meter_stop(struct bps_meter *meter)
{
	meter->engine = NULL;
}

/* -- tests -- */

static int set_up(void **state)
{
	mpi = (struct bps_mpi){
		.Barrier = meet, .Bcast = tell, .Allgather = gather, .Allreduce = greatest
	};
	job = (struct bps_job){ .mpi = &mpi,
		                .size = N_BOXES,
		                .n_boxes = N_BOXES,
		                .box_of = box_of,
		                .first = first,
		                .charter = { .hosts = hosts, .n_hosts = N_SERVERS } };
	memset(n_looks, 0, sizeof(n_looks));
	n_together = 0;
	others_alone = FINE;
	for (uint32_t i = 0; i < 8; i++) {
		each_together[i] = FINE;
		for (uint32_t r = 0; r < N_ROUNDS; r++)
			rates[r][i] = FINE;
	}
	return 0;
}

static int tear_down(void **state)
{
	free(job.on);
	free(job.rates.peers);
	free(job.rates.alone);
	free(job.rates.together);
	return 0;
}

static void what_is_fine_is_measured_once(void **state)
{
	bps_job_measure(&job, servers);
	assert_int_equal(job.rates.n_rounds, N_ROUNDS);
	assert_int_equal(n_looks[0], 1);
	assert_int_equal(n_looks[1], 1);
	assert_int_equal(n_looks[2], 0); /* with nobody */
	assert_true(job.rates.alone[0] == FINE && job.rates.alone[1] == FINE);
	assert_string_equal(job.rates.why, "");
}

/* Once, by chance: it is looked at again, for longer. */
static void what_was_slow_once_is_measured_again(void **state)
{
	rates[1][0] = FINE / 4;
	rates[1][2] = FINE / 2; /* not asked for any more */
	bps_job_measure(&job, servers);
	assert_int_equal(n_looks[0], 1);
	assert_int_equal(n_looks[1], 2);
	assert_true(looked_ns[1][1] > looked_ns[1][0]);
	assert_true(job.rates.alone[1] == FINE);
}

static void what_stays_slow_is_slow(void **state)
{
	const uint64_t seen[] = { FINE / 4, FINE / 2, FINE / 5, FINE / 3 };

	memcpy(rates[1], seen, sizeof(seen));
	bps_job_measure(&job, servers);
	assert_int_equal(n_looks[0], 1);
	assert_int_equal(n_looks[1], 4);
	assert_true(job.rates.alone[1] == FINE / 3);
}

/* What is slow is so against the fastest exchange of any box. */
static void the_others_count_too(void **state)
{
	others_alone = 2 * FINE;
	rates[0][1] = 2 * FINE;
	bps_job_measure(&job, servers);
	assert_int_equal(n_looks[0], 2);
	assert_int_equal(n_looks[1], 4);
	assert_true(job.rates.alone[0] == 2 * FINE && job.rates.alone[1] == FINE);
}

static void assert_together(double wanted)
{
	for (uint32_t r = 0; r < 2; r++)
		assert_float_equal((double)job.rates.together[r], wanted, 0.1 * wanted);
	for (uint32_t i = 2; i < N_RATES; i++)
		assert_true(job.rates.together[i] == 0);
}

/* Each link of two carries 10 MB/s alone; of what came before, nothing counts. */
static void only_one_stretch_of_time_counts(void **state)
{
	bps_job_measure(&job, servers);
	assert_together(FINE);
	assert_int_equal(n_together, 4);
}

static void a_crowd_is_measured_again(void **state)
{
	each_together[0] = FINE / 4.0;
	each_together[1] = FINE / 2.0;
	each_together[2] = FINE * 0.9;
	bps_job_measure(&job, servers);
	assert_together(FINE * 0.9);
	assert_int_equal(n_together, 3 * 4);
	tear_down(NULL);
	set_up(NULL);
	for (uint32_t i = 0; i < 8; i++)
		each_together[i] = FINE / (i == 2 ? 3.0 : 4.0);
	bps_job_measure(&job, servers);
	assert_together(FINE / 3.0);
	assert_int_equal(n_together, 4 * 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_fine_is_measured_once),
		TEST(what_was_slow_once_is_measured_again),
		TEST(what_stays_slow_is_slow),
		TEST(the_others_count_too),
		TEST(only_one_stretch_of_time_counts),
		TEST(a_crowd_is_measured_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
