/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fail return|user|fatal COUNT: allreduces until one fails, because somebody kills a
 * server; then what has to hold: the communicator stays failed, all else works.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

#define LONGEST_S 60

static int n_handled, handled_class;

static void handler(MPI_Comm *comm, int *code, ...)
{
	(void)comm;
	n_handled++;
	MPI_Error_class(*code, &handled_class);
}

static int class_of(int code)
{
	int class = MPI_SUCCESS;

	MPI_Error_class(code, &class);
	return class;
}

/* Return: the code of the call that failed. */
static int run_until_failure(MPI_Comm comm, int count, uint32_t *ret_call)
{
	double until = job_now() + LONGEST_S;
	uint32_t call;
	int rc = MPI_SUCCESS;

	for (call = 0; rc == MPI_SUCCESS && job_now() < until; call++) {
		if (job_rank == 0 && call == 3)
			printf("running\n");
		rc = job_allreduce(comm, job_world(), job_size, count, MPI_FLOAT, call);
	}
	*ret_call = call - 1;
	return rc;
}

static void still_failed(MPI_Comm comm, int count)
{
	double start = job_now();
	int rc;

	rc = job_allreduce(comm, job_world(), job_size, count, MPI_INT, 1);
	if (class_of(rc) != MPI_ERR_OTHER)
		job_fail("the call after the failure gave class %d", class_of(rc));
	rc = job_bcast(comm, job_world(), 0, count, 2);
	if (class_of(rc) != MPI_ERR_OTHER)
		job_fail("the broadcast after the failure gave class %d", class_of(rc));
	if (job_now() - start > 5)
		job_fail("a failed communicator took %.1f s to say so",
		         job_now() - start);
}

static void others_work(MPI_Comm comm, int count)
{
	int next = (job_rank + 1) % job_size, prev = (job_rank + job_size - 1) % job_size;
	int token = -1, sum = 0;
	MPI_Comm dup;

	MPI_Sendrecv(&job_rank, 1, MPI_INT, next, 5, &token, 1, MPI_INT, prev, 5, comm,
	             MPI_STATUS_IGNORE);
	if (token != prev)
		job_fail("point to point after the failure");
	MPI_Allreduce(&job_rank, &sum, 1, MPI_INT, MPI_SUM, comm);
	if (sum != job_size * (job_size - 1) / 2)
		job_fail("a small collective after the failure");
	MPI_Barrier(comm);
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN);
	if (job_allreduce(dup, job_world(), job_size, count, MPI_INT, 4))
		job_fail("a communicator that was made after the failure does not work");
	MPI_Comm_free(&dup);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "return";
	int count = argc > 2 ? atoi(argv[2]) : 4 << 20, rc;
	MPI_Errhandler mine;
	uint32_t call;
	MPI_Comm comm;

	job_begin(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_name(comm, "gradients");
	MPI_Comm_create_errhandler(handler, &mine);
	if (!strcmp(how, "user"))
		MPI_Comm_set_errhandler(comm, mine);
	else if (strcmp(how, "fatal"))
		MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	rc = run_until_failure(comm, count, &call);
	printf("rank %d class %d call %u handled %d\n", job_rank, class_of(rc), call,
	       n_handled);
	if (class_of(rc) != MPI_ERR_OTHER)
		job_fail("the call ended with class %d", class_of(rc));
	if (!strcmp(how, "user") && (n_handled != 1 || handled_class != MPI_ERR_OTHER))
		job_fail("the handler was called %d times, with class %d", n_handled,
		         handled_class);
	still_failed(comm, count);
	others_work(comm, count);
	MPI_Errhandler_free(&mine);
	MPI_Comm_free(&comm);
	return job_end();
}
