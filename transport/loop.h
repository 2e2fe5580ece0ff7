/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An epoll loop: descriptors, timers, work put off to the end of a turn, and mail from
 * other threads. Edge-triggered epoll below, level-triggered callbacks above: a watch
 * that has not said "again later" (bps_watch_clear) is called again in the next turn.
 *
 * A turn: sleep, timers that are due, mail, watches, deferred work. What a callback adds
 * for its own stage runs in the next turn, which does not sleep then. Any callback may
 * remove or cancel any watch, timer or deferred work, its own too; what was removed is
 * not called. Links may start as zero bytes.
 *
 * Everything belongs to the thread that runs the loop, but bps_loop_post(),
 * bps_loop_wake() and bps_loop_stop(), which any thread may call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/mpsc.h"

struct bps_loop;

/*
 * BPS_HUNG_UP: the peer will write no more (end of file), or the descriptor is broken; it
 * comes together with BPS_READABLE, which tells which of the two by reading.
 */
enum { BPS_READABLE = 1, BPS_WRITABLE = 2, BPS_HUNG_UP = 4 };

/* A descriptor; embedded in its owner. */
struct bps_watch {
	struct bps_loop *loop;
	struct bps_list link; /* among those with something to do */
	int fd;
	uint32_t wanted, ready; /* BPS_READABLE | BPS_WRITABLE | BPS_HUNG_UP; loop's */
	void (*fn)(struct bps_watch *watch, uint32_t events);
};

struct bps_timer {
	struct bps_list link;
	uint64_t at_ns; /* CLOCK_MONOTONIC; 0 = not set */
	void (*fn)(struct bps_timer *timer);
};

/* Work at the end of the turn, e.g. freeing what the current callback stands on. */
struct bps_defer {
	struct bps_list link; /* empty list = not scheduled */
	void (*fn)(struct bps_defer *defer);
};

/* A letter from another thread; the sender owns it again once fn() runs, on the loop. */
struct bps_mail {
	struct bps_mpsc_node node;
	void (*fn)(struct bps_mail *mail);
};

/** bps_loop_new() - Return: 0 or a negative errno. Owned by the caller. */
int bps_loop_new(struct bps_loop **ret_loop);
/**
 * bps_loop_free() - takes NULL. Every watch, timer and deferred work was removed before;
 * mail that was not delivered stays its sender's.
 */
void bps_loop_free(struct bps_loop *loop);
/**
 * bps_loop_idle() - whether no watch, timer or deferred work is left. A connection that
 * was closed ends by turns of its loop: before bps_loop_free(), turn until this is true.
 */
bool bps_loop_idle(const struct bps_loop *loop);

/**
 * bps_loop_turn() - run what is due; sleep at most @timeout_ns (UINT64_MAX: for ever) if
 * there is nothing. Return: 0 or a negative errno.
 */
int bps_loop_turn(struct bps_loop *loop, uint64_t timeout_ns);
/** bps_loop_run() - turns until bps_loop_stop(). Return: 0 or a negative errno. */
int bps_loop_run(struct bps_loop *loop);
/** bps_loop_stop() - let bps_loop_run() return after its turn, or at once; any thread. */
void bps_loop_stop(struct bps_loop *loop);
/** bps_loop_now() - time at the start of this turn, ns. */
uint64_t bps_loop_now(const struct bps_loop *loop);

/** bps_loop_wake() - end the sleep of the loop; any thread; async-signal-safe. */
void bps_loop_wake(struct bps_loop *loop);
/**
 * bps_loop_wake_fd() - the eventfd behind it, to be passed to other processes, which wake
 * the loop by writing a uint64_t 1. Borrowed; nonblocking.
 */
int bps_loop_wake_fd(const struct bps_loop *loop);
/** bps_loop_post() - let @mail->fn run on the loop, in order of posting; any thread. */
void bps_loop_post(struct bps_loop *loop, struct bps_mail *mail);

/**
 * bps_watch_add() - watch @watch->fd for @wanted; fd and fn are filled by the caller. The
 * loop borrows @watch until bps_watch_remove(), to be called before the descriptor
 * closes. Return: 0 or a negative errno.
 */
int bps_watch_add(struct bps_loop *loop, struct bps_watch *watch, uint32_t wanted);
/** bps_watch_want() - change what it is called for; 0: not at all, for now. */
void bps_watch_want(struct bps_watch *watch, uint32_t wanted);
/** bps_watch_clear() - the descriptor said EAGAIN for @events: wait for the next edge. */
void bps_watch_clear(struct bps_watch *watch, uint32_t events);
/** bps_watch_remove() - idempotent; the descriptor stays the caller's. */
void bps_watch_remove(struct bps_watch *watch);

/** bps_timer_set() - call @timer->fn once, at @at_ns or up to 1 ms later; moves a set
 * one. */
void bps_timer_set(struct bps_loop *loop, struct bps_timer *timer, uint64_t at_ns);
/** bps_timer_cancel() - idempotent. */
void bps_timer_cancel(struct bps_timer *timer);
/** bps_defer_add() - call @defer->fn at the end of the turn; once, however often added.
 */
void bps_defer_add(struct bps_loop *loop, struct bps_defer *defer);
/** bps_defer_cancel() - idempotent. */
void bps_defer_cancel(struct bps_defer *defer);
