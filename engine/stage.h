/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The in-box stage of one communicator of several boxes: the ranks of a box hand their
 * parts to each other through shared memory (a memfd, so nothing is left behind), sum
 * them in rank order, and copy the totals out, while later parts are still on their way.
 * One box that is alone has engine/inbox.h instead.
 *
 * A ring of slots, used round and round so that it stays in the cache. Position g (it
 * counts on over all ops of the communicator) lies in slot g mod n_slots:
 *
 * - input, one a rank: what this rank contributes, for the owner of g to sum
 * - push: the box's sum, what goes to the server
 * - result: the total
 * - near, one a group, where ranks live on several memory nodes (engine/levels.h): what
 *   the group has of g on its own node, first its partial, later its copy of the total
 *
 * The owner of an allreduce's g is rank g mod n_ranks; it reads its own input straight
 * from the user's buffer. A broadcast's owner is the root rank in the root's box and the
 * leader in the others, where there is nothing to sum.
 *
 * With several groups the owner is a rank of group home, and every other group has a rank
 * that gathers g: it sums its group's inputs. Both take turns in their group as owners do
 * in the box. The owner sums home's inputs in rank order, then the partials in the order
 * of groups. Push and result rings lie on one node; in a group that lives on another one
 * and has several ranks, the one whose turn it is relays: it takes the result across, and
 * the others copy from the near ring. A broadcast's root relays to its group at once.
 *
 * Hand-over is by numbers that only grow, each written by one thread:
 *
 * - staged[rank]: inputs of all g below this are there (the rank)
 * - gathered of slot and group: g + 1 when its partial of g is there (whose turn it is)
 * - summed of slot: g + 1 when the push buffer holds g's sum (the owner)
 * - done of slot: g + 1 when the result of g is there (the leader's engine)
 * - relayed of slot and group: g + 1 when its copy of that is there (whose turn it is)
 * - copied[rank]: results of all g below this were taken (the rank)
 *
 * A slot is free for g when every rank has copied g - n_slots. In the root's box of a
 * broadcast the data stays in the push buffer, and done says that the server has it.
 *
 * A stage belongs to the thread that is inside the communicator's collective; the engine
 * thread of the leader touches the slots and done alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/types.h"
#include "engine/client.h"
#include "engine/levels.h"
#include "engine/plan.h"

struct bps_stage;

struct bps_stage_shape {
	uint32_t n_ranks;                /* of this box, in this communicator */
	uint32_t max_slots;              /* slots of a ring there can ever be */
	uint64_t ring_bytes;             /* of each ring; near rings have twice as much */
	const struct bps_levels *levels; /* for the leader; NULL: one group */
};

/** bps_stage_bytes() - shared memory that @shape takes; 0: none that can be. */
size_t bps_stage_bytes(const struct bps_stage_shape *shape);

/**
 * bps_stage_create() - the leader's: make the shared memory.
 * @ret_fd: to be sent to the box's other ranks, then closed by the caller.
 * Return: 0 and a stage owned by the caller; a negative errno.
 */
int bps_stage_create(const struct bps_stage_shape *shape, struct bps_stage **ret_stage,
                     int *ret_fd);

/**
 * bps_stage_open() - another rank's: map what the leader made.
 * @fd: borrowed. @rank: index in the box, 1 to n_ranks - 1. @wake_fd: the eventfd that
 * wakes the leader's engine, borrowed until bps_stage_free(). @shape: what it says of
 * levels is not looked at: the memory says it.
 * Return: 0; -EINVAL when it is not what @shape says; a negative errno.
 */
int bps_stage_open(const struct bps_stage_shape *shape, int fd, uint32_t rank,
                   int wake_fd, struct bps_stage **ret_stage);
/** bps_stage_set_wake_fd() - the leader's, see bps_stage_open(). */
void bps_stage_set_wake_fd(struct bps_stage *stage, int wake_fd);
/** bps_stage_free() - takes NULL. */
void bps_stage_free(struct bps_stage *stage);

/**
 * bps_stage_crossed() - bytes that this rank has taken from the memory of group @from to
 * that of group @to, in all calls. Where push and result rings lie on a node of no group,
 * that counts as group number n_groups. See bps_groups_crossed().
 */
uint64_t bps_stage_crossed(const struct bps_stage *stage, uint32_t from, uint32_t to);

/*
 * One collective call, the same on all ranks but for the buffers. The cut counts bytes of
 * contributions; the call's are as many, but half of them for a wide type: its inputs,
 * like its total, are 16-bit floats, and the owner's sum is fp32.
 */
struct bps_stage_call {
	enum bps_coll coll;
	enum bps_dtype dtype; /* allreduce */
	enum bps_redop redop;
	struct bps_cut cut;
	uint32_t window;   /* for the engine: struct bps_op */
	uint32_t start;    /* whose order the parts are visited in, bps_cut_visit() */
	int32_t root;      /* broadcast: root's index in this box; -1: another box */
	const void *input; /* the call's bytes; may be @output; unused on a leaf */
	void *output;      /* the call's bytes; unused on a root */
	const char *name;  /* of the call, for messages: "MPI_Allreduce" */
	const char *comm;  /* likewise: "MPI_COMM_WORLD" */
};

struct bps_stage_wait {
	/* before each sleep: drive MPI's progress; returns how long to sleep at most, ns
	 */
	uint64_t (*idle)(void *owner);
	/* "rank 3" for index @rank of the box, for messages */
	void (*describe)(void *owner, uint32_t rank, char *buf, size_t bytes);
	void *owner;
	uint64_t warn_ns; /* a rank that is later than this is named, once each */
};

/**
 * bps_stage_divide() - from the next call on a ring is divided into slots of @slot_bytes
 * (a multiple of 64): as many as fit, at most @n_slots. All ranks, between the same two
 * calls. Waits until all have taken the results of the first, @call; that and @wait may
 * be NULL before any call. Return: 0; -EINVAL where that leaves fewer than two.
 */
int bps_stage_divide(struct bps_stage *stage, uint32_t slot_bytes, uint32_t n_slots,
                     const struct bps_stage_call *call,
                     const struct bps_stage_wait *wait);

/**
 * bps_stage_run() - carry one call through; every rank of the box calls it. In a
 * communicator of several boxes the leader gave the same op to its engine, with
 * bps_stage_position() as its first position.
 * Works while there is work, else sleeps. Return: 0, or the negative errno of a failure,
 * with its reason in *@ret_reason; the communicator is finished then.
 */
int bps_stage_run(struct bps_stage *stage, const struct bps_stage_call *call,
                  const struct bps_stage_wait *wait, struct bps_reason *ret_reason);

/** bps_stage_tell() - true for the first rank of the box that asks: it speaks for all. */
bool bps_stage_tell(struct bps_stage *stage);

/** bps_stage_position() - the first position of the next call. */
uint64_t bps_stage_position(const struct bps_stage *stage);

/* -- the leader's engine -- */

/** bps_stage_summed() - from @from on, up to @to: the first position not summed yet. */
uint64_t bps_stage_summed(const struct bps_stage *stage, uint64_t from, uint64_t to);
/** bps_stage_push() - the push buffer of @position. */
void *bps_stage_push(struct bps_stage *stage, uint64_t position);
/** bps_stage_result() - its result buffer, and where that lies in the shared memory. */
void *bps_stage_result(struct bps_stage *stage, uint64_t position, uint64_t *ret_offset);
/** bps_stage_done() - the result of @position is there: tell the ranks. */
void bps_stage_done(struct bps_stage *stage, uint64_t position);
/** bps_stage_fail() - tell the ranks that the communicator is finished, and why. */
void bps_stage_fail(struct bps_stage *stage, const struct bps_reason *reason);
/**
 * bps_stage_engine_sleeps() - say that the engine is about to sleep, or woke up. After
 * true it looks at bps_stage_summed() once more.
 */
void bps_stage_engine_sleeps(struct bps_stage *stage, bool sleeps);
