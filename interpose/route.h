/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The routing decision: a pure function of what MPI makes equal on all ranks of a call
 * and of rank 0's configuration, so that all ranks decide alike. Never of a buffer's
 * address, alignment, layout or place; but an argument that MPI forbids (a NULL buffer)
 * goes to the library, whose error it is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/types.h"

enum bps_route {
#define BPS_ROUTE(name, label, help) BPS_ROUTE_##name,
#include "interpose/route.def"
#undef BPS_ROUTE
	BPS_N_ROUTES
};

/* A call, as far as routing looks at it before the communicator's state. */
struct bps_route_call {
	enum bps_coll coll;
	uint64_t bytes;     /* count times the type's size */
	bool reducible;     /* allreduce: type and operation are ours and legal */
	bool invalid;       /* an argument that MPI forbids */
	bool alias_refused; /* allreduce: sendbuf is recvbuf, and the library minds */
};

/** bps_route_label() - what statistics call it. */
const char *bps_route_label(enum bps_route route);

/** bps_route_call() - BPS_ROUTE_TAKE: the communicator decides; else why it is passed. */
enum bps_route bps_route_call(const struct bps_route_call *call,
                              uint64_t threshold_bytes);

/* A communicator, as far as routing looks at it. */
struct bps_route_comm {
	bool inter;   /* an intercommunicator */
	bool outside; /* has ranks outside MPI_COMM_WORLD */
	int size;
};

/** bps_route_comm() - BPS_ROUTE_TAKE: set it up; else why it is passed for ever. */
enum bps_route bps_route_comm(const struct bps_route_comm *comm);
