/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tune.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/types.h"

/* -- the model: see docs/flow-control.md -- */

/* What a message costs of a core, and how much of the link's time a part should last. */
#define MESSAGE_S 5e-6
#define PART_S    100e-6
/* The queue that is assumed before a receiver. */
#define QUEUE_S    20e-3
#define LEAST_PART (4u << 10)
#define FAIR_PART  (16u << 10)

/* -- learning -- */

/* Calls between exchanges: few while there is much to learn. */
#define FIRST_CALLS 2u
#define EARLY_CALLS 16u
#define LATE_CALLS  8u
/* Servers that are busy for so much longer than the others get less, and the reverse. */
#define UNEVEN     1.3
#define LEAST_PACE (1.0 / 64)
/* Of the packets sent, in a million, lost: too many; few enough to try again. */
#define LOSSY_PPM   5000
#define CALM_PPM    500
#define CALM_ROUNDS 16u

struct seen {
	uint64_t busy_ns;
	struct bps_conn_counts packets;
};

struct bps_tune {
	struct bps_tune_config config;
	uint32_t n_links; /* servers as engine/shares.h counts them: dedicated, then boxes */
	double *pace;     /* [n_servers]: 1: as planned; less: it is slower */
	double *shares;   /* [n_links] */
	uint32_t *weights; /* [n_links], of an allreduce */
	uint32_t *bcast;   /* [n_links], of a broadcast from bcast_root */
	uint32_t bcast_root;
	struct bps_slice *slices;
	struct seen *seen; /* [n_servers], at the last exchange */
	/* of each server since then: bytes of the ops that it had a share of */
	double *asked;
	double *slow; /* [n_servers]: scratch of an exchange */
	uint64_t n_calls, next_exchange, turn;
	uint32_t part_bytes, model_bytes;
	uint32_t cost_bytes;
	uint32_t n_calm; /* exchanges without loss */
};

static double slowest_rate(const struct bps_shares_in *links)
{
	double rate = links->box_bytes_per_s[0];
	uint32_t i;

	for (i = 1; i < links->n_boxes; i++) {
		if (links->box_bytes_per_s[i] < rate)
			rate = links->box_bytes_per_s[i];
	}
	return rate;
}

/*
 * What is on its way to a server, two partitions of each box, must fit the queue before
 * it; a partition need not last longer than makes messages cheap.
 */
static void choose_partition(struct bps_tune *tune)
{
	const struct bps_tune_config *config = &tune->config;
	double rate = slowest_rate(&config->links);
	double fits = rate * QUEUE_S / (2 * config->links.n_boxes);
	double cheap = rate * PART_S;
	double part = cheap > FAIR_PART ? cheap : FAIR_PART;

	part = part < fits ? part : fits;
	part = part > LEAST_PART ? part : LEAST_PART;
	if (config->pinned || part > config->largest_bytes)
		part = config->largest_bytes;
	tune->model_bytes = tune->part_bytes =
		(uint32_t)part / BPS_CUT_UNIT * BPS_CUT_UNIT;
	tune->cost_bytes = rate * MESSAGE_S < 1e9 ? (uint32_t)(rate * MESSAGE_S)
	                                          : 1000000000u;
}

/* Shares by the links, and by how the servers kept up with theirs. */
static int weigh(struct bps_tune *tune, enum bps_coll coll, uint32_t root,
                 uint32_t *ret_weights)
{
	const struct bps_shares_in *links = &tune->config.links;
	double sum = 0, s_per_byte;
	uint32_t i;
	int r;

	r = coll == BPS_BCAST
	            ? bps_shares_bcast(links, root, tune->shares, &s_per_byte)
	            : bps_shares_allreduce(links, tune->shares, &s_per_byte);
	if (r < 0)
		return r;
	for (i = 0; i < tune->config.n_servers; i++) {
		tune->shares[i] *= tune->pace[i];
		sum += tune->shares[i];
	}
	for (i = 0; i < tune->config.n_servers; i++)
		tune->shares[i] /= sum;
	return bps_shares_weights(tune->shares, tune->config.n_servers, ret_weights);
}

int bps_tune_new(const struct bps_tune_config *config, struct bps_tune **ret_tune)
{
	struct bps_tune *tune = calloc(1, sizeof(*tune));
	uint32_t n = config->links.n_servers + config->links.n_boxes, i;
	int r = -ENOMEM;

	if (!tune)
		return -ENOMEM;
	tune->config = *config;
	tune->n_links = n;
	tune->pace = calloc(n, sizeof(*tune->pace));
	tune->shares = calloc(n, sizeof(*tune->shares));
	tune->weights = calloc(n, sizeof(*tune->weights));
	tune->bcast = calloc(n, sizeof(*tune->bcast));
	tune->slices = calloc(n, sizeof(*tune->slices));
	tune->seen = calloc(n, sizeof(*tune->seen));
	tune->asked = calloc(n, sizeof(*tune->asked));
	tune->slow = calloc(2 * (size_t)n, sizeof(*tune->slow));
	tune->bcast_root = UINT32_MAX;
	tune->next_exchange = FIRST_CALLS;
	if (tune->pace && tune->shares && tune->weights && tune->bcast && tune->slices &&
	    tune->seen && tune->asked && tune->slow) {
		for (i = 0; i < n; i++)
			tune->pace[i] = 1;
		choose_partition(tune);
		r = weigh(tune, BPS_ALLREDUCE, 0, tune->weights);
	}
	if (r < 0) {
		bps_tune_free(tune);
		return r;
	}
	*ret_tune = tune;
	return 0;
}

void bps_tune_free(struct bps_tune *tune)
{
	if (!tune)
		return;
	free(tune->pace);
	free(tune->shares);
	free(tune->weights);
	free(tune->bcast);
	free(tune->slices);
	free(tune->seen);
	free(tune->asked);
	free(tune->slow);
	free(tune);
}

int bps_tune_cut(struct bps_tune *tune, enum bps_coll coll, uint32_t root, uint64_t bytes,
                 struct bps_cut *ret_cut)
{
	const struct bps_plan plan = {
		.n_servers = tune->config.n_servers,
		.weights = coll == BPS_BCAST ? tune->bcast : tune->weights,
		.max_bytes = tune->part_bytes,
		.cost_bytes = tune->cost_bytes,
	};
	uint32_t i;
	int r;

	if (coll == BPS_BCAST && root != tune->bcast_root) {
		r = weigh(tune, BPS_BCAST, root, tune->bcast);
		if (r < 0)
			return r;
		tune->bcast_root = root;
	}
	r = bps_cut_make(&plan, bytes, tune->turn++, tune->slices, ret_cut);
	for (i = 0; r == 0 && i < ret_cut->n_slices; i++)
		tune->asked[ret_cut->slices[i].server] += (double)bytes;
	return r;
}

uint32_t bps_tune_partition(const struct bps_tune *tune)
{
	return tune->part_bytes;
}

/* -- exchanges -- */

bool bps_tune_due(struct bps_tune *tune)
{
	if (tune->n_calls++ < tune->next_exchange)
		return false;
	tune->next_exchange += tune->next_exchange < EARLY_CALLS ? FIRST_CALLS : LATE_CALLS;
	return true;
}

/* How long each server was busy, in ns; of all packets, those lost, in a million. */
uint32_t bps_tune_n_words(const struct bps_tune *tune)
{
	return tune->config.n_servers + 1;
}

void bps_tune_report(struct bps_tune *tune, const struct bps_load *loads,
                     int64_t *ret_words)
{
	uint32_t n = tune->config.n_servers, i;
	int64_t n_sent = 0, n_resent = 0;

	for (i = 0; i <= n; i++)
		ret_words[i] = 0;
	for (i = 0; loads && i < n; i++) {
		const struct bps_conn_counts *now = &loads[i].packets;
		struct seen *seen = &tune->seen[i];

		ret_words[i] = (int64_t)(loads[i].busy_ns - seen->busy_ns);
		n_sent += (uint32_t)(now->n_sent - seen->packets.n_sent);
		n_resent += (uint32_t)(now->n_resent - seen->packets.n_resent);
		*seen = (struct seen){ loads[i].busy_ns, *now };
	}
	if (n_sent > 0)
		ret_words[n] = n_resent * 1000000 / n_sent;
}

static int ascending(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return left < right ? -1 : left > right;
}

/*
 * How long each server was busy for a byte of the ops that it had a share of; 0: it had
 * none. Return: the middle one of the others.
 */
static double compare_servers(struct bps_tune *tune, const int64_t *words)
{
	uint32_t n = tune->config.n_servers, n_busy = 0, i;
	double *busy = tune->slow + n;

	for (i = 0; i < n; i++) {
		tune->slow[i] = 0;
		if (tune->asked[i] > 0)
			tune->slow[i] = (double)words[i] / tune->asked[i];
		if (tune->slow[i] > 0)
			busy[n_busy++] = tune->slow[i];
		tune->asked[i] = 0;
	}
	qsort(busy, n_busy, sizeof(*busy), ascending);
	return n_busy > 0 ? busy[n_busy / 2] : 0;
}

/*
 * A plan is right when all servers are busy for the same time. One that is busy for
 * longer holds the op up: it gets as much less; and more again, when it is done early.
 */
static bool adjust_paces(struct bps_tune *tune, const int64_t *words)
{
	double middle = compare_servers(tune, words);
	bool changed = false;
	uint32_t i;

	for (i = 0; i < tune->config.n_servers; i++) {
		double uneven = tune->slow[i] / middle, pace = tune->pace[i];

		if (tune->slow[i] == 0 || (uneven < UNEVEN && uneven > 1 / UNEVEN))
			continue;
		pace /= uneven;
		pace = pace < LEAST_PACE ? LEAST_PACE : pace;
		pace = pace > 1 ? 1 : pace;
		changed = changed || pace != tune->pace[i];
		tune->pace[i] = pace;
	}
	return changed;
}

/* Halve partitions while packets are lost; after a calm time go back up, step by step. */
static void adjust_partition(struct bps_tune *tune, int64_t lost_ppm)
{
	uint32_t part = tune->part_bytes;

	if (tune->config.pinned)
		return;
	if (lost_ppm > LOSSY_PPM) {
		tune->n_calm = 0;
		part /= 2;
	} else if (lost_ppm < CALM_PPM && ++tune->n_calm >= CALM_ROUNDS) {
		tune->n_calm = 0;
		part *= 2;
	}
	part = part < LEAST_PART ? LEAST_PART : part;
	tune->part_bytes = part < tune->model_bytes ? part : tune->model_bytes;
}

void bps_tune_agree(struct bps_tune *tune, const int64_t *words)
{
	adjust_partition(tune, words[tune->config.n_servers]);
	if (adjust_paces(tune, words) &&
	    weigh(tune, BPS_ALLREDUCE, 0, tune->weights) == 0)
		tune->bcast_root = UINT32_MAX;
}
