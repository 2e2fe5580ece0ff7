/* SPDX-License-Identifier: BSD-3-Clause */
/* Time of MPI_Bcast. */
#include "benchmarks/bench.h"

#include <string.h>

static int root_of(const struct bps_bench *bench)
{
	unsigned int n_ranks = (unsigned int)bench->n_ranks;

	if (!bench->rotate_root)
		return bench->root;
	return (int)(((unsigned int)bench->root + bench->iteration) % n_ranks);
}

/* All ranks know what the root sends: the pattern was made for one and the same rank. */
static void prepare(struct bps_bench *bench)
{
	size_t count = (size_t)bench->count;

	if (bench->rank == root_of(bench))
		bps_pattern_fill(&bench->pattern, bench->recv, count, bench->iteration);
	else if (bench->check)
		memset(bench->recv, 0x5a, count * bench->type->bytes);
}

static void call(struct bps_bench *bench)
{
	MPI_Bcast(bench->recv, bench->count, bench->type->mpi, root_of(bench),
	          MPI_COMM_WORLD);
}

static size_t check(struct bps_bench *bench)
{
	return bps_pattern_check_result(&bench->pattern, bench->recv,
	                                (size_t)bench->count, bench->iteration);
}

int main(int argc, char **argv)
{
	static const struct bps_bench_program program = {
		.name = "bps_bcast",
		.title = "Broadcast",
		.one_source = 1,
		.prepare = prepare,
		.call = call,
		.check = check,
	};

	return bps_bench_main(argc, argv, &program);
}
