/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/stats.h"

#include <stdio.h>

#include "base/atomic.h"
#include "base/log.h"
#include "base/numa.h"

/* A process's; programs make and free communicators without end. */
#define MAX_COST_LINES 32

struct bps_count bps_stats_own[BPS_N_COLLS][BPS_N_ROUTES];
struct bps_count bps_stats_others[BPS_N_COLLS][BPS_N_ROUTES];
__thread bool bps_stats_first;
static uint64_t taken_ns[BPS_N_COLLS];
static uint64_t crossed;

void bps_stats_time(enum bps_coll coll, uint64_t ns)
{
	bps_add_relaxed(&taken_ns[coll], ns);
}

static struct bps_count total(enum bps_coll coll, enum bps_route route)
{
	struct bps_count sum = bps_stats_own[coll][route];

	sum.calls += bps_stats_others[coll][route].calls;
	sum.bytes += bps_stats_others[coll][route].bytes;
	return sum;
}

static void print_coll(enum bps_coll coll, const char *name)
{
	struct bps_count taken = total(coll, BPS_ROUTE_TAKE);
	uint64_t passed = 0;
	char passes[512] = "";
	size_t used = 0;
	int route;

	for (route = BPS_ROUTE_TAKE + 1; route < BPS_N_ROUTES; route++) {
		struct bps_count pass = total(coll, (enum bps_route)route);

		if (pass.calls == 0)
			continue;
		passed += pass.calls;
		used += (size_t)snprintf(passes + used, sizeof(passes) - used,
		                         " %s=%llu/%llu", bps_route_label(route),
		                         (unsigned long long)pass.calls,
		                         (unsigned long long)pass.bytes);
		if (used > sizeof(passes) - 64)
			break;
	}
	bps_log_write("stats", "%s taken=%llu/%llu MB/s=%.1f passed=%llu%s", name,
	              (unsigned long long)taken.calls, (unsigned long long)taken.bytes,
	              taken_ns[coll] ? (double)taken.bytes * 1e3 / (double)taken_ns[coll]
	                             : 0.0,
	              (unsigned long long)passed, passes);
}

/* Of what is learnt, and so of the collectives. */
static const char *const row_names[BPS_COST_N_ROWS] = {
	[BPS_ALLREDUCE] = "MPI_Allreduce",
	[BPS_BCAST] = "MPI_Bcast",
	[BPS_COST_HALVES] = "MPI_Allreduce of 16-bit floats",
};

void bps_stats_learnt(const char *name, const struct bps_cost *cost)
{
	static uint32_t n_lines;
	char text[700];
	uint32_t row;

	for (row = BPS_ALLREDUCE; row < BPS_COST_N_ROWS; row++) {
		if (bps_cost_format(cost, row, text, sizeof(text)) &&
		    bps_add_relaxed(&n_lines, 1u) < MAX_COST_LINES)
			bps_log_write("stats", "cost %s %s: %s", name, row_names[row],
			              text);
	}
}

void bps_stats_print(void)
{
	int coll;

	for (coll = BPS_ALLREDUCE; coll < BPS_N_COLLS; coll++)
		print_coll((enum bps_coll)coll, row_names[coll]);
}

void bps_stats_crossed(uint64_t bytes)
{
	bps_add_relaxed(&crossed, bytes);
}

void bps_stats_print_nodes(uint32_t node)
{
	char name[16] = "unknown";

	if (crossed == 0)
		return;
	if (node != BPS_NUMA_NONE)
		snprintf(name, sizeof(name), "%u", node);
	bps_log_write("stats", "memory node=%s crossed=%llu", name,
	              (unsigned long long)crossed);
}
