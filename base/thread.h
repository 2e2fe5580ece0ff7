/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How our threads start inside a process that is not ours: all signals blocked (its
 * handlers run in its own threads), named, with a small stack, bound from the first
 * instruction where that is asked for.
 */
#pragma once

#include <pthread.h>

/* Stack of our threads: keep large buffers off it. */
#define BPS_THREAD_STACK_BYTES (512UL * 1024)

typedef void *(*bps_thread_fn)(void *arg);

/**
 * bps_thread_start() - start a thread.
 * @name: shown by ps and gdb, cut after 15 characters
 * @fn: runs in the new thread; its result is dropped
 * @arg: borrowed until @fn returns
 * @cpu: the CPU to run on, negative: wherever the caller may run
 * @ret_thread: to be passed to bps_thread_join()
 *
 * Returns 0, or a negative errno (logged; nothing was started).
 */
int bps_thread_start(const char *name, bps_thread_fn fn, void *arg, int cpu,
                     pthread_t *ret_thread);

/** bps_thread_join() - wait until the thread has returned, and release it. */
void bps_thread_join(pthread_t thread);
