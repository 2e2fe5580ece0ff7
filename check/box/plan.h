/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the engine would do in a box on which no job runs yet: topology/placement.h asked
 * with a rank on each memory node, free to run on all usable CPUs of it, and with the
 * network cards that a job would use.
 */
#pragma once

#include "base/hostlist.h"
#include "topology/placement.h"

/* Of a network card. */
enum bps_box_use {
	BPS_BOX_USED,
	BPS_BOX_DOWN,
	BPS_BOX_VIRTUAL, /* of a box from a file, where no more is known of it */
	BPS_BOX_NO_ADDRESS,
	BPS_BOX_INNER,   /* a bridge of containers */
	BPS_BOX_UNNAMED, /* BPSMPI_INTERFACE names others */
	BPS_BOX_APART,   /* no server of BPSMPI_SERVERS is reached by it */
	BPS_BOX_SLOW,    /* see BPS_PLACE_LEAST_NIC */
	BPS_BOX_SPARE,   /* see BPS_PLACE_RAILS_MAX */
	BPS_BOX_ALONE,   /* the job is in this box */
	BPS_BOX_N_USES,
};

/* Not to be moved: the placement is one of what is in it. */
struct bps_box_plan {
	struct bps_machine
		machine; /* arrays are borrowed; usable by the engine's process */
	const struct bps_placement *placement; /* owned; NULL: no CPU is usable */
	struct bps_cpuset engine_cpus;         /* of its thread: BPSMPI_CPUS rules */
	uint32_t engine_node;                  /* of these; NONE: any */
	struct bps_place_server server;        /* owned: were a server started here */
	enum bps_box_use *nics;                /* [machine->n_nics]; owned */
};

/* What a job says about its network. */
struct bps_box_network {
	const char *interface;        /* BPSMPI_INTERFACE; "" */
	const struct bps_host *hosts; /* [n_hosts], of BPSMPI_SERVERS; borrowed */
	uint32_t n_hosts;
};

/**
 * bps_box_uses() - which network cards of this box a job can use; those that
 * bps_box_place() finds to be too slow or too many still count as used.
 * @machine: this box; its addresses and routes are looked at, names of servers looked up
 * @ret: [machine->n_nics]
 */
void bps_box_uses(const struct bps_machine *machine,
                  const struct bps_box_network *network, enum bps_box_use *ret);

/**
 * bps_box_place() - the plan of a box.
 * @ranks: [n_ranks], where each may run, the engine's first; NULL: one on each memory
 * node, of which the first may run anywhere
 * @own: what BPSMPI_CPUS leaves to the engine's thread; NULL: it says nothing
 * @uses: [machine->n_nics], as bps_box_uses() has them
 *
 * Return and ownership as of bps_box_plan().
 */
int bps_box_place(const struct bps_machine *machine, const struct bps_cpuset *ranks,
                  uint32_t n_ranks, const enum bps_box_use *uses,
                  const struct bps_cpuset *own, struct bps_box_plan *ret);

/**
 * bps_box_plan() - both, for a box on which no job runs yet.
 * @machine: borrowed, while the plan is used too
 * @live: it is this box: its addresses and routes, BPSMPI_INTERFACE and BPSMPI_SERVERS
 * count; the names of servers are looked up
 *
 * Return: 0 or -ENOMEM. The caller ends *@ret with bps_box_plan_deinit().
 */
int bps_box_plan(const struct bps_machine *machine, bool live, struct bps_box_plan *ret);
void bps_box_plan_deinit(struct bps_box_plan *plan);

/** bps_box_use_text() - why a card is not used, for people: "down". */
const char *bps_box_use_text(enum bps_box_use use);
