/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deadlock PEER: correct programs in which a rank that blocks in our call must drive
 * MPI's own progress for PEER, or nobody gets any further. Rank 0 is the one that blocks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

#define BYTES (8 << 20)
#define COUNT 1000003

static int peer;
static char *buf;

static void ours(uint32_t call)
{
	if (job_allreduce(MPI_COMM_WORLD, job_world(), job_size, COUNT, MPI_INT, call))
		job_fail("MPI_Allreduce failed");
}

static void said(const char *name)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (job_rank == 0)
		printf("case %s\n", name);
}

static bool holds(int byte)
{
	int i;

	for (i = 0; i < BYTES; i++) {
		if (buf[i] != (char)byte)
			return false;
	}
	return true;
}

/* A large send that rank 0 has begun is received before the peer comes to our call. */
static void send_before(void)
{
	MPI_Request request;

	memset(buf, job_rank == 0 ? 'a' : 0, BYTES);
	if (job_rank == 0)
		MPI_Isend(buf, BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &request);
	if (job_rank == peer) {
		MPI_Recv(buf, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (!holds('a'))
			job_fail("the message is wrong");
	}
	ours(1);
	if (job_rank == 0)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	said("A");
}

/* The same, the other way round: received after our call. */
static void receive_after(void)
{
	MPI_Request request;

	memset(buf, job_rank == 0 ? 'b' : 0, BYTES);
	if (job_rank == 0)
		MPI_Isend(buf, BYTES, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &request);
	ours(2);
	if (job_rank == peer) {
		MPI_Recv(buf, BYTES, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (!holds('b'))
			job_fail("the message is wrong");
	}
	if (job_rank == 0)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	said("A after");
}

/* A nonblocking collective that others wait for before they come to our call. */
static void collective_before(void)
{
	int *in = malloc(COUNT * sizeof(int)), *out = malloc(COUNT * sizeof(int)), i;
	MPI_Request request;

	for (i = 0; i < COUNT; i++)
		in[i] = i % 1000 + job_rank;
	MPI_Iallreduce(in, out, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
	if (job_rank != 0)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	ours(4);
	if (job_rank == 0)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	for (i = 0; i < COUNT; i++) {
		if (out[i] != i % 1000 * job_size + job_size * (job_size - 1) / 2) {
			job_fail("element %d of the nonblocking sum", i);
			break;
		}
	}
	free(in);
	free(out);
	said("B");
}

/* One-sided access to a rank that is in our call. */
static void put_into(void)
{
	char *memory = malloc(BYTES), *source = malloc(BYTES);
	MPI_Win win;

	memset(source, 'c', BYTES);
	MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, job_rank, 0, win);
	memset(memory, 0, BYTES);
	MPI_Win_unlock(job_rank, win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (job_rank == peer) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		MPI_Put(source, BYTES, MPI_BYTE, 0, 0, BYTES, MPI_BYTE, win);
		MPI_Win_unlock(0, win);
	}
	ours(5);
	MPI_Win_lock(MPI_LOCK_SHARED, job_rank, 0, win);
	if (job_rank == 0 && memcmp(memory, source, BYTES))
		job_fail("what was put is wrong");
	MPI_Win_unlock(job_rank, win);
	MPI_Win_free(&win);
	free(source);
	free(memory);
	said("C");
}

int main(int argc, char **argv)
{
	job_begin(&argc, &argv);
	peer = argc > 1 ? atoi(argv[1]) : job_size - 1;
	buf = malloc(BYTES);
	ours(0); /* the communicator is set up */
	send_before();
	receive_after();
	collective_before();
	put_into();
	free(buf);
	return job_end();
}
