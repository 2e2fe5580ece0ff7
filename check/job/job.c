/* SPDX-License-Identifier: BSD-3-Clause */
#include "check/job/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "check/job/impl.h"

/* -- rank 0's variables -- */

/* What is wrong with them is the doctor's to say. */
static int read_config(struct bps_job *job)
{
	struct bps_job_charter *charter = &job->charter;
	struct bps_hostlist list = { 0 };
	int fd = bps_log_set_fd(-1), r = 0;

	job->config_wrong = bps_config_parse(&job->config, environ) != 0;
	(void)bps_log_set_fd(fd);
	charter->measure = job->options->measure;
	(void)snprintf(charter->interface, sizeof(charter->interface), "%s",
	               job->config.interface);
	charter->connections = (uint32_t)job->config.connections;
	if (job->config.servers[0])
		r = bps_hostlist_parse("BPSMPI_SERVERS", job->config.servers,
		                       BPS_SERVER_PORT, &list, job->servers_wrong,
		                       sizeof(job->servers_wrong));
	charter->hosts = list.hosts;
	charter->n_hosts = list.n_hosts;
	if (bps_job_carries(job))
		charter->port = (uint32_t)job->config.port;
	return r == -ENOMEM ? r : 0;
}

/* -- every rank -- */

static void look(struct bps_job *job, struct bps_job_said *said)
{
	int r = bps_job_look_rank(job->mpi, &said->rank);

	if (r)
		(void)snprintf(said->problem, sizeof(said->problem), "%s",
		               strerrordesc_np(-r));
	if (r || job->first[job->box_of[job->rank]] != job->rank)
		return;
	r = bps_job_look_box(&job->charter, job->rank == 0, &said->box, said->problem,
	                     sizeof(said->problem));
	said->has_box = r == 0;
}

/* Rank 0's number to all. */
static int share(const struct bps_job *job, int number)
{
	const struct bps_mpi *mpi = job->mpi;
	int64_t shared = number;

	(void)mpi->Bcast(&shared, 1, mpi->type[BPS_MPI_INT64_T], 0, mpi->comm_world);
	return (int)shared;
}

/* Each step is a collective that all ranks come to, whatever failed on some. */
static int gather(struct bps_job *job)
{
	struct bps_job_said said = { 0 };
	int r = bps_job_tell(job, said.problem, sizeof(said.problem));

	if (r == 0)
		look(job, &said);
	bps_job_try_ways(job, said.has_box ? &said.box : NULL);
	r = share(job, bps_job_gather(job, &said));
	if (r == 0 && job->charter.measure)
		bps_job_measure(job, said.box.servers);
	bps_job_said_deinit(&said);
	return r;
}

/* -- rank 0 -- */

static int report(struct bps_job *job)
{
	int r = bps_job_fold(job);

	if (!r)
		r = bps_job_make_plan(job);
	if (!r)
		r = bps_job_examine(job);
	if (r) {
		bps_check_complain("no report: %s", strerrordesc_np(-r));
		return BPS_CHECK_CANNOT;
	}
	if (job->charter.measure && job->n_boxes < 2)
		bps_check_complain("--measure: all ranks are on one box, which exchanges "
		                   "nothing over the network");
	if (job->options->json)
		bps_job_print_json(job);
	else
		bps_job_print(job);
	if (job->options->svg) {
		r = bps_job_draw(job);
		if (r != BPS_CHECK_FINE)
			return r;
	}
	return job->findings.n > 0 ? BPS_CHECK_WRONG : BPS_CHECK_FINE;
}

static void deinit(struct bps_job *job)
{
	for (uint32_t r = 0; job->ranks && r < job->size; r++)
		free(job->ranks[r].settings);
	for (uint32_t b = 0; job->boxes && b < job->n_boxes; b++) {
		struct bps_job_said said = { .box = job->boxes[b] };

		bps_job_said_deinit(&said);
	}
	bps_job_findings_deinit(&job->findings);
	bps_job_charter_deinit(&job->charter);
	free(job->ranks);
	free(job->boxes);
	free(job->box_of);
	free(job->first);
	free(job->links);
	free(job->plan.shares);
	free(job->plan.bcast);
	free(job->plan.rates);
	free(job->plan.taken);
	free(job->plan.apart);
	free(job->on);
	free(job->rates.peers);
	free(job->rates.alone);
	free(job->rates.together);
}

int bps_check_job(const struct bps_check_options *options)
{
	struct bps_job job = { .options = options };
	int status = BPS_CHECK_CANNOT, r;

	if (bps_job_open_mpi(options->mpi, &job.mpi))
		return BPS_CHECK_CANNOT;
	r = bps_job_meet(&job);
	if (job.rank != 0)
		(void)bps_log_set_fd(-1);
	else if (r == 0)
		r = read_config(&job);
	if (r) {
		bps_check_complain("rank %u: %s", job.rank, strerrordesc_np(-r));
		(void)job.mpi->Abort(job.mpi->comm_world, BPS_CHECK_CANNOT);
	}
	r = gather(&job);
	if (job.rank == 0 && r == 0)
		status = report(&job);
	/* What rank 0 printed is out before any rank ends: a launcher may end the others
	 * then. That it was lost is said where all output ends. */
	if (fflush(stdout) && status == BPS_CHECK_FINE)
		status = BPS_CHECK_WRONG;
	status = share(&job, status);
	(void)job.mpi->Finalize();
	deinit(&job);
	return status;
}
