/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exported symbols: each MPI_X with its PMPI_X, so that C, Fortran, Python and tools
 * before and behind us are all seen, once each. The list at the end is the shim.
 *
 * MPI_X first looks for a tool that was preloaded behind us: it must see the call, and
 * calls our PMPI_X in turn. PMPI_X decides.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/log.h"
#include "interpose/coll.h"
#include "interpose/job.h"
#include "interpose/stats.h"
#include "interpose/userop.h"

/* MPI_ERR_OTHER where no library was found that could say its number. */
#define NO_LIBRARY 16

static struct bps_mpi *library(const void *caller)
{
	struct bps_mpi *mpi = bps_load_acquire(&bps_job.mpi);

	if (mpi)
		return mpi;
	if (bps_mpi_resolve(caller, &mpi) < 0) {
		bps_error(
			"an MPI function was called, but no MPI library is loaded in this "
			"process: link the program with one, or take libbytepsmpi.so out of "
			"LD_PRELOAD");
		return NULL;
	}
	bps_store_release(&bps_job.mpi, mpi); /* pairs with the acquire above */
	return mpi;
}

/* The tool's function behind our MPI_X, found once; @cache: NULL at first. */
static void *tool_behind(const struct bps_mpi *mpi, const char *name, void **cache)
{
	static char none;
	void *tool = bps_load_relaxed(cache);

	if (!tool) {
		tool = bps_mpi_next_tool(mpi, name);
		bps_store_relaxed(cache, tool ? tool : (void *)&none);
	}
	return tool == &none ? NULL : tool;
}

static int started(const struct bps_mpi *mpi, int rc)
{
	if (rc == mpi->success && !bps_job.seen) {
		bps_job.seen = true;
		bps_job_start(&bps_job);
	}
	return rc;
}

static int init(const struct bps_mpi *mpi, const void *caller, int *argc, char ***argv)
{
	(void)caller;
	return started(mpi, mpi->Init(argc, argv));
}

static int init_thread(const struct bps_mpi *mpi, const void *caller, int *argc,
                       char ***argv, int required, int *provided)
{
	(void)caller;
	return started(mpi, mpi->Init_thread(argc, argv, required, provided));
}

static int finalize(const struct bps_mpi *mpi, const void *caller)
{
	(void)caller;
	if (bps_job.seen)
		bps_job_stop(&bps_job);
	return mpi->Finalize();
}

/*
 * The short cut of small calls, which programs make all the time: where one goes at once,
 * counted, or NULL. It decides nothing that bps_allreduce() and bps_bcast() would not.
 */
static inline const struct bps_mpi *direct(enum bps_coll coll, int count, bps_handle type)
{
	const struct bps_mpi *mpi = bps_job.direct;
	const struct bps_type *known = mpi ? bps_abi_type(mpi, type) : NULL;
	uint64_t bytes = known && count > 0 ? (uint64_t)count * known->bytes : 0;

	if (bytes == 0 || bytes >= bps_job.least_bytes)
		return NULL;
	bps_stats_count(coll, BPS_ROUTE_SMALL, bytes);
	return mpi;
}

#define EXPORT __attribute__((visibility("default")))

/* MPI_@name and PMPI_@name with parameters @params, carried by @fn with the other
 * arguments; or by the library that @cut gives.
 */
#define SHIM(name, fn, cut, params, ...)                                              \
	EXPORT int MPI_##name params;                                                 \
	EXPORT int PMPI_##name params;                                                \
	EXPORT int PMPI_##name params                                                 \
	{                                                                             \
		const struct bps_mpi *short_cut = cut;                                \
		const void *caller = __builtin_return_address(0);                     \
		const struct bps_mpi *mpi;                                            \
                                                                                      \
		if (short_cut)                                                        \
			return short_cut->name(__VA_ARGS__);                          \
		mpi = library(caller);                                                \
		return mpi ? fn(mpi, caller __VA_OPT__(, ) __VA_ARGS__) : NO_LIBRARY; \
	}                                                                             \
	EXPORT int MPI_##name params                                                  \
	{                                                                             \
		static void *cache;                                                   \
		const void *caller = __builtin_return_address(0);                     \
		const struct bps_mpi *short_cut = cut;                                \
		const struct bps_mpi *mpi;                                            \
		int(*tool) params;                                                    \
                                                                                      \
		if (short_cut)                                                        \
			return short_cut->name(__VA_ARGS__);                          \
		mpi = library(caller);                                                \
		if (!mpi)                                                             \
			return NO_LIBRARY;                                            \
		tool = (int(*) params)tool_behind(mpi, "MPI_" #name, &cache);         \
		return tool ? tool(__VA_ARGS__)                                       \
		            : fn(mpi, caller __VA_OPT__(, ) __VA_ARGS__);             \
	}

SHIM(Init, init, NULL, (int *argc, char ***argv), argc, argv)
SHIM(Init_thread, init_thread, NULL,
     (int *argc, char ***argv, int required, int *provided), argc, argv, required,
     provided)
SHIM(Finalize, finalize, NULL, (void))
SHIM(Allreduce, bps_allreduce, direct(BPS_ALLREDUCE, count, type),
     (const void *sendbuf, void *recvbuf, int count, bps_handle type, bps_handle op,
      bps_handle comm),
     sendbuf, recvbuf, count, type, op, comm)
SHIM(Bcast, bps_bcast, direct(BPS_BCAST, count, type),
     (void *buffer, int count, bps_handle type, int root, bps_handle comm), buffer, count,
     type, root, comm)
SHIM(Op_create, bps_op_create, NULL, (void *function, int commute, void *op), function,
     commute, op)
SHIM(Op_free, bps_op_free, NULL, (void *op), op)
SHIM(Type_free, bps_type_free, NULL, (void *type), type)
