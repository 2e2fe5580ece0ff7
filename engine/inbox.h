/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator that has all its ranks in one box: allreduce and broadcast at the speed
 * of memory, without engine, network and partitions.
 *
 * An op is cut into chunks; chunk g (numbers count on over all ops of the communicator)
 * uses slot g mod n_slots of each rank. The slots lie in one memfd; they are few and
 * small and used round and round, so that they stay in the caches while memory sees each
 * input read once and each output written once.
 *
 * Allreduce: each rank owns one piece of every chunk. It
 *	stages	what the others own into its own slot,
 *	sums	its piece, its own part straight from the user's buffer, the others' from
 *		their slots, into the slot of the next rank (whose part is read by nobody
 *		else) and into its own output, block by block,
 *	copies	the other pieces' sums from where their owners put them.
 * Broadcast: the root stages all of the chunk, the others copy.
 *
 * Where ranks live on several memory nodes (engine/levels.h), what a group of them owns
 * is divided evenly among the ranks of each other group, who in addition
 *	gather	the inputs of their own group, in rank order, into a partial on their
 *		node; the owner sums its own group's inputs and then the partials, in the
 *		order of groups,
 *	relay	the sum into a slot on their node and into their own output; the others of
 *		their group copy from there.
 * Each of them stages and copies within its group alone, but for what it gathers and
 * relays itself. So of each chunk one partial of each other group and one sum for each
 * other group goes from node to node. Of a broadcast, the groups without the root relay.
 *
 * All of it goes on at once on different chunks. Hand-over is by a counter for each of
 * these steps, chunks done, which lie in a cache line a rank, written by that rank only.
 * A slot is free for g when every rank has copied g - n_slots.
 *
 * Belongs to the thread that is inside the communicator's collective.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/types.h"
#include "engine/client.h"
#include "engine/levels.h"
#include "engine/stage.h"

struct bps_inbox;

struct bps_inbox_shape {
	uint32_t n_ranks;
	uint32_t n_slots;
	uint32_t slot_bytes;             /* a multiple of 64 */
	const struct bps_levels *levels; /* for bps_inbox_create(); NULL: one group */
};

/**
 * bps_inbox_plan() - the shape for @n_ranks (1 or more) that is fastest within
 * @max_bytes; the smallest that works where even that takes more. It has one group.
 */
void bps_inbox_plan(uint32_t n_ranks, size_t max_bytes,
                    struct bps_inbox_shape *ret_shape);

/** bps_inbox_bytes() - shared memory that @shape takes; 0: none that can be. */
size_t bps_inbox_bytes(const struct bps_inbox_shape *shape);

/**
 * bps_inbox_create() - rank 0's: make the shared memory.
 * @ret_fd: to be sent to the other ranks, then closed by the caller.
 * Return: 0 and an inbox owned by the caller; a negative errno.
 */
int bps_inbox_create(const struct bps_inbox_shape *shape, struct bps_inbox **ret_inbox,
                     int *ret_fd);

/**
 * bps_inbox_open() - another rank's: map what rank 0 made. All ranks have opened it
 * before any runs a call.
 * @fd: borrowed. @rank: 1 to n_ranks - 1. @shape: what it says of levels is not looked
 * at: the memory says it.
 * Return: 0 and an inbox owned by the caller; -EINVAL when it is not what @shape says; a
 * negative errno.
 */
int bps_inbox_open(const struct bps_inbox_shape *shape, int fd, uint32_t rank,
                   struct bps_inbox **ret_inbox);

/** bps_inbox_free() - takes NULL. Other ranks may go on. */
void bps_inbox_free(struct bps_inbox *inbox);

/**
 * bps_inbox_crossed() - bytes that this rank has taken from the memory of group @from to
 * that of group @to, in all calls; see bps_groups_crossed().
 */
uint64_t bps_inbox_crossed(const struct bps_inbox *inbox, uint32_t from, uint32_t to);

/* One collective call, the same on all ranks but for the buffers. */
struct bps_inbox_call {
	enum bps_coll coll;
	enum bps_dtype dtype; /* allreduce */
	enum bps_redop redop; /* allreduce */
	uint32_t root;        /* broadcast */
	uint32_t world_rank;  /* this rank's, for messages */
	uint64_t bytes;       /* a whole number of elements; may be 0 */
	const void *input; /* allreduce: may be @output; unused on a broadcast's leaf */
	void *output;      /* unused on a broadcast's root */
	const char *name;  /* of the call, for messages: "MPI_Allreduce" */
	const char *comm;  /* likewise: "MPI_COMM_WORLD" */
};

/**
 * bps_inbox_run() - carry one call through; every rank calls it.
 * Works while there is work; else polls for some microseconds where each rank has a CPU,
 * gives the CPU to another rank where not, and then sleeps. A broadcast's root comes back
 * when its data is in the slots.
 * Return: 0, or the negative errno of a failure with its reason in *@ret_reason: -EPROTO,
 * ranks call different operations; -EINVAL, there is no such operation. The communicator
 * is finished then, on all ranks.
 */
int bps_inbox_run(struct bps_inbox *inbox, const struct bps_inbox_call *call,
                  const struct bps_stage_wait *wait, struct bps_reason *ret_reason);

/** bps_inbox_tell() - true for the first rank that asks: it speaks for all. */
bool bps_inbox_tell(struct bps_inbox *inbox);
