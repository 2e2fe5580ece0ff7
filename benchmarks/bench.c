/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmarks/bench.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_BYTE 0xa5

enum { OPT_JSON = 256, OPT_EACH, OPT_NO_CHECK, OPT_IN_PLACE, OPT_ROOT, OPT_ROTATE };

static const struct option long_options[] = {
	{ "message-size", required_argument, NULL, 'm' },
	{ "iterations", required_argument, NULL, 'i' },
	{ "warmup", required_argument, NULL, 'x' },
	{ "type", required_argument, NULL, 'd' },
	{ "op", required_argument, NULL, 'o' },
	{ "full", no_argument, NULL, 'f' },
	{ "check", no_argument, NULL, 'c' },
	{ "no-check", no_argument, NULL, OPT_NO_CHECK },
	{ "json", required_argument, NULL, OPT_JSON },
	{ "each", no_argument, NULL, OPT_EACH },
	{ "in-place", no_argument, NULL, OPT_IN_PLACE },
	{ "root", required_argument, NULL, OPT_ROOT },
	{ "rotate-root", no_argument, NULL, OPT_ROTATE },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const char usage_text[] =
	"  -m, --message-size MIN:MAX  bytes, doubled from MIN on (default 4:1M; K, M, G)\n"
	"  -i, --iterations N          timed calls a size (default 100)\n"
	"  -x, --warmup N              calls before them (default 10)\n"
	"  -d, --type NAME             float double char short int long int64 uchar ushort\n"
	"                              uint ulong uint64 byte (default float; bcast: byte)\n"
	"  -f, --full                  minimum, maximum and iterations too\n"
	"  -c, --check                 compare every element on every rank (default)\n"
	"      --no-check              do not; nor fill the buffers anew for each call\n"
	"      --each                  a line a call as it ends, warm-ups too: rank 0's time\n"
	"      --json FILE             also write the time of every call, the longest of\n"
	"                              all ranks'\n";

static const char reduce_text[] =
	"  -o, --op NAME               sum prod min max land lor lxor band bor bxor\n"
	"      --in-place              the send buffer is MPI_IN_PLACE\n";

static const char bcast_text[] =
	"      --root RANK             (default 0)\n"
	"      --rotate-root           the next rank in each iteration\n";

static int parse_size(const char **at, size_t *ret_bytes)
{
	char *end;
	unsigned long long bytes;
	unsigned int shift = 0;

	errno = 0;
	bytes = strtoull(*at, &end, 10);
	if (errno || end == *at || **at == '-')
		return -EINVAL;
	if (*end == 'K' || *end == 'k')
		shift = 10;
	else if (*end == 'M' || *end == 'm')
		shift = 20;
	else if (*end == 'G' || *end == 'g')
		shift = 30;
	if (bytes > (SIZE_MAX >> 1) >> shift)
		return -ERANGE;
	*ret_bytes = (size_t)bytes << shift;
	*at = end + (shift != 0);
	return 0;
}

/* "MIN:MAX", or one size as OSU takes it: the maximum. */
static int parse_range(struct bps_bench *bench, const char *text)
{
	size_t first;

	if (parse_size(&text, &first) < 0)
		return -EINVAL;
	if (*text == '\0') {
		bench->max_bytes = first;
	} else {
		bench->min_bytes = first;
		if (*text++ != ':' || parse_size(&text, &bench->max_bytes) < 0 || *text)
			return -EINVAL;
	}
	return bench->min_bytes <= bench->max_bytes ? 0 : -EINVAL;
}

static int parse_number(const char *text, int min, int *ret_number)
{
	char *end;
	long number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (errno || end == text || *end || number < min || number > INT_MAX / 2)
		return -EINVAL;
	*ret_number = (int)number;
	return 0;
}

static int parse_option(struct bps_bench *bench, int option, const char *text)
{
	switch (option) {
	case 'm':
		return parse_range(bench, text);
	case 'i':
		return parse_number(text, 1, &bench->n_iterations);
	case 'x':
		return parse_number(text, 0, &bench->n_warmup);
	case 'd':
		bench->type = bps_pattern_find_type(text);
		return bench->type ? 0 : -EINVAL;
	case 'o':
		bench->op = bps_pattern_find_op(text);
		return bench->op ? 0 : -EINVAL;
	case 'f':
		bench->full = 1;
		return 0;
	case 'c':
	case OPT_NO_CHECK:
		bench->check = option == 'c';
		return 0;
	case OPT_JSON:
		bench->json_path = text;
		return 0;
	case OPT_EACH:
		bench->each = 1;
		return 0;
	case OPT_IN_PLACE:
		bench->in_place = 1;
		return 0;
	case OPT_ROOT:
		if (parse_number(text, 0, &bench->root) < 0)
			return -EINVAL;
		return bench->root < bench->n_ranks ? 0 : -EINVAL;
	case OPT_ROTATE:
		bench->rotate_root = 1;
		return 0;
	default:
		return -EINVAL;
	}
}

static void usage(const struct bps_bench *bench, const struct bps_bench_program *program)
{
	if (bench->rank != 0)
		return;
	printf("usage: mpirun ... %s [options]\n%s%s", program->name, usage_text,
	       program->one_source ? bcast_text : reduce_text);
	fflush(stdout);
}

/* 0, or -EINVAL after a line that says why, or -ECANCELED after --help. */
static int parse_options(struct bps_bench *bench, const struct bps_bench_program *program,
                         int argc, char **argv)
{
	int option;

	opterr = bench->rank == 0;
	while ((option = getopt_long(argc, argv, "m:i:x:d:o:fch", long_options, NULL)) >=
	       0) {
		if (option == 'h') {
			usage(bench, program);
			return -ECANCELED;
		}
		if (parse_option(bench, option, optarg) == 0)
			continue;
		if (bench->rank == 0 && option != '?')
			fprintf(stderr, "%s: %s: not a value I can use; see --help\n",
			        program->name, optarg);
		return -EINVAL;
	}
	if (optind == argc && bench->max_bytes / bench->type->bytes <= INT_MAX &&
	    (program->one_source || bps_pattern_allowed(bench->type, bench->op)))
		return 0;
	if (bench->rank == 0)
		fprintf(stderr,
		        "%s: stray argument, more than 2^31 elements, or an "
		        "operation that MPI does not define on %s; see --help\n",
		        program->name, bench->type->name);
	return -EINVAL;
}

static int allocate(struct bps_bench *bench)
{
	bench->send = malloc(bench->max_bytes + BPS_BENCH_GUARD_BYTES);
	bench->recv = malloc(bench->max_bytes + BPS_BENCH_GUARD_BYTES);
	if (!bench->send || !bench->recv)
		return -ENOMEM;
	memset(bench->send, 0, bench->max_bytes + BPS_BENCH_GUARD_BYTES);
	memset(bench->recv, 0, bench->max_bytes + BPS_BENCH_GUARD_BYTES);
	return 0;
}

static int guard_intact(const char *guard)
{
	for (int i = 0; i < BPS_BENCH_GUARD_BYTES; i++)
		if ((unsigned char)guard[i] != GUARD_BYTE)
			return 0;
	return 1;
}

static void check_result(struct bps_bench *bench, const struct bps_bench_program *program)
{
	size_t bytes = (size_t)bench->count * bench->type->bytes;
	size_t at = program->check(bench);
	int intact =
		guard_intact(bench->send + bytes) && guard_intact(bench->recv + bytes);

	if (at == (size_t)bench->count && intact)
		return;
	if (bench->n_errors++ == 0)
		fprintf(stderr, "%s: rank %d: %zu bytes, iteration %u: %s %zu of %d\n",
		        program->name, bench->rank, bytes, bench->iteration,
		        intact ? "wrong or changed element"
		               : "written past the end after",
		        at, bench->count);
}

/* A stream of numbers for whoever watches the job; other readers take it as a comment. */
static void print_each(const struct bps_bench *bench, int number, double took)
{
	if (!bench->each || bench->rank != 0)
		return;
	printf("# call %d: %.2f us\n", number, took * 1e6);
	fflush(stdout);
}

/* Call @number of its size. An unchecked one finds the buffers as the last one left them,
 * but for those that would grow without end.
 */
static double run_once(struct bps_bench *bench, const struct bps_bench_program *program,
                       int number)
{
	size_t bytes = (size_t)bench->count * bench->type->bytes;
	double start;
	double took;

	memset(bench->send + bytes, GUARD_BYTE, BPS_BENCH_GUARD_BYTES);
	memset(bench->recv + bytes, GUARD_BYTE, BPS_BENCH_GUARD_BYTES);
	if (bench->check || bench->in_place || number == 0)
		program->prepare(bench);
	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	program->call(bench);
	took = MPI_Wtime() - start;
	if (bench->check)
		check_result(bench, program);
	print_each(bench, number, took);
	bench->iteration++;
	return took;
}

static void json_list(FILE *json, const char *name, const double *seconds, int n)
{
	fprintf(json, ", \"%s\": [", name);
	for (int i = 0; i < n; i++)
		fprintf(json, "%s%.9f", i ? ", " : "", seconds[i]);
	fputc(']', json);
}

/* longest[] holds the warm-ups and then the timed calls, each the longest of all ranks.
 */
static void json_size(FILE *json, const struct bps_bench *bench, const double *longest)
{
	size_t bytes = (size_t)bench->count * bench->type->bytes;

	fprintf(json, "{\"bytes\": %zu, \"count\": %d", bytes, bench->count);
	json_list(json, "warmup_s", longest, bench->n_warmup);
	json_list(json, "times_s", longest + bench->n_warmup, bench->n_iterations);
	fputc('}', json);
}

/* As OSU: the ranks' mean times; their mean, their least and their greatest. */
static void print_row(const struct bps_bench *bench, double mean)
{
	size_t bytes = (size_t)bench->count * bench->type->bytes;
	double sum = 0;
	double least = 0;
	double greatest = 0;

	MPI_Reduce(&mean, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mean, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mean, &greatest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (bench->rank != 0)
		return;
	printf("%-10zu%*.2f", bytes, 18, sum / bench->n_ranks * 1e6);
	if (bench->full)
		printf("%*.2f%*.2f%*d", 18, least * 1e6, 18, greatest * 1e6, 12,
		       bench->n_iterations);
	putchar('\n');
	fflush(stdout);
}

static int run_size(struct bps_bench *bench, const struct bps_bench_program *program,
                    FILE *json)
{
	int n = bench->n_warmup + bench->n_iterations;
	double *times = calloc((size_t)n * 2, sizeof(*times));
	double mean = 0;

	if (!times)
		return -ENOMEM;
	for (int i = 0; i < n; i++)
		times[i] = run_once(bench, program, i);
	for (int i = bench->n_warmup; i < n; i++)
		mean += times[i] / bench->n_iterations;
	print_row(bench, mean);
	MPI_Reduce(times, times + n, n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (json)
		json_size(json, bench, times + n);
	free(times);
	return 0;
}

static void print_header(const struct bps_bench *bench,
                         const struct bps_bench_program *program)
{
	if (bench->rank != 0)
		return;
	printf("# MPI %s Latency Test, %s%s%s, %d ranks\n", program->title,
	       bench->type->name, program->one_source ? "" : " ",
	       program->one_source ? "" : bench->op->name, bench->n_ranks);
	printf("%-10s%18s", "# Size", "Avg Latency(us)");
	if (bench->full)
		printf("%18s%18s%12s", "Min Latency(us)", "Max Latency(us)",
		       "Iterations");
	putchar('\n');
	fflush(stdout);
}

/* The size after this one: doubled; from nothing, one element. */
static size_t next_size(const struct bps_bench *bench, size_t bytes)
{
	return bytes < bench->type->bytes ? bench->type->bytes : bytes * 2;
}

static int run_all(struct bps_bench *bench, const struct bps_bench_program *program,
                   FILE *json)
{
	print_header(bench, program);
	if (json)
		fprintf(json,
		        "{\"program\": \"%s\", \"ranks\": %d, \"type\": \"%s\", "
		        "\"op\": \"%s\", \"checked\": %s, \"sizes\": [",
		        program->name, bench->n_ranks, bench->type->name,
		        program->one_source ? "" : bench->op->name,
		        bench->check ? "true" : "false");
	for (size_t bytes = bench->min_bytes; bytes <= bench->max_bytes;
	     bytes = next_size(bench, bytes)) {
		int error;

		bench->count = (int)(bytes / bench->type->bytes);
		if (json && bytes != bench->min_bytes)
			fputs(", ", json);
		error = run_size(bench, program, json);
		if (error < 0)
			return error;
	}
	return 0;
}

/* How many results were wrong, on whatever rank; and the end of the file. */
static int report_errors(struct bps_bench *bench, FILE *json)
{
	int total = 0;

	MPI_Reduce(&bench->n_errors, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (total > 0)
		fprintf(stderr, "%d wrong results\n", total);
	if (json)
		fprintf(json, "], \"errors\": %d}\n", total);
	if (json && (ferror(json) | fclose(json))) {
		fprintf(stderr, "cannot write %s\n", bench->json_path);
		return 2;
	}
	return bench->n_errors > 0 || total > 0;
}

/* The exit status; after 2 the other ranks still wait, and main ends them. */
static int run(struct bps_bench *bench, const struct bps_bench_program *program)
{
	int source = program->one_source ? 0 : bench->rank;
	FILE *json = NULL;

	/* A rank that cannot go on returns without MPI_Finalize: mpirun ends the others.
	 */
	if (allocate(bench) < 0 ||
	    bps_pattern_init(&bench->pattern, bench->type, bench->op, source,
	                     program->one_source ? 1 : bench->n_ranks) < 0) {
		fprintf(stderr, "%s: rank %d: no memory\n", program->name, bench->rank);
		return 2;
	}
	if (bench->json_path && bench->rank == 0) {
		json = fopen(bench->json_path, "w");
		if (!json) {
			fprintf(stderr, "%s: %s: %s\n", program->name, bench->json_path,
			        strerror(errno));
			return 2;
		}
	}
	if (run_all(bench, program, json) < 0)
		return 2;
	return report_errors(bench, json);
}

int bps_bench_main(int argc, char **argv, const struct bps_bench_program *program)
{
	struct bps_bench bench = {
		.min_bytes = 4,
		.max_bytes = 1 << 20,
		.n_iterations = 100,
		.n_warmup = 10,
		.check = 1,
	};
	int status;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &bench.n_ranks);
	bench.type = bps_pattern_find_type(program->one_source ? "byte" : "float");
	bench.op = bps_pattern_find_op(program->one_source ? "bxor" : "sum");
	status = parse_options(&bench, program, argc, argv);
	if (status == 0) {
		status = run(&bench, program);
		if (status == 2)
			MPI_Abort(MPI_COMM_WORLD, status);
	} else {
		status = status == -ECANCELED ? 0 : 2;
	}
	bps_pattern_deinit(&bench.pattern);
	free(bench.send);
	free(bench.recv);
	MPI_Finalize();
	return status;
}
