/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who exchanges bytes with whom when the network is measured, and what that says of
 * links. All boxes reckon this from the same rates, to agree on what is measured again.
 */
#include "check/job/impl.h"

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

bool bps_job_partner(uint32_t n_boxes, uint32_t n_servers, uint32_t box, uint32_t round,
                     uint32_t *ret)
{
	const uint32_t n = n_boxes > n_servers ? n_boxes : n_servers;

	*ret = n_servers ? (box + round) % n : opponent(n_boxes, box, round);
	return n_servers ? *ret < n_servers : *ret < n_boxes && box < *ret;
}

bool bps_job_exchange(const struct bps_job *job, uint32_t link, uint32_t round,
                      uint32_t *ret_at)
{
	const uint32_t n_boxes = job->n_boxes, n_servers = job->charter.n_hosts;
	const uint32_t n = n_boxes > n_servers ? n_boxes : n_servers;
	uint32_t box = link, other;

	if (link >= n_boxes)
		box = (link - n_boxes + n - round % n) % n;
	else if (n_servers == 0 && opponent(n_boxes, link, round) < link)
		box = opponent(n_boxes, link, round);
	*ret_at = box * job->rates.n_rounds + round;
	return box < n_boxes && bps_job_partner(n_boxes, n_servers, box, round, &other);
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

double bps_job_one_by_one(const struct bps_job *job)
{
	double boxes = 0, servers = 0;

	for (uint32_t b = 0; b < job->n_boxes; b++)
		boxes += bps_job_fastest(job, b);
	if (job->charter.n_hosts == 0)
		return boxes / 2; /* each exchange is over two of them */
	for (uint32_t s = 0; s < job->charter.n_hosts; s++)
		servers += bps_job_fastest(job, job->n_boxes + s);
	return servers < boxes ? servers : boxes;
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
