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

static const char *const coll_names[] = {
	[BPS_ALLREDUCE] = "MPI_Allreduce",
	[BPS_BCAST] = "MPI_Bcast",
};

void bps_stats_learnt(const char *name, const struct bps_cost *cost)
{
	static uint32_t n_lines;
	char text[700];
	int coll;

	for (coll = BPS_ALLREDUCE; coll < BPS_N_COLLS; coll++) {
		if (bps_cost_format(cost, (enum bps_coll)coll, text, sizeof(text)) &&
		    bps_add_relaxed(&n_lines, 1u) < MAX_COST_LINES)
			bps_log_write("stats", "cost %s %s: %s", name, coll_names[coll],
			              text);
	}
}

void bps_stats_print(void)
{
	int coll;

	for (coll = BPS_ALLREDUCE; coll < BPS_N_COLLS; coll++)
		print_coll((enum bps_coll)coll, coll_names[coll]);
}
