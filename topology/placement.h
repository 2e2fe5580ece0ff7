/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a box: from what it is made of, and from where its ranks may run, to what
 * the engine does with it. A pure function, so that every process of the box that asks
 * with the same description gets the same, tests can ask with boxes that nobody has, and
 * bpsmpi-check shows what would happen. It also says how many bytes cross from one memory
 * node to another.
 *
 * Nodes, network cards and GPUs are meant by their index in struct bps_machine. Threads
 * of ours run where machine->usable says; a copy of the struct with fewer CPUs there
 * makes a narrower plan. A plan never changes once it is made; any thread may read it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "topology/machine.h"

/* A network card whose speed is known to be less than this part of the fastest one's
 * carries nothing: what it had to carry would come last. */
#define BPS_PLACE_LEAST_NIC 0.2

/* More cards than this are not used; the fastest are. */
#define BPS_PLACE_RAILS_MAX 8

struct bps_place_in {
	const struct bps_machine *machine; /* borrowed, while the plan is used too */
	const struct bps_cpuset *ranks; /* [n_ranks]: where each may run, in rank order */
	uint32_t n_ranks;               /* 1 or more */
	const uint32_t *nics; /* [n_nics]: those that reach the servers; may be none */
	uint32_t n_nics;
	/* [n_nics]: in bytes a second, as measured; 0: what the machine says; NULL: 0 for
	 * all. A card of unknown speed counts as the slowest known one that is used. */
	const double *nic_bytes_per_s;
};

/*
 * The ranks of one memory node, which sum among themselves first. A rank is on a node
 * when all CPUs that it may run on are of that node, or when no other node has CPUs. The
 * ranks that may run on several nodes are a group too, without a node.
 */
struct bps_place_group {
	uint32_t node;    /* NONE: at most one group */
	uint32_t n_ranks; /* 1 or more */
};

/* A network card that is used. */
struct bps_place_rail {
	uint32_t nic;
	double share; /* of what the box sends; all shares are 1 together */
};

/*
 * GPUs below the same switch, or else on the same node. The nearest card is that with the
 * deepest switch above both, or else on the same node, or else on the closest; among
 * those that are equally near, one that has the fewest groups so far.
 */
struct bps_place_gpus {
	uint32_t node, bridge; /* NONE: not known, or none */
	uint32_t nic;          /* of the rails' cards; NONE: there is none */
};

struct bps_placement {
	const struct bps_machine *machine;
	uint32_t n_ranks, n_groups, n_rails, n_gpu_groups;
	/* In the order of their first ranks; arrays are owned. */
	struct bps_place_group *groups;
	uint32_t *group_of;           /* [n_ranks] */
	struct bps_place_rail *rails; /* the largest share first */
	struct bps_place_gpus *gpu_groups;
	uint32_t *gpu_group_of; /* [machine->n_gpus] */
	/*
	 * The engine's thread runs on engine_node, the closest to the cards (the node
	 * that has most of their shares; where that is not known, the first group's) on
	 * which it may; NONE: any. Its CPUs are there, off the cores, or else off the
	 * CPUs, that ranks have for themselves, where that leaves any; never empty, never
	 * more than machine->usable.
	 *
	 * Where several boxes work together, the sums of the box are made by the ranks of
	 * group home, the one on engine_node or else the closest. These sums and the
	 * answers lie on wire_node: home's, or engine_node where home has none; NONE: not
	 * known.
	 */
	uint32_t engine_node, home, wire_node;
	struct bps_cpuset engine_cpus;
};

/**
 * bps_place() - make the plan of a box. Return: 0; -EINVAL: no rank, no usable CPU, a
 * card that there is not, or one that is named twice; -ENOMEM. The caller owns *@ret
 * until bps_place_free(); NULL on failure.
 */
int bps_place(const struct bps_place_in *in, const struct bps_placement **ret);
void bps_place_free(const struct bps_placement *placement);

/**
 * bps_place_crossings() - bytes that one allreduce of @bytes moves from node to node.
 * @bytes: less than 2^50
 * @alone: the communicator lies in this box: no server, no network
 * @ret: [from * n_nodes + to], all written
 *
 * Between groups a and b, alone: of the pieces that ranks of a own (of n ranks, by group,
 * the r-th has the bytes from r/n to (r + 1)/n, rounded down; the engine rounds to cache
 * lines) the sum of b comes to a, and the total goes to b once. So 2 (N - 1) * @bytes for
 * N groups.
 * In several boxes: the sum of every group comes to home, every group off wire_node takes
 * the answers once, and each card's share goes from wire_node to the card's node, and as
 * much comes back.
 *
 * What a group without a node reads and writes counts for nobody, and what is the ranks'
 * own lies on their node. A group of several ranks hands on sums of 16-bit floats in 32
 * bits: then what comes from it to a, or to home, is twice as much.
 */
void bps_place_crossings(const struct bps_placement *placement, uint64_t bytes,
                         bool alone, uint64_t *ret);

/*
 * Where the threads of a summation server run that listens on @nics: each on the CPUs of
 * one node, by the speeds of the cards on each; and the memory that a thread uses lies
 * there. A card whose node is not known, or has no CPU for us, counts for all nodes by
 * their usable CPUs, and so does a server without cards.
 */
struct bps_place_server {
	uint32_t n_threads;      /* 1 or more */
	uint32_t *node;          /* [n_threads]: NONE: all that are usable */
	struct bps_cpuset *cpus; /* [n_threads], none empty */
};

/**
 * bps_place_server() - @nics: all count, whatever their speed.
 * @n_threads: how many; 0: one for each usable CPU of the nodes of the cards, within the
 * quota of CPU time. Of these nodes none has more threads than CPUs while another has
 * fewer.
 * Return: 0; -EINVAL, as bps_place() has it; -ENOMEM. The caller ends *@ret with
 * bps_place_server_deinit(); it is empty on failure.
 */
int bps_place_server(const struct bps_machine *machine, const uint32_t *nics,
                     uint32_t n_nics, uint32_t n_threads, struct bps_place_server *ret);
void bps_place_server_deinit(struct bps_place_server *server);
