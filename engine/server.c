/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/server-impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/random.h"

/* -- where one thread does it all -- */

static void direct_to_reducer(struct bps_server *server, uint32_t reducer,
                              struct bps_arrival *arrival)
{
	bps_reducer_take(server->reducers[reducer], arrival);
}

static void direct_to_peer(struct bps_server *server, struct bps_arrival *arrival)
{
	(void)server;
	bps_peer_take(arrival);
}

static const struct bps_server_ops direct_ops = {
	.to_reducer = direct_to_reducer,
	.to_peer = direct_to_peer,
};

/* -- life -- */

static void free_reducers(struct bps_server *server)
{
	uint32_t i;

	for (i = 0; server->reducers && i < server->config.n_reducers; i++)
		bps_reducer_free(server->reducers[i]);
	free(server->reducers);
}

int bps_server_new(const struct bps_server_config *config,
                   const struct bps_server_ops *ops, void *owner,
                   struct bps_server **ret_server)
{
	struct bps_server *server = calloc(1, sizeof(*server));
	uint32_t i;

	if (!server)
		return -ENOMEM;
	server->config = *config;
	snprintf(server->host, sizeof(server->host), "%s", config->host);
	if (bps_random_bytes(&server->number, sizeof(server->number)) < 0) {
		free(server);
		return -EIO;
	}
	server->number |= 1;
	server->ops = ops ? ops : &direct_ops;
	server->owner = owner;
	pthread_mutex_init(&server->lock, NULL);
	bps_list_init(&server->peers);
	server->reducers = calloc(config->n_reducers, sizeof(struct bps_reducer *));
	for (i = 0; i < config->n_reducers; i++) {
		if (!server->reducers ||
		    bps_reducer_new(server, &server->reducers[i]) < 0) {
			bps_server_free(server);
			return -ENOMEM;
		}
	}
	*ret_server = server;
	return 0;
}

void bps_server_free(struct bps_server *server)
{
	if (!server)
		return;
	free_reducers(server);
	pthread_mutex_destroy(&server->lock);
	free(server);
}

void *bps_server_owner(const struct bps_server *server)
{
	return server->owner;
}

struct bps_reducer *bps_server_reducer(struct bps_server *server, uint32_t reducer)
{
	return server->reducers[reducer];
}

bps_reduce_fn *bps_server_kernel(const struct bps_server *server, uint8_t dtype,
                                 uint8_t redop)
{
	return server->config.kernel ? server->config.kernel(dtype, redop)
	                             : bps_kernel(dtype, redop);
}

struct bps_server_counters *bps_server_counters(struct bps_server *server)
{
	return &server->counters;
}

uint32_t bps_server_n_jobs(struct bps_server *server)
{
	uint32_t n;

	pthread_mutex_lock(&server->lock);
	n = HASH_COUNT(server->jobs);
	pthread_mutex_unlock(&server->lock);
	return n;
}

uint32_t bps_server_n_peers(struct bps_server *server)
{
	uint32_t n;

	pthread_mutex_lock(&server->lock);
	n = server->n_peers;
	pthread_mutex_unlock(&server->lock);
	return n;
}

void bps_server_memory(struct bps_server *server, struct bps_server_memory *ret_memory)
{
	struct bps_job *job, *following;

	pthread_mutex_lock(&server->lock);
	*ret_memory = (struct bps_server_memory){
		.used_bytes = server->used_bytes,
		.peak_bytes = server->peak_bytes,
	};
	HASH_ITER(hh, server->jobs, job, following)
	ret_memory->sum_bytes += bps_pool_bytes(job->pool);
	pthread_mutex_unlock(&server->lock);
}

uint32_t bps_server_n_keys(struct bps_server *server)
{
	uint32_t i, n = 0;

	for (i = 0; i < server->config.n_reducers; i++)
		n += bps_reducer_n_keys(server->reducers[i]);
	return n;
}

void bps_hold_get(struct bps_hold *hold)
{
	bps_fetch_add(&hold->refs, 1);
}

void bps_hold_put(struct bps_hold *hold)
{
	/* The last user's loads and stores come before the release of the memory. */
	if (bps_fetch_sub(&hold->refs, 1) == 1)
		hold->release(hold);
}

void bps_server_to_peer(struct bps_server *server, struct bps_arrival *arrival)
{
	server->ops->to_peer(server, arrival);
}

struct bps_pool *bps_job_pool(struct bps_job *job)
{
	return job->pool;
}

/* -- jobs; under the lock -- */

static void job_unref(struct bps_server *server, struct bps_job *job)
{
	if (--job->refs > 0)
		return;
	if (!job->over)
		HASH_DEL(server->jobs, job);
	bps_pool_free(job->pool);
	free(job);
}

static struct bps_job *job_new(struct bps_server *server,
                               const struct bps_wire_hello *hello)
{
	struct bps_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	if (bps_pool_new(hello->slot_bytes, &job->pool) < 0) {
		free(job);
		return NULL;
	}
	memcpy(job->id, hello->job, sizeof(job->id));
	job->n_peers_max = hello->n_peers;
	job->slot_bytes = hello->slot_bytes;
	bps_list_init(&job->peers);
	HASH_ADD(hh, server->jobs, id, sizeof(job->id), job);
	if (!job->hh.tbl) {
		bps_pool_free(job->pool);
		free(job);
		return NULL;
	}
	bps_add_relaxed(&server->counters.n_jobs, 1);
	return job;
}

static bool job_has_peer(const struct bps_job *job, const struct bps_wire_hello *hello)
{
	const struct bps_peer *peer;

	BPS_LIST_FOREACH(peer, &job->peers, link)
	{
		if (peer->world_rank == hello->peer &&
		    peer->connection == hello->connection)
			return true;
	}
	return false;
}

void bps_job_put(struct bps_server *server, struct bps_job *job)
{
	pthread_mutex_lock(&server->lock);
	job_unref(server, job);
	pthread_mutex_unlock(&server->lock);
}

/* -- peers -- */

/*
 * All that a peer can make us hold: a slot of its window, a sum on its way out and a key
 * for each push. A rank, at most 65535, has a place in a key.
 */
static uint64_t window_bytes(uint64_t n_slots, uint32_t slot_bytes, uint32_t n_peers)
{
	uint64_t members = n_peers < UINT16_MAX ? n_peers : UINT16_MAX;

	return n_slots * (2 * (uint64_t)slot_bytes + sizeof(struct bps_arrival) +
	                  BPS_KEY_BYTES(members));
}

uint64_t bps_server_charge(uint32_t n_slots, uint32_t slot_bytes, uint32_t n_peers)
{
	return window_bytes((uint64_t)n_slots + BPS_SPARE_SLOTS, slot_bytes, n_peers);
}

static uint64_t peer_bytes(const struct bps_peer *peer, uint32_t n_peers)
{
	return window_bytes(peer->n_slots, peer->slot_bytes, n_peers);
}

uint64_t bps_server_left(struct bps_server *server)
{
	uint64_t left;

	pthread_mutex_lock(&server->lock);
	left = server->config.memory_bytes - server->used_bytes;
	pthread_mutex_unlock(&server->lock);
	return left;
}

__attribute__((format(printf, 3, 4))) static int refuse(char *text, size_t bytes,
                                                        const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(text, bytes, format, args);
	va_end(args);
	return -ECONNREFUSED;
}

static int join(struct bps_peer *peer, const struct bps_wire_hello *hello, char *text,
                size_t text_bytes)
{
	struct bps_server *server = peer->server;
	uint64_t bytes = peer_bytes(peer, hello->n_peers);
	struct bps_job *job;

	if (bytes > server->config.memory_bytes - server->used_bytes)
		return refuse(
			text, text_bytes,
			"the memory bound of %llu bytes is reached; start the server "
			"with a larger --memory, or the job with a smaller "
			"BPSMPI_WINDOW_BYTES, BPSMPI_PARTITION_BYTES or "
			"BPSMPI_CONNECTIONS",
			(unsigned long long)server->config.memory_bytes);
	HASH_FIND(hh, server->jobs, hello->job, sizeof(hello->job), job);
	if (job &&
	    (job->n_peers_max != hello->n_peers || job->slot_bytes != hello->slot_bytes))
		return refuse(text, text_bytes,
		              "the job is known with another size or partition");
	if (job && job_has_peer(job, hello))
		return refuse(
			text, text_bytes,
			"rank %u of the job is connected already: is this server named twice, "
			"or an address another machine's?",
			hello->peer);
	if (!job)
		job = job_new(server, hello);
	if (!job)
		return refuse(text, text_bytes, "the server is out of memory");
	job->refs++;
	bps_list_push_back(&job->peers, &peer->link);
	server->used_bytes += bytes;
	if (server->used_bytes > server->peak_bytes)
		server->peak_bytes = server->used_bytes;
	peer->job = job;
	return 0;
}

int bps_server_join(struct bps_peer *peer, const struct bps_wire_hello *hello, char *text,
                    size_t bytes)
{
	struct bps_server *server = peer->server;
	int r;

	pthread_mutex_lock(&server->lock);
	r = join(peer, hello, text, bytes);
	pthread_mutex_unlock(&server->lock);
	return r;
}

void bps_server_add_peer(struct bps_server *server, struct bps_peer *peer)
{
	pthread_mutex_lock(&server->lock);
	server->n_peers++;
	bps_list_push_back(&server->peers, &peer->all);
	pthread_mutex_unlock(&server->lock);
}

void bps_server_drop_peer(struct bps_server *server, struct bps_peer *peer)
{
	pthread_mutex_lock(&server->lock);
	server->n_peers--;
	if (peer->job) {
		server->used_bytes -= peer_bytes(peer, peer->job->n_peers_max);
		job_unref(server, peer->job);
	}
	pthread_mutex_unlock(&server->lock);
}

/* -- the end of a connection -- */

/* A connection that was never used is no loss while its rank has another one. */
static bool has_another(const struct bps_peer *lost)
{
	const struct bps_peer *peer;

	BPS_LIST_FOREACH(peer, &lost->job->peers, link)
	{
		if (peer->world_rank == lost->world_rank)
			return true;
	}
	return false;
}

/* Tell every other peer of the job; under the lock, so that none of them goes away. */
static void tell_lost(struct bps_peer *lost)
{
	struct bps_server *server = lost->server;
	struct bps_peer *peer;

	BPS_LIST_FOREACH(peer, &lost->job->peers, link)
	{
		struct bps_arrival *notice = bps_peer_notice(peer, BPS_ARRIVAL_LOST);

		if (!notice)
			continue;
		notice->hdr.peer = lost->world_rank;
		notice->text = strdup(lost->host);
		notice->answer = notice->text;
		notice->answer_bytes = notice->text ? (uint32_t)strlen(notice->text) : 0;
		server->ops->to_peer(server, notice);
	}
}

/* A job without peers is over: its keys are forgotten, its identity may come again. */
static void end_job(struct bps_server *server, struct bps_job *job)
{
	uint32_t i;

	for (i = 0; i < server->config.n_reducers; i++) {
		struct bps_arrival *purge = calloc(1, sizeof(*purge));

		if (!purge) {
			bps_job_put(server, job);
			continue;
		}
		purge->kind = BPS_ARRIVAL_PURGE;
		purge->job = job;
		server->ops->to_reducer(server, i, purge);
	}
}

void bps_server_leave(struct bps_peer *peer, bool lost)
{
	struct bps_server *server = peer->server;
	struct bps_job *job = peer->job;
	bool over;

	pthread_mutex_lock(&server->lock);
	bps_list_remove(&peer->all);
	bps_list_remove(&peer->link);
	if (job && lost && (peer->pushed || !has_another(peer)))
		tell_lost(peer);
	over = job && bps_list_empty(&job->peers);
	if (over) {
		HASH_DEL(server->jobs, job);
		job->over = true;
		job->refs += server->config.n_reducers;
	}
	pthread_mutex_unlock(&server->lock);
	if (over)
		end_job(server, job);
}

void bps_server_each(struct bps_server *server, const struct bps_loop *loop,
                     void (*fn)(void *arg, const struct bps_conn *conn), void *arg)
{
	const struct bps_peer *peer;

	pthread_mutex_lock(&server->lock);
	BPS_LIST_FOREACH(peer, &server->peers, all)
	{
		if (peer->loop == loop && peer->conn)
			fn(arg, peer->conn);
	}
	pthread_mutex_unlock(&server->lock);
}

void bps_server_close_peers(struct bps_server *server, const struct bps_loop *loop)
{
	struct bps_peer *peer, *following;
	struct bps_list mine;

	bps_list_init(&mine);
	pthread_mutex_lock(&server->lock);
	BPS_LIST_FOREACH_SAFE(peer, following, &server->peers, all)
	{
		if (peer->loop != loop)
			continue;
		bps_list_remove(&peer->all);
		bps_list_push_back(&mine, &peer->all);
	}
	pthread_mutex_unlock(&server->lock);
	BPS_LIST_FOREACH_SAFE(peer, following, &mine, all)
	bps_peer_close(peer);
}
