/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/coll.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "interpose/comm.h"
#include "interpose/job.h"
#include "interpose/progress.h"
#include "interpose/stats.h"

/* Depth of our own code on this thread: what it calls back into MPI passes. */
static __thread int inside;

static void describe_rank(void *owner, uint32_t index, char *buf, size_t bytes)
{
	const struct bps_comm *comm = owner;

	snprintf(buf, bytes, "rank %u", comm->local_ranks[index]);
}

/* Raise @reason through the communicator's error handler; its code is returned. */
static int raise_error(const struct bps_mpi *mpi, const struct bps_comm *comm,
                       const struct bps_reason *reason)
{
	if (bps_stage_tell(comm->stage))
		bps_error("%s", reason->text);
	mpi->Comm_call_errhandler(comm->handle, mpi->err_other);
	return mpi->err_other;
}

static int cut(const struct bps_comm *comm, uint64_t bytes, struct bps_cut *ret_cut)
{
	uint32_t part = comm->shape.slot_bytes;

	if (comm->members.n_members == 1)
		return bps_cut_make(bytes, part, 1, ret_cut);
	part = bps_plan_partition(bytes, part, comm->n_servers);
	return bps_cut_make(bytes, part, comm->n_servers, ret_cut);
}

/* Carry @call, whose buffers, type, operation and root are set. @root: its member. */
static int carry(const struct bps_mpi *mpi, const struct bps_comm *comm,
                 struct bps_stage_call *call, uint64_t bytes, uint32_t root)
{
	const struct bps_stage_wait wait = {
		.idle = bps_progress,
		.describe = describe_rank,
		.owner = (void *)(uintptr_t)comm,
		.warn_ns = (uint64_t)bps_job.config.timeout_s * BPS_NS_PER_S,
	};
	uint64_t started_ns = bps_now_ns();
	struct bps_reason reason;
	int error;

	error = cut(comm, bytes, &call->cut);
	if (error < 0) {
		reason.error = error;
		snprintf(reason.text, sizeof(reason.text),
		         "%s of %llu bytes has too many parts: raise "
		         "BPSMPI_PARTITION_BYTES",
		         call->name, (unsigned long long)bytes);
		return raise_error(mpi, comm, &reason);
	}
	call->alone = comm->members.n_members == 1;
	call->start = call->coll == BPS_BCAST ? root : comm->member;
	call->comm = comm->name;
	if (comm->engine)
		bps_engine_submit(comm->engine, (struct bps_engine_group *)&comm->group,
		                  call, (uint16_t)root);
	bps_progress_begin(mpi);
	error = bps_stage_run(comm->stage, call, &wait, &reason);
	bps_stats_time(call->coll, bps_now_ns() - started_ns);
	return error < 0 ? raise_error(mpi, comm, &reason) : mpi->success;
}

/* -- MPI_Allreduce -- */

/* Of predefined types; the library may not even have told us its others. */
static uint64_t known_bytes(const struct bps_mpi *mpi, int count, bps_handle type)
{
	const struct bps_type *known = bps_abi_type(mpi, type);

	return known && count > 0 ? (uint64_t)count * known->bytes : 0;
}

static bool null_buffer(const struct bps_mpi *mpi, const void *sendbuf,
                        const void *recvbuf)
{
	return !sendbuf || !recvbuf || recvbuf == mpi->in_place;
}

/* BPS_ROUTE_TAKE with *@ret_comm set, or why the call passes; *@ret_bytes are counted. */
static enum bps_route route_allreduce(const struct bps_mpi *mpi, const void *caller,
                                      const void *sendbuf, void *recvbuf, int count,
                                      bps_handle type, bps_handle op, bps_handle comm,
                                      struct bps_stage_call *ret_call,
                                      uint64_t *ret_bytes,
                                      const struct bps_comm **ret_comm)
{
	struct bps_route_call call = { .coll = BPS_ALLREDUCE };
	enum bps_route route;

	call.bytes = *ret_bytes = known_bytes(mpi, count, type);
	if (!bps_job.active)
		return BPS_ROUTE_INERT;
	if (!bps_abi_type(mpi, type))
		return BPS_ROUTE_TYPE;
	call.reducible =
		bps_abi_reduction(mpi, type, op, &ret_call->dtype, &ret_call->redop);
	call.invalid = null_buffer(mpi, sendbuf, recvbuf) || comm == mpi->comm_null;
	call.alias_refused = sendbuf == recvbuf && !mpi->alias_ok;
	route = bps_route_call(&call, bps_job.config.threshold_bytes);
	if (route != BPS_ROUTE_TAKE)
		return route;
	if (bps_mpi_internal_caller(mpi, caller))
		return BPS_ROUTE_INTERNAL;
	*ret_comm = bps_comm_get(&bps_job, comm);
	return (*ret_comm)->route;
}

static int allreduce(const struct bps_mpi *mpi, const void *caller, const void *sendbuf,
                     void *recvbuf, int count, bps_handle type, bps_handle op,
                     bps_handle handle)
{
	struct bps_stage_call call = { .coll = BPS_ALLREDUCE, .name = "MPI_Allreduce" };
	const struct bps_comm *comm = NULL;
	uint64_t bytes = 0;
	enum bps_route route;

	route = route_allreduce(mpi, caller, sendbuf, recvbuf, count, type, op, handle,
	                        &call, &bytes, &comm);
	bps_stats_count(BPS_ALLREDUCE, route, bytes);
	if (route != BPS_ROUTE_TAKE)
		return mpi->Allreduce(sendbuf, recvbuf, count, type, op, handle);
	call.root = -1;
	call.input = sendbuf == mpi->in_place ? recvbuf : sendbuf;
	call.output = recvbuf;
	return carry(mpi, comm, &call, bytes, 0);
}

int bps_allreduce(const struct bps_mpi *mpi, const void *caller, const void *sendbuf,
                  void *recvbuf, int count, bps_handle type, bps_handle op,
                  bps_handle comm)
{
	int rc;

	if (inside)
		return mpi->Allreduce(sendbuf, recvbuf, count, type, op, comm);
	inside++;
	rc = allreduce(mpi, caller, sendbuf, recvbuf, count, type, op, comm);
	inside--;
	return rc;
}

/* -- MPI_Bcast -- */

struct bcast {
	void *buffer;
	int count, root;
	bps_handle type, handle;
	bool contiguous;
	uint64_t bytes;
	const struct bps_comm *comm;
};

/* Only the total counts: type and count may differ between root and leaves. */
static void measure(const struct bps_mpi *mpi, struct bcast *bcast)
{
	const struct bps_type *known = bps_abi_type(mpi, bcast->type);
	int size = 0;

	bcast->contiguous = known != NULL;
	if (known)
		size = known->bytes;
	else if (bcast->type != mpi->type_null)
		mpi->Type_size(bcast->type, &size);
	bcast->bytes = bcast->count > 0 && size > 0
	                       ? (uint64_t)bcast->count * (uint64_t)size
	                       : 0;
	if (size == mpi->undefined) /* more than an int can say */
		bcast->bytes = UINT64_MAX;
}

static enum bps_route route_bcast(const struct bps_mpi *mpi, const void *caller,
                                  struct bcast *bcast)
{
	struct bps_route_call call = { .coll = BPS_BCAST };
	enum bps_route route;

	bcast->bytes = known_bytes(mpi, bcast->count, bcast->type);
	if (!bps_job.active)
		return BPS_ROUTE_INERT;
	measure(mpi, bcast);
	call.bytes = bcast->bytes;
	call.invalid = (bcast->contiguous && !bcast->buffer) ||
	               bcast->buffer == mpi->in_place || bcast->handle == mpi->comm_null;
	route = bps_route_call(&call, bps_job.config.threshold_bytes);
	if (route != BPS_ROUTE_TAKE)
		return route;
	if (bps_mpi_internal_caller(mpi, caller))
		return BPS_ROUTE_INTERNAL;
	bcast->comm = bps_comm_get(&bps_job, bcast->handle);
	if (bcast->comm->route == BPS_ROUTE_TAKE &&
	    (bcast->root < 0 || (uint32_t)bcast->root >= bcast->comm->size))
		return BPS_ROUTE_INVALID;
	return bcast->comm->route;
}

static int carry_bcast(const struct bps_mpi *mpi, const struct bcast *bcast, void *data)
{
	const struct bps_comm *comm = bcast->comm;
	uint32_t root = comm->members.member_of[bcast->root];
	struct bps_stage_call call = {
		.coll = BPS_BCAST,
		.name = "MPI_Bcast",
		.dtype = BPS_BYTE,
		.root = root == comm->member
		                ? (int32_t)comm->members.index_of[bcast->root]
		                : -1,
		.input = data,
		.output = data,
	};

	return carry(mpi, comm, &call, bcast->bytes, root);
}

/* A type with holes, or in another order: packed at the root, unpacked at the leaves. */
static int carry_packed(const struct bps_mpi *mpi, const struct bcast *bcast)
{
	const struct bps_reason no_memory = { -ENOMEM, "MPI_Bcast: out of memory" };
	bool root = bcast->comm->rank == (uint32_t)bcast->root;
	int bytes = (int)bcast->bytes, position = 0, rc = mpi->success;
	void *data = malloc(bcast->bytes);

	if (!data)
		return raise_error(mpi, bcast->comm, &no_memory);
	if (root)
		rc = mpi->Pack(bcast->buffer, bcast->count, bcast->type, data, bytes,
		               &position, bcast->handle);
	if (rc == mpi->success)
		rc = carry_bcast(mpi, bcast, data);
	position = 0;
	if (rc == mpi->success && !root)
		rc = mpi->Unpack(data, bytes, &position, bcast->buffer, bcast->count,
		                 bcast->type, bcast->handle);
	free(data);
	return rc;
}

int bps_bcast(const struct bps_mpi *mpi, const void *caller, void *buffer, int count,
              bps_handle type, int root, bps_handle comm)
{
	struct bcast bcast = { .buffer = buffer,
		               .count = count,
		               .root = root,
		               .type = type,
		               .handle = comm };
	enum bps_route route;
	int rc;

	if (inside)
		return mpi->Bcast(buffer, count, type, root, comm);
	inside++;
	route = route_bcast(mpi, caller, &bcast);
	bps_stats_count(BPS_BCAST, route, bcast.bytes);
	if (route != BPS_ROUTE_TAKE)
		rc = mpi->Bcast(buffer, count, type, root, comm);
	else if (bcast.contiguous)
		rc = carry_bcast(mpi, &bcast, buffer);
	else
		rc = carry_packed(mpi, &bcast);
	inside--;
	return rc;
}
