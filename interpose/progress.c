/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/progress.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"

#define FIRST_NS (50 * BPS_NS_PER_US)
#define LAST_NS  BPS_NS_PER_MS

/* One thread's request; lives until MPI_Finalize. */
struct driver {
	struct bps_list link;
	bps_handle request;
};

static __thread struct driver *driver;
static __thread const struct bps_mpi *mpi_now;
static __thread uint64_t due_ns, interval_ns;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bps_list drivers = { &drivers, &drivers }; /* under the lock */

static int query(void *extra, void *status)
{
	const struct bps_mpi *mpi = extra;

	mpi->Status_set_elements(status, mpi->type[BPS_MPI_BYTE], 0);
	mpi->Status_set_cancelled(status, 0);
	return mpi->success;
}

static int release(void *extra)
{
	return ((const struct bps_mpi *)extra)->success;
}

static int cancel(void *extra, int complete)
{
	(void)complete;
	return ((const struct bps_mpi *)extra)->success;
}

static struct driver *driver_new(const struct bps_mpi *mpi)
{
	struct driver *new = calloc(1, sizeof(*new));

	if (!new)
		return NULL;
	if (mpi->Grequest_start(query, release, cancel, (void *)(uintptr_t)mpi,
	                        &new->request) != mpi->success) {
		free(new);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	bps_list_push_back(&drivers, &new->link);
	pthread_mutex_unlock(&lock);
	return new;
}

void bps_progress_begin(const struct bps_mpi *mpi)
{
	mpi_now = mpi;
	interval_ns = FIRST_NS;
	due_ns = bps_now_ns() + FIRST_NS;
}

uint64_t bps_progress(void *unused)
{
	uint64_t now_ns = bps_now_ns();
	int flag;

	(void)unused;
	if (now_ns < due_ns)
		return due_ns - now_ns;
	if (!driver)
		driver = driver_new(mpi_now);
	if (driver)
		mpi_now->Test(&driver->request, &flag, mpi_now->status_ignore);
	if (interval_ns < LAST_NS)
		interval_ns *= 2;
	due_ns = bps_now_ns() + interval_ns;
	return interval_ns;
}

void bps_progress_end(const struct bps_mpi *mpi)
{
	struct bps_list *link;

	pthread_mutex_lock(&lock);
	while ((link = bps_list_pop_front(&drivers))) {
		struct driver *old = BPS_CONTAINER_OF(link, struct driver, link);

		mpi->Grequest_complete(old->request);
		mpi->Wait(&old->request, mpi->status_ignore);
		free(old);
	}
	pthread_mutex_unlock(&lock);
	driver = NULL;
}
