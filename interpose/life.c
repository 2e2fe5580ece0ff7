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
#include "base/cpuset.h"
#include "base/hostlist.h"
#include "base/log.h"
#include "base/random.h"
#include "interpose/boxprobe.h"
#include "interpose/comm.h"
#include "interpose/job.h"
#include "interpose/progress.h"
#include "interpose/rendezvous.h"
#include "interpose/stats.h"
#include "transport/memory.h"
#include "transport/netif.h"

#define DEFAULT_SERVER_PORT 7000

struct bps_job bps_job = { .fd_sock = -1, .lock = PTHREAD_MUTEX_INITIALIZER };

/* What rank 0 tells all in the first exchange. */
struct charter {
	struct bps_config config;
	uint32_t n_hosts; /* dedicated servers */
	uint8_t id[16];
};

/* -- servers -- */

static int parse_servers(const struct bps_config *config, struct bps_hostlist *ret)
{
	char why[512];
	int error = bps_hostlist_parse("BPSMPI_SERVERS", config->servers,
	                               DEFAULT_SERVER_PORT, ret, why, sizeof(why));

	if (error < 0)
		bps_error("%s", why);
	return error;
}

static void name_dedicated(struct bps_job *job)
{
	uint32_t i;

	for (i = 0; i < job->n_servers; i++) {
		const struct bps_host *host = &job->hosts.hosts[i];

		snprintf(job->servers[i].name, sizeof(job->servers[i].name), "%.120s:%u",
		         host->name, host->port);
	}
}

/* One server a box, in the order of boxes. */
static void name_colocated(struct bps_job *job)
{
	uint32_t i;

	for (i = 0; i < job->n_servers; i++) {
		const struct bps_rank_card *card = &job->cards[job->boxes.leader[i]];
		struct bps_job_server *server = &job->servers[i];
		char addr[BPS_ADDR_CHARS];

		bps_addr_format(&card->addr, addr, sizeof(addr));
		snprintf(server->name, sizeof(server->name), "of rank %u on %.40s (%s)",
		         job->boxes.leader[i], card->host, addr);
		server->addrs[0] = card->addr;
		server->n_addrs = 1;
		server->local = job->boxes.leader[i] == job->rank;
	}
}

/* Every rank's: how many there are decides how an operation is cut. */
static int name_servers(struct bps_job *job)
{
	bool dedicated = job->hosts.n_hosts > 0;

	job->n_servers = dedicated ? job->hosts.n_hosts : job->boxes.n_boxes;
	job->servers = calloc(job->n_servers, sizeof(*job->servers));
	if (!job->servers)
		return -ENOMEM;
	if (dedicated)
		name_dedicated(job);
	else
		name_colocated(job);
	return 0;
}

/* Only who connects to the dedicated servers asks for their addresses. */
static int resolve_servers(struct bps_job *job, struct bps_reason *ret_reason)
{
	char why[256];
	uint32_t i;

	for (i = 0; i < job->hosts.n_hosts; i++) {
		struct bps_job_server *server = &job->servers[i];
		const struct bps_host *host = &job->hosts.hosts[i];

		server->n_addrs = bps_addr_resolve(host->name, host->port, server->addrs,
		                                   8, why, sizeof(why));
		if (server->n_addrs < 0) {
			snprintf(ret_reason->text, sizeof(ret_reason->text),
			         "BPSMPI_SERVERS: %.240s", why);
			return server->n_addrs;
		}
	}
	return 0;
}

/* -- the engine -- */

static int start_engine(struct bps_job *job)
{
	const struct bps_config *c = &job->config;
	uint64_t part = c->partition_bytes - c->partition_bytes % BPS_CUT_UNIT;
	struct bps_engine_config config = {
		.client = {
			.peer = job->rank,
			.n_peers = job->size,
			.host = job->cards[job->rank].host,
			.slot_bytes = (uint32_t)part,
			.n_slots = (uint32_t)(c->window_bytes / part ? c->window_bytes / part : 1),
			.timeout_ns = (uint64_t)c->timeout_s * BPS_NS_PER_S,
		},
		.server_memory_bytes = c->server_memory_bytes,
		.retry_ns = (uint64_t)c->retry_s * BPS_NS_PER_S,
	};
	struct bps_cpuset cpus;

	if (job->engine)
		return 0;
	if (job->config.cpus[0]) {
		if (bps_cpuset_usable("BPSMPI_CPUS", job->config.cpus, &cpus) < 0)
			return -EINVAL;
		config.cpus = &cpus;
	}
	memcpy(config.client.job, job->id, sizeof(job->id));
	return bps_engine_start(&config, &job->engine);
}

/* The addresses of the interface that the user asked for, where there is a wish. */
static int choose_sources(struct bps_job *job, struct bps_reason *ret_reason)
{
	char why[512];
	int n;

	if (job->config.interface[0] == '\0' || job->n_sources > 0)
		return 0;
	n = bps_netif_select(job->config.interface, job->sources, BPS_MAX_SOURCES, why,
	                     sizeof(why));
	if (n < 1) {
		snprintf(ret_reason->text, sizeof(ret_reason->text),
		         "BPSMPI_INTERFACE: %.480s", why);
		return n < 0 ? n : -ENODEV;
	}
	job->n_sources = n;
	job->local = job->sources[0];
	return 0;
}

/* Where a connection to @server leaves from; NULL: by route. */
static const struct bps_addr *source_for(const struct bps_job *job,
                                         const struct bps_job_server *server)
{
	int i;

	for (i = 0; i < job->n_sources; i++) {
		if (job->sources[i].sa.sa_family == server->addrs[0].sa.sa_family)
			return &job->sources[i];
	}
	return job->n_sources ? &job->sources[0] : NULL;
}

static int connect_engine(struct bps_job *job, struct bps_reason *ret_reason)
{
	struct bps_engine_server *servers = calloc(job->n_servers, sizeof(*servers));
	uint32_t i;
	int error;

	if (!servers)
		return -ENOMEM;
	for (i = 0; i < job->n_servers; i++)
		servers[i] = (struct bps_engine_server){
			.name = job->servers[i].name,
			.addrs = job->servers[i].addrs,
			.n_addrs = job->servers[i].n_addrs,
			.source = source_for(job, &job->servers[i]),
			.local = job->servers[i].local,
		};
	error = bps_engine_connect(job->engine, servers, job->n_servers, ret_reason);
	free(servers);
	return error;
}

/* Under the lock. A reason without text: it was logged. */
static int ready_engine(struct bps_job *job, struct bps_reason *ret_reason)
{
	int error;

	ret_reason->text[0] = '\0';
	if (job->connected)
		return 0;
	error = start_engine(job);
	if (error == 0)
		error = choose_sources(job, ret_reason);
	if (error == 0)
		error = resolve_servers(job, ret_reason);
	if (error == 0)
		error = connect_engine(job, ret_reason);
	job->connected = error == 0;
	return error;
}

int bps_job_engine(struct bps_job *job, struct bps_engine **ret_engine)
{
	struct bps_reason reason;
	int error;

	pthread_mutex_lock(&job->lock);
	error = ready_engine(job, &reason);
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
		good = parse_servers(&job->config, &job->hosts) == 0;
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

/* A leader's part of MPI_Init, where there is more than one box. */
static int serve(struct bps_job *job, struct bps_reason *ret_reason)
{
	struct bps_addr addr;
	int error = choose_sources(job, ret_reason);

	if (error == 0)
		error = start_engine(job);
	if (error < 0 || job->hosts.n_hosts > 0)
		return error;
	addr = job->local;
	if (addr.bytes == 0)
		return -EADDRNOTAVAIL;
	bps_addr_set_port(&addr, (uint16_t)job->config.port);
	return bps_engine_serve(job->engine, &addr, &job->cards[job->rank].addr);
}

/* Each step is a collective, so that all ranks know at the same point that one failed. */
static bool set_up(struct bps_job *job)
{
	struct bps_rank_card *card = &job->cards[job->rank];
	struct bps_reason reason = { 0 };
	bool leads;

	if (share_cards(job) < 0 || !all_fine(job) || make_boxes(job) < 0)
		return false;
	if (job->boxes.n_boxes == 1)
		return true;
	if (share_hosts(job) < 0)
		return false;
	leads = job->boxes.leader[job->box] == job->rank;
	if (leads)
		card->error = serve(job, &reason);
	snprintf(card->why, sizeof(card->why), "%.*s", BPS_WHY_CHARS - 1, reason.text);
	if (share_cards(job) < 0 || !all_fine(job))
		return false;
	card->error = name_servers(job);
	if (leads && card->error == 0)
		card->error = ready_engine(job, &reason);
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
		bps_region_free(job->page, sizeof(*job->page));
	job->page = NULL;
	if (job->fd_sock >= 0)
		close(job->fd_sock);
	job->fd_sock = -1;
	for (r = 0; job->wake_fds && r < job->size; r++) {
		if (job->wake_fds[r] >= 0)
			close(job->wake_fds[r]);
	}
	bps_boxes_free(&job->boxes);
	bps_hostlist_deinit(&job->hosts);
	free(job->cards);
	free(job->servers);
	free(job->wake_fds);
	job->cards = NULL;
	job->servers = NULL;
	job->wake_fds = NULL;
}

static void in_child(void)
{
	bps_job.active = false; /* the engine's thread and its sockets are the parent's */
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
	const char *kind = job->hosts.n_hosts ? "dedicated" : "colocated";

	if (job->rank != 0)
		return;
	if (job->boxes.n_boxes == 1)
		bps_info("bytepsmpi %s: %u ranks in one box", BPS_VERSION, job->size);
	else
		bps_info("bytepsmpi %s: %u ranks in %u boxes, %u %s servers", BPS_VERSION,
		         job->size, job->boxes.n_boxes, job->n_servers, kind);
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
	if (set_up(job)) {
		pthread_atfork(NULL, NULL, in_child);
		announce(job);
		job->active = true;
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
	job->active = false;
	bps_comm_deinit(job);
	bps_progress_end(mpi);
	tear_down(job);
}
