/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/links.h"

/* Links that differ by less are taken for alike: chance makes that much. */
#define ALIKE 0.7
/* Above such a rate it is cores that are measured, and they are busy with other things.
 */
#define CORE_BYTES_PER_S 300e6
#define ALIKE_TO_CORES   0.3

/*
 * With a server for each box, all exchange at once. Else boxes and dedicated servers are
 * paired as the teams of a tournament are, by the round of a circle; of two boxes the
 * lower one begins.
 */
bool bps_links_partner(uint32_t n_boxes, uint32_t n_servers, uint32_t box, uint32_t round,
                       uint32_t *ret_server)
{
	uint32_t n = n_boxes, k = n_servers;
	uint32_t circle =
		(n + k - 1) | 1u; /* an odd number; the last team is its centre */
	uint32_t turn = round % circle, other;

	if (k >= n) {
		*ret_server = (box + round) % k;
		return true;
	}
	if (box == circle)
		other = turn;
	else
		other = (2 * turn + circle - box) % circle;
	if (other == box)
		other = circle;
	if (other >= n + k || (other < n && other < box))
		return false;
	*ret_server = other < n ? k + other : other - n;
	return true;
}

void bps_links_settle(const int64_t *fastest, uint32_t n_boxes, uint32_t n_servers,
                      double *ret_boxes, double *ret_servers)
{
	double most = 1, alike;
	uint32_t i;

	for (i = 0; i < n_boxes + n_servers; i++) {
		if ((double)fastest[i] > most)
			most = (double)fastest[i];
	}
	alike = most * (most > CORE_BYTES_PER_S ? ALIKE_TO_CORES : ALIKE);
	for (i = 0; i < n_boxes + n_servers; i++) {
		double rate = (double)fastest[i];

		if (fastest[i] == 0 || rate > alike)
			rate = most;
		if (i < n_boxes)
			ret_boxes[i] = rate;
		else
			ret_servers[i - n_boxes] = rate;
	}
}
