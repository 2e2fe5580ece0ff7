/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast boxes and servers exchange bytes, with the engine that a job uses: first each
 * pair while nobody else has to do with either of the two, then all pairs at once. With
 * dedicated servers every box meets every server; without any, each box carries one, and
 * boxes meet some others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "engine/cards.h"
#include "tools/check-job-meter.h"

#define ROUND_NS    (40 * BPS_NS_PER_MS)
#define TOGETHER_NS (150 * BPS_NS_PER_MS)
#define PAIR_ROUNDS 3u /* where boxes meet boxes */

struct measuring {
	struct bps_job *job;
	uint32_t box, n_rounds;
	struct bps_meter_job common;
	struct bps_engine *carrier; /* of the server in this box; NULL: there is none */
	struct bps_addr *addrs;     /* [n_boxes]: of those servers; owned */
	struct bps_meter *meters;   /* [n_rounds]: owned */
	char why[BPS_JOB_WHY_BYTES];
};

static uint32_t count_rounds(uint32_t n_boxes, uint32_t n_servers)
{
	const uint32_t n_pairings = (n_boxes - 1) | 1u;

	if (n_servers > 0)
		return n_boxes > n_servers ? n_boxes : n_servers;
	return n_pairings < PAIR_ROUNDS ? n_pairings : PAIR_ROUNDS;
}

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

	if (!bps_job_partner(m->job->n_boxes, charter->n_hosts, m->box, round, &other))
		return;
	if (charter->n_hosts > 0 && servers[other].round_trip_ns == 0)
		return;
	r = charter->n_hosts > 0 ? start_dedicated(m, meter, &charter->hosts[other],
	                                           servers[other].name)
	                         : start_box(m, meter, other);
	if (r)
		complain(m, &meter->reason, r);
}

static void take_rate(struct measuring *m, uint32_t round, int64_t *rates)
{
	const struct bps_meter *meter = &m->meters[round];

	rates[(size_t)m->box * m->n_rounds + round] = (int64_t)meter->bytes_per_s;
	if (meter->bytes_per_s == 0)
		complain(m, &meter->reason, meter->reason.error);
}

/* -- the two ways -- */

static void measure_alone(struct measuring *m, int64_t *rates)
{
	const struct bps_mpi *mpi = m->job->mpi;

	for (uint32_t i = 0; i < m->n_rounds; i++) {
		(void)mpi->Barrier(mpi->comm_world);
		if (!m->meters[i].engine)
			continue;
		m->meters[i].least_ns = ROUND_NS;
		bps_meter_run(&m->meters[i]);
		take_rate(m, i, rates);
	}
}

static void measure_together(struct measuring *m, int64_t *rates)
{
	const struct bps_mpi *mpi = m->job->mpi;

	(void)mpi->Barrier(mpi->comm_world);
	for (uint32_t i = 0; i < m->n_rounds; i++) {
		struct bps_meter *meter = &m->meters[i];

		meter->least_ns = TOGETHER_NS;
		if (meter->engine && bps_thread_start("bpsmpi-meter", bps_meter_run,
		                                      meter, -1, &meter->thread)) {
			bps_meter_stop(meter);
		}
	}
	for (uint32_t i = 0; i < m->n_rounds; i++) {
		if (!m->meters[i].engine)
			continue;
		bps_thread_join(m->meters[i].thread);
		take_rate(m, i, rates);
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

static void share_rates(struct measuring *m, const int64_t *mine, int64_t **ret)
{
	const struct bps_mpi *mpi = m->job->mpi;
	const size_t n = (size_t)m->job->n_boxes * m->n_rounds;

	*ret = calloc(n, sizeof(**ret));
	if (!*ret)
		(void)mpi->Abort(mpi->comm_world, BPS_CHECK_CANNOT);
	(void)mpi->Allreduce(mine, *ret, (int)n, mpi->type[BPS_MPI_INT64_T],
	                     mpi->op[BPS_MAX], mpi->comm_world);
}

static void stop(struct measuring *m)
{
	for (uint32_t i = 0; i < m->n_rounds; i++)
		bps_meter_stop(&m->meters[i]);
	(void)m->job->mpi->Barrier(m->job->mpi->comm_world);
	bps_engine_stop(m->carrier);
	free(m->meters);
	free(m->addrs);
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

static void measure(struct measuring *m, const struct bps_doctor_server *servers,
                    int64_t *alone, int64_t *together)
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
	measure_alone(m, alone);
	measure_together(m, together);
	stop(m);
	share_reason(m);
}

void bps_job_measure(struct bps_job *job, const struct bps_doctor_server *servers)
{
	struct measuring m = { .job = job, .box = job->box_of[job->rank] };
	const size_t n_boxes = job->n_boxes;
	int64_t *alone, *together;

	if (n_boxes < 2)
		return;
	m.n_rounds = count_rounds(job->n_boxes, job->charter.n_hosts);
	m.addrs = calloc(n_boxes, sizeof(*m.addrs));
	m.meters = calloc(m.n_rounds, sizeof(*m.meters));
	alone = calloc(n_boxes * m.n_rounds, sizeof(*alone));
	together = calloc(n_boxes * m.n_rounds, sizeof(*together));
	if (!m.addrs || !m.meters || !alone || !together)
		(void)job->mpi->Abort(job->mpi->comm_world, BPS_CHECK_CANNOT);
	measure(&m, servers, alone, together);
	job->rates.n_rounds = m.n_rounds;
	share_rates(&m, alone, &job->rates.alone);
	share_rates(&m, together, &job->rates.together);
	free(alone);
	free(together);
}
