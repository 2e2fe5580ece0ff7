/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the MPI programs of these tests share: input that differs with rank, element and
 * call, results that are computed without MPI, and an exit status that says whether all
 * was right. Element values are small integers, so that floats are exact too.
 */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

extern int job_rank, job_size; /* in MPI_COMM_WORLD */

/* Collectives that the library should have taken at job_threshold; for its counters. */
extern uint64_t job_n_allreduce, job_n_bcast;
extern uint64_t job_threshold; /* bytes; from the environment of rank 0 */

/** job_begin() - MPI_Init, and "rank R pid P" on standard output. */
void job_begin(int *argc, char ***argv);

/**
 * job_end() - "rank R done allreduce=N bcast=N" and MPI_Finalize.
 * Returns what main() returns: 0 where nothing failed on this rank.
 */
int job_end(void);

/** job_fail() - say what is wrong, a line; the program goes on. */
void job_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

double job_now(void);     /* seconds, monotonic */
double job_cpu(void);     /* seconds of CPU that all threads of this process took */
void job_sleep(double s); /* all of it, whatever signals come */
uint32_t job_random(uint32_t *state);

/** job_input() - element @i of world rank @rank in call number @call: 0 to 250. */
int job_input(int rank, uint64_t i, uint32_t call);

/**
 * job_allreduce() - sum @count elements over @comm and check each, and the bytes beside.
 * @type: MPI_INT, MPI_FLOAT or MPI_DOUBLE. @ranks: the world ranks of @comm's @n ranks.
 * Returns MPI's code; results are looked at when it is MPI_SUCCESS.
 */
int job_allreduce(MPI_Comm comm, const int *ranks, int n, int count, MPI_Datatype type,
                  uint32_t call);

/** job_bcast() - likewise a broadcast of @count ints from rank @root of @comm. */
int job_bcast(MPI_Comm comm, const int *ranks, int root, int count, uint32_t call);

/** job_world() - the world ranks of MPI_COMM_WORLD: 0, 1, 2... */
const int *job_world(void);
