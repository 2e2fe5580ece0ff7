/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait IDLE_S LATE_RANK LATE_S: what it costs when nothing happens. First all ranks are
 * away for IDLE_S; then LATE_RANK alone comes LATE_S late, to a communicator with the
 * ranks in falling order. Each says what CPU time its process took, all threads together.
 */
#include <stdio.h>
#include <stdlib.h>

#include "job.h"

#define COUNT 1000003

static void warm_up(void)
{
	uint32_t call;

	for (call = 0; call < 5; call++)
		job_allreduce(MPI_COMM_WORLD, job_world(), job_size, COUNT, MPI_INT,
		              call);
}

static void idle(double seconds)
{
	double cpu = job_cpu();

	if (job_rank == 0)
		printf("idle begins\n");
	job_sleep(seconds);
	printf("rank %d idle %.3f cpu %.4f\n", job_rank, seconds, job_cpu() - cpu);
	if (job_rank == 0)
		printf("idle ends\n");
}

static void late(int rank, double seconds)
{
	double start, cpu;
	MPI_Comm falling;

	MPI_Comm_split(MPI_COMM_WORLD, 0, -job_rank, &falling);
	MPI_Comm_set_name(falling, "falling");
	job_allreduce(falling, job_world(), job_size, COUNT, MPI_INT, 6);
	if (job_rank == rank)
		job_sleep(seconds);
	start = job_now();
	cpu = job_cpu();
	if (job_allreduce(falling, job_world(), job_size, COUNT, MPI_FLOAT, 7))
		job_fail("the call failed where a rank was late");
	printf("rank %d waited %.3f cpu %.4f\n", job_rank, job_now() - start,
	       job_cpu() - cpu);
	if (job_bcast(MPI_COMM_WORLD, job_world(), 0, COUNT, 8))
		job_fail("the call after the late one failed");
	MPI_Comm_free(&falling);
}

int main(int argc, char **argv)
{
	job_begin(&argc, &argv);
	warm_up();
	if (argc > 3) {
		idle(atof(argv[1]));
		late(atoi(argv[2]), atof(argv[3]));
	}
	return job_end();
}
