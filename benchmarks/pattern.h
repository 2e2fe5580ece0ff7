/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the benchmarks send and what must come out, by arithmetic of our own.
 *
 * Element i of a rank in an iteration is a small number made from rank, i and iteration,
 * so that every sum is exact in every type and has one right answer. The numbers repeat
 * after a prime number of elements, and an iteration shifts the start: a result that
 * is stale, or a part that is in the wrong place, does not match.
 */
#pragma once

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

enum bps_pattern_kind {
	BPS_PATTERN_SIGNED,
	BPS_PATTERN_UNSIGNED,
	BPS_PATTERN_FLOATING,
	BPS_PATTERN_BYTES, /* bitwise operations only */
};

struct bps_pattern_type {
	const char *name;
	MPI_Datatype mpi;
	size_t bytes;
	enum bps_pattern_kind kind;
};

enum bps_pattern_group {
	BPS_PATTERN_ARITHMETIC, /* all types but bytes */
	BPS_PATTERN_LOGICAL,    /* integers */
	BPS_PATTERN_BITWISE,    /* integers and bytes */
};

struct bps_pattern_op {
	const char *name;
	MPI_Op mpi;
	enum bps_pattern_group group;
};

struct bps_pattern {
	const struct bps_pattern_type *type;
	const struct bps_pattern_op *op;
	unsigned char *input;    /* a period of what this rank gives; owned */
	unsigned char *expected; /* a period of the reduction over all ranks; owned */
};

/**
 * bps_pattern_find_type() - the type of that name ("float", or as OSU has it,
 * "mpi_float"), NULL when there is none.
 */
const struct bps_pattern_type *bps_pattern_find_type(const char *name);

/**
 * bps_pattern_find_op() - the operation of that name ("sum"), NULL when there is none.
 */
const struct bps_pattern_op *bps_pattern_find_op(const char *name);

/**
 * bps_pattern_allowed() - does MPI define this operation on this type?
 */
int bps_pattern_allowed(const struct bps_pattern_type *type,
                        const struct bps_pattern_op *op);

/**
 * bps_pattern_init() - compute what @rank of @n_ranks gives and what all give together.
 *
 * Returns 0, or -ENOMEM; deinit is right after either.
 */
int bps_pattern_init(struct bps_pattern *pattern, const struct bps_pattern_type *type,
                     const struct bps_pattern_op *op, int rank, int n_ranks);

/**
 * bps_pattern_deinit() - release what init made; @pattern may be all zero.
 */
void bps_pattern_deinit(struct bps_pattern *pattern);

/**
 * bps_pattern_fill() - write this rank's @count elements for an iteration to @buffer.
 */
void bps_pattern_fill(const struct bps_pattern *pattern, void *buffer, size_t count,
                      unsigned int iteration);

/**
 * bps_pattern_check_input() - the index of the first of @count elements that is not what
 * fill wrote in that iteration, or @count when all are right.
 */
size_t bps_pattern_check_input(const struct bps_pattern *pattern, const void *buffer,
                               size_t count, unsigned int iteration);

/**
 * bps_pattern_check_result() - the index of the first of @count elements that is not the
 * reduction over all ranks, or @count when all are right.
 */
size_t bps_pattern_check_result(const struct bps_pattern *pattern, const void *buffer,
                                size_t count, unsigned int iteration);
