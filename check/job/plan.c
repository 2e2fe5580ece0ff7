/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast the links of a job are, as far as that is known, and the plan for them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/job/impl.h"
#include "topology/bandwidth.h"

/* Who says how fast links are knows that they differ; so much is worth a word. */
#define ALIKE_AS_SAID (1.0 / 3)

/* -- links -- */

/* A link is as fast as the fastest exchange over it. */
static void take_measured(struct bps_job *job)
{
	for (uint32_t i = 0; i < job->n_boxes + job->charter.n_hosts; i++) {
		double rate = bps_job_fastest(job, i);

		if (rate > 0)
			job->links[i] = (struct bps_job_link){ rate, BPS_RATE_MEASURED };
	}
}

/* Of the cards that a job can use together; 0: of one of them it is not known. */
static double kernel_rate(const struct bps_job_box *box)
{
	double sum = 0;

	for (uint32_t i = 0; i < box->n_nics; i++) {
		const struct bps_machine_nic *nic = bps_job_nic(box, box->nics[i]);

		if (!nic || nic->bytes_per_s == 0)
			return 0;
		sum += nic->bytes_per_s;
	}
	return sum;
}

static void take_said(struct bps_job *job)
{
	struct bps_bandwidths said;
	char error[512];

	if (bps_bandwidths_parse("BPSMPI_BANDWIDTH", job->config.bandwidth, &said, error,
	                         sizeof(error)))
		return; /* a finding: the doctor's */
	for (uint32_t i = 0; i < job->n_boxes + job->charter.n_hosts; i++) {
		double rate = bps_bandwidths_of(
			&said, i < job->n_boxes
				       ? bps_job_host(job, i)
				       : job->charter.hosts[i - job->n_boxes].name);

		if (rate > 0)
			job->links[i] = (struct bps_job_link){ rate, BPS_RATE_SAID };
	}
	bps_bandwidths_deinit(&said);
}

/* What is on one link is as fast as what knows best says, or sees most of it. */
static void join_shared(struct bps_job *job)
{
	const uint32_t n = job->n_boxes + job->charter.n_hosts;

	for (uint32_t i = 0; i < n; i++) {
		const struct bps_job_link *link = &job->links[i];
		struct bps_job_link *whole = &job->links[job->on[i]];

		if (link->source > whole->source ||
		    (link->source == whole->source &&
		     link->bytes_per_s > whole->bytes_per_s))
			*whole = *link;
	}
	for (uint32_t i = 0; i < n; i++)
		job->links[i] = job->links[job->on[i]];
}

static void find_rates(struct bps_job *job)
{
	for (uint32_t b = 0; b < job->n_boxes; b++) {
		double rate = kernel_rate(&job->boxes[b]);

		if (rate > 0)
			job->links[b] = (struct bps_job_link){ rate, BPS_RATE_KERNEL };
	}
	take_measured(job);
	take_said(job);
	join_shared(job);
}

static int compare_rates(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bps_job_median_rate(const struct bps_job_link *links, uint32_t n)
{
	double *rates = calloc((size_t)n + 1, sizeof(*rates)), median;
	uint32_t n_known = 0;

	for (uint32_t i = 0; rates && i < n; i++)
		if (links[i].bytes_per_s > 0)
			rates[n_known++] = links[i].bytes_per_s;
	if (n_known > 0)
		qsort(rates, n_known, sizeof(*rates), compare_rates);
	median = n_known > 0 ? rates[n_known / 2] : 0;
	free(rates);
	return median;
}

bool bps_job_is_slow(const struct bps_job_link *link, double usual)
{
	if (link->source == BPS_RATE_MEASURED)
		return link->bytes_per_s < bps_job_alike(usual) * usual;
	if (link->source == BPS_RATE_SAID)
		return link->bytes_per_s < ALIKE_AS_SAID * usual;
	return link->source == BPS_RATE_KERNEL && link->bytes_per_s < usual;
}

/* -- the plan -- */

static double fastest(const struct bps_job *job, bool measured)
{
	double most = 0;

	for (uint32_t i = 0; i < job->n_boxes + job->charter.n_hosts; i++)
		if ((!measured || job->links[i].source == BPS_RATE_MEASURED) &&
		    job->links[i].bytes_per_s > most)
			most = job->links[i].bytes_per_s;
	return most;
}

/* Unknown links are taken for as fast as the fastest. */
static double rate_of(const struct bps_job *job, uint32_t link)
{
	const double most = fastest(job, false);

	if (job->links[link].bytes_per_s > 0)
		return job->links[link].bytes_per_s;
	return most > 0 ? most : 1;
}

/* What a job reckons with when it divides its ops: it takes measured links that differ
 * by no more than chance makes for equal. Their time is that of what was measured. */
static double taken_of(const struct bps_job *job, uint32_t link)
{
	const double rate = rate_of(job, link), measured = fastest(job, true);

	return job->links[link].source == BPS_RATE_MEASURED &&
	                       rate > bps_job_alike(measured) * measured
	               ? measured
	               : rate;
}

static struct bps_job_basis basis_of(const struct bps_job *job)
{
	return (struct bps_job_basis){
		.n_boxes = job->n_boxes,
		.n_servers = job->charter.n_hosts,
		.carries = bps_job_carries(job),
		.on = job->on,
		.apart = job->plan.apart,
		.taken = job->plan.taken,
		.rates = job->plan.rates,
	};
}

static int solve(struct bps_job *job)
{
	const struct bps_job_basis basis = basis_of(job);
	struct bps_job_plan *plan = &job->plan;
	const double n = job->n_boxes;
	int r = bps_job_reckon(&basis, BPS_JOB_NO_ROOT, plan->shares, &plan->allreduce_s);

	if (!r)
		r = bps_job_reckon(&basis, 0, plan->bcast, &plan->bcast_s);
	if (r)
		return r;
	for (uint32_t b = 0; b < job->n_boxes; b++)
		if (1 / plan->rates[b] > plan->slowest_s)
			plan->slowest_s = 1 / plan->rates[b];
	plan->ring_s = 2 * (n - 1) / n * plan->slowest_s;
	plan->known = fastest(job, false) > 0;
	plan->made = true;
	return 0;
}

int bps_job_make_plan(struct bps_job *job)
{
	const uint32_t n = job->n_boxes + job->charter.n_hosts;
	struct bps_job_plan *plan = &job->plan;
	int r = bps_job_find_shared(job);

	job->links = calloc(n, sizeof(*job->links));
	plan->shares = calloc(n, sizeof(double));
	plan->bcast = calloc(n, sizeof(double));
	plan->rates = calloc(n, sizeof(double));
	plan->taken = calloc(n, sizeof(double));
	plan->apart = calloc(n, sizeof(bool));
	if (r || !job->links || !plan->shares || !plan->bcast || !plan->rates ||
	    !plan->taken || !plan->apart)
		return -ENOMEM;
	plan->runs = bps_job_runs(job, plan->why, sizeof(plan->why), &plan->told);
	find_rates(job);
	for (uint32_t i = 0; i < n; i++) {
		plan->rates[i] = rate_of(job, i);
		plan->taken[i] = taken_of(job, i);
		/* Measured at the same time, they are seen to share it. */
		plan->apart[i] = job->links[i].source == BPS_RATE_SAID;
	}
	return job->n_boxes > 1 ? solve(job) : 0;
}

/* How many times as long as it takes by @basis. */
static double times_of(const struct bps_job *job, const struct bps_job_basis *basis)
{
	double *shares =
		calloc((size_t)basis->n_boxes + basis->n_servers, sizeof(*shares));
	double times = 1, s_per_byte = 0;

	if (shares && job->plan.made &&
	    bps_job_reckon(basis, BPS_JOB_NO_ROOT, shares, &s_per_byte) == 0 &&
	    s_per_byte > 0)
		times = job->plan.allreduce_s / s_per_byte;
	free(shares);
	return times;
}

double bps_job_times(const struct bps_job *job, const uint32_t *on)
{
	struct bps_job_basis basis = basis_of(job);

	basis.on = on;
	return times_of(job, &basis);
}

double bps_job_slower(const struct bps_job *job, uint32_t box, double bytes_per_s)
{
	struct bps_job_basis basis = basis_of(job);
	const uint32_t n = job->n_boxes + job->charter.n_hosts;
	double *rates = calloc(n, sizeof(double)), *taken = calloc(n, sizeof(double));
	double times = 1;

	for (uint32_t i = 0; rates && taken && job->plan.made && i < n; i++) {
		rates[i] = job->on[i] == box ? bytes_per_s : job->plan.rates[i];
		taken[i] = job->on[i] == box ? bytes_per_s : job->plan.taken[i];
	}
	basis.rates = rates;
	basis.taken = taken;
	if (rates && taken && job->plan.made)
		times = times_of(job, &basis);
	free(rates);
	free(taken);
	return times;
}
