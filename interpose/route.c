/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/route.h"

#include <limits.h>

static const char *const labels[BPS_N_ROUTES] = {
#define BPS_ROUTE(name, label, help) [BPS_ROUTE_##name] = label,
#include "interpose/route.def"
#undef BPS_ROUTE
};

const char *bps_route_label(enum bps_route route)
{
	return labels[route];
}

enum bps_route bps_route_call(const struct bps_route_call *call, uint64_t threshold_bytes)
{
	if (call->bytes == 0)
		return BPS_ROUTE_EMPTY;
	if (call->bytes < threshold_bytes)
		return BPS_ROUTE_SMALL;
	if (call->invalid)
		return BPS_ROUTE_INVALID;
	if (call->coll == BPS_ALLREDUCE && !call->reducible)
		return BPS_ROUTE_TYPE;
	if (call->coll == BPS_BCAST && call->bytes > INT_MAX)
		return BPS_ROUTE_LARGE; /* MPI_Pack counts in int; layouts may differ */
	if (call->alias_refused)
		return BPS_ROUTE_ALIAS;
	return BPS_ROUTE_TAKE;
}

enum bps_route bps_route_comm(const struct bps_route_comm *comm)
{
	if (comm->inter)
		return BPS_ROUTE_INTER;
	if (comm->size < 2)
		return BPS_ROUTE_SINGLE;
	if (comm->outside)
		return BPS_ROUTE_OUTSIDE;
	return BPS_ROUTE_TAKE;
}
