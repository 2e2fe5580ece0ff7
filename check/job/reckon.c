/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an op is divided among servers, and what that takes. engine/shares.h divides it
 * among links of their own. So what has a link with others is one there, where a job does
 * not take it for more: a server on a box is the server in that box, and servers on one
 * machine are one server. What a link has to carry then follows from all that is on it;
 * what goes from a box to a server on it does not touch the link.
 */
#include <errno.h>
#include <stdlib.h>

#include "check/job/impl.h"
#include "engine/shares.h"

/* An op as engine/shares.h takes it, which numbers servers, then boxes. */
struct merged {
	double *rates;   /* [n_servers + n_boxes]: owned */
	double *shares;  /* likewise */
	uint32_t *n_on;  /* by link: how many servers have it; owned */
	bool *colocated; /* [n_boxes]: owned */
	uint32_t n_boxes, n_servers;
};

/* Whose link it has, as the job that divides sees it. */
static uint32_t seen_on(const struct bps_job_basis *basis, uint32_t link)
{
	return basis->apart[link] ? link : basis->on[link];
}

static void merged_deinit(struct merged *merged)
{
	free(merged->rates);
	free(merged->shares);
	free(merged->n_on);
	free(merged->colocated);
}

static int merge(const struct bps_job_basis *basis, struct merged *ret)
{
	const uint32_t n = basis->n_boxes, n_links = n + basis->n_servers;

	*ret = (struct merged){
		.rates = calloc(n_links, sizeof(double)),
		.shares = calloc(n_links, sizeof(double)),
		.n_on = calloc(n_links, sizeof(uint32_t)),
		.colocated = calloc(n, sizeof(bool)),
		.n_boxes = n,
	};
	if (!ret->rates || !ret->shares || !ret->n_on || !ret->colocated)
		return -ENOMEM;
	for (uint32_t i = n; i < n_links; i++) {
		if (seen_on(basis, i) == i)
			ret->rates[ret->n_servers++] = basis->taken[i];
		ret->n_on[seen_on(basis, i)]++;
	}
	for (uint32_t b = 0; b < n; b++) {
		ret->rates[ret->n_servers + b] = basis->taken[b];
		ret->colocated[b] = basis->carries || ret->n_on[b] > 0;
	}
	return 0;
}

/* Servers that have a link together have a part each, a server in a box what is left. */
static void divide(const struct bps_job_basis *basis, const struct merged *merged,
                   double *ret_shares)
{
	const uint32_t n = basis->n_boxes, k = basis->n_servers;
	uint32_t server = 0;

	for (uint32_t b = 0; b < n; b++)
		ret_shares[k + b] =
			merged->n_on[b] > 0 ? 0 : merged->shares[merged->n_servers + b];
	for (uint32_t s = 0; s < k; s++) {
		const uint32_t on = seen_on(basis, n + s);

		if (on < n)
			ret_shares[s] = merged->shares[merged->n_servers + on];
		else if (on == n + s)
			ret_shares[s] = merged->shares[server++];
		else
			continue;
		ret_shares[s] /= merged->n_on[on];
	}
	for (uint32_t s = 0; s < k; s++)
		if (seen_on(basis, n + s) >= n)
			ret_shares[s] = ret_shares[seen_on(basis, n + s) - n];
}

/* What the link with all @share of the op on it carries, one way: see engine/shares.c. */
static double carried(const struct bps_job_basis *basis, uint32_t root, uint32_t link,
                      double share)
{
	const double n = basis->n_boxes;

	if (link >= basis->n_boxes)
		return (root == BPS_JOB_NO_ROOT ? n : n - 1) * share;
	if (root == BPS_JOB_NO_ROOT || link == root)
		return 1 + (n - 2) * share;
	return (n - 2) * share > 1 ? (n - 2) * share : 1;
}

/* Of the link that takes longest. */
static double time_of(const struct bps_job_basis *basis, uint32_t root,
                      const double *shares, double *sums)
{
	const uint32_t n = basis->n_boxes, k = basis->n_servers;
	double longest = 0;

	for (uint32_t i = 0; i < n + k; i++)
		sums[i] = 0;
	for (uint32_t i = 0; i < n + k; i++)
		sums[basis->on[i]] += shares[i < n ? k + i : i - n];
	for (uint32_t i = 0; i < n + k; i++) {
		double s = basis->on[i] == i
		                   ? carried(basis, root, i, sums[i]) / basis->rates[i]
		                   : 0;

		longest = s > longest ? s : longest;
	}
	return longest;
}

int bps_job_reckon(const struct bps_job_basis *basis, uint32_t root, double *ret_shares,
                   double *ret_s_per_byte)
{
	struct merged merged;
	double ignored;
	int r = merge(basis, &merged);
	const struct bps_shares_in in = {
		.box_bytes_per_s = r ? NULL : merged.rates + merged.n_servers,
		.server_bytes_per_s = merged.rates,
		.colocated = merged.colocated,
		.n_boxes = merged.n_boxes,
		.n_servers = merged.n_servers,
	};

	if (!r)
		r = root == BPS_JOB_NO_ROOT
		            ? bps_shares_allreduce(&in, merged.shares, &ignored)
		            : bps_shares_bcast(&in, root, merged.shares, &ignored);
	if (!r) {
		divide(basis, &merged, ret_shares);
		*ret_s_per_byte = time_of(basis, root, ret_shares, merged.rates);
	}
	merged_deinit(&merged);
	return r;
}
