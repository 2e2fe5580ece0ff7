/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/numa.h"

#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's numbers, see mbind(2) and get_mempolicy(2): the C library has none. */
#define PREFERRED    1
#define NODE_OF_ADDR 3ul /* MPOL_F_NODE | MPOL_F_ADDR */
#define MAX_NODES    1024u
#define BITS_OF_WORD (sizeof(unsigned long) * CHAR_BIT)

int bps_numa_place(void *from, size_t bytes, uint32_t node)
{
	unsigned long mask[MAX_NODES / BITS_OF_WORD] = { 0 };

	if (node >= MAX_NODES)
		return -EINVAL;
	mask[node / BITS_OF_WORD] = 1ul << node % BITS_OF_WORD;
	/* It takes one bit less than it is told. */
	if (syscall(SYS_mbind, from, bytes, PREFERRED, mask, MAX_NODES + 1ul, 0) < 0)
		return -errno;
	return 0;
}

int bps_numa_where(const void *at, uint32_t *ret_node)
{
	int node;

	if (syscall(SYS_get_mempolicy, &node, NULL, 0ul, at, NODE_OF_ADDR) < 0)
		return -errno;
	*ret_node = (uint32_t)node;
	return 0;
}
