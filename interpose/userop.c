/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/userop.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/list.h"
#include "base/log.h"
#include "engine/hash.h"

/* What an operation is on a type. */
struct verdict {
	struct bps_list link;
	bps_handle type;
	struct bps_recognised kind;
};

struct userop {
	UT_hash_handle hh;
	bps_handle handle;
	struct bps_list verdicts;
};

/* Of all below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct userop *userops;
static uint32_t n_verdicts; /* written under the lock, read without: types come and go */

/* As it lies in the application's variable, that has the library's size. */
static bps_handle load_handle(const struct bps_mpi *mpi, const void *at)
{
	bps_handle handle = 0;

	memcpy(&handle, at, mpi->handle_mask > UINT32_MAX ? 8 : 4);
	return handle;
}

static struct userop *find(const struct bps_mpi *mpi, bps_handle op)
{
	struct userop *found;

	op &= mpi->handle_mask;
	HASH_FIND(hh, userops, &op, sizeof(op), found);
	return found;
}

static void drop_verdict(struct verdict *verdict)
{
	bps_list_remove(&verdict->link);
	free(verdict);
	bps_store_relaxed(&n_verdicts, n_verdicts - 1);
}

static void drop(struct userop *userop)
{
	struct verdict *verdict, *following;

	BPS_LIST_FOREACH_SAFE(verdict, following, &userop->verdicts, link)
	drop_verdict(verdict);
	HASH_DEL(userops, userop);
	free(userop);
}

static void add(bps_handle op)
{
	struct userop *userop = calloc(1, sizeof(*userop));

	if (userop) {
		userop->handle = op;
		bps_list_init(&userop->verdicts);
		HASH_ADD(hh, userops, handle, sizeof(userop->handle), userop);
		if (userop->hh.tbl)
			return;
	}
	free(userop);
	bps_error("out of memory: calls with an operation of the application go to the "
	          "MPI library on this rank alone");
}

int bps_op_create(const struct bps_mpi *mpi, const void *caller, void *function,
                  int commute, void *op)
{
	int rc = mpi->Op_create(function, commute, op);
	struct userop *userop;

	(void)caller;
	if (rc != mpi->success || mpi->abi == BPS_ABI_NONE)
		return rc;
	pthread_mutex_lock(&lock);
	userop = find(mpi, load_handle(mpi, op));
	if (userop) /* freed by a way that does not lead through us */
		drop(userop);
	if (commute)
		add(load_handle(mpi, op));
	pthread_mutex_unlock(&lock);
	return rc;
}

/* Forgotten before the library may give its handle to another. */
int bps_op_free(const struct bps_mpi *mpi, const void *caller, void *op)
{
	struct userop *userop;

	(void)caller;
	if (op && mpi->abi != BPS_ABI_NONE) {
		pthread_mutex_lock(&lock);
		userop = find(mpi, load_handle(mpi, op));
		if (userop)
			drop(userop);
		pthread_mutex_unlock(&lock);
	}
	return mpi->Op_free(op);
}

static void drop_type(bps_handle type)
{
	struct verdict *verdict, *following;
	struct userop *userop, *next;

	HASH_ITER(hh, userops, userop, next)
	{
		BPS_LIST_FOREACH_SAFE(verdict, following, &userop->verdicts, link)
		{
			if (verdict->type == type)
				drop_verdict(verdict);
		}
	}
}

int bps_type_free(const struct bps_mpi *mpi, const void *caller, void *type)
{
	(void)caller;
	if (type && bps_load_relaxed(&n_verdicts) > 0) {
		pthread_mutex_lock(&lock);
		drop_type(load_handle(mpi, type));
		pthread_mutex_unlock(&lock);
	}
	return mpi->Type_free(type);
}

bool bps_userop_known(const struct bps_mpi *mpi, bps_handle op)
{
	bool known;

	pthread_mutex_lock(&lock);
	known = find(mpi, op) != NULL;
	pthread_mutex_unlock(&lock);
	return known;
}

/* -- which of ours it is -- */

struct subject {
	const struct bps_mpi *mpi;
	bps_handle op, type;
};

static int combine(void *owner, const uint16_t *in, uint16_t *inout, int count)
{
	const struct subject *subject = owner;
	const struct bps_mpi *mpi = subject->mpi;

	return mpi->Reduce_local(in, inout, count, subject->type, subject->op) !=
	       mpi->success;
}

/* Without a hole, and not one byte twice: then two bytes lie side by side. */
static bool is_plain(const struct bps_mpi *mpi, bps_handle type)
{
	intptr_t lb = 0, extent = 0, true_lb = 0, true_extent = 0;
	int size = 0;

	return mpi->Type_size(type, &size) == mpi->success && size == 2 &&
	       mpi->Type_get_extent(type, &lb, &extent) == mpi->success && lb == 0 &&
	       extent == 2 &&
	       mpi->Type_get_true_extent(type, &true_lb, &true_extent) == mpi->success &&
	       true_lb == 0 && true_extent == 2;
}

/* The lock is held. */
static const struct verdict *look_up(const struct bps_mpi *mpi, bps_handle op,
                                     bps_handle type)
{
	const struct userop *userop = find(mpi, op);
	const struct verdict *verdict;

	if (!userop)
		return NULL;
	BPS_LIST_FOREACH(verdict, &userop->verdicts, link)
	{
		if (verdict->type == type)
			return verdict;
	}
	return NULL;
}

static void remember(const struct bps_mpi *mpi, bps_handle op, bps_handle type,
                     struct bps_recognised kind)
{
	struct verdict *verdict = calloc(1, sizeof(*verdict));
	struct userop *userop;

	pthread_mutex_lock(&lock);
	userop = find(mpi, op);
	if (verdict && userop) {
		verdict->type = type;
		verdict->kind = kind;
		bps_list_push_back(&userop->verdicts, &verdict->link);
		bps_store_relaxed(&n_verdicts, n_verdicts + 1);
		verdict = NULL;
	}
	pthread_mutex_unlock(&lock);
	free(verdict);
}

struct bps_recognised bps_userop_kind(const struct bps_mpi *mpi, bps_handle op,
                                      bps_handle type, const void *input, int count)
{
	const struct bps_recognised none = { BPS_DTYPE_NONE, BPS_REDOP_NONE };
	struct subject subject = { mpi, op, type & mpi->handle_mask };
	struct bps_recognised kind = none;
	const struct verdict *verdict;

	pthread_mutex_lock(&lock);
	verdict = look_up(mpi, op, subject.type);
	if (verdict)
		kind = verdict->kind;
	pthread_mutex_unlock(&lock);
	if (verdict)
		return kind.dtype == BPS_DTYPE_NONE ||
		                       bps_recognise_again(combine, &subject, input,
		                                           (size_t)count, kind)
		               ? kind
		               : none;
	if (is_plain(mpi, type) &&
	    bps_recognise(combine, &subject, input, (size_t)count, &kind) < 0)
		return kind;
	remember(mpi, op, subject.type, kind);
	return kind;
}
