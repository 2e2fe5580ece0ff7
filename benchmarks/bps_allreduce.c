/* SPDX-License-Identifier: BSD-3-Clause */
/* Time of MPI_Allreduce. */
#include "benchmarks/bench.h"

#include <string.h>

static void prepare(struct bps_bench *bench)
{
	char *input = bench->in_place ? bench->recv : bench->send;

	bps_pattern_fill(&bench->pattern, input, (size_t)bench->count, bench->iteration);
}

static void call(struct bps_bench *bench)
{
	MPI_Allreduce(bench->in_place ? MPI_IN_PLACE : bench->send, bench->recv,
	              bench->count, bench->type->mpi, bench->op->mpi, MPI_COMM_WORLD);
}

static size_t check(struct bps_bench *bench)
{
	size_t count = (size_t)bench->count;

	if (!bench->in_place) {
		size_t at = bps_pattern_check_input(&bench->pattern, bench->send, count,
		                                    bench->iteration);

		if (at < count)
			return at;
	}
	return bps_pattern_check_result(&bench->pattern, bench->recv, count,
	                                bench->iteration);
}

int main(int argc, char **argv)
{
	static const struct bps_bench_program program = {
		.name = "bps_allreduce",
		.title = "Allreduce",
		.prepare = prepare,
		.call = call,
		.check = check,
	};

	return bps_bench_main(argc, argv, &program);
}
