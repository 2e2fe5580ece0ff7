/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets of CPUs, as large as a kernel's can be, without allocation: which ones this
 * process may use, which of them the user leaves to our threads, who runs where.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BPS_CPU_MAX 8192 /* NR_CPUS of the largest kernels */

/* The kernel's layout on 64-bit machines. All zero bytes are the empty set. */
struct bps_cpuset {
	uint64_t bits[BPS_CPU_MAX / 64];
};

/** bps_cpuset_add() - add @cpu; one that is out of range is left out. */
void bps_cpuset_add(struct bps_cpuset *set, uint32_t cpu);

/** bps_cpuset_has() - whether @cpu (any number) is in the set. */
bool bps_cpuset_has(const struct bps_cpuset *set, uint32_t cpu);

/** bps_cpuset_count() - how many CPUs the set has. */
uint32_t bps_cpuset_count(const struct bps_cpuset *set);

/** bps_cpuset_nth() - the @n-th CPU of the set from 0 in rising order; -1: not so many.
 */
int bps_cpuset_nth(const struct bps_cpuset *set, uint32_t n);

/** bps_cpuset_intersect() - keep in @set only what is in @other too. */
void bps_cpuset_intersect(struct bps_cpuset *set, const struct bps_cpuset *other);

/**
 * bps_cpuset_parse() - read a list such as "0-3,8" (the kernel's format).
 * @what: what errors call it, for example "BPSMPI_CPUS"
 * @ret_set: set on success only; "" gives the empty set
 *
 * Returns 0 or -EINVAL (logged).
 */
int bps_cpuset_parse(const char *what, const char *text, struct bps_cpuset *ret_set);

/**
 * bps_cpuset_format() - write the set as bps_cpuset_parse() reads it.
 * @ret_text: at most @text_bytes with its end; a longer list ends in "..."
 */
void bps_cpuset_format(const struct bps_cpuset *set, char *ret_text, size_t text_bytes);

/**
 * bps_cpuset_allowed() - the CPUs on which the calling thread may run.
 *
 * Returns 0 or a negative errno (logged).
 */
int bps_cpuset_allowed(struct bps_cpuset *ret_set);

/**
 * bps_cpuset_usable() - the allowed CPUs that the user leaves to our threads.
 * @what: what errors call the list, for example "BPSMPI_CPUS"
 * @list: as bps_cpuset_parse() takes it; "" means all that are allowed
 *
 * Returns 0, -EINVAL (logged: no list, or none of its CPUs is allowed), or the error of
 * bps_cpuset_allowed().
 */
int bps_cpuset_usable(const char *what, const char *list, struct bps_cpuset *ret_set);

/**
 * bps_cpuset_bind() - let the calling thread run on these CPUs only.
 *
 * Returns 0 or a negative errno (logged).
 */
int bps_cpuset_bind(const struct bps_cpuset *set);

/**
 * bps_cpuset_n_threads() - how many busy threads the set has room for: its CPUs, or what
 * the control groups of this process grant where that is less. At least 1.
 */
uint32_t bps_cpuset_n_threads(const struct bps_cpuset *set);

/**
 * bps_cpu_quota() - how many CPUs' time the control groups grant (version 1 or 2, this
 * process's group and all above it), rounded up.
 * @root: what lies before /proc and /sys: "", or a directory in tests
 *
 * Returns UINT32_MAX where there is no limit.
 */
uint32_t bps_cpu_quota(const char *root);
