/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tune.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "engine/window.h"
#include "transport/wire.h"

/* -- the model: see docs/flow-control.md -- */

/* What a message costs of a core, and how much of the link's time a part should last. */
#define MESSAGE_S 5e-6
#define PART_S    200e-6
/* The queue before a link: what is taken for granted, and what is hoped for. */
#define SAFE_QUEUE_S  5e-3
#define GREAT_QUEUE_S 20e-3
/* What the windows of one member hold together, to fill the pipe. */
#define PIPE_S 1e-3
/* For each connection: one answer is on its way while the next push is. */
#define LEAST_WINDOW 2u
#define LEAST_PART   (2u << 10)
/* Of Ethernet without jumbo frames, with TCP's timestamps. */
#define PACKET_BYTES 1448u
#define FAIR_PART    (16u << 10)

/* -- learning -- */

/* An exchange begins calls 1, 2, 4 and 8, then each eighth. */
#define LATE_CALLS 8u
/* After a server's share has changed. */
#define SOON_CALLS 2u
/* Ops that take so many times as long as they did are held up by something. */
#define HELD_UP    1.3
#define REGAIN     1.5
#define LEAST_PACE (1.0 / 64)
#define N_CLASSES  40
/* A partition twice as large is kept where that saves so much; else it is left alone. */
#define BETTER     0.98
#define REST_CALLS 128u
/* Of the packets sent, in a million, lost: too many. */
#define LOSSY_PPM 5000

struct seen {
	uint64_t full_ns;
	struct bps_conn_counts packets;
};

struct bps_tune {
	struct bps_tune_config config;
	double *pace;      /* [n_servers]: 1: as planned; less: it is slower */
	double *shares;    /* one a link: dedicated servers, then boxes */
	uint32_t *weights; /* one a link, of an allreduce */
	uint32_t *bcast;   /* one a link, of a broadcast from bcast_root */
	uint32_t bcast_root;
	double s_per_byte; /* of the plan that was made last */
	struct bps_slice *slices;
	struct seen *seen; /* [n_servers], at the last exchange */
	int64_t *sorted;   /* [n_servers]: scratch of an exchange */
	/* ops since the last exchange, and the fastest ever by size: class c from 2^c on
	 */
	uint64_t n_ops, op_bytes, took_ns;
	double best_ns_per_byte[N_CLASSES];
	uint64_t n_calls, next_exchange, turn;
	double most;    /* the largest partition, in bytes, before rounding */
	uint32_t level; /* of part_at() */
	uint32_t cost_bytes;
	double pipe_bytes; /* in the window of one server, at least */
	/* whether level is on trial, against what half of its partition took */
	bool trying;
	double before_ns_per_byte;
	uint32_t before_class;
	uint64_t next_trial;  /* call */
	uint64_t next_regain; /* call */
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

static uint32_t least_window(const struct bps_tune *tune)
{
	uint32_t n = tune->config.n_connections;

	return LEAST_WINDOW * (n > 0 ? n : 1);
}

static uint32_t clamp_part(const struct bps_tune *tune, double part)
{
	uint32_t bytes = tune->config.largest_bytes;

	if (part < bytes)
		bytes = part > LEAST_PART ? (uint32_t)part : LEAST_PART;
	return bytes / BPS_CUT_UNIT * BPS_CUT_UNIT;
}

/*
 * The partition at @level, half as large each, so that it and its header fill their
 * packets.
 */
static uint32_t part_at(const struct bps_tune *tune, uint32_t level)
{
	double part = tune->most / (double)(1u << level);
	uint32_t packets;

	if (tune->config.pinned)
		return clamp_part(tune, UINT32_MAX);
	packets = (clamp_part(tune, part) + BPS_WIRE_PUSH_HDR + PACKET_BYTES / 2) /
	          PACKET_BYTES;
	return clamp_part(tune, (double)packets * PACKET_BYTES - BPS_WIRE_PUSH_HDR);
}

/* Shares by the links, and by how the servers kept up with theirs. */
static int weigh(struct bps_tune *tune, enum bps_coll coll, uint32_t root,
                 uint32_t *ret_weights)
{
	const struct bps_shares_in *links = &tune->config.links;
	double sum = 0;
	uint32_t i;
	int r;

	r = coll == BPS_BCAST
	            ? bps_shares_bcast(links, root, tune->shares, &tune->s_per_byte)
	            : bps_shares_allreduce(links, tune->shares, &tune->s_per_byte);
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

/*
 * The largest partition for a queue that lasts @queue_s before each link: two of each
 * connection are on their way to a server, and as many to a box; a server with a smaller
 * share has smaller ones.
 */
static double fitting_part(const struct bps_tune *tune, double queue_s)
{
	const struct bps_shares_in *links = &tune->config.links;
	double part = slowest_rate(links), share;
	uint32_t most = 1, i;

	for (i = 0; i < tune->config.n_servers; i++) {
		if (tune->weights[i] > most)
			most = tune->weights[i];
	}
	part *= most / (double)BPS_SHARE_ONE;
	for (i = 0; i < tune->config.n_servers; i++) {
		double rate = i < links->n_servers
		                      ? links->server_bytes_per_s[i]
		                      : links->box_bytes_per_s[i - links->n_servers];

		share = links->n_boxes * (tune->weights[i] / (double)most);
		if (share > 0 && rate / share < part)
			part = rate / share;
	}
	return part * queue_s / least_window(tune);
}

/*
 * Nobody knows how long queues are, so it begins with what is safe. A partition need not
 * last longer than makes messages cheap.
 */
static void choose_partition(struct bps_tune *tune)
{
	double rate = slowest_rate(&tune->config.links), enough = rate * PART_S;
	double hoped = fitting_part(tune, GREAT_QUEUE_S);
	double safe = fitting_part(tune, SAFE_QUEUE_S);

	enough = enough > FAIR_PART ? enough : FAIR_PART;
	tune->most = hoped < enough ? hoped : enough;
	while (!tune->config.pinned && part_at(tune, tune->level) > safe &&
	       part_at(tune, tune->level) > LEAST_PART)
		tune->level++;
	tune->cost_bytes =
		rate * MESSAGE_S < 1e9 ? (uint32_t)(rate * MESSAGE_S) : 1000000000u;
	tune->pipe_bytes = rate * PIPE_S / tune->config.n_servers;
}

int bps_tune_new(const struct bps_tune_config *config, struct bps_tune **ret_tune)
{
	struct bps_tune *tune = calloc(1, sizeof(*tune));
	uint32_t n = config->links.n_servers + config->links.n_boxes, i;
	int r = -ENOMEM;

	if (!tune)
		return -ENOMEM;
	tune->config = *config;
	tune->pace = calloc(n, sizeof(*tune->pace));
	tune->shares = calloc(n, sizeof(*tune->shares));
	tune->weights = calloc(n, sizeof(*tune->weights));
	tune->bcast = calloc(n, sizeof(*tune->bcast));
	tune->slices = calloc(n, sizeof(*tune->slices));
	tune->seen = calloc(n, sizeof(*tune->seen));
	tune->sorted = calloc(n, sizeof(*tune->sorted));
	tune->bcast_root = UINT32_MAX;
	tune->next_exchange = 1;
	if (tune->pace && tune->shares && tune->weights && tune->bcast && tune->slices &&
	    tune->seen && tune->sorted) {
		for (i = 0; i < n; i++)
			tune->pace[i] = 1;
		r = weigh(tune, BPS_ALLREDUCE, 0, tune->weights);
	}
	if (r == 0)
		choose_partition(tune);
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
	free(tune->sorted);
	free(tune);
}

/* The least, or what fills the pipe: of smaller partitions that takes more. */
static uint32_t choose_window(const struct bps_tune *tune, uint32_t part)
{
	double bytes = tune->pipe_bytes;
	uint32_t least = least_window(tune);
	uint32_t most =
		BPS_WINDOW_SLOTS * (tune->config.n_rails > 0 ? tune->config.n_rails : 1);

	if (tune->config.window > 0)
		return tune->config.window;
	if (bytes > part * (double)most)
		return least > most ? least : most;
	return bytes > part * (double)least ? (uint32_t)(bytes / part) : least;
}

int bps_tune_cut(struct bps_tune *tune, enum bps_coll coll, uint32_t root, uint64_t bytes,
                 struct bps_cut *ret_cut, uint32_t *ret_window)
{
	const struct bps_plan plan = {
		.n_servers = tune->config.n_servers,
		.weights = coll == BPS_BCAST ? tune->bcast : tune->weights,
		.max_bytes = part_at(tune, tune->level),
		.cost_bytes = tune->cost_bytes,
	};
	int r;

	if (coll == BPS_BCAST && root != tune->bcast_root) {
		r = weigh(tune, BPS_BCAST, root, tune->bcast);
		if (r < 0)
			return r;
		tune->bcast_root = root;
	}
	*ret_window = choose_window(tune, bps_plan_partition(&plan, bytes));
	return bps_cut_make(&plan, bytes, tune->turn++, tune->slices, ret_cut);
}

uint32_t bps_tune_partition(const struct bps_tune *tune)
{
	return part_at(tune, tune->level);
}

uint32_t bps_tune_most(const struct bps_tune *tune)
{
	return part_at(tune, 0);
}

double bps_tune_s_per_byte(const struct bps_tune *tune)
{
	return tune->s_per_byte;
}

/* -- exchanges -- */

bool bps_tune_due(struct bps_tune *tune)
{
	if (tune->n_calls++ < tune->next_exchange)
		return false;
	tune->next_exchange +=
		tune->next_exchange < LATE_CALLS ? tune->next_exchange : LATE_CALLS;
	return true;
}

/*
 * How long each server's window was full, in ns; of the packets sent, those lost, in a
 * million; how long the ops took, with its sign turned: the rank that came last knows it
 * best.
 */
uint32_t bps_tune_n_words(uint32_t n_servers)
{
	return n_servers + 2;
}

void bps_tune_took(struct bps_tune *tune, uint64_t bytes, uint64_t ns)
{
	tune->n_ops++;
	tune->op_bytes += bytes;
	tune->took_ns += ns;
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

		ret_words[i] = (int64_t)(loads[i].full_ns - seen->full_ns);
		n_sent += (uint32_t)(now->n_sent - seen->packets.n_sent);
		n_resent += (uint32_t)(now->n_resent - seen->packets.n_resent);
		*seen = (struct seen){ loads[i].full_ns, *now };
	}
	if (n_sent > 0)
		ret_words[n] = n_resent * 1000000 / n_sent;
	ret_words[n + 1] = -(int64_t)tune->took_ns;
	tune->took_ns = 0;
}

static int ascending(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return left < right ? -1 : left > right;
}

/* What the ops since the last exchange took for a byte. 0: nothing is known. */
static double measure(const struct bps_tune *tune, int64_t took_ns, uint32_t *ret_class)
{
	*ret_class = 0;
	if (tune->n_ops == 0 || took_ns <= 0)
		return 0;
	while (*ret_class + 1 < N_CLASSES &&
	       tune->op_bytes / tune->n_ops >> *ret_class > 1)
		++*ret_class;
	return (double)took_ns / (double)tune->op_bytes;
}

/* How many times as long as the fastest ops of about this size those of late took. */
static double slowdown(struct bps_tune *tune, double ns_per_byte, uint32_t class)
{
	double *best = &tune->best_ns_per_byte[class];

	if (ns_per_byte == 0)
		return 1;
	if (*best == 0 || ns_per_byte < *best)
		*best = ns_per_byte;
	return ns_per_byte / *best;
}

/*
 * A server that is slower than planned holds all up: its window is always full, those of
 * the others hardly ever, and ops take longer than they did. It gets as much less. One
 * whose window is seldom full gets back, bit by bit, what was taken from it, unless that
 * has just been too much.
 */
static bool adjust_paces(struct bps_tune *tune, const int64_t *full_ns, double slowdown)
{
	uint32_t n = 0, i;
	int64_t middle, most;
	bool changed = false;

	for (i = 0; i < tune->config.n_servers; i++) {
		if (tune->weights[i] > 0)
			tune->sorted[n++] = full_ns[i];
	}
	qsort(tune->sorted, n, sizeof(*tune->sorted), ascending);
	middle = tune->sorted[(n - 1) / 2];
	most = tune->sorted[n - 1];
	for (i = 0; i < tune->config.n_servers; i++) {
		double pace = tune->pace[i];

		if (tune->weights[i] == 0)
			continue;
		if (slowdown > HELD_UP && middle < most / 2 &&
		    full_ns[i] > most / 4 * 3) {
			pace /= slowdown;
			tune->next_regain = tune->n_calls + REST_CALLS / 2;
		} else if (full_ns[i] < most / 2 && tune->n_calls >= tune->next_regain) {
			pace *= REGAIN;
		}
		pace = pace < LEAST_PACE ? LEAST_PACE : pace;
		pace = pace > 1 ? 1 : pace;
		changed = changed || pace != tune->pace[i];
		tune->pace[i] = pace;
	}
	return changed;
}

/* To partitions half as large, for some time. */
static void go_back(struct bps_tune *tune)
{
	if (part_at(tune, tune->level) > LEAST_PART)
		tune->level++;
	tune->trying = false;
	tune->next_trial = tune->n_calls + REST_CALLS;
}

/*
 * Larger, step by step, as long as ops get faster: loss alone does not tell, for a queue
 * of our own box refuses packets without counting one as lost. At once smaller where many
 * are lost.
 */
static void adjust_partition(struct bps_tune *tune, int64_t lost_ppm, double ns_per_byte,
                             uint32_t class)
{
	if (tune->config.pinned)
		return;
	if (lost_ppm > LOSSY_PPM || (tune->trying && class == tune->before_class &&
	                             ns_per_byte > BETTER * tune->before_ns_per_byte)) {
		go_back(tune);
		return;
	}
	tune->trying = false;
	if (tune->level == 0 || ns_per_byte == 0 || tune->n_calls < tune->next_trial)
		return;
	tune->trying = true;
	tune->before_ns_per_byte = ns_per_byte;
	tune->before_class = class;
	tune->level--;
}

bool bps_tune_agree(struct bps_tune *tune, const int64_t *words)
{
	uint32_t n = tune->config.n_servers, class;
	double ns_per_byte = measure(tune, -words[n + 1], &class);
	double slower = slowdown(tune, ns_per_byte, class);

	tune->n_ops = tune->op_bytes = 0;
	adjust_partition(tune, words[n], ns_per_byte, class);
	if (!adjust_paces(tune, words, slower) ||
	    weigh(tune, BPS_ALLREDUCE, 0, tune->weights) < 0)
		return false;
	tune->bcast_root = UINT32_MAX;
	tune->next_exchange =
		tune->n_calls + SOON_CALLS; /* see whether that was enough */
	return true;
}
