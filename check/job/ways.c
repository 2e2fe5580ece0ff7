/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways between the boxes of a job and its servers, tried as a job does it: boxes
 * carry servers where too few were named, every box greets all servers, and then has one
 * more connection on each pair of network cards that there should be.
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

#define PATIENCE_NS  (2 * BPS_NS_PER_S) /* as a job has */
#define TIMEOUT_NS   (10 * BPS_NS_PER_S)
#define SLOT_BYTES   4096u /* nothing is pushed */
#define MEMORY_BYTES (UINT64_C(1) << 30)
#define MOST_ADDRS   4 /* of a box, that others try in turn */

/* Where the server in a box listens; 0: it carries none. */
struct listening {
	uint32_t n;
	struct bps_addr addrs[MOST_ADDRS];
};

/* What the first rank of a box has to do with this. */
struct trying {
	struct bps_job *job;
	struct bps_job_box *box; /* NULL: it is not the first, or could not look */
	struct bps_netif cards[BPS_NETIF_MAX];
	int n_cards;
	struct bps_engine *engine;
	struct listening *boxes; /* [n_boxes] */
	/* [n]: servers that answered; their numbers are of dedicated ones first */
	struct bps_engine_server *servers;
	uint32_t *numbers;
	struct bps_addr (*addrs)[8];
	uint32_t n;
	struct bps_engine_trial *trials; /* [n_trials] */
	uint32_t n_trials;
	char carriers[BPS_JOB_NICS][IF_NAMESIZE]; /* cards that a job would use */
	uint32_t n_carriers;
};

static int start(struct trying *t)
{
	struct bps_engine_config config = {
		.client = {
			.n_peers = 1,
			.host = "bpsmpi-check",
			.slot_bytes = SLOT_BYTES,
			.n_slots = 1,
			.timeout_ns = TIMEOUT_NS,
		},
		.server_memory_bytes = MEMORY_BYTES,
	};
	const size_t n = (size_t)t->job->charter.n_hosts + t->job->n_boxes;
	char why[512];
	int r = bps_random_bytes(config.client.job, sizeof(config.client.job));

	t->n_cards = bps_cards_choose(t->job->charter.interface, t->cards, BPS_NETIF_MAX,
	                              why, sizeof(why));
	t->servers = calloc(n, sizeof(*t->servers));
	t->numbers = calloc(n, sizeof(*t->numbers));
	t->addrs = calloc(n, sizeof(*t->addrs));
	t->trials = calloc(n * BPS_REACH_MAX_RAILS, sizeof(*t->trials));
	t->box->deaf = calloc(t->job->n_boxes, sizeof(*t->box->deaf));
	if (!t->servers || !t->numbers || !t->addrs || !t->trials || !t->box->deaf)
		return -ENOMEM;
	return r ? r : bps_engine_start(&config, &t->engine);
}

/* -- the server in this box -- */

/* On all cards, of one kind of addresses, as in a job. */
static void serve(struct trying *t, struct listening *ret)
{
	struct bps_addr addrs[BPS_ENGINE_MAX_ADDRS], first;
	int n = 0, r;

	for (int i = 0; i < t->n_cards && n < BPS_ENGINE_MAX_ADDRS; i++) {
		addrs[n] = t->cards[i].addr;
		if (addrs[n].sa.sa_family == t->cards[0].addr.sa.sa_family)
			bps_addr_set_port(&addrs[n++], (uint16_t)t->job->charter.port);
	}
	if (n == 0)
		return;
	r = bps_engine_serve(t->engine, addrs, n, &first);
	if (r == 0)
		ret->n = bps_engine_listening(t->engine, ret->addrs, MOST_ADDRS);
	else if (t->job->charter.port > 0)
		t->box->port_error = (uint32_t)-r;
}

/* Every box's addresses to every box. */
static void share_addresses(struct trying *t, const struct listening *mine)
{
	struct bps_job *job = t->job;
	const struct bps_mpi *mpi = job->mpi;
	const bps_handle byte = mpi->type[BPS_MPI_BYTE];
	struct listening *all = calloc(job->size, sizeof(*all));

	t->boxes = calloc(job->n_boxes, sizeof(*t->boxes));
	if (!all || !t->boxes)
		(void)mpi->Abort(mpi->comm_world, BPS_CHECK_CANNOT);
	(void)mpi->Allgather(mine, sizeof(*mine), byte, all, sizeof(*mine), byte,
	                     mpi->comm_world);
	for (uint32_t b = 0; b < job->n_boxes; b++)
		t->boxes[b] = all[job->first[b]];
	free(all);
}

/* -- who answers -- */

/* Those in a network of this box come first. */
static void put_near_first(const struct trying *t, struct listening *at)
{
	struct listening sorted = { .n = 0 };

	for (int far = 0; far < 2; far++)
		for (uint32_t i = 0; i < at->n; i++) {
			bool near = false;

			for (int c = 0; c < t->n_cards && !near; c++)
				near = bps_netif_near(&t->cards[c], &at->addrs[i]);
			if (near == !far)
				sorted.addrs[sorted.n++] = at->addrs[i];
		}
	*at = sorted;
}

/* @name is borrowed. */
static void add_server(struct trying *t, uint32_t number, const char *name,
                       const struct bps_addr *addrs, uint32_t n_addrs)
{
	memcpy(t->addrs[t->n], addrs, n_addrs * sizeof(*addrs));
	t->numbers[t->n] = number;
	t->servers[t->n] = (struct bps_engine_server){
		.name = name,
		.addrs = t->addrs[t->n],
		.n_addrs = (int)n_addrs,
		.n_connections = 1,
	};
	t->n++;
}

/* The servers in other boxes; who is not there for this one is noted. */
static int ask_boxes(struct trying *t, uint32_t mine)
{
	const uint32_t n = t->job->n_boxes;
	struct bps_doctor_server *answers = calloc(n, sizeof(*answers));
	struct bps_job_box *box = t->box;
	int r;

	if (!answers)
		return -ENOMEM;
	t->boxes[mine].n = 0;
	for (uint32_t b = 0; b < n; b++) {
		put_near_first(t, &t->boxes[b]);
		answers[b].at = t->boxes[b].addrs;
		answers[b].n_at = t->boxes[b].n;
	}
	r = bps_doctor_probe(answers, NULL, n);
	for (uint32_t b = 0; b < n && r == 0; b++) {
		if (t->boxes[b].n == 0)
			continue;
		if (bps_job_takes_jobs(&answers[b])) {
			add_server(t, t->job->charter.n_hosts + b, "of another box",
			           t->boxes[b].addrs, t->boxes[b].n);
			continue;
		}
		box->deaf[box->n_deaf].box = b;
		box->deaf[box->n_deaf++].answer = answers[b].answer;
	}
	free(answers);
	return r;
}

static void add_dedicated(struct trying *t)
{
	const struct bps_job_charter *charter = &t->job->charter;
	struct bps_addr addrs[8];
	char why[256];

	for (uint32_t i = 0; i < charter->n_hosts; i++) {
		const struct bps_doctor_server *answer = &t->box->servers[i];
		int n = bps_job_takes_jobs(answer)
		                ? bps_addr_resolve(charter->hosts[i].name,
		                                   charter->hosts[i].port, addrs, 8, why,
		                                   sizeof(why))
		                : 0;

		if (n > 0)
			add_server(t, i, answer->name, addrs, (uint32_t)n);
	}
}

/* -- the ways -- */

static bool carries(const struct trying *t, const char *card)
{
	for (uint32_t i = 0; i < t->n_carriers; i++)
		if (strcmp(t->carriers[i], card) == 0)
			return true;
	return false;
}

static void use_card(struct trying *t, const char *card)
{
	if (!carries(t, card) && t->n_carriers < BPS_JOB_NICS)
		(void)snprintf(t->carriers[t->n_carriers++], IF_NAMESIZE, "%s", card);
}

/* What was found out, instead of what could be seen from here. */
static void settle_cards(const struct trying *t)
{
	struct bps_job_box *box = t->box;

	if (t->n_carriers == 0)
		return;
	memcpy(box->nics, t->carriers, sizeof(box->nics));
	box->n_nics = t->n_carriers;
	for (uint32_t i = 0; i < box->n_uses; i++) {
		if (carries(t, box->machine->nics[i].name))
			box->uses[i] = BPS_BOX_USED;
		else if (box->uses[i] == BPS_BOX_USED)
			box->uses[i] = BPS_BOX_APART;
	}
}

/* The other ways to each server are tried, all at once. */
static void try_all(struct trying *t)
{
	struct bps_engine_ways *ways = calloc(t->n, sizeof(*ways));
	bool *more = calloc(t->n, sizeof(*more));

	for (uint32_t s = 0; ways && more && s < t->n; s++) {
		bps_engine_ways(t->engine, s, t->cards, t->n_cards, &ways[s]);
		for (uint32_t i = 0; i < ways[s].n_others; i++)
			t->trials[t->n_trials++] = (struct bps_engine_trial){
				.server = s,
				.name = t->servers[s].name,
				.rail = ways[s].others[i],
			};
	}
	if (t->n_trials > 0)
		bps_engine_try(t->engine, t->trials, t->n_trials, PATIENCE_NS);
	for (uint32_t i = 0; i < t->n_trials; i++)
		if (t->trials[i].reason.error == 0) {
			more[t->trials[i].server] = true;
			use_card(t, t->trials[i].rail.card);
		}
	for (uint32_t s = 0; ways && more && s < t->n; s++)
		if ((ways[s].keeps_first || !more[s]) && ways[s].first.card[0])
			use_card(t, ways[s].first.card);
	settle_cards(t);
	free(ways);
	free(more);
}

static int list_lost(const struct trying *t)
{
	struct bps_job_box *box = t->box;

	box->lost = calloc((size_t)t->n_trials + 1, sizeof(*box->lost));
	if (!box->lost)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n_trials; i++) {
		const struct bps_engine_trial *trial = &t->trials[i];
		struct bps_job_way *way = &box->lost[box->n_lost];

		if (trial->reason.error == 0)
			continue;
		box->n_lost++;
		way->server = t->numbers[trial->server];
		(void)snprintf(way->card, sizeof(way->card), "%s", trial->rail.card);
		(void)bps_addr_format(&trial->rail.to, way->to, sizeof(way->to));
		(void)snprintf(way->why, sizeof(way->why), "%.*s",
		               (int)sizeof(way->why) - 1, bps_engine_trial_why(trial));
	}
	return 0;
}

static int go(struct trying *t, uint32_t mine)
{
	struct bps_reason reason;
	int r = bps_job_carries(t->job) ? ask_boxes(t, mine) : 0;

	if (r == 0)
		add_dedicated(t);
	if (r || t->n == 0)
		return r;
	/* That one refuses now is for other checks. */
	if (bps_engine_connect(t->engine, t->servers, t->n, &reason) == 0)
		try_all(t);
	return list_lost(t);
}

void bps_job_try_ways(struct bps_job *job, struct bps_job_box *box)
{
	struct trying t = { .job = job, .box = box };
	struct listening mine = { .n = 0 };
	int fd, r;

	if (job->n_boxes < 2)
		return;
	fd = bps_log_set_fd(-1); /* what there is to say, the report says */
	r = box ? start(&t) : 0;
	if (box && r == 0 && bps_job_carries(job))
		serve(&t, &mine);
	share_addresses(&t, &mine);
	if (box && r == 0)
		r = go(&t, job->box_of[job->rank]);
	if (r == -ENOMEM)
		(void)job->mpi->Abort(job->mpi->comm_world, BPS_CHECK_CANNOT);
	(void)job->mpi->Barrier(job->mpi->comm_world);
	bps_engine_stop(t.engine);
	(void)bps_log_set_fd(fd);
	free(t.boxes);
	free(t.servers);
	free(t.numbers);
	free(t.addrs);
	free(t.trials);
}
