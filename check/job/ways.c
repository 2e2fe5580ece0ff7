/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways from the network cards of this box to those of the servers, beside the first
 * one to each: a job would take them all, so each is tried here as a job does it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "check/job/impl.h"
#include "engine/cards.h"
#include "engine/engine.h"

#define PATIENCE_NS (2 * BPS_NS_PER_S) /* as a job has */
#define TIMEOUT_NS  (10 * BPS_NS_PER_S)
#define SLOT_BYTES  4096u /* nothing is pushed */

/* The servers that answered this box. */
struct asked {
	struct bps_engine *engine;
	struct bps_engine_server *servers; /* [n] */
	struct bps_addr (*addrs)[8];       /* [n] */
	uint32_t *numbers;                 /* [n]: in the charter */
	uint32_t n;
	struct bps_engine_trial *trials; /* [n_trials] */
	uint32_t n_trials;
};

static bool is_there(const struct bps_doctor_server *server)
{
	return server->answer == BPS_DOCTOR_FINE && server->id != 0;
}

static int find_servers(const struct bps_job_charter *charter,
                        const struct bps_job_box *box, struct asked *asked)
{
	char why[256];

	asked->servers = calloc(charter->n_hosts, sizeof(*asked->servers));
	asked->addrs = calloc(charter->n_hosts, sizeof(*asked->addrs));
	asked->numbers = calloc(charter->n_hosts, sizeof(*asked->numbers));
	asked->trials = calloc((size_t)charter->n_hosts * BPS_REACH_MAX_RAILS,
	                       sizeof(*asked->trials));
	if (!asked->servers || !asked->addrs || !asked->numbers || !asked->trials)
		return -ENOMEM;
	for (uint32_t i = 0; i < charter->n_hosts; i++) {
		struct bps_addr *addrs = asked->addrs[asked->n];
		int n = is_there(&box->servers[i])
		                ? bps_addr_resolve(charter->hosts[i].name,
		                                   charter->hosts[i].port, addrs, 8, why,
		                                   sizeof(why))
		                : 0;

		if (n < 1)
			continue;
		asked->numbers[asked->n] = i;
		asked->servers[asked->n++] = (struct bps_engine_server){
			.name = box->servers[i].name,
			.addrs = addrs,
			.n_addrs = n,
			.n_connections = 1,
		};
	}
	return asked->n > 0 ? 0 : -ENOENT;
}

static int connect_all(struct asked *asked)
{
	struct bps_engine_config config = {
		.client = {
			.n_peers = 1,
			.host = "bpsmpi-check",
			.slot_bytes = SLOT_BYTES,
			.n_slots = 1,
			.timeout_ns = TIMEOUT_NS,
		},
	};
	struct bps_reason reason;
	int r = bps_random_bytes(config.client.job, sizeof(config.client.job));

	if (r == 0)
		r = bps_engine_start(&config, &asked->engine);
	if (r == 0)
		r = bps_engine_connect(asked->engine, asked->servers, asked->n, &reason);
	return r;
}

static void try_all(const struct bps_job_charter *charter, struct asked *asked)
{
	struct bps_netif cards[BPS_NETIF_MAX];
	struct bps_engine_ways ways;
	char why[512];
	int n = bps_cards_choose(charter->interface, cards, BPS_NETIF_MAX, why,
	                         sizeof(why));

	for (uint32_t s = 0; s < asked->n && n > 0; s++) {
		bps_engine_ways(asked->engine, s, cards, n, &ways);
		for (uint32_t i = 0; i < ways.n_others; i++)
			asked->trials[asked->n_trials++] = (struct bps_engine_trial){
				.server = s,
				.name = asked->servers[s].name,
				.rail = ways.others[i],
			};
	}
	if (asked->n_trials > 0)
		bps_engine_try(asked->engine, asked->trials, asked->n_trials,
		               PATIENCE_NS);
}

static int list_lost(const struct asked *asked, struct bps_job_box *box)
{
	box->lost = calloc((size_t)asked->n_trials + 1, sizeof(*box->lost));
	if (!box->lost)
		return -ENOMEM;
	for (uint32_t i = 0; i < asked->n_trials; i++) {
		const struct bps_engine_trial *trial = &asked->trials[i];
		struct bps_job_way *way = &box->lost[box->n_lost];

		if (trial->reason.error == 0)
			continue;
		box->n_lost++;
		way->server = asked->numbers[trial->server];
		(void)snprintf(way->card, sizeof(way->card), "%s", trial->rail.card);
		(void)bps_addr_format(&trial->rail.to, way->to, sizeof(way->to));
		(void)snprintf(way->why, sizeof(way->why), "%.*s",
		               (int)sizeof(way->why) - 1, bps_engine_trial_why(trial));
	}
	return 0;
}

int bps_job_try_ways(const struct bps_job_charter *charter, struct bps_job_box *box)
{
	struct asked asked = { .n = 0 };
	int fd = bps_log_set_fd(-1); /* what there is to say, the report says */
	int r = charter->n_hosts > 0 ? find_servers(charter, box, &asked) : -ENOENT;

	if (r == 0)
		r = connect_all(&asked);
	if (r == 0)
		try_all(charter, &asked);
	bps_engine_stop(asked.engine);
	(void)bps_log_set_fd(fd);
	if (r == 0)
		r = list_lost(&asked, box);
	free(asked.servers);
	free(asked.addrs);
	free(asked.numbers);
	free(asked.trials);
	return r == -ENOMEM ? r : 0; /* other faults are for other checks */
}
