/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a job: what MPI_Init sets up, by a few collectives on MPI_COMM_WORLD that
 * every rank takes part in whatever went wrong on it, and what MPI_Finalize ends.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hostlist.h"
#include "base/log.h"
#include "base/random.h"
#include "interpose/boxprobe.h"
#include "interpose/comm.h"
#include "interpose/cost.h"
#include "interpose/job.h"
#include "interpose/nodes.h"
#include "interpose/progress.h"
#include "interpose/rendezvous.h"
#include "interpose/servers.h"
#include "interpose/stats.h"
#include "transport/memory.h"

struct bps_job bps_job = { .fd_sock = -1, .lock = PTHREAD_MUTEX_INITIALIZER };

/* What rank 0 tells all in the first exchange. */
struct charter {
	struct bps_config config;
	uint32_t n_hosts; /* dedicated servers */
	uint8_t id[16];
};

/* -- the engine -- */

int bps_job_engine(struct bps_job *job, struct bps_engine **ret_engine)
{
	struct bps_reason reason;
	int error;

	pthread_mutex_lock(&job->lock);
	error = bps_servers_connect(job, &reason);
	*ret_engine = job->engine;
	pthread_mutex_unlock(&job->lock);
	if (error < 0 && reason.text[0])
		bps_error("%s", reason.text);
	return error;
}

/* -- MPI_Init -- */

/* Read this process's environment; only rank 0 speaks about it, for its values rule. */
static bool read_config(struct bps_job *job)
{
	int fd = -1;
	bool good;

	bps_log_set_rank((int)job->rank);
	if (job->rank != 0)
		fd = bps_log_set_fd(-1);
	good = bps_config_parse(&job->config, environ) == 0;
	if (good && job->rank == 0 && job->config.enable && job->config.servers[0])
		good = bps_servers_parse(&job->config, &job->hosts) == 0;
	if (job->rank != 0)
		bps_log_set_fd(fd);
	bps_log_set_level(job->config.log);
	if (!good && job->rank == 0)
		bps_warn("all ranks run without bytepsmpi until the variables above are "
		         "mended; see bpsmpi-env(7)");
	return good && job->config.enable;
}

/* What the launcher calls this MPI_COMM_WORLD; equal on all its ranks. */
static const char *launcher_name(void)
{
	static const char *const names[] = { "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
		                             "PMI_JOBID", "SLURM_STEP_ID" };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *name = bps_env_get(environ, names[i]);

		if (name)
			return name;
	}
	return "job";
}

static bool meet(struct bps_job *job, bool enabled)
{
	const struct bps_rendezvous rendezvous = {
		.mpi = job->mpi,
		.rank = job->rank,
		.size = job->size,
		.job_name = launcher_name(),
		.interface = job->config.interface,
		.timeout_ns = (uint64_t)job->config.init_timeout_s * BPS_NS_PER_S,
		.enabled = enabled,
	};

	return bps_rendezvous(&rendezvous, &job->local);
}

/* Rank 0's configuration and the job's identity; what concerns a box alone is its own. */
static int adopt_charter(struct bps_job *job)
{
	const struct bps_mpi *mpi = job->mpi;
	struct charter *charter = calloc(1, sizeof(*charter));
	struct bps_config own = job->config;
	int error = charter ? 0 : -ENOMEM;

	if (error == 0 && job->rank == 0) {
		charter->config = job->config;
		charter->n_hosts = job->hosts.n_hosts;
		error = bps_random_bytes(charter->id, sizeof(charter->id));
	}
	if (mpi->Bcast(charter, sizeof(*charter), mpi->type[BPS_MPI_BYTE], 0,
	               mpi->comm_world) != mpi->success)
		error = -EIO;
	if (error == 0) {
		job->config = charter->config;
		memcpy(job->config.hostid, own.hostid, sizeof(own.hostid));
		memcpy(job->config.cpus, own.cpus, sizeof(own.cpus));
		memcpy(job->id, charter->id, sizeof(job->id));
		bps_log_set_level(job->config.log);
	}
	if (error == 0 && job->rank != 0) {
		job->hosts.n_hosts = charter->n_hosts;
		job->hosts.hosts =
			calloc(charter->n_hosts + 1, sizeof(*job->hosts.hosts));
		error = job->hosts.hosts ? 0 : -ENOMEM;
	}
	free(charter);
	return error;
}

/* The servers as rank 0 read them: a file may differ from box to box. */
static int share_hosts(struct bps_job *job)
{
	const struct bps_mpi *mpi = job->mpi;
	size_t bytes = job->hosts.n_hosts * sizeof(*job->hosts.hosts);

	if (bytes == 0)
		return 0;
	return mpi->Bcast(job->hosts.hosts, (int)bytes, mpi->type[BPS_MPI_BYTE], 0,
	                  mpi->comm_world) == mpi->success
	               ? 0
	               : -EIO;
}

static int share_cards(struct bps_job *job)
{
	const struct bps_mpi *mpi = job->mpi;
	bps_handle byte = mpi->type[BPS_MPI_BYTE];
	struct bps_rank_card mine = job->cards[job->rank];

	return mpi->Allgather(&mine, sizeof(mine), byte, job->cards, sizeof(mine), byte,
	                      mpi->comm_world) == mpi->success
	               ? 0
	               : -EIO;
}

/* Whether every rank can go on; they all learn the same. */
static bool all_fine(const struct bps_job *job)
{
	uint32_t r;

	for (r = 0; r < job->size; r++) {
		if (job->cards[r].error != 0)
			return false;
	}
	return true;
}

static int make_boxes(struct bps_job *job)
{
	uint32_t *roots = calloc(job->size, sizeof(*roots));
	uint32_t r;
	int error = roots ? 0 : -ENOMEM;

	for (r = 0; error == 0 && r < job->size; r++)
		roots[r] = job->cards[r].root;
	if (error == 0)
		error = bps_boxes_make(roots, job->size, &job->boxes);
	free(roots);
	if (error == 0)
		job->box = job->boxes.box_of[job->rank];
	return error;
}

/* Each step is a collective, so that all ranks know at the same point that one failed. */
static bool set_up(struct bps_job *job)
{
	struct bps_rank_card *card = &job->cards[job->rank];
	struct bps_reason reason = { 0 };
	bool leads;

	if (share_cards(job) < 0 || !all_fine(job) || make_boxes(job) < 0)
		return false;
	leads = job->boxes.leader[job->box] == job->rank;
	if (job->boxes.n_boxes == 1) {
		if (leads)
			bps_nodes_place(job);
		return share_cards(job) == 0;
	}
	if (share_hosts(job) < 0)
		return false;
	if (leads)
		card->error = bps_servers_listen(job, &reason);
	snprintf(card->why, sizeof(card->why), "%.*s", BPS_WHY_CHARS - 1, reason.text);
	if (share_cards(job) < 0 || !all_fine(job))
		return false;
	card->error = bps_servers_name(job);
	if (leads && card->error == 0)
		card->error = bps_servers_connect(job, &reason);
	if (leads && card->error == 0)
		bps_nodes_place(job);
	snprintf(card->why, sizeof(card->why), "%.*s", BPS_WHY_CHARS - 1, reason.text);
	if (share_cards(job) < 0 || !all_fine(job))
		return false;
	card->error = bps_servers_agree(job, &reason);
	snprintf(card->why, sizeof(card->why), "%.*s", BPS_WHY_CHARS - 1, reason.text);
	if (share_cards(job) < 0 || !all_fine(job))
		return false;
	card->error = bps_servers_rate(job, &reason);
	snprintf(card->why, sizeof(card->why), "%.*s", BPS_WHY_CHARS - 1, reason.text);
	return share_cards(job) == 0 && all_fine(job);
}

/* One line for the whole job, by rank 0: what the first rank that failed has to say. */
static void explain_inert(const struct bps_job *job)
{
	const struct bps_rank_card *card = NULL;
	uint32_t r;

	for (r = 0; r < job->size && !card; r++) {
		if (job->cards[r].error != 0)
			card = &job->cards[r];
	}
	if (job->rank != 0 || !card)
		return;
	if (card->why[0])
		bps_warn("all ranks run without bytepsmpi: rank %u on %s: %s",
		         (unsigned)(card - job->cards), card->host, card->why);
	else
		bps_warn(
			"all ranks run without bytepsmpi: rank %u on %s failed (%s); see "
			"its message",
			(unsigned)(card - job->cards), card->host,
			strerror(-card->error));
}

static void tear_down(struct bps_job *job)
{
	uint32_t r;

	bps_engine_stop(job->engine);
	job->engine = NULL;
	job->connected = false;
	bps_comm_sweep(job);
	if (job->page)
		bps_region_free(job->page, bps_box_page_bytes(job->size));
	job->page = NULL;
	if (job->fd_sock >= 0)
		close(job->fd_sock);
	job->fd_sock = -1;
	for (r = 0; job->wake_fds && r < job->size; r++) {
		if (job->wake_fds[r] >= 0)
			close(job->wake_fds[r]);
	}
	bps_boxes_free(&job->boxes);
	bps_servers_free(job);
	bps_hostlist_deinit(&job->hosts);
	free(job->cards);
	free(job->wake_fds);
	job->cards = NULL;
	job->wake_fds = NULL;
}

/* From here on calls are taken. */
static void activate(struct bps_job *job)
{
	const struct bps_mpi *mpi = job->mpi;

	job->least_bytes = bps_cost_least_bytes(&job->config, job->boxes.n_boxes == 1);
	bps_stats_first = true;
	job->active = true;
	if (!bps_mpi_next_tool(mpi, "MPI_Allreduce") &&
	    !bps_mpi_next_tool(mpi, "MPI_Bcast"))
		job->direct = mpi;
}

static void deactivate(struct bps_job *job)
{
	job->active = false;
	job->direct = NULL;
}

static void in_child(void)
{
	deactivate(&bps_job); /* the engine's thread and its sockets are the parent's */
}

static bool allocate(struct bps_job *job)
{
	uint32_t r;

	job->cards = calloc(job->size, sizeof(*job->cards));
	job->wake_fds = malloc(job->size * sizeof(*job->wake_fds));
	if (!job->cards || !job->wake_fds)
		return false;
	for (r = 0; r < job->size; r++)
		job->wake_fds[r] = -1;
	return true;
}

static void announce(const struct bps_job *job)
{
	uint32_t dedicated = job->hosts.n_hosts, carried = job->n_servers - dedicated;
	char servers[64];

	if (job->rank != 0)
		return;
	snprintf(servers, sizeof(servers), "%u %s servers", job->n_servers,
	         carried ? "colocated" : "dedicated");
	if (dedicated && carried)
		snprintf(servers, sizeof(servers),
		         "%u dedicated and %u colocated servers", dedicated, carried);
	if (job->boxes.n_boxes == 1)
		bps_info("bytepsmpi %s: %u ranks in one box", BPS_VERSION, job->size);
	else
		bps_info("bytepsmpi %s: %u ranks in %u boxes, %s", BPS_VERSION, job->size,
		         job->boxes.n_boxes, servers);
}

void bps_job_start(struct bps_job *job)
{
	const struct bps_mpi *mpi = job->mpi;
	struct bps_rank_card *card;
	int rank = -1, size = 0;
	bool enabled;

	if (bps_mpi_check(job->mpi) < 0) {
		bps_debug("this MPI library is not known: %s", mpi->version);
		return;
	}
	mpi->Comm_rank(mpi->comm_world, &rank);
	mpi->Comm_size(mpi->comm_world, &size);
	job->rank = (uint32_t)rank;
	job->size = (uint32_t)size;
	enabled = read_config(job);
	if (size < 2 || !meet(job, enabled))
		return;
	bps_mpi_probe_alias(job->mpi);
	if (!allocate(job)) {
		bps_error("out of memory in MPI_Init");
		return;
	}
	card = &job->cards[rank];
	card->error = adopt_charter(job);
	gethostname(card->host, sizeof(card->host) - 1);
	bps_comm_init(job);
	if (bps_boxprobe(job, &card->root) < 0)
		card->error = -EIO;
	else
		bps_nodes_announce(job);
	if (set_up(job)) {
		pthread_atfork(NULL, NULL, in_child);
		announce(job);
		activate(job);
		return;
	}
	explain_inert(job);
	tear_down(job);
}

/*
 * Other ranks may still be summing at the server that this one carries, so all come here
 * before anything is closed.
 */
void bps_job_stop(struct bps_job *job)
{
	const struct bps_mpi *mpi = job->mpi;

	if (job->config.stats)
		bps_stats_print();
	if (!job->active)
		return;
	mpi->Barrier(mpi->comm_world);
	if (job->config.stats) {
		bps_servers_print_cards(job);
		mpi->Barrier(mpi->comm_world); /* while nobody has left yet */
	}
	deactivate(job);
	bps_comm_deinit(job);
	if (job->config.stats)
		bps_stats_print_nodes(bps_nodes_of(job, job->rank));
	bps_progress_end(mpi);
	tear_down(job);
}
