/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks tell each other: rank 0's charter, and what the others say of themselves. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/job/impl.h"
#include "transport/reach.h"

#define MOST_TEXT  (1u << 20) /* settings of a rank, findings of a box */
#define MOST_BOXES 65536u

/* Equal programs understand each other; so their version stands before all else. */
static void carry_version(struct bps_parcel *p)
{
	char version[32] = BPS_VERSION;

	bps_parcel_text(p, version, sizeof(version));
	if (!p->error && strcmp(version, BPS_VERSION) != 0)
		p->error = -EPROTONOSUPPORT;
}

/* -- the charter -- */

void bps_job_charter_carry(struct bps_parcel *parcel, struct bps_job_charter *charter)
{
	carry_version(parcel);
	bps_parcel_bool(parcel, &charter->measure);
	bps_parcel_text(parcel, charter->interface, sizeof(charter->interface));
	bps_parcel_u32(parcel, &charter->connections, UINT16_MAX);
	bps_parcel_u32(parcel, &charter->port, UINT16_MAX);
	bps_parcel_array(parcel, (void **)&charter->hosts, &charter->n_hosts,
	                 BPS_HOSTLIST_MAX, sizeof(*charter->hosts));
	for (uint32_t i = 0; i < charter->n_hosts; i++) {
		struct bps_host *host = &charter->hosts[i];
		uint32_t port = host->port;

		bps_parcel_text(parcel, host->name, sizeof(host->name));
		bps_parcel_u32(parcel, &port, UINT16_MAX);
		host->port = (uint16_t)port;
	}
}

void bps_job_charter_deinit(struct bps_job_charter *charter)
{
	free(charter->hosts);
	*charter = (struct bps_job_charter){ 0 };
}

/* -- what a rank says -- */

static void carry_rank(struct bps_parcel *p, struct bps_job_rank *rank)
{
	bps_parcel_text(p, rank->host, sizeof(rank->host));
	bps_parcel_cpuset(p, &rank->cpus);
	bps_parcel_u32(p, &rank->preload, BPS_PRELOAD_N - 1);
	bps_parcel_text(p, rank->library, sizeof(rank->library));
	bps_parcel_text(p, rank->version, sizeof(rank->version));
	bps_parcel_text(p, rank->mpi, sizeof(rank->mpi));
	bps_parcel_string(p, &rank->settings, MOST_TEXT);
	bps_parcel_bool(p, &rank->cpus_wrong);
	bps_parcel_cpuset(p, &rank->own_cpus);
}

/* @number: its place in the list */
static void carry_server(struct bps_parcel *p, struct bps_doctor_server *server,
                         uint32_t number)
{
	uint32_t port = server->port, answer = server->answer;

	bps_parcel_text(p, server->name, sizeof(server->name));
	bps_parcel_u32(p, &port, UINT16_MAX);
	bps_parcel_u32(p, &answer, BPS_DOCTOR_N_ANSWERS - 1);
	bps_parcel_text(p, server->detail, sizeof(server->detail));
	bps_parcel_u64(p, &server->round_trip_ns);
	bps_parcel_u64(p, &server->id);
	bps_parcel_u64(p, &server->left_bytes);
	bps_parcel_u32(p, &server->back, number);
	bps_parcel_bool(p, &server->here);
	server->port = (uint16_t)port;
	server->answer = (enum bps_doctor_answer)answer;
}

static void carry_way(struct bps_parcel *p, struct bps_job_way *way)
{
	bps_parcel_u32(p, &way->server, BPS_HOSTLIST_MAX + MOST_BOXES - 1);
	bps_parcel_text(p, way->card, sizeof(way->card));
	bps_parcel_text(p, way->to, sizeof(way->to));
	bps_parcel_text(p, way->why, sizeof(way->why));
}

/* One for each card. */
static void carry_uses(struct bps_parcel *p, struct bps_job_box *box)
{
	const uint32_t n_nics = p->error ? 0 : box->machine->n_nics;

	bps_parcel_array(p, (void **)&box->uses, &box->n_uses, n_nics,
	                 sizeof(*box->uses));
	for (uint32_t i = 0; i < box->n_uses; i++)
		bps_parcel_u32(p, &box->uses[i], BPS_BOX_N_USES - 1);
	if (!p->error && box->n_uses != n_nics)
		p->error = -EBADMSG;
}

static void carry_box(struct bps_parcel *p, struct bps_job_box *box)
{
	bps_parcel_text(p, box->host, sizeof(box->host));
	bps_job_machine_carry(p, &box->machine);
	bps_parcel_u32(p, &box->n_nics, BPS_JOB_NICS);
	for (uint32_t i = 0; i < box->n_nics; i++)
		bps_parcel_text(p, box->nics[i], sizeof(box->nics[i]));
	bps_parcel_bool(p, &box->inside);
	bps_parcel_u32(p, &box->port_error, INT32_MAX);
	bps_parcel_array(p, (void **)&box->deaf, &box->n_deaf, MOST_BOXES,
	                 sizeof(*box->deaf));
	for (uint32_t i = 0; i < box->n_deaf; i++) {
		bps_parcel_u32(p, &box->deaf[i].box, MOST_BOXES - 1);
		bps_parcel_u32(p, &box->deaf[i].answer, BPS_DOCTOR_N_ANSWERS - 1);
	}
	carry_uses(p, box);
	bps_parcel_array(p, (void **)&box->servers, &box->n_servers, BPS_HOSTLIST_MAX,
	                 sizeof(*box->servers));
	for (uint32_t i = 0; i < box->n_servers; i++)
		carry_server(p, &box->servers[i], i);
	bps_parcel_array(p, (void **)&box->lost, &box->n_lost,
	                 (BPS_HOSTLIST_MAX + MOST_BOXES) * BPS_REACH_MAX_RAILS,
	                 sizeof(*box->lost));
	for (uint32_t i = 0; i < box->n_lost; i++)
		carry_way(p, &box->lost[i]);
	bps_parcel_string(p, &box->findings, MOST_TEXT);
}

void bps_job_said_carry(struct bps_parcel *parcel, struct bps_job_said *said)
{
	carry_version(parcel);
	bps_parcel_text(parcel, said->problem, sizeof(said->problem));
	carry_rank(parcel, &said->rank);
	bps_parcel_bool(parcel, &said->has_box);
	if (said->has_box)
		carry_box(parcel, &said->box);
}

void bps_job_said_deinit(struct bps_job_said *said)
{
	free(said->rank.settings);
	bps_machine_free(said->box.machine);
	free(said->box.servers);
	free(said->box.uses);
	free(said->box.lost);
	free(said->box.deaf);
	free(said->box.findings);
	free(said->box.ranks);
	*said = (struct bps_job_said){ 0 };
}
