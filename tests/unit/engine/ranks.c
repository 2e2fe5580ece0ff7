/* SPDX-License-Identifier: BSD-3-Clause */
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/numa.h"
#include "transport/memory.h"

/* -- boxes -- */

#define BOX(what, n, groups, ...)                                               \
	{                                                                       \
		.name = (what), .n_ranks = (n), .group_of = { __VA_ARGS__ },    \
		.levels = { .n_groups = (groups), .wire_node = BPS_NUMA_NONE }, \
		.nodes = { 3, 1, 2 },                                           \
	}

struct ranks_box ranks_boxes[] = {
	BOX("1", 1, 1, 0),
	BOX("3 on one node", 3, 1, 0, 0, 0),
	BOX("1+1", 2, 2, 0, 1),
	BOX("1+1, the second first", 2, 2, 1, 0),
	BOX("2+2", 4, 2, 0, 0, 1, 1),
	BOX("2+2 in turns", 4, 2, 0, 1, 0, 1),
	BOX("1+3", 4, 2, 0, 1, 1, 1),
	BOX("3+1", 4, 2, 0, 0, 1, 0),
	BOX("1+1+1", 3, 3, 0, 1, 2),
	BOX("2+1+5", 8, 3, 2, 0, 2, 1, 2, 0, 2, 2),
	BOX("2+2+2", 6, 3, 0, 1, 2, 0, 1, 2),
};
const size_t ranks_n_boxes = sizeof(ranks_boxes) / sizeof(ranks_boxes[0]);

__attribute__((constructor)) static void fill_boxes(void)
{
	size_t i;

	for (i = 0; i < ranks_n_boxes; i++) {
		ranks_boxes[i].levels.group_of = ranks_boxes[i].group_of;
		ranks_boxes[i].levels.nodes = ranks_boxes[i].nodes;
	}
}

uint32_t ranks_size(const struct ranks_box *box, uint32_t group)
{
	uint32_t n = 0, r;

	for (r = 0; r < box->n_ranks; r++)
		n += box->group_of[r] == group;
	return n;
}

/* -- threads -- */

struct runner {
	pthread_t thread;
	int (*fn)(void *owner, uint32_t rank);
	void *owner;
	uint32_t rank;
	int status;
};

static void *run(void *arg)
{
	struct runner *runner = arg;

	runner->status = runner->fn(runner->owner, runner->rank);
	if (runner->status != 0) /* the others may wait for it in vain */
		fprintf(stderr, "# rank %u ended with %d\n", runner->rank,
		        runner->status);
	return NULL;
}

void ranks_run(const struct ranks_box *box, int (*fn)(void *owner, uint32_t rank),
               void *owner)
{
	struct runner runners[RANKS_MOST];
	uint32_t r;

	alarm(60);
	for (r = 0; r < box->n_ranks; r++) {
		runners[r] = (struct runner){ .fn = fn, .owner = owner, .rank = r };
		assert_int_equal(
			pthread_create(&runners[r].thread, NULL, run, &runners[r]), 0);
	}
	for (r = 0; r < box->n_ranks; r++)
		pthread_join(runners[r].thread, NULL);
	for (r = 0; r < box->n_ranks; r++) {
		if (runners[r].status != 0)
			fail_msg("%s: rank %u ended with %d", box->name, r,
			         runners[r].status);
	}
}

void ranks_dawdle(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	if (*seed >> 28 == 0)
		usleep(*seed >> 20 & 255);
}

/* Longer than the test lives: whoever is not woken does not wake up. */
static uint64_t sleep_on(void *owner)
{
	(void)owner;
	return 100 * BPS_NS_PER_S;
}

static void describe(void *owner, uint32_t rank, char *buf, size_t bytes)
{
	(void)owner;
	snprintf(buf, bytes, "rank %u", rank);
}

const struct bps_stage_wait ranks_wait = {
	.idle = sleep_on,
	.describe = describe,
	.warn_ns = 60 * BPS_NS_PER_S,
};

/* -- one mapping for all: the linker puts these in the place of the library's -- */

static void *the_map;
static size_t the_bytes;

int __real_bps_memfd_new(const char *name, size_t bytes, int *ret_fd, void **ret_map);
int __wrap_bps_memfd_new(const char *name, size_t bytes, int *ret_fd, void **ret_map);
int __wrap_bps_memfd_map(int fd, size_t bytes, void **ret_map);
void __wrap_bps_region_free(void *region, size_t bytes);
int __wrap_bps_numa_place(void *from, size_t bytes, uint32_t node);

int __wrap_bps_memfd_new(const char *name, size_t bytes, int *ret_fd, void **ret_map)
{
	int r = __real_bps_memfd_new(name, bytes, ret_fd, ret_map);

	if (r == 0) {
		the_map = *ret_map;
		the_bytes = bytes;
	}
	return r;
}

int __wrap_bps_memfd_map(int fd, size_t bytes, void **ret_map)
{
	(void)fd;
	if (bytes > the_bytes)
		return -EOVERFLOW;
	*ret_map = the_map;
	return 0;
}

void __wrap_bps_region_free(void *region, size_t bytes)
{
	if (region != the_map)
		munmap(region, bytes);
}

void ranks_unmap(void)
{
	munmap(the_map, the_bytes);
	the_map = NULL;
}

/* -- placing -- */

struct ranks_placed ranks_placed[64];
uint32_t ranks_n_placed;
static int place_error;

int __wrap_bps_numa_place(void *from, size_t bytes, uint32_t node)
{
	ranks_placed[ranks_n_placed++ % 64] = (struct ranks_placed){ from, bytes, node };
	return place_error;
}

void ranks_forget(int error)
{
	ranks_n_placed = 0;
	place_error = error;
}

/* -- values -- */

uint32_t ranks_value(enum bps_redop redop, uint32_t rank, size_t i)
{
	uint32_t mixed = (uint32_t)i * 2654435761u + rank * 40503u;

	if (redop == BPS_PROD)
		return 1 + (rank % 3 == mixed % 3);
	return mixed >> 13 & (redop == BPS_SUM ? 7 : 1);
}

uint32_t ranks_fold(enum bps_redop redop, uint32_t n_ranks, size_t i)
{
	uint32_t all = ranks_value(redop, 0, i), r;

	for (r = 1; r < n_ranks; r++) {
		uint32_t next = ranks_value(redop, r, i);

		if (redop == BPS_SUM)
			all += next;
		else if (redop == BPS_PROD)
			all *= next;
		else if (redop == BPS_MIN || redop == BPS_LAND || redop == BPS_BAND)
			all = all < next ? all : next;
		else if (redop == BPS_MAX || redop == BPS_LOR || redop == BPS_BOR)
			all = all > next ? all : next;
		else
			all ^= next;
	}
	return all;
}

/* A whole number below 2048. */
static uint16_t half_of(uint32_t value)
{
	uint32_t e = 0;

	if (value == 0)
		return 0;
	while (value >> e > 1)
		e++;
	return (uint16_t)((e + 15) << 10 | (value - (1u << e)) << (10 - e));
}

static uint16_t bfloat_of(uint32_t value)
{
	float x = (float)value;
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return (uint16_t)(bits >> 16);
}

void ranks_put(void *at, enum bps_dtype dtype, size_t i, uint32_t value)
{
	uint16_t bits = dtype == BPS_F16 ? half_of(value) : bfloat_of(value);
	uint32_t bytes = bps_dtype_bytes(dtype);
	char *to = (char *)at + i * bytes;
	float f[2] = { (float)value, (float)value };
	double d[2] = { value, value };
	uint64_t whole = value; /* little-endian */

	if (dtype == BPS_F16 || dtype == BPS_BF16)
		memcpy(to, &bits, bytes);
	else if (dtype == BPS_F32 || dtype == BPS_C64)
		memcpy(to, f, bytes);
	else if (dtype == BPS_F64 || dtype == BPS_C128)
		memcpy(to, d, bytes);
	else
		memcpy(to, &whole, bytes);
}

bool ranks_holds(const void *at, enum bps_dtype dtype, size_t i, uint32_t value)
{
	uint32_t bytes = bps_dtype_bytes(dtype);
	char want[16];

	ranks_put(want, dtype, 0, value);
	return memcmp((const char *)at + i * bytes, want, bytes) == 0;
}

float ranks_float(uint32_t rank, uint64_t call, size_t i)
{
	uint32_t mixed = (uint32_t)(i * 2654435761u + rank * 40503u + call * 97u);

	return (float)(int32_t)mixed / (float)(1u << (mixed % 29));
}

static float group_sum(const struct ranks_box *box, uint32_t group, uint64_t call,
                       size_t i)
{
	bool any = false;
	float sum = 0;
	uint32_t r;

	for (r = 0; r < box->n_ranks; r++) {
		if (box->group_of[r] != group)
			continue;
		sum = any ? sum + ranks_float(r, call, i) : ranks_float(r, call, i);
		any = true;
	}
	return sum;
}

float ranks_float_sum(const struct ranks_box *box, uint32_t first, uint64_t call,
                      size_t i)
{
	float sum = group_sum(box, first, call, i);
	uint32_t g;

	for (g = 0; g < box->levels.n_groups; g++) {
		if (g != first)
			sum += group_sum(box, g, call, i);
	}
	return sum;
}
