/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/coll.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "interpose/comm-plan.h"
#include "interpose/comm.h"
#include "interpose/job.h"
#include "interpose/progress.h"
#include "interpose/stats.h"
#include "interpose/userop.h"

/* Depth of our own code on this thread: what it calls back into MPI passes. */
static __thread int inside;

static void describe_rank(void *owner, uint32_t index, char *buf, size_t bytes)
{
	const struct bps_comm *comm = owner;

	snprintf(buf, bytes, "rank %u", comm->local_ranks[index]);
}

/* A call, while it is on its way. */
struct trip {
	enum bps_coll coll;
	uint32_t row; /* of what is learnt: interpose/cost.h */
	const char *name;
	uint64_t bytes;
	enum bps_route route;
	struct bps_cost_class *trial; /* that is to learn how long it took; or NULL */
	uint64_t started_ns;
};

/* Share how long the last trial took, and line the ranks up for what follows. */
static int agree(const struct bps_mpi *mpi, const struct bps_comm *comm,
                 const struct trip *trip, struct bps_cost_class *class)
{
	int64_t longest_ns = 0;
	int rc = mpi->Allreduce(&class->took_ns, &longest_ns, 1,
	                        mpi->type[BPS_MPI_INT64_T], mpi->op[BPS_MAX],
	                        comm->handle);

	if (rc == mpi->success && bps_cost_agreed(class, longest_ns) && comm->rank == 0)
		bps_debug("%s of %llu bytes on %s: ours takes %.3f ms, the MPI library's "
		          "%.3f ms",
		          trip->name, (unsigned long long)trip->bytes, comm->name,
		          (double)class->learnt_ns[BPS_COST_OWN] / 1e6,
		          (double)class->learnt_ns[BPS_COST_NATIVE] / 1e6);
	return rc;
}

/* Which way a call goes that can be taken. All ranks of @comm come here with it. */
static int choose(const struct bps_mpi *mpi, const struct bps_comm *comm,
                  struct trip *trip)
{
	struct bps_cost_class *class = bps_cost_class(comm->cost, trip->row, trip->bytes);
	bool trial;
	int rc = mpi->success;

	if (bps_cost_asks(class, trip->bytes))
		rc = agree(mpi, comm, trip, class);
	if (rc != mpi->success)
		return rc;
	if (bps_cost_next(class, trip->bytes, &trial) == BPS_COST_NATIVE)
		trip->route = trial ? BPS_ROUTE_TRIAL : BPS_ROUTE_NATIVE;
	trip->trial = trial ? class : NULL;
	return rc;
}

/* Where routing is done: look at the cost, count, start the clock. MPI's code. */
static int depart(const struct bps_mpi *mpi, const struct bps_comm *comm,
                  struct trip *trip)
{
	int rc = mpi->success;

	if (trip->route == BPS_ROUTE_TAKE && comm->cost)
		rc = choose(mpi, comm, trip);
	bps_stats_count(trip->coll, trip->route, trip->bytes);
	if (trip->route == BPS_ROUTE_TAKE || trip->trial)
		trip->started_ns = bps_now_ns();
	return rc;
}

/* When the call is done, with @rc, which is returned. */
static int arrive(const struct bps_mpi *mpi, const struct trip *trip, int rc)
{
	uint64_t ns;

	if (trip->started_ns == 0)
		return rc;
	ns = bps_now_ns() - trip->started_ns;
	if (trip->route == BPS_ROUTE_TAKE)
		bps_stats_time(trip->coll, ns);
	if (trip->trial)
		trip->trial->took_ns = trip->route == BPS_ROUTE_TAKE && rc != mpi->success
		                               ? BPS_COST_FAILED_NS
		                               : (int64_t)ns;
	return rc;
}

/* Raise @reason through the communicator's error handler; its code is returned. */
static int raise_error(const struct bps_mpi *mpi, const struct bps_comm *comm,
                       const struct bps_reason *reason)
{
	if (comm->inbox ? bps_inbox_tell(comm->inbox) : bps_stage_tell(comm->stage))
		bps_error("%s", reason->text);
	mpi->Comm_call_errhandler(comm->handle, mpi->err_other);
	return mpi->err_other;
}

static struct bps_stage_wait wait_on(const struct bps_comm *comm)
{
	return (struct bps_stage_wait){
		.idle = bps_progress,
		.describe = describe_rank,
		.owner = (void *)(uintptr_t)comm,
		.warn_ns = (uint64_t)bps_job.config.timeout_s * BPS_NS_PER_S,
	};
}

/* The same where all ranks are in one box. */
static int carry_in_box(const struct bps_mpi *mpi, const struct bps_comm *comm,
                        const struct bps_stage_call *call, uint64_t bytes)
{
	const struct bps_stage_wait wait = wait_on(comm);
	const struct bps_inbox_call in_box = {
		.coll = call->coll,
		.dtype = call->dtype,
		.redop = call->redop,
		.root = (uint32_t)call->root,
		.world_rank = bps_job.rank,
		.bytes = bytes,
		.input = call->input,
		.output = call->output,
		.name = call->name,
		.comm = comm->name,
	};
	struct bps_reason reason;
	int error;

	bps_progress_begin(mpi);
	error = bps_inbox_run(comm->inbox, &in_box, &wait, &reason);
	return error < 0 ? raise_error(mpi, comm, &reason) : mpi->success;
}

/* One op of the engine: @call as carry() gets it. 0, or an error with its reason. */
static int run_op(const struct bps_comm *comm, struct bps_stage_call *call,
                  uint64_t bytes, uint32_t root, struct bps_reason *ret_reason)
{
	const struct bps_stage_wait wait = wait_on(comm);
	int error = bps_tune_cut(comm->tune, call->coll, root, bytes, &call->cut,
	                         &call->window);

	if (error < 0) {
		ret_reason->error = error;
		snprintf(ret_reason->text, sizeof(ret_reason->text),
		         "%s of %llu bytes has too many parts: raise "
		         "BPSMPI_PARTITION_BYTES",
		         call->name, (unsigned long long)bytes);
		return error;
	}
	call->start = call->coll == BPS_BCAST ? root : comm->member;
	call->comm = comm->name;
	if (comm->engine)
		bps_engine_submit(comm->engine, (struct bps_engine_group *)&comm->group,
		                  call, (uint16_t)root);
	return bps_stage_run(comm->stage, call, &wait, ret_reason);
}

/*
 * The ranks compare what they saw, in an op of their own: who is early sleeps, and who is
 * late is named, as in every op.
 */
static int exchange(const struct bps_comm *comm, const char *name,
                    struct bps_reason *ret_reason)
{
	uint64_t bytes = bps_comm_report(comm);
	struct bps_stage_call call = {
		.coll = BPS_ALLREDUCE,
		.dtype = BPS_I64,
		.redop = BPS_MAX,
		.root = -1,
		.input = comm->words,
		.output = comm->words,
		.name = name,
	};
	const struct bps_stage_wait wait = wait_on(comm);
	int error = run_op(comm, &call, bytes, 0, ret_reason);

	return error < 0 ? error : bps_comm_agree(comm, &call, &wait);
}

static bool is_half(enum bps_dtype dtype)
{
	return dtype == BPS_F16 || dtype == BPS_BF16;
}

/* A sum or product of 16-bit floats that some box has several ranks of: one rounding. */
static bool goes_wide(const struct bps_comm *comm, const struct bps_stage_call *call)
{
	return is_half(call->dtype) &&
	       (call->redop == BPS_SUM || call->redop == BPS_PROD) &&
	       bps_job.config.half_push_bits == BPS_HALF_PUSH_32 &&
	       bps_comm_most_local(comm) > 1;
}

/* Carry @call, whose buffers, type, operation and root are set. @root: its member. */
static int carry(const struct bps_mpi *mpi, const struct bps_comm *comm,
                 struct bps_stage_call *call, uint64_t bytes, uint32_t root)
{
	struct bps_reason reason = { 0 };
	uint64_t started_ns;
	int error = 0;

	if (comm->inbox)
		return carry_in_box(mpi, comm, call, bytes);
	if (goes_wide(comm, call)) {
		call->dtype = bps_dtype_wide(call->dtype);
		bytes *= 2; /* of contributions */
	}
	bps_progress_begin(mpi);
	if (bps_tune_due(comm->tune))
		error = exchange(comm, call->name, &reason);
	started_ns = bps_now_ns();
	if (error == 0)
		error = run_op(comm, call, bytes, root, &reason);
	bps_tune_took(comm->tune, bytes, bps_now_ns() - started_ns);
	return error < 0 ? raise_error(mpi, comm, &reason) : mpi->success;
}

/* -- MPI_Allreduce -- */

/* So many times the ranks compare for nothing: then the communicator's rest passes. */
#define MAX_IN_VAIN 32u

/*
 * The ranks of @comm compare what they found an operation to be: processors may differ,
 * and code with them, and MPI lets each rank bring an operation of its own. So all of
 * them come here with every such call, before any other step of it.
 */
static bool alike(const struct bps_mpi *mpi, struct bps_comm *comm,
                  struct bps_recognised mine)
{
	int number = (int)mine.dtype << 8 | (int)mine.redop;
	int ends[2] = { number, -number }, least[2] = { -1, 0 };
	int rc = mpi->Allreduce(ends, least, 2, mpi->type[BPS_MPI_INT], mpi->op[BPS_MIN],
	                        comm->handle);

	if (rc == mpi->success && least[0] == -least[1]) {
		comm->n_in_vain = least[0] == 0 ? comm->n_in_vain + 1 : 0;
		return least[0] != 0;
	}
	comm->n_in_vain = MAX_IN_VAIN;
	if (rc == mpi->success && comm->rank == 0)
		bps_warn("an operation that the program made does other things on one "
		         "rank of a communicator of %u than on another: it is another "
		         "one, or made for another processor; calls with such operations "
		         "on it go to the MPI library",
		         comm->size);
	return false;
}

/*
 * An operation of the application on elements of two bytes: BPS_ROUTE_TAKE with the type
 * and operation of ours that it is. What comes before a comparison is equal on all ranks.
 */
static enum bps_route route_userop(const struct bps_mpi *mpi, const void *input,
                                   int count, bps_handle type, bps_handle op,
                                   bps_handle handle, struct bps_stage_call *ret_call)
{
	struct bps_comm *comm = bps_comm_find(&bps_job, handle);
	struct bps_recognised kind;

	if (!comm)
		return BPS_ROUTE_SETUP;
	if (comm->route != BPS_ROUTE_TAKE && comm->route != BPS_ROUTE_YOUNG)
		return comm->route;
	if (comm->n_in_vain >= MAX_IN_VAIN)
		return BPS_ROUTE_TYPE;
	kind = bps_userop_kind(mpi, op, type, input, count);
	if (!alike(mpi, comm, kind))
		return BPS_ROUTE_TYPE;
	ret_call->dtype = kind.dtype;
	ret_call->redop = kind.redop;
	return BPS_ROUTE_TAKE;
}

/* Whether route_userop() is to say. The library is asked for nothing of a small call. */
static bool is_userop(const struct bps_mpi *mpi, int count, bps_handle type,
                      bps_handle op)
{
	const struct bps_type *known;
	int size = 0;

	if (count <= 0 || 2 * (uint64_t)count < bps_job.least_bytes ||
	    !bps_job.config.user_ops || !bps_userop_known(mpi, op) ||
	    type == mpi->type_null)
		return false;
	known = bps_abi_type(mpi, type);
	if (known)
		size = known->bytes;
	else
		mpi->Type_size(type, &size);
	return size == 2;
}

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
	bool known, userop;

	call.bytes = *ret_bytes = known_bytes(mpi, count, type);
	if (!bps_job.active)
		return BPS_ROUTE_INERT;
	known = bps_abi_type(mpi, type) != NULL;
	call.reducible = known && bps_abi_reduction(mpi, type, op, &ret_call->dtype,
	                                            &ret_call->redop);
	userop = !call.reducible && is_userop(mpi, count, type, op);
	if (!userop && !known)
		return BPS_ROUTE_TYPE;
	if (userop) {
		call.reducible = true;
		call.bytes = *ret_bytes = 2 * (uint64_t)count;
	}
	call.invalid = null_buffer(mpi, sendbuf, recvbuf) || comm == mpi->comm_null;
	call.alias_refused = sendbuf == recvbuf && !mpi->alias_ok;
	route = bps_route_call(&call, bps_job.least_bytes);
	if (route != BPS_ROUTE_TAKE)
		return route;
	if (bps_mpi_internal_caller(mpi, caller))
		return BPS_ROUTE_INTERNAL;
	if (bps_job.config.mode == BPS_MODE_NEVER)
		return BPS_ROUTE_NEVER;
	route = userop ? route_userop(mpi, sendbuf == mpi->in_place ? recvbuf : sendbuf,
	                              count, type, op, comm, ret_call)
	               : BPS_ROUTE_TAKE;
	if (route != BPS_ROUTE_TAKE)
		return route;
	*ret_comm = bps_comm_get(&bps_job, comm, call.bytes);
	return (*ret_comm)->route;
}

static int allreduce(const struct bps_mpi *mpi, const void *caller, const void *sendbuf,
                     void *recvbuf, int count, bps_handle type, bps_handle op,
                     bps_handle handle)
{
	struct bps_stage_call call = { .coll = BPS_ALLREDUCE, .name = "MPI_Allreduce" };
	struct trip trip = { .coll = BPS_ALLREDUCE,
		             .row = BPS_ALLREDUCE,
		             .name = "MPI_Allreduce" };
	const struct bps_comm *comm = NULL;
	int rc;

	trip.route = route_allreduce(mpi, caller, sendbuf, recvbuf, count, type, op,
	                             handle, &call, &trip.bytes, &comm);
	if (is_half(call.dtype))
		trip.row = BPS_COST_HALVES;
	rc = depart(mpi, comm, &trip);
	if (rc != mpi->success)
		return rc;
	call.root = -1;
	call.input = sendbuf == mpi->in_place ? recvbuf : sendbuf;
	call.output = recvbuf;
	if (trip.route == BPS_ROUTE_TAKE)
		rc = carry(mpi, comm, &call, trip.bytes, 0);
	else
		rc = mpi->Allreduce(sendbuf, recvbuf, count, type, op, handle);
	return arrive(mpi, &trip, rc);
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
	route = bps_route_call(&call, bps_job.least_bytes);
	if (route != BPS_ROUTE_TAKE)
		return route;
	if (bps_mpi_internal_caller(mpi, caller))
		return BPS_ROUTE_INTERNAL;
	if (bps_job.config.mode == BPS_MODE_NEVER)
		return BPS_ROUTE_NEVER;
	bcast->comm = bps_comm_get(&bps_job, bcast->handle, bcast->bytes);
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

static int broadcast(const struct bps_mpi *mpi, const void *caller, struct bcast *bcast)
{
	struct trip trip = { .coll = BPS_BCAST, .row = BPS_BCAST, .name = "MPI_Bcast" };
	int rc;

	trip.route = route_bcast(mpi, caller, bcast);
	trip.bytes = bcast->bytes;
	rc = depart(mpi, bcast->comm, &trip);
	if (rc != mpi->success)
		return rc;
	if (trip.route != BPS_ROUTE_TAKE)
		rc = mpi->Bcast(bcast->buffer, bcast->count, bcast->type, bcast->root,
		                bcast->handle);
	else if (bcast->contiguous)
		rc = carry_bcast(mpi, bcast, bcast->buffer);
	else
		rc = carry_packed(mpi, bcast);
	return arrive(mpi, &trip, rc);
}

int bps_bcast(const struct bps_mpi *mpi, const void *caller, void *buffer, int count,
              bps_handle type, int root, bps_handle comm)
{
	struct bcast bcast = { .buffer = buffer,
		               .count = count,
		               .root = root,
		               .type = type,
		               .handle = comm };
	int rc;

	if (inside)
		return mpi->Bcast(buffer, count, type, root, comm);
	inside++;
	rc = broadcast(mpi, caller, &bcast);
	inside--;
	return rc;
}
