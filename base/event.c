/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/event.h"

#include "base/atomic.h"
#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The word is shared between processes: no FUTEX_PRIVATE_FLAG. */
static long futex(uint32_t *word, int what, uint32_t value,
                  const struct timespec *timeout)
{
	return syscall(SYS_futex, word, what, value, timeout, NULL, 0);
}

void bps_event_init(struct bps_event *ev)
{
	ev->seq = 0;
	ev->waiters = 0;
}

uint32_t bps_event_prepare(struct bps_event *ev)
{
	uint32_t seq;

	bps_fetch_add(&ev->waiters, 1);
	/*
	 * Pairs with the fence in bps_event_notify(): either that one sees our count, or
	 * we see its condition.
	 */
	bps_fence();
	/* Acquire: pairs with the add in bps_event_notify(), condition before seq. */
	seq = bps_load_acquire(&ev->seq);
	return seq;
}

void bps_event_cancel(struct bps_event *ev)
{
	bps_fetch_sub(&ev->waiters, 1);
}

int bps_event_wait(struct bps_event *ev, uint32_t seq, uint64_t timeout_ns)
{
	struct timespec limit = {
		.tv_sec = (time_t)(timeout_ns / BPS_NS_PER_S),
		.tv_nsec = (long)(timeout_ns % BPS_NS_PER_S),
	};
	int error = 0;

	/* The kernel compares seq again under its lock: a notify since prepare is EAGAIN.
	 */
	if (futex(&ev->seq, FUTEX_WAIT, seq,
	          timeout_ns == BPS_FOREVER_NS ? NULL : &limit))
		error = errno;
	bps_fetch_sub(&ev->waiters, 1);
	return error == ETIMEDOUT ? -ETIMEDOUT : 0;
}

void bps_event_notify(struct bps_event *ev)
{
	/* Pairs with the fence in bps_event_prepare(). */
	bps_fence();
	if (bps_load_relaxed(&ev->waiters) == 0)
		return;
	/* Release: pairs with the load of seq in bps_event_prepare(). */
	bps_fetch_add(&ev->seq, 1);
	(void)futex(&ev->seq, FUTEX_WAKE, INT_MAX, NULL);
}
