/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleep until a condition in shared memory holds, without a lost wake-up and without a
 * system call where nobody sleeps. For threads and for processes that map the same
 * memory, at whatever address. All zero bytes are a valid event.
 *
 *	waiter					the one who makes it true
 *
 *	while (!condition()) {			make the condition true;
 *		seq = bps_event_prepare(ev);	bps_event_notify(ev);
 *		if (condition()) {
 *			bps_event_cancel(ev);
 *			break;
 *		}
 *		bps_event_wait(ev, seq, timeout_ns);
 *	}
 *
 * A waiter that is killed between prepare and wait costs the others one idle system call
 * a notify, nothing else.
 */
#pragma once

#include <stdint.h>

/* As a timeout: no limit. */
#define BPS_FOREVER_NS UINT64_MAX

struct bps_event {
	uint32_t seq;     /* the futex word: changes when waiters are woken */
	uint32_t waiters; /* how many are between prepare and the end of cancel or wait */
};

/** bps_event_init() - make @ev an event, before others know it. */
void bps_event_init(struct bps_event *ev);

/**
 * bps_event_prepare() - say that the caller is about to sleep; any thread.
 *
 * Returns what to pass to bps_event_wait(). Each prepare is followed by exactly one
 * bps_event_cancel() or bps_event_wait(), after the condition was looked at once more.
 */
uint32_t bps_event_prepare(struct bps_event *ev);

/** bps_event_cancel() - end a prepare without sleeping. */
void bps_event_cancel(struct bps_event *ev);

/**
 * bps_event_wait() - end a prepare by sleeping until a notify.
 * @seq: what bps_event_prepare() returned
 * @timeout_ns: the longest sleep, BPS_FOREVER_NS for no limit
 *
 * Returns 0 where the condition is worth another look (also for no reason, or because of
 * a signal), -ETIMEDOUT.
 */
int bps_event_wait(struct bps_event *ev, uint32_t seq, uint64_t timeout_ns);

/**
 * bps_event_notify() - wake all waiters, after the condition was made true; any thread.
 */
void bps_event_notify(struct bps_event *ev);
