/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who exchanges bytes with whom when the network is measured, and what that says of
 * links. All boxes reckon this from the same rates, to agree on what is measured again.
 */
#include <errno.h>
#include <stdlib.h>

#include "check/job/impl.h"

#define PAIR_ROUNDS 3u /* where boxes meet boxes */

/* As the library sees measurements: what differs by less is taken for alike, and what is
 * faster than cores are at other times is only as sure as these. */
#define ALIKE            0.7
#define CORE_BYTES_PER_S 300e6
#define ALIKE_TO_CORES   0.3

#define NETWORK_PART 0.6 /* of what links carry together; less is the network's fault */

/* -- who meets whom -- */

/* As the teams of a tournament: with an odd number one rests, and the last is the centre
 * of the circle. */
static uint32_t opponent(uint32_t n, uint32_t box, uint32_t round)
{
	const uint32_t circle = (n - 1) | 1u, turn = round % circle;
	uint32_t other = box == circle ? turn : (2 * turn + circle - box) % circle;

	return other == box ? circle : other;
}

/* Boxes that carry servers, each with some others. */
static uint32_t count_pairings(uint32_t n_boxes)
{
	const uint32_t n_pairings = (n_boxes - 1) | 1u;

	return n_pairings < PAIR_ROUNDS ? n_pairings : PAIR_ROUNDS;
}

static int pair_boxes(struct bps_job *job)
{
	const uint32_t n = job->n_boxes;

	job->rates.n_rounds = count_pairings(n);
	job->rates.peers = calloc((size_t)job->rates.n_rounds * n, sizeof(uint32_t));
	if (!job->rates.peers)
		return -ENOMEM;
	for (uint32_t r = 0; r < job->rates.n_rounds; r++)
		for (uint32_t b = 0; b < n; b++) {
			const uint32_t other = opponent(n, b, r);

			job->rates.peers[r * n + b] = other < n ? other : BPS_JOB_NOBODY;
		}
	return 0;
}

/* The rounds of boxes and servers: who meets whom, and whose links are taken. */
struct rounds {
	uint32_t *peers; /* [n][n_links]; owned */
	bool *busy;      /* likewise */
	uint32_t n, n_links;
};

static int add_rounds(struct rounds *rounds, uint32_t n_more)
{
	const size_t n = (size_t)(rounds->n + n_more) * rounds->n_links;
	const size_t old = (size_t)rounds->n * rounds->n_links;
	uint32_t *peers = realloc(rounds->peers, n * sizeof(*peers));
	bool *busy;

	if (!peers)
		return -ENOMEM;
	rounds->peers = peers;
	busy = realloc(rounds->busy, n * sizeof(*busy));
	if (!busy)
		return -ENOMEM;
	rounds->busy = busy;
	for (size_t i = old; i < n; i++) {
		peers[i] = BPS_JOB_NOBODY;
		busy[i] = false;
	}
	rounds->n += n_more;
	return 0;
}

/* Both links are free in the round that is taken, which is @first or the next such. */
static int meet(struct rounds *rounds, const uint32_t *on, uint32_t first, uint32_t box,
                uint32_t server)
{
	for (uint32_t i = 0;; i++) {
		const uint32_t round = i < rounds->n ? (first + i) % rounds->n : i;
		bool *busy;

		if (i == rounds->n && add_rounds(rounds, 1))
			return -ENOMEM;
		busy = rounds->busy + (size_t)round * rounds->n_links;
		if (busy[on[box]] || busy[on[server]])
			continue;
		busy[on[box]] = busy[on[server]] = true;
		rounds->peers[(size_t)round * rounds->n_links + box] = server;
		rounds->peers[(size_t)round * rounds->n_links + server] = box;
		return 0;
	}
}

/*
 * Each box meets each server, but for those on it: these it reaches by no link. Where
 * all have links of their own, it is as many rounds as there are boxes or servers.
 */
static int pair_servers(struct bps_job *job)
{
	const uint32_t n = job->n_boxes, k = job->charter.n_hosts;
	const uint32_t n_first = n > k ? n : k;
	struct rounds rounds = { .n_links = n + k };
	int r = add_rounds(&rounds, n_first);

	for (uint32_t b = 0; b < n && !r; b++)
		for (uint32_t s = 0; s < k && !r; s++)
			if (job->on[n + s] != b)
				r = meet(&rounds, job->on,
				         (s + n_first - b % n_first) % n_first, b, n + s);
	free(rounds.busy);
	job->rates.peers = rounds.peers;
	job->rates.n_rounds = rounds.n;
	return r;
}

int bps_job_schedule(struct bps_job *job)
{
	int r = bps_job_find_shared(job);

	if (r)
		return r;
	return job->charter.n_hosts > 0 ? pair_servers(job) : pair_boxes(job);
}

/* Whom @link meets, as a link. */
static uint32_t peer_of(const struct bps_job *job, uint32_t link, uint32_t round)
{
	const size_t n_links = (size_t)job->n_boxes + job->charter.n_hosts;

	return job->rates.peers[round * n_links + link];
}

bool bps_job_partner(const struct bps_job *job, uint32_t box, uint32_t round,
                     uint32_t *ret)
{
	const uint32_t peer = peer_of(job, box, round);

	*ret = peer;
	if (peer == BPS_JOB_NOBODY)
		return false;
	if (job->charter.n_hosts == 0)
		return box < peer;
	*ret = peer - job->n_boxes;
	return true;
}

bool bps_job_exchange(const struct bps_job *job, uint32_t link, uint32_t round,
                      uint32_t *ret_at)
{
	const uint32_t peer = peer_of(job, link, round);

	*ret_at = (link < peer ? link : peer) * job->rates.n_rounds + round;
	return peer != BPS_JOB_NOBODY;
}

/* -- what was measured -- */

double bps_job_alike(double bytes_per_s)
{
	return bytes_per_s > CORE_BYTES_PER_S ? ALIKE_TO_CORES : ALIKE;
}

double bps_job_doubtful(const struct bps_job *job)
{
	const struct bps_job_rates *rates = &job->rates;
	double most = 0;

	for (size_t i = 0; i < (size_t)job->n_boxes * rates->n_rounds; i++)
		if ((double)rates->alone[i] > most)
			most = (double)rates->alone[i];
	return bps_job_alike(most) * most;
}

double bps_job_fastest(const struct bps_job *job, uint32_t link)
{
	double most = 0;

	for (uint32_t round = 0; round < job->rates.n_rounds; round++) {
		uint32_t at;

		if (bps_job_exchange(job, link, round, &at) &&
		    (double)job->rates.alone[at] > most)
			most = (double)job->rates.alone[at];
	}
	return most;
}

/* Adds up what links of @first to @end - 1 carry, whoever has them. */
static double sum_links(const struct bps_job *job, uint32_t first, uint32_t end)
{
	const uint32_t n_links = job->n_boxes + job->charter.n_hosts;
	double *carry = calloc(n_links, sizeof(*carry)), sum = 0;
	bool *counts = calloc(n_links, sizeof(*counts));

	for (uint32_t i = 0; carry && counts && i < n_links; i++) {
		const double rate = bps_job_fastest(job, i);

		counts[job->on[i]] |= i >= first && i < end;
		if (rate > carry[job->on[i]])
			carry[job->on[i]] = rate;
	}
	for (uint32_t i = 0; carry && counts && i < n_links; i++)
		sum += counts[i] ? carry[i] : 0;
	free(carry);
	free(counts);
	return sum;
}

/* An exchange is over two links, one of them a box's, and where there are servers one of
 * them a server's. */
double bps_job_one_by_one(const struct bps_job *job)
{
	const uint32_t n = job->n_boxes, n_links = n + job->charter.n_hosts;
	const double boxes = sum_links(job, 0, n), servers = sum_links(job, n, n_links);
	double most = sum_links(job, 0, n_links) / 2;

	if (boxes < most)
		most = boxes;
	return n_links > n && servers < most ? servers : most;
}

double bps_job_at_once(const struct bps_job *job, const int64_t *together)
{
	double sum = 0;

	for (size_t i = 0; i < (size_t)job->n_boxes * job->rates.n_rounds; i++)
		sum += (double)together[i];
	return sum;
}

bool bps_job_is_crowded(const struct bps_job *job)
{
	const double sum = bps_job_at_once(job, job->rates.together);

	return sum > 0 && sum < NETWORK_PART * bps_job_one_by_one(job);
}
