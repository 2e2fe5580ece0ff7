/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * B01: threads with a communicator each, started in another order on each rank, while one
 * more makes and frees communicators.
 */
#include "tests/jobs/job.h"

#include <pthread.h>
#include <stdlib.h>

#define N_THREADS 4
#define MOST      (1 << 20) /* floats */

static MPI_Comm comms[N_THREADS + 1];
static int n_loops = 40;

/* From 1 to MOST floats, as many small ones as large ones. */
static int random_count(uint64_t *state)
{
	uint64_t limit = UINT64_C(1) << bps_test_random(state, 21);

	return (int)(limit + bps_test_random(state, limit)) / 2 + 1;
}

static void *summer(void *arg)
{
	int me = (int)(intptr_t)arg;
	uint64_t state = (uint64_t)me + 77;
	float *send = malloc((MOST + 1) * sizeof(*send));
	float *recv = malloc((MOST + 1) * sizeof(*recv));

	for (int i = 0; i < n_loops; i++) {
		int count = random_count(&state);

		bps_test_floats(i % 3 ? send : NULL, recv, count, comms[me],
		                bps_test_rank, bps_test_size,
		                (uint64_t)(i * N_THREADS + me));
		bps_test_expect(BPS_TEST_ALLREDUCE, 1, (uint64_t)count * sizeof(*recv),
		                NULL);
	}
	free(send);
	free(recv);
	return NULL;
}

static void *churner(void *arg)
{
	float recv[100];

	(void)arg;
	for (int i = 0; i < n_loops; i++) {
		MPI_Comm comm;

		MPI_Comm_dup(comms[N_THREADS], &comm);
		bps_test_floats(NULL, recv, 100, comm, bps_test_rank, bps_test_size,
		                (uint64_t)i);
		bps_test_expect(BPS_TEST_ALLREDUCE, 1, sizeof(recv), NULL);
		MPI_Comm_free(&comm);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[N_THREADS + 1];
	int level = -1;

	bps_test_init(&argc, &argv, MPI_THREAD_MULTIPLE);
	MPI_Query_thread(&level);
	BPS_CHECK(level == MPI_THREAD_MULTIPLE, "MPI_Query_thread says %d", level);
	if (bps_test_long)
		n_loops = 1000;
	for (int i = 0; i <= N_THREADS; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
	for (int n = 0; n <= N_THREADS; n++) {
		int i = bps_test_rank % 2 ? N_THREADS - n : n;

		pthread_create(&threads[i], NULL, i == N_THREADS ? churner : summer,
		               (void *)(intptr_t)i);
	}
	for (int i = 0; i <= N_THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i <= N_THREADS; i++)
		MPI_Comm_free(&comms[i]);
	return bps_test_end();
}
