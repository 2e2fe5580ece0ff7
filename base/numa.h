/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * On which memory node pages lie. By system call: no library is needed for two of them.
 * Nodes are meant by the system's numbers. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* In place of a node's number: none, or not known. */
#define BPS_NUMA_NONE UINT32_MAX

/**
 * bps_numa_place() - take pages from node @node when they are touched for the first time,
 * or from another one where it has none left.
 * @from: of a page; @bytes: whole pages
 *
 * In shared memory that holds for all processes that map it. Pages that are there stay
 * where they are.
 * Return: 0; -EINVAL: there is no such node, or no memory of it may be used; -EPERM,
 * -ENOSYS: it is not for us to say, as in some containers. Pages then lie on the node of
 * the thread that touches them first.
 */
int bps_numa_place(void *from, size_t bytes, uint32_t node);

/**
 * bps_numa_where() - the node on which the page of @at lies; it is touched.
 * Return: 0; -EPERM, -ENOSYS as above; -EFAULT where nothing is mapped.
 */
int bps_numa_where(const void *at, uint32_t *ret_node);
