/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/log.h"
#include "engine/groups.h"
#include "interpose/boxprobe.h"
#include "interpose/comm-plan.h"
#include "interpose/nodes.h"
#include "interpose/stats.h"
#include "transport/fdpass.h"

/* To set up a communicator takes about as long as to sum so much in a box. */
#define GROWN_BYTES (UINT64_C(4) << 20)

/* Every rank's word in the setup. */
struct bps_comm_card {
	uint64_t cookie; /* names the communicator, and the box's stage; a leader's counts
	                  */
	int32_t error;
	int32_t unused;
};

/* A stage on its way from its leader to the ranks of its box. */
struct parcel {
	uint64_t cookie;
};

struct letter {
	struct bps_list link;
	uint64_t cookie;
	int fds[2]; /* the stage's memfd, the leader's eventfd or -1 */
};

static const struct bps_comm unknown = { .route = BPS_ROUTE_SETUP };

/* -- the box's shared memory -- */

static void put_fds(const int *fds, int n)
{
	while (n > 0) {
		if (fds[--n] >= 0)
			close(fds[n]);
	}
}

/* Read what has come into the mailbox; under the lock. */
static void empty_socket(struct bps_job *job)
{
	int fds[BPS_FDPASS_MAX_FDS], n_fds;
	struct parcel parcel;

	for (;;) {
		struct letter *letter;
		int n = bps_fdpass_recv(job->fd_sock, &parcel, sizeof(parcel), fds,
		                        &n_fds);

		if (n < 0)
			return;
		letter = n == (int)sizeof(parcel) && n_fds >= 1 && n_fds <= 2
		                 ? calloc(1, sizeof(*letter))
		                 : NULL;
		if (!letter) {
			put_fds(fds, n_fds);
			continue;
		}
		letter->cookie = parcel.cookie;
		letter->fds[0] = fds[0];
		letter->fds[1] = n_fds > 1 ? fds[1] : -1;
		bps_list_push_back(&job->mailbox, &letter->link);
	}
}

static struct letter *take_letter(struct bps_job *job, uint64_t cookie)
{
	struct letter *letter, *found = NULL;

	pthread_mutex_lock(&job->lock);
	empty_socket(job);
	BPS_LIST_FOREACH(letter, &job->mailbox, link)
	{
		if (letter->cookie == cookie) {
			found = letter;
			break;
		}
	}
	if (found)
		bps_list_remove(&found->link);
	pthread_mutex_unlock(&job->lock);
	return found;
}

/* Keep the eventfd of @leader's engine: one a leader, however many communicators. */
static int keep_wake_fd(struct bps_job *job, uint32_t leader, int fd)
{
	pthread_mutex_lock(&job->lock);
	if (job->wake_fds[leader] < 0)
		job->wake_fds[leader] = fd;
	else if (fd >= 0)
		close(fd);
	fd = job->wake_fds[leader];
	pthread_mutex_unlock(&job->lock);
	return fd;
}

static bool one_box(const struct bps_comm *comm)
{
	return comm->members.n_members == 1;
}

/* Not leaders: map what the leader sent; it is there, since all shared their cards. */
static int open_stage(struct bps_job *job, struct bps_comm *comm, uint64_t cookie)
{
	uint32_t leader = comm->local_ranks[0];
	struct letter *letter = take_letter(job, cookie);
	int error, wake_fd;

	if (!letter)
		return -ENOENT;
	wake_fd = keep_wake_fd(job, leader, letter->fds[1]);
	if (one_box(comm))
		error = bps_inbox_open(&comm->inbox_shape, letter->fds[0], comm->index,
		                       &comm->inbox);
	else
		error = bps_stage_open(&comm->shape, letter->fds[0], comm->index, wake_fd,
		                       &comm->stage);
	close(letter->fds[0]);
	free(letter);
	if (error == 0 && comm->stage)
		error = bps_comm_divide(comm, NULL, NULL);
	return error;
}

static int send_stage(struct bps_job *job, const struct bps_comm *comm, uint64_t cookie,
                      int memfd)
{
	const struct parcel parcel = { cookie };
	int fds[2] = { memfd, comm->engine ? bps_engine_wake_fd(comm->engine) : -1 };
	uint32_t i;

	for (i = 1; i < comm->shape.n_ranks; i++) {
		char name[90];
		int error;

		bps_boxprobe_name(job, comm->local_ranks[i], name, sizeof(name));
		do {
			error = bps_fdpass_send(job->fd_sock, name, &parcel,
			                        sizeof(parcel), fds,
			                        comm->engine ? 2 : 1);
			if (error == -EAGAIN)
				usleep(100); /* its queue is full of other letters */
		} while (error == -EAGAIN);
		if (error < 0)
			return error;
	}
	return 0;
}

static int make_stage(struct bps_comm *comm, int *ret_fd)
{
	int error;

	if (one_box(comm))
		return bps_inbox_create(&comm->inbox_shape, &comm->inbox, ret_fd);
	error = bps_stage_create(&comm->shape, &comm->stage, ret_fd);
	if (error < 0)
		return error;
	error = bps_comm_divide(comm, NULL, NULL);
	if (error < 0)
		close(*ret_fd);
	return error;
}

/* Make the stage within the box's budget and hand it out; the shapes have levels. */
static int make_and_send(struct bps_job *job, struct bps_comm *comm, uint64_t cookie)
{
	static uint32_t told;
	size_t bytes = one_box(comm) ? bps_inbox_bytes(&comm->inbox_shape)
	                             : bps_stage_bytes(&comm->shape);
	int memfd, error;

	if (bytes == 0)
		return -EOVERFLOW;
	if (bps_fetch_add(&job->page->staging_bytes, bytes) + bytes >
	    job->config.staging_bytes) {
		bps_fetch_sub(&job->page->staging_bytes, bytes);
		if (!bps_exchange(&told, 1u))
			bps_warn("BPSMPI_STAGING_BYTES is used up: from %s on, further "
			         "communicators are left to the MPI library until others "
			         "are freed",
			         comm->name);
		return -ENOBUFS;
	}
	comm->staging_bytes = bytes;
	error = make_stage(comm, &memfd);
	if (error < 0)
		return error;
	if (comm->engine)
		bps_stage_set_wake_fd(comm->stage, bps_engine_wake_fd(comm->engine));
	error = send_stage(job, comm, cookie, memfd);
	close(memfd);
	return error;
}

/* The leader's. */
static int create_stage(struct bps_job *job, struct bps_comm *comm, uint64_t cookie)
{
	struct bps_levels *levels;
	int error = bps_nodes_levels(job, comm->local_ranks,
	                             comm->members.n_local[comm->member], one_box(comm),
	                             &levels);

	if (error < 0)
		return error;
	comm->shape.levels = comm->inbox_shape.levels = levels;
	error = make_and_send(job, comm, cookie);
	comm->shape.levels = comm->inbox_shape.levels = NULL;
	free(levels);
	return error;
}

/* -- what it is made of -- */

static void find_name(const struct bps_job *job, struct bps_comm *comm)
{
	char *name = calloc(1, (size_t)job->mpi->max_object_name + 1);
	int length;

	snprintf(comm->name, sizeof(comm->name), "a communicator of %u ranks",
	         comm->size);
	if (name &&
	    job->mpi->Comm_get_name(comm->handle, name, &length) == job->mpi->success &&
	    name[0])
		snprintf(comm->name, sizeof(comm->name), "%s", name);
	free(name);
}

/* World ranks of all ranks of @comm; false where one is outside the world. */
static bool translate(const struct bps_job *job, struct bps_comm *comm)
{
	const struct bps_mpi *mpi = job->mpi;
	bps_handle group = 0, world = 0;
	int *from = calloc(comm->size, sizeof(*from)),
	    *to = calloc(comm->size, sizeof(*to));
	bool inside = from && to;
	uint32_t r;

	for (r = 0; inside && r < comm->size; r++)
		from[r] = (int)r;
	if (inside) {
		mpi->Comm_group(comm->handle, &group);
		mpi->Comm_group(mpi->comm_world, &world);
		inside = mpi->Group_translate_ranks(group, (int)comm->size, from, world,
		                                    to) == mpi->success;
		mpi->Group_free(&group);
		mpi->Group_free(&world);
	}
	for (r = 0; inside && r < comm->size; r++) {
		inside = to[r] >= 0 && to[r] != mpi->undefined;
		comm->world_ranks[r] = (uint32_t)to[r];
	}
	free(from);
	free(to);
	return inside;
}

static int find_members(const struct bps_job *job, struct bps_comm *comm)
{
	uint32_t m, r;
	int error;

	error = bps_members_make(&job->boxes, comm->world_ranks, comm->size,
	                         &comm->members);
	if (error < 0)
		return error;
	comm->member = comm->members.member_of[comm->rank];
	comm->index = comm->members.index_of[comm->rank];
	comm->leaders = calloc(comm->members.n_members, sizeof(*comm->leaders));
	comm->local_ranks = calloc(comm->members.n_local[comm->member], sizeof(uint32_t));
	if (!comm->leaders || !comm->local_ranks)
		return -ENOMEM;
	for (m = 0; m < comm->members.n_members; m++)
		comm->leaders[m] = comm->world_ranks[comm->members.leader[m]];
	for (r = 0; r < comm->size; r++) {
		if (comm->members.member_of[r] == comm->member)
			comm->local_ranks[comm->members.index_of[r]] =
				comm->world_ranks[r];
	}
	return bps_comm_plan(job, comm);
}

/* -- the leader's group -- */

static int by_rank(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return left < right ? -1 : left > right;
}

/* In ranks of MPI_COMM_WORLD, as all messages. */
static void describe_member(const struct bps_group *group, uint16_t member, char *buf,
                            size_t bytes)
{
	const struct bps_comm *comm = group->owner;
	uint32_t n = comm->members.n_local[member], r, i = 0;
	uint32_t *ranks = calloc(n, sizeof(*ranks));
	char list[64] = "?";

	for (r = 0; ranks && r < comm->size; r++) {
		if (comm->members.member_of[r] == member)
			ranks[i++] = comm->world_ranks[r];
	}
	if (ranks) {
		qsort(ranks, n, sizeof(*ranks), by_rank);
		bps_ranks_format(ranks, n, list, sizeof(list));
	}
	snprintf(buf, bytes, "rank%s %s on %.40s", n > 1 ? "s" : "", list,
	         bps_job.cards[comm->leaders[member]].host);
	free(ranks);
}

static int join(struct bps_job *job, struct bps_comm *comm, uint64_t id)
{
	struct bps_group *group = &comm->group.group;

	group->id = id;
	group->member = (uint16_t)comm->member;
	group->n_members = (uint16_t)comm->members.n_members;
	group->n_servers = comm->n_servers;
	group->servers = comm->servers;
	group->leaders = comm->leaders;
	group->name = comm->name;
	group->describe = describe_member;
	group->owner = comm;
	comm->group.stage = comm->stage;
	pthread_mutex_lock(&job->lock);
	comm->group.region = job->n_regions++;
	pthread_mutex_unlock(&job->lock);
	return bps_engine_join(comm->engine, &comm->group);
}

/* -- set up and let go -- */

static void comm_free(struct bps_job *job, struct bps_comm *comm)
{
	if (comm->staging_bytes)
		bps_fetch_sub(&job->page->staging_bytes, comm->staging_bytes);
	bps_stage_free(comm->stage);
	bps_inbox_free(comm->inbox);
	bps_members_free(&comm->members);
	free(comm->world_ranks);
	free(comm->local_ranks);
	free(comm->leaders);
	bps_comm_plan_free(comm);
	free(comm->cards);
	free(comm->cost);
	free(comm);
}

static void leave(struct bps_comm *comm)
{
	if (comm->joined)
		comm->kept = !bps_engine_leave(comm->engine, &comm->group);
	comm->joined = false;
}

/* Count and say what was learnt, once; the communicator goes. */
static void report(const struct bps_job *job, struct bps_comm *comm)
{
	if (comm->stage)
		bps_stats_crossed(
			bps_stage_crossed(comm->stage, BPS_GROUPS_ALL, BPS_GROUPS_ALL));
	if (comm->inbox)
		bps_stats_crossed(
			bps_inbox_crossed(comm->inbox, BPS_GROUPS_ALL, BPS_GROUPS_ALL));
	if (job->config.stats && comm->cost && comm->rank == 0)
		bps_stats_learnt(comm->name, comm->cost);
	free(comm->cost);
	comm->cost = NULL;
}

/* Drop what a failed setup made, so that the communicator costs nothing. */
static void abandon(struct bps_job *job, struct bps_comm *comm)
{
	comm->route = BPS_ROUTE_SETUP;
	leave(comm);
	if (comm->staging_bytes)
		bps_fetch_sub(&job->page->staging_bytes, comm->staging_bytes);
	comm->staging_bytes = 0;
	bps_stage_free(comm->stage);
	bps_inbox_free(comm->inbox);
	comm->stage = NULL;
	comm->inbox = NULL;
}

static uint64_t new_cookie(struct bps_job *job)
{
	uint64_t cookie;

	pthread_mutex_lock(&job->lock);
	cookie = (uint64_t)job->rank << 32 | job->n_cookies++;
	pthread_mutex_unlock(&job->lock);
	return cookie;
}

/* What this rank can do before it hears of the others. */
static int prepare(struct bps_job *job, struct bps_comm *comm, uint64_t cookie)
{
	int error = find_members(job, comm);

	if (error == 0 && job->config.mode == BPS_MODE_AUTO) {
		comm->cost = calloc(1, sizeof(*comm->cost));
		error = comm->cost ? 0 : -ENOMEM;
		if (error == 0)
			bps_comm_predict(job, comm);
	}
	if (error < 0 || comm->index != 0)
		return error;
	if (comm->members.n_members > 1)
		error = bps_job_engine(job, &comm->engine);
	return error < 0 ? error : create_stage(job, comm, cookie);
}

/* Whether every rank of @comm says 0. */
static bool agree(const struct bps_job *job, const struct bps_comm *comm, int error)
{
	const struct bps_mpi *mpi = job->mpi;
	int mine = error, worst = -EIO;

	mpi->Allreduce(&mine, &worst, 1, mpi->type[BPS_MPI_INT], mpi->op[BPS_MIN],
	               comm->handle);
	return worst == 0;
}

/* After the cards: every leader has sent its stage, and all cookies are known. */
static int connect_ranks(struct bps_job *job, struct bps_comm *comm,
                         const struct bps_comm_card *cards)
{
	uint32_t leader, r;
	int error = 0;

	if (cards[comm->rank].error < 0)
		return cards[comm->rank].error;
	leader = comm->members.leader[comm->member];
	if (comm->index != 0) /* even if it is in vain: else the letter lies there */
		error = open_stage(job, comm, cards[leader].cookie);
	for (r = 0; r < comm->size; r++) {
		if (cards[r].error < 0)
			return cards[r].error;
	}
	if (!comm->engine)
		return error;
	error = join(job, comm, cards[0].cookie);
	comm->joined = error == 0;
	return error;
}

/* Two collectives on @comm, whatever happens on this rank. */
static void set_up(struct bps_job *job, struct bps_comm *comm)
{
	const struct bps_mpi *mpi = job->mpi;
	bps_handle byte = mpi->type[BPS_MPI_BYTE];
	struct bps_comm_card mine = { .cookie = new_cookie(job) }, *cards = comm->cards;
	int error;

	find_name(job, comm);
	mine.error = prepare(job, comm, mine.cookie);
	mpi->Allgather(&mine, sizeof(mine), byte, cards, sizeof(mine), byte,
	               comm->handle);
	error = connect_ranks(job, comm, cards);
	if (agree(job, comm, error))
		return;
	abandon(job, comm);
	if (error < 0)
		bps_debug("%s is left to the MPI library: %s", comm->name,
		          strerror(-error));
}

static enum bps_route classify(struct bps_job *job, struct bps_comm *comm)
{
	const struct bps_mpi *mpi = job->mpi;
	struct bps_route_comm facts = { 0 };
	int flag = 0, rank = 0;

	mpi->Comm_test_inter(comm->handle, &flag);
	mpi->Comm_size(comm->handle, &facts.size);
	mpi->Comm_rank(comm->handle, &rank);
	facts.inter = flag != 0;
	comm->rank = (uint32_t)rank;
	comm->size = (uint32_t)facts.size;
	if (!facts.inter && facts.size > 1)
		facts.outside = !translate(job, comm);
	return bps_route_comm(&facts);
}

static struct bps_comm *comm_new(struct bps_job *job, bps_handle handle)
{
	struct bps_comm *comm = calloc(1, sizeof(*comm));
	int size = 0;

	job->mpi->Comm_size(handle, &size);
	if (comm) {
		comm->world_ranks = calloc((size_t)size, sizeof(uint32_t));
		comm->cards = calloc((size_t)size, sizeof(*comm->cards));
	}
	if (!comm || !comm->world_ranks || !comm->cards) {
		bps_error(
			"out of memory: a call goes to the MPI library on this rank alone");
		if (comm) {
			free(comm->world_ranks);
			free(comm->cards);
		}
		free(comm);
		return NULL;
	}
	comm->handle = handle;
	bps_list_init(&comm->link);
	comm->route = classify(job, comm);
	if (comm->route == BPS_ROUTE_TAKE)
		comm->route = BPS_ROUTE_YOUNG;
	return comm;
}

/* Set up what is worth it: programs make and free communicators without end. */
static struct bps_comm *grow(struct bps_job *job, struct bps_comm *comm, uint64_t bytes)
{
	if (comm->route != BPS_ROUTE_YOUNG)
		return comm;
	comm->young_bytes += bytes;
	if (job->config.mode != BPS_MODE_AUTO || comm->young_bytes >= GROWN_BYTES) {
		comm->route = BPS_ROUTE_TAKE;
		set_up(job, comm);
	}
	return comm;
}

struct bps_comm *bps_comm_find(struct bps_job *job, bps_handle handle)
{
	const struct bps_mpi *mpi = job->mpi;
	struct bps_comm *comm = NULL;
	int found = 0;

	if (mpi->Comm_get_attr(handle, job->keyval, &comm, &found) != mpi->success)
		return NULL;
	if (found)
		return comm;
	comm = comm_new(job, handle);
	if (!comm)
		return NULL;
	pthread_mutex_lock(&job->lock);
	bps_list_push_back(&job->comms, &comm->link);
	pthread_mutex_unlock(&job->lock);
	mpi->Comm_set_attr(handle, job->keyval, comm);
	return comm;
}

const struct bps_comm *bps_comm_get(struct bps_job *job, bps_handle handle,
                                    uint64_t bytes)
{
	struct bps_comm *comm = bps_comm_find(job, handle);

	return comm ? grow(job, comm, bytes) : &unknown;
}

/* The attribute is not copied: a duplicate is a communicator of its own. */
static int attr_copy(bps_handle handle, int keyval, void *extra, void *value,
                     void *ret_value, int *ret_flag)
{
	(void)handle, (void)keyval, (void)value, (void)ret_value;
	*ret_flag = 0;
	return ((const struct bps_mpi *)extra)->success;
}

/* The communicator is being freed. No MPI call may be made here. */
static int attr_delete(bps_handle handle, int keyval, void *value, void *extra)
{
	struct bps_job *job = &bps_job;
	struct bps_comm *comm = value;

	(void)handle, (void)keyval;
	if (!job->active) /* MPI_Finalize has swept it already */
		return ((const struct bps_mpi *)extra)->success;
	report(job, comm);
	leave(comm);
	if (!comm->kept) {
		pthread_mutex_lock(&job->lock);
		bps_list_remove(&comm->link);
		pthread_mutex_unlock(&job->lock);
		comm_free(job, comm);
	}
	return ((const struct bps_mpi *)extra)->success;
}

int bps_comm_init(struct bps_job *job)
{
	const struct bps_mpi *mpi = job->mpi;

	bps_list_init(&job->comms);
	bps_list_init(&job->mailbox);
	return mpi->Comm_create_keyval(attr_copy, attr_delete, &job->keyval,
	                               (void *)(uintptr_t)mpi) == mpi->success
	               ? 0
	               : -EIO;
}

void bps_comm_deinit(struct bps_job *job)
{
	struct bps_comm *comm;

	BPS_LIST_FOREACH(comm, &job->comms, link)
	{
		report(job, comm);
		leave(comm);
	}
}

void bps_comm_sweep(struct bps_job *job)
{
	struct bps_list *link;

	while ((link = bps_list_pop_front(&job->comms)))
		comm_free(job, BPS_CONTAINER_OF(link, struct bps_comm, link));
	while ((link = bps_list_pop_front(&job->mailbox))) {
		struct letter *letter = BPS_CONTAINER_OF(link, struct letter, link);

		put_fds(letter->fds, 2);
		free(letter);
	}
}
