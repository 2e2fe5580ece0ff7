/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/stats.h"

#include <stdio.h>

#include "base/atomic.h"
#include "base/log.h"

/* A process's; programs make and free communicators without end. */
#define MAX_COST_LINES 32

static struct {
	uint64_t calls, bytes;
} counts[BPS_N_COLLS][BPS_N_ROUTES];
static uint64_t taken_ns[BPS_N_COLLS];

void bps_stats_count(enum bps_coll coll, enum bps_route route, uint64_t bytes)
{
	bps_add_relaxed(&counts[coll][route].calls, 1);
	bps_add_relaxed(&counts[coll][route].bytes, bytes);
}

void bps_stats_time(enum bps_coll coll, uint64_t ns)
{
	bps_add_relaxed(&taken_ns[coll], ns);
}

static void print_coll(enum bps_coll coll, const char *name)
{
	uint64_t bytes = counts[coll][BPS_ROUTE_TAKE].bytes, passed = 0;
	char passes[512] = "";
	size_t used = 0;
	int route;

	for (route = BPS_ROUTE_TAKE + 1; route < BPS_N_ROUTES; route++) {
		if (counts[coll][route].calls == 0)
			continue;
		passed += counts[coll][route].calls;
		used += (size_t)snprintf(passes + used, sizeof(passes) - used,
		                         " %s=%llu/%llu", bps_route_label(route),
		                         (unsigned long long)counts[coll][route].calls,
		                         (unsigned long long)counts[coll][route].bytes);
		if (used > sizeof(passes) - 64)
			break;
	}
	bps_log_write("stats", "%s taken=%llu/%llu MB/s=%.1f passed=%llu%s", name,
	              (unsigned long long)counts[coll][BPS_ROUTE_TAKE].calls,
	              (unsigned long long)bytes,
	              taken_ns[coll] ? (double)bytes * 1e3 / (double)taken_ns[coll] : 0.0,
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
