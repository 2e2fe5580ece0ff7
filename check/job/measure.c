/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast boxes and servers exchange bytes, with the engine that a job uses: first each
 * pair while nobody else has to do with the link of either, then all pairs at once. With
 * dedicated servers every box meets every server that is not on it; without any, each box
 * carries one, and boxes meet some others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "check/job/meter.h"
#include "engine/cards.h"

#define ROUND_NS    (40 * BPS_NS_PER_MS)
#define TOGETHER_NS (150 * BPS_NS_PER_MS)
#define SETTLE_NS   (60 * BPS_NS_PER_MS) /* until queues are filled */
#define MOST_TRIES  4u

struct measuring {
	struct bps_job *job;
	uint32_t box, n_rounds;
	struct bps_meter_job common;
	struct bps_engine *carrier; /* of the server in this box; NULL: there is none */
	struct bps_addr *addrs;     /* [n_boxes]: of those servers; owned */
	struct bps_meter *meters;   /* [n_rounds]: owned */
	int64_t *took_ns;           /* [n_rounds]: to count what is in .mine; owned */
	int64_t *mine, *all; /* [n_rates]: what this box saw, what all did; owned */
	size_t n_rates;      /* n_rounds of each box */
	char why[BPS_JOB_WHY_BYTES];
};

static void complain(struct measuring *m, const struct bps_reason *reason, int error)
{
	char host[BPS_JOB_HOST_BYTES];

	bps_doctor_name_host(host);
	if (!m->why[0])
		(void)snprintf(m->why, sizeof(m->why), "%s: %.180s", host,
		               reason->text[0] ? reason->text : strerrordesc_np(-error));
}

/* -- the servers in boxes -- */

/* Every box's address to every box; bytes 0: it carries no server. */
static void share_addresses(struct measuring *m, const struct bps_addr *mine)
{
	struct bps_job *job = m->job;
	const struct bps_mpi *mpi = job->mpi;
	const bps_handle byte = mpi->type[BPS_MPI_BYTE];
	struct bps_addr *all = calloc(job->size, sizeof(*all));

	if (!all)
		(void)mpi->Abort(mpi->comm_world, BPS_CHECK_CANNOT);
	(void)mpi->Allgather(mine, sizeof(*mine), byte, all, sizeof(*mine), byte,
	                     mpi->comm_world);
	for (uint32_t b = 0; b < job->n_boxes; b++)
		m->addrs[b] = all[job->first[b]];
	free(all);
}

static void carry_server(struct measuring *m, bool takes_part)
{
	const struct bps_reason none = { 0 };
	struct bps_addr mine = { 0 };
	int r = takes_part ? bps_meter_carry(&m->common, &m->carrier, &mine) : 0;

	if (r)
		complain(m, &none, r);
	share_addresses(m, &mine);
}

/* -- meters -- */

static uint32_t peer_number(const struct measuring *m, const struct bps_meter *meter)
{
	return m->box * m->n_rounds + (uint32_t)(meter - m->meters);
}

static int start_dedicated(struct measuring *m, struct bps_meter *meter,
                           const struct bps_host *host, const char *name)
{
	struct bps_addr addrs[8];
	int n = bps_addr_resolve(host->name, host->port, addrs, 8, meter->reason.text,
	                         sizeof(meter->reason.text));

	return n < 0 ? n
	             : bps_meter_start(&m->common, meter, peer_number(m, meter), name,
	                               addrs, n);
}

static int start_box(struct measuring *m, struct bps_meter *meter, uint32_t box)
{
	char name[BPS_ADDR_CHARS];

	if (m->addrs[box].bytes == 0)
		return -ENOTCONN;
	bps_addr_format(&m->addrs[box], name, sizeof(name));
	return bps_meter_start(&m->common, meter, peer_number(m, meter), name,
	                       &m->addrs[box], 1);
}

/* Servers that did not answer the doctor are left out: it has said why. */
static void start_meter(struct measuring *m, uint32_t round,
                        const struct bps_doctor_server *servers)
{
	const struct bps_job_charter *charter = &m->job->charter;
	struct bps_meter *meter = &m->meters[round];
	uint32_t other;
	int r;

	if (!bps_job_partner(m->job, m->box, round, &other))
		return;
	if (charter->n_hosts > 0 && servers[other].round_trip_ns == 0)
		return;
	r = charter->n_hosts > 0 ? start_dedicated(m, meter, &charter->hosts[other],
	                                           servers[other].name)
	                         : start_box(m, meter, other);
	if (r)
		complain(m, &meter->reason, r);
}

static size_t place_of(const struct measuring *m, uint32_t round)
{
	return (size_t)m->box * m->n_rounds + round;
}

/* What each box saw, to all of them. */
static void share_rates(struct measuring *m, int64_t *ret)
{
	const struct bps_mpi *mpi = m->job->mpi;

	(void)mpi->Allreduce(m->mine, ret, (int)m->n_rates, mpi->type[BPS_MPI_INT64_T],
	                     mpi->op[BPS_MAX], mpi->comm_world);
}

/* -- one at a time -- */

/* Of a round; @least: slower ones are measured again. */
static bool is_doubtful(const struct measuring *m, uint32_t round, double least)
{
	for (uint32_t b = 0; b < m->job->n_boxes; b++) {
		int64_t rate = m->job->rates.alone[b * m->n_rounds + round];

		if (rate > 0 && (double)rate < least)
			return true;
	}
	return false;
}

/* The last look counts, which is the longest; one that fails does not. */
static void measure_one(struct measuring *m, uint32_t round, uint64_t least_ns)
{
	struct bps_meter *meter = &m->meters[round];
	int64_t *rate = &m->mine[place_of(m, round)];

	meter->least_ns = least_ns;
	bps_meter_run(meter);
	if (meter->bytes_per_s > 0)
		*rate = (int64_t)meter->bytes_per_s;
	else
		complain(m, &meter->reason, meter->reason.error);
}

/* What seems to be slow is measured again, and for longer, before anybody is blamed. */
static void measure_alone(struct measuring *m)
{
	const struct bps_mpi *mpi = m->job->mpi;
	double least = 0;

	for (uint32_t try = 0; try < MOST_TRIES; try++) {
		for (uint32_t i = 0; i < m->n_rounds; i++) {
			if (try > 0 && !is_doubtful(m, i, least))
				continue;
			(void)mpi->Barrier(mpi->comm_world);
			if (m->meters[i].engine &&
			    (try == 0 || (double)m->mine[place_of(m, i)] < least))
				measure_one(m, i, ROUND_NS << try);
		}
		share_rates(m, m->job->rates.alone);
		least = bps_job_doubtful(m->job);
	}
}

/* -- all at once -- */

static void begin_all(struct measuring *m)
{
	for (uint32_t i = 0; i < m->n_rounds; i++) {
		struct bps_meter *meter = &m->meters[i];

		meter->least_ns = TOGETHER_NS;
		meter->enough = 0;
		if (meter->engine && bps_thread_start("bpsmpi-meter", bps_meter_keep,
		                                      meter, -1, &meter->thread))
			bps_meter_stop(meter);
	}
}

static void end_all(struct measuring *m)
{
	for (uint32_t i = 0; i < m->n_rounds; i++)
		bps_store_relaxed(&m->meters[i].enough, 1);
	for (uint32_t i = 0; i < m->n_rounds; i++) {
		struct bps_meter *meter = &m->meters[i];

		if (!meter->engine)
			continue;
		bps_thread_join(meter->thread);
		if (meter->bytes_per_s > 0)
			continue;
		complain(m, &meter->reason, meter->reason.error);
		m->mine[place_of(m, i)] = 0;
	}
}

/* Adds @sign times the bytes, and the nanoseconds, so far. */
static void count_all(struct measuring *m, int sign)
{
	for (uint32_t i = 0; i < m->n_rounds; i++) {
		if (!m->meters[i].engine)
			continue;
		m->mine[place_of(m, i)] += sign * (int64_t)bps_meter_bytes(&m->meters[i]);
		m->took_ns[i] += sign * (int64_t)bps_now_ns();
	}
}

/*
 * All boxes have begun before any counts, and go on until all have counted: what they
 * count was on its way at the same time, whoever was late.
 */
static void exchange_together(struct measuring *m)
{
	const struct bps_mpi *mpi = m->job->mpi;

	memset(m->mine, 0, m->n_rates * sizeof(*m->mine));
	memset(m->took_ns, 0, m->n_rounds * sizeof(*m->took_ns));
	begin_all(m);
	(void)usleep(SETTLE_NS / BPS_NS_PER_US);
	(void)mpi->Barrier(mpi->comm_world);
	count_all(m, -1);
	(void)usleep(TOGETHER_NS / BPS_NS_PER_US);
	count_all(m, 1);
	(void)mpi->Barrier(mpi->comm_world);
	for (uint32_t i = 0; i < m->n_rounds; i++)
		if (m->took_ns[i] > 0)
			m->mine[place_of(m, i)] =
				(int64_t)((double)m->mine[place_of(m, i)] /
			                  (double)m->took_ns[i] * BPS_NS_PER_S);
	end_all(m);
}

/* Rates of one time belong together, so those that add up to most are kept. */
static void measure_together(struct measuring *m)
{
	struct bps_job *job = m->job;

	for (uint32_t try = 0; try < MOST_TRIES; try++) {
		exchange_together(m);
		share_rates(m, m->all);
		if (bps_job_at_once(job, m->all) >
		    bps_job_at_once(job, job->rates.together))
			memcpy(job->rates.together, m->all, m->n_rates * sizeof(*m->all));
		if (!bps_job_is_crowded(job))
			break;
	}
}

/* The first reason that there is, to rank 0. */
static void share_reason(struct measuring *m)
{
	struct bps_job *job = m->job;
	const struct bps_mpi *mpi = job->mpi;
	const bps_handle byte = mpi->type[BPS_MPI_BYTE];
	char *all = calloc(job->size, sizeof(m->why));

	if (!all)
		(void)mpi->Abort(mpi->comm_world, BPS_CHECK_CANNOT);
	(void)mpi->Allgather(m->why, sizeof(m->why), byte, all, sizeof(m->why), byte,
	                     mpi->comm_world);
	for (uint32_t r = job->size; r-- > 0;) {
		const char *why = all + (size_t)r * sizeof(m->why);

		if (why[0])
			(void)snprintf(job->rates.why, sizeof(job->rates.why), "%.*s",
			               (int)sizeof(job->rates.why) - 1, why);
	}
	free(all);
}

static void stop(struct measuring *m)
{
	for (uint32_t i = 0; i < m->n_rounds; i++)
		bps_meter_stop(&m->meters[i]);
	(void)m->job->mpi->Barrier(m->job->mpi->comm_world);
	bps_engine_stop(m->carrier);
	free(m->meters);
	free(m->addrs);
	free(m->mine);
	free(m->all);
	free(m->took_ns);
}

/* Without any the kernel chooses; what is wrong with BPSMPI_INTERFACE says the doctor. */
static void choose_cards(struct measuring *m)
{
	char why[512];
	int n = bps_cards_choose(m->job->charter.interface, m->common.cards,
	                         BPS_NETIF_MAX, why, sizeof(why));

	m->common.n_cards = n > 0 ? n : 0;
	m->common.n_peers = m->job->n_boxes * m->n_rounds;
}

static void measure(struct measuring *m, const struct bps_doctor_server *servers)
{
	struct bps_job *job = m->job;
	const struct bps_mpi *mpi = job->mpi;
	const bool takes_part = job->first[m->box] == job->rank;

	choose_cards(m);
	(void)bps_random_bytes(m->common.id, sizeof(m->common.id));
	(void)mpi->Bcast(m->common.id, sizeof(m->common.id), mpi->type[BPS_MPI_BYTE], 0,
	                 mpi->comm_world);
	if (job->charter.n_hosts == 0)
		carry_server(m, takes_part);
	for (uint32_t i = 0; i < m->n_rounds && takes_part; i++)
		if (servers || job->charter.n_hosts == 0)
			start_meter(m, i, servers);
	measure_alone(m);
	measure_together(m);
	stop(m);
	share_reason(m);
}

static bool allocate(struct measuring *m)
{
	struct bps_job_rates *rates = &m->job->rates;

	m->addrs = calloc(m->job->n_boxes, sizeof(*m->addrs));
	m->meters = calloc(m->n_rounds, sizeof(*m->meters));
	m->took_ns = calloc(m->n_rounds, sizeof(*m->took_ns));
	m->mine = calloc(m->n_rates, sizeof(*m->mine));
	m->all = calloc(m->n_rates, sizeof(*m->all));
	rates->alone = calloc(m->n_rates, sizeof(*rates->alone));
	rates->together = calloc(m->n_rates, sizeof(*rates->together));
	return m->addrs && m->meters && m->took_ns && m->mine && m->all && rates->alone &&
	       rates->together;
}

/* Rank 0 knows what has a link together. */
static void schedule(struct bps_job *job)
{
	const struct bps_mpi *mpi = job->mpi;
	const uint32_t n_links = job->n_boxes + job->charter.n_hosts;
	int r = bps_job_find_shared(job);

	if (!r) {
		(void)mpi->Bcast(job->on, (int)(n_links * sizeof(*job->on)),
		                 mpi->type[BPS_MPI_BYTE], 0, mpi->comm_world);
		r = bps_job_schedule(job);
	}
	if (r)
		(void)mpi->Abort(mpi->comm_world, BPS_CHECK_CANNOT);
}

void bps_job_measure(struct bps_job *job, const struct bps_doctor_server *servers)
{
	struct measuring m = { .job = job, .box = job->box_of[job->rank] };

	if (job->n_boxes < 2)
		return;
	schedule(job);
	m.n_rounds = job->rates.n_rounds;
	m.n_rates = (size_t)job->n_boxes * m.n_rounds;
	if (!allocate(&m))
		(void)job->mpi->Abort(job->mpi->comm_world, BPS_CHECK_CANNOT);
	measure(&m, servers);
}
