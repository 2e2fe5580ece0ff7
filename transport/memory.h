/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that messages come from and go to: private regions, and shared ones that other
 * processes of the box map through their descriptor (see fdpass.h). Shared memory is a
 * memfd: it has no name in any file system and ends with its last user, however that one
 * dies. Its size is sealed, so that no mapping of it can be made to fault. Any thread.
 */
#pragma once

#include <stddef.h>

/**
 * bps_region_alloc() - zeroed, page-aligned memory of @bytes bytes, at least 1. Pages are
 * taken when they are touched. Return: 0 or -ENOMEM, -EINVAL. Owned by the caller until
 * bps_region_free().
 */
int bps_region_alloc(size_t bytes, void **ret_region);

/** bps_region_free() - end a region or a mapping of @bytes bytes; takes NULL. */
void bps_region_free(void *region, size_t bytes);

/**
 * bps_memfd_new() - make zeroed shared memory of @bytes bytes, at least 1, and map it.
 * @name: shown in /proc/PID/maps, of no other use
 * Return: 0 or a negative errno. The caller owns the descriptor (close) and the mapping
 * (bps_region_free()); either may go first.
 */
int bps_memfd_new(const char *name, size_t bytes, int *ret_fd, void **ret_map);

/**
 * bps_memfd_map() - map the first @bytes bytes of shared memory that another process
 * made.
 * @fd: borrowed for this call
 * Return: 0; -EOVERFLOW where it is shorter, -EPERM where its size is not sealed; another
 * negative errno. The caller owns the mapping.
 */
int bps_memfd_map(int fd, size_t bytes, void **ret_map);
