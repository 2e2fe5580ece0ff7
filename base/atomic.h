/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic access to plain 32 and 64-bit integers and pointers, also where they lie in
 * memory shared between processes (always lock-free there). Each use names its partner:
 *
 *	bps_store_release(&slot->done, n); // pairs with the acquire in the copy out
 *
 * What was written before the release is visible after the acquire that read its value.
 */
#pragma once

#include <stdint.h>

#if !defined(__GCC_ATOMIC_LLONG_LOCK_FREE) || __GCC_ATOMIC_LLONG_LOCK_FREE != 2
#error "64-bit atomics must be lock-free: counters are shared between processes"
#endif

#define bps_load_relaxed(ptr)         __atomic_load_n((ptr), __ATOMIC_RELAXED)
#define bps_load_acquire(ptr)         __atomic_load_n((ptr), __ATOMIC_ACQUIRE)
#define bps_store_relaxed(ptr, value) __atomic_store_n((ptr), (value), __ATOMIC_RELAXED)
#define bps_store_release(ptr, value) __atomic_store_n((ptr), (value), __ATOMIC_RELEASE)

/* For statistics: orders nothing. */
#define bps_add_relaxed(ptr, value) __atomic_fetch_add((ptr), (value), __ATOMIC_RELAXED)

/* Both acquire and release, for hand-over counts (the last one in goes on). They return
 * the value before. */
#define bps_fetch_add(ptr, value) __atomic_fetch_add((ptr), (value), __ATOMIC_ACQ_REL)
#define bps_fetch_sub(ptr, value) __atomic_fetch_sub((ptr), (value), __ATOMIC_ACQ_REL)
#define bps_exchange(ptr, value)  __atomic_exchange_n((ptr), (value), __ATOMIC_ACQ_REL)

/* *ptr = desired if it is *expected, and true; else *expected = *ptr, and false. Strong;
 * acquire and release on success, acquire on failure. */
#define bps_compare_exchange(ptr, expected, desired)                                   \
	__atomic_compare_exchange_n((ptr), (expected), (desired), 0, __ATOMIC_ACQ_REL, \
	                            __ATOMIC_ACQUIRE)

/* Orders a store before it against a load after it (as in "I wait" / "you are done"). */
#define bps_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/** bps_cpu_relax() - tell the core that the caller polls. */
static inline void bps_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}
