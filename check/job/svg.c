/* SPDX-License-Identifier: BSD-3-Clause */
/* The picture of a job: kinds of boxes, kinds of servers, and what goes between them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/job/impl.h"
#include "check/svg/svg.h"
#include "topology/bandwidth.h"

struct drawing {
	struct bps_picture_box *boxes;      /* [n_boxes of the job] */
	struct bps_picture_server *servers; /* [n_hosts] */
	struct bps_box_plan *plans;         /* [n_boxes] */
	char (*box_names)[BPS_JOB_LIST_BYTES];
	char (*server_names)[BPS_JOB_LIST_BYTES];
	char **differs;
};

int bps_job_place(const struct bps_job *job, const struct bps_job_box *box,
                  struct bps_box_plan *ret)
{
	const struct bps_cpuset *own = &job->ranks[box->ranks[0]].own_cpus;
	struct bps_cpuset *ranks = calloc((size_t)box->n_ranks + 1, sizeof(*ranks));
	enum bps_box_use *uses = calloc((size_t)box->n_uses + 1, sizeof(*uses));
	int r = -ENOMEM;

	*ret = (struct bps_box_plan){ 0 };
	for (uint32_t i = 0; ranks && i < box->n_ranks; i++)
		ranks[i] = job->ranks[box->ranks[i]].cpus;
	for (uint32_t i = 0; uses && i < box->n_uses; i++) {
		uses[i] = (enum bps_box_use)box->uses[i];
		if (uses[i] == BPS_BOX_USED && job->n_boxes < 2)
			uses[i] = BPS_BOX_ALONE;
	}
	if (ranks && uses)
		r = bps_box_place(box->machine, ranks, box->n_ranks, uses,
		                  bps_cpuset_count(own) > 0 ? own : NULL, ret);
	free(ranks);
	free(uses);
	return r;
}

/* Of all servers on the link of a box or server: what they sum. */
static double share_on(const struct bps_job *job, uint32_t link)
{
	const uint32_t n = job->n_boxes, k = job->charter.n_hosts;
	double sum = link < n ? job->plan.shares[k + link] : 0;

	for (uint32_t s = 0; s < k; s++)
		if (job->on[n + s] == link)
			sum += job->plan.shares[s];
	return sum;
}

/* The links of alike boxes may differ, and their shares then: these are drawn apart. */
static bool same_kind(const struct bps_job *job, uint32_t a, uint32_t b)
{
	return job->boxes[a].like == job->boxes[b].like &&
	       share_on(job, a) == share_on(job, b) &&
	       job->plan.taken[a] == job->plan.taken[b];
}

static void list_names(const struct bps_job *job, uint32_t box, char *ret,
                       uint32_t *ret_n)
{
	uint32_t *list = calloc(job->n_boxes, sizeof(*list)), n = 0;

	ret[0] = '\0';
	for (uint32_t b = 0; list && b < job->n_boxes; b++)
		if (same_kind(job, b, box))
			list[n++] = b;
	if (list)
		bps_job_list_boxes(job, list, n, ret, BPS_JOB_LIST_BYTES);
	free(list);
	*ret_n = n > 0 ? n : 1;
}

static uint32_t first_of_kind(const struct bps_job *job, uint32_t box)
{
	uint32_t b = 0;

	while (!same_kind(job, b, box))
		b++;
	return b;
}

/* How fast the links of its kind are. */
static void format_rates(const struct bps_job *job, uint32_t box, char *ret)
{
	double least = job->plan.rates[box], most = least;

	for (uint32_t b = 0; b < job->n_boxes; b++) {
		const double rate = job->plan.rates[b];

		if (!same_kind(job, b, box))
			continue;
		least = rate < least ? rate : least;
		most = rate > most ? rate : most;
	}
	bps_job_format_rates(least, most, ret);
}

/* How fast its link is, and in what it differs from the common box; NULL: nothing. */
static char *describe(const struct bps_job *job, uint32_t box, uint32_t common)
{
	char *differs = bps_job_difference(job, &job->boxes[box], &job->boxes[common]);
	char rate[BPS_JOB_RATES_CHARS] = "", *text = NULL;

	for (char *at = differs; at && *at; at++)
		if (*at == '\n')
			*at = at[1] ? ';' : '\0';
	if (job->plan.known)
		format_rates(job, box, rate);
	if (differs && (rate[0] || differs[0]) &&
	    asprintf(&text, "%s%s%s", rate, rate[0] && differs[0] ? "; " : "", differs) <
	            0)
		text = NULL;
	free(differs);
	return text;
}

static uint32_t fill_boxes(const struct bps_job *job, struct drawing *drawing)
{
	const uint32_t common = bps_job_common(job);
	uint32_t n = 0;

	for (uint32_t b = 0; b < job->n_boxes; b++) {
		struct bps_picture_box *box = &drawing->boxes[n];

		if (first_of_kind(job, b) != b)
			continue;
		drawing->differs[n] = describe(job, b, common);
		(void)bps_job_place(job, &job->boxes[b], &drawing->plans[n]);
		list_names(job, b, drawing->box_names[n], &box->n_alike);
		box->machine = job->boxes[b].machine;
		box->placement = drawing->plans[n].placement;
		box->engine_cpus = &drawing->plans[n].engine_cpus;
		box->names = drawing->box_names[n];
		box->differs = drawing->differs[n];
		if (job->plan.made) {
			box->share = share_on(job, b);
			box->wire = bps_picture_box_wire(job->n_boxes, box->share);
		}
		n++;
	}
	return n;
}

/* Machines with as many servers, of the same kind. */
static bool same_machine(const struct bps_job *job, uint32_t a, uint32_t b)
{
	const uint32_t n = job->n_boxes, k = job->charter.n_hosts;
	uint32_t n_a = 0, n_b = 0;

	for (uint32_t s = 0; s < k; s++) {
		n_a += job->on[n + s] == n + a;
		n_b += job->on[n + s] == n + b;
	}
	return n_a == n_b && job->plan.shares[a] == job->plan.shares[b] &&
	       job->plan.taken[n + a] == job->plan.taken[n + b];
}

/* The machines that are like that of server @first, with all that is on them. */
static void fill_server(const struct bps_job *job, uint32_t first, const char **names,
                        char *ret_names, struct bps_picture_server *ret)
{
	const uint32_t n = job->n_boxes, k = job->charter.n_hosts;
	double least = job->plan.rates[n + first];
	uint32_t n_names = 0;

	for (uint32_t s = 0; s < k; s++) {
		const uint32_t on = job->on[n + s];

		if (on < n || !same_machine(job, first, on - n))
			continue;
		ret->n_alike += on == n + s;
		if (job->plan.rates[on] < least)
			least = job->plan.rates[on];
		if (on == n + s || strcmp(job->charter.hosts[s].name,
		                          job->charter.hosts[on - n].name) != 0)
			names[n_names++] = job->charter.hosts[s].name;
	}
	ret->names = bps_job_fold_names(names, n_names, ret_names, BPS_JOB_LIST_BYTES);
	if (job->plan.made) {
		ret->share = share_on(job, n + first);
		ret->wire = bps_picture_server_wire(n, ret->share);
	}
	ret->bytes_per_s = job->plan.known ? least : 0;
}

/* Those on a box are drawn in it. */
static uint32_t fill_servers(const struct bps_job *job, struct drawing *drawing)
{
	const uint32_t k = job->charter.n_hosts, n = job->n_boxes;
	const char **names = calloc((size_t)k + 1, sizeof(*names));
	uint32_t n_kinds = 0;

	for (uint32_t s = 0; names && s < k; s++) {
		bool told = job->on[n + s] != n + s;

		for (uint32_t i = 0; i < s && !told; i++)
			told = job->on[n + i] == n + i && same_machine(job, s, i);
		if (told)
			continue;
		fill_server(job, s, names, drawing->server_names[n_kinds],
		            &drawing->servers[n_kinds]);
		n_kinds++;
	}
	free(names);
	return n_kinds;
}

static bool allocate(const struct bps_job *job, struct drawing *drawing)
{
	const size_t n_boxes = job->n_boxes, n_servers = (size_t)job->charter.n_hosts + 1;

	drawing->boxes = calloc(n_boxes, sizeof(*drawing->boxes));
	drawing->servers = calloc(n_servers, sizeof(*drawing->servers));
	drawing->plans = calloc(n_boxes, sizeof(*drawing->plans));
	drawing->box_names = calloc(n_boxes, sizeof(*drawing->box_names));
	drawing->server_names = calloc(n_servers, sizeof(*drawing->server_names));
	drawing->differs = calloc(n_boxes, sizeof(*drawing->differs));
	return drawing->boxes && drawing->servers && drawing->plans &&
	       drawing->box_names && drawing->server_names && drawing->differs;
}

static void deinit(const struct bps_job *job, struct drawing *drawing)
{
	for (uint32_t b = 0; b < job->n_boxes; b++) {
		if (drawing->plans)
			bps_box_plan_deinit(&drawing->plans[b]);
		if (drawing->differs)
			free(drawing->differs[b]);
	}
	free(drawing->boxes);
	free(drawing->servers);
	free(drawing->plans);
	free(drawing->box_names);
	free(drawing->server_names);
	free(drawing->differs);
}

int bps_job_draw(const struct bps_job *job)
{
	struct drawing drawing = { 0 };
	char title[128], shared[BPS_JOB_LIST_BYTES];
	const char *const notes[] = { shared };
	struct bps_picture picture = { .title = title, .notes = notes };
	int status = BPS_CHECK_CANNOT;

	(void)snprintf(title, sizeof(title), "A job of %u rank%s on %u box%s", job->size,
	               job->size == 1 ? "" : "s", job->n_boxes,
	               job->n_boxes == 1 ? "" : "es");
	bps_job_say_shared(job, shared, sizeof(shared));
	picture.n_notes = shared[0] ? 1 : 0;
	if (allocate(job, &drawing)) {
		picture.boxes = drawing.boxes;
		picture.servers = drawing.servers;
		picture.n_boxes = fill_boxes(job, &drawing);
		picture.n_servers = fill_servers(job, &drawing);
		status = bps_picture_write(&picture, job->options->svg);
	} else {
		bps_check_complain("out of memory");
	}
	deinit(job, &drawing);
	return status;
}
