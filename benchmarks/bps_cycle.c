/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small calls as Horovod makes them, through whatever is preloaded and past it.
 *
 * usage: bps_cycle [-k KIND] [-b BLOCKS] [-n CALLS] [-l LARGE] [-s SECONDS] FILE
 *
 * One background thread makes all MPI calls, as there: MPI_Init_thread, on a duplicate of
 * a duplicate of MPI_COMM_WORLD LARGE allreduces of 1 MiB, then BLOCKS pairs of blocks of
 * CALLS calls of each kind. Of a pair one block calls what the linker bound, the other
 * one the MPI library's own functions. At the end, for SECONDS, an idle cycle each
 * millisecond.
 *
 *   self       an allreduce of 8 bytes on MPI_COMM_SELF
 *   allreduce  an idle cycle: six MPI_LONG_LONG_INT, MPI_BAND
 *   bcast      four bytes, the root moves on by one each time
 *   cycle      a cycle in which tensors are negotiated: also gather, gatherv, two bcasts
 *
 * FILE gets the seconds of each block, the longest of all ranks'; of the last part the
 * cycles a second, and the CPU time of rank 0's calling thread and of its others.
 */
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define N_BITS        6
#define MESSAGE_BYTES 64
#define LARGE_FLOATS  (1 << 18)
#define PACE_NS       1000000L

/* The functions that the library takes, as they are called. */
struct door {
	int (*allreduce)(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type,
	                 MPI_Op op, MPI_Comm comm);
	int (*bcast)(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);
};

struct cycle {
	const char *kind; /* NULL: all of them */
	int n_blocks, n_calls, n_large, n_seconds;
	const char *path;

	MPI_Comm comm;
	int rank, n_ranks;
	struct door through, past;
	long long bits[N_BITS];
	char message[MESSAGE_BYTES];
	char *messages;       /* [n_ranks], rank 0 receives them; owned, as are: */
	int *counts, *places; /* [n_ranks] */
	double *seconds;      /* [2 * n_blocks], of the kind that runs */
	int n_wrong;
	int status;
};

typedef void call_fn(struct cycle *cycle, const struct door *door, int number);

static void one_self(struct cycle *cycle, const struct door *door, int number)
{
	(void)number;
	door->allreduce(MPI_IN_PLACE, cycle->bits, 1, MPI_LONG_LONG_INT, MPI_BAND,
	                MPI_COMM_SELF);
}

static void one_allreduce(struct cycle *cycle, const struct door *door, int number)
{
	(void)number;
	door->allreduce(MPI_IN_PLACE, cycle->bits, N_BITS, MPI_LONG_LONG_INT, MPI_BAND,
	                cycle->comm);
}

static void one_bcast(struct cycle *cycle, const struct door *door, int number)
{
	door->bcast(cycle->counts, 1, MPI_INT, number % cycle->n_ranks, cycle->comm);
}

static void one_cycle(struct cycle *cycle, const struct door *door, int number)
{
	int bytes = MESSAGE_BYTES;

	one_allreduce(cycle, door, number);
	MPI_Gather(&bytes, 1, MPI_INT, cycle->counts, 1, MPI_INT, 0, cycle->comm);
	MPI_Gatherv(cycle->message, bytes, MPI_BYTE, cycle->messages, cycle->counts,
	            cycle->places, MPI_BYTE, 0, cycle->comm);
	door->bcast(&bytes, 1, MPI_INT, 0, cycle->comm);
	door->bcast(cycle->message, bytes, MPI_BYTE, 0, cycle->comm);
}

static const struct {
	const char *name;
	call_fn *call;
} kinds[] = {
	{ "self", one_self },
	{ "allreduce", one_allreduce },
	{ "bcast", one_bcast },
	{ "cycle", one_cycle },
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Two functions, so that a profiler can tell which of the two it counts. */
static void __attribute__((noinline)) block_through(struct cycle *cycle, call_fn *call)
{
	for (int i = 0; i < cycle->n_calls; i++)
		call(cycle, &cycle->through, i);
}

static void __attribute__((noinline)) block_past(struct cycle *cycle, call_fn *call)
{
	for (int i = 0; i < cycle->n_calls; i++)
		call(cycle, &cycle->past, i);
}

/* Each rank's bits have one of their own; what all have is what is left. */
static void check_bits(struct cycle *cycle)
{
	for (int i = 0; i < N_BITS; i++)
		cycle->bits[i] = 0x0f0f0f0f00LL << i | 1LL << cycle->rank % 8;
	cycle->through.allreduce(MPI_IN_PLACE, cycle->bits, N_BITS, MPI_LONG_LONG_INT,
	                         MPI_BAND, cycle->comm);
	for (int i = 0; i < N_BITS; i++)
		if ((cycle->bits[i] & ~0xffLL) != (0x0f0f0f0f00LL << i & ~0xffLL) ||
		    (cycle->n_ranks > 1 && i == 0 && cycle->bits[i] & 0xff))
			cycle->n_wrong++;
}

/* Pairs take turns in which comes first. The first one is not kept: it warms up. */
static void run_kind(struct cycle *cycle, call_fn *call)
{
	for (int i = -2; i < 2 * cycle->n_blocks; i++) {
		int past = (i & 1) != (i >> 1 & 1);
		double start;

		MPI_Barrier(cycle->comm);
		start = MPI_Wtime();
		(past ? block_past : block_through)(cycle, call);
		if (i >= 0)
			cycle->seconds[(i & ~1) + past] = MPI_Wtime() - start;
	}
	check_bits(cycle);
}

static void write_half(FILE *file, const struct cycle *cycle, const double *seconds)
{
	for (int i = 0; i < cycle->n_blocks; i++)
		fprintf(file, "%s%.9f", i ? ", " : "", seconds[2 * i]);
}

static void report_kind(struct cycle *cycle, FILE *file, const char *name,
                        double *longest)
{
	MPI_Reduce(cycle->seconds, longest, 2 * cycle->n_blocks, MPI_DOUBLE, MPI_MAX, 0,
	           cycle->comm);
	if (!file)
		return;
	fprintf(file, "\"%s\": {\"through_s\": [", name);
	write_half(file, cycle, longest);
	fputs("], \"past_s\": [", file);
	write_half(file, cycle, longest + 1);
	fputs("]},\n", file);
}

static double cpu_seconds(int who)
{
	struct rusage used;

	getrusage(who, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

/* As Horovod does: a millisecond from when the last cycle began, by this thread's clock.
 */
static void sleep_rest(struct timespec *began)
{
	began->tv_nsec += PACE_NS;
	if (began->tv_nsec >= 1000000000L) {
		began->tv_nsec -= 1000000000L;
		began->tv_sec++;
	}
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, began, NULL);
	clock_gettime(CLOCK_MONOTONIC, began);
}

/* Idle cycles at Horovod's pace. */
static void run_paced(struct cycle *cycle, FILE *file)
{
	double self = cpu_seconds(RUSAGE_THREAD);
	double all = cpu_seconds(RUSAGE_SELF);
	double start;
	double took;
	struct timespec began;

	MPI_Barrier(cycle->comm);
	start = MPI_Wtime();
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (int i = 0; i < cycle->n_seconds * 1000; i++) {
		one_allreduce(cycle, &cycle->through, i);
		sleep_rest(&began);
	}
	took = MPI_Wtime() - start;
	self = cpu_seconds(RUSAGE_THREAD) - self;
	all = cpu_seconds(RUSAGE_SELF) - all;
	if (all < self) /* it is counted in ticks, the thread's is not */
		all = self;
	if (file && took > 0)
		fprintf(file,
		        "\"paced\": {\"cycles_per_s\": %.3f, \"caller_percent\": %.3f, "
		        "\"others_percent\": %.3f},\n",
		        cycle->n_seconds * 1000 / took, self / took * 100,
		        (all - self) / took * 100);
}

/* The communicator in the state that so many large calls leave it in. */
static int run_large(struct cycle *cycle)
{
	float *data = calloc(LARGE_FLOATS, sizeof(*data));

	if (!data)
		return -ENOMEM;
	for (int i = 0; i < cycle->n_large; i++) {
		for (int j = 0; j < LARGE_FLOATS; j++)
			data[j] = (float)(j % 100 + cycle->rank);
		MPI_Allreduce(MPI_IN_PLACE, data, LARGE_FLOATS, MPI_FLOAT, MPI_SUM,
		              cycle->comm);
		for (int j = 0; j < LARGE_FLOATS; j++) {
			int sum = j % 100 * cycle->n_ranks +
			          cycle->n_ranks * (cycle->n_ranks - 1) / 2;

			cycle->n_wrong += data[j] != (float)sum;
		}
	}
	free(data);
	return 0;
}

/* The library that a function that nobody takes comes from, and its own functions. */
static int find_past(struct door *past)
{
	Dl_info info;
	void *mpi;

	if (!dladdr((void *)MPI_Comm_rank, &info))
		return -ENOENT;
	mpi = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	if (!mpi)
		return -ENOENT;
	*(void **)&past->allreduce = dlsym(mpi, "MPI_Allreduce");
	*(void **)&past->bcast = dlsym(mpi, "MPI_Bcast");
	return past->allreduce && past->bcast ? 0 : -ENOENT;
}

static int prepare(struct cycle *cycle)
{
	size_t n = (size_t)cycle->n_ranks;

	cycle->through = (struct door){ MPI_Allreduce, MPI_Bcast };
	cycle->messages = calloc(n, MESSAGE_BYTES);
	cycle->counts = calloc(n, sizeof(int));
	cycle->places = calloc(n, sizeof(int));
	cycle->seconds = calloc((size_t)cycle->n_blocks * 2, sizeof(double));
	if (!cycle->messages || !cycle->counts || !cycle->places || !cycle->seconds)
		return -ENOMEM;
	for (int i = 0; i < cycle->n_ranks; i++)
		cycle->places[i] = i * MESSAGE_BYTES;
	return find_past(&cycle->past);
}

static void measure(struct cycle *cycle, FILE *file, double *longest)
{
	int wrong = 0;

	for (size_t i = 0; i < N_KINDS; i++) {
		if (cycle->kind && strcmp(cycle->kind, kinds[i].name) != 0)
			continue;
		run_kind(cycle, kinds[i].call);
		report_kind(cycle, file, kinds[i].name, longest);
	}
	if (cycle->n_seconds)
		run_paced(cycle, file);
	MPI_Reduce(&cycle->n_wrong, &wrong, 1, MPI_INT, MPI_SUM, 0, cycle->comm);
	if (file)
		fprintf(file, "\"calls\": %d, \"errors\": %d}\n", cycle->n_calls, wrong);
}

static int run(struct cycle *cycle)
{
	FILE *file = NULL;
	double *longest = NULL;
	int rc = prepare(cycle);

	if (rc == 0 && cycle->rank == 0)
		file = fopen(cycle->path, "w");
	longest = calloc((size_t)cycle->n_blocks * 2, sizeof(*longest));
	if (rc < 0 || !longest || (cycle->rank == 0 && !file) || run_large(cycle) < 0)
		return -EIO; /* the job is aborted: all of it goes then */
	if (file)
		fputs("{", file);
	measure(cycle, file, longest);
	if (file)
		rc = ferror(file) | fclose(file) ? -EIO : 0;
	free(longest);
	free(cycle->messages);
	free(cycle->counts);
	free(cycle->places);
	free(cycle->seconds);
	return rc;
}

static void *background(void *arg)
{
	struct cycle *cycle = arg;
	MPI_Comm world;
	int level;

	MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_dup(MPI_COMM_WORLD, &world);
	MPI_Comm_dup(world, &cycle->comm);
	MPI_Comm_rank(cycle->comm, &cycle->rank);
	MPI_Comm_size(cycle->comm, &cycle->n_ranks);
	cycle->status = run(cycle);
	if (cycle->status < 0) {
		fprintf(stderr,
		        "bps_cycle: no memory, no file, or no MPI library found\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Comm_free(&cycle->comm);
	MPI_Comm_free(&world);
	MPI_Finalize();
	return NULL;
}

static int parse(struct cycle *cycle, int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "k:b:n:l:s:")) >= 0) {
		int number = optarg ? (int)strtol(optarg, NULL, 10) : 0;

		if (option == 'k')
			cycle->kind = optarg;
		else if (option == 'b')
			cycle->n_blocks = number;
		else if (option == 'n')
			cycle->n_calls = number;
		else if (option == 'l')
			cycle->n_large = number;
		else if (option == 's')
			cycle->n_seconds = number;
		else
			return -EINVAL;
	}
	if (optind + 1 != argc || cycle->n_blocks < 1 || cycle->n_calls < 1)
		return -EINVAL;
	cycle->path = argv[optind];
	return 0;
}

int main(int argc, char **argv)
{
	struct cycle cycle = { .n_blocks = 50, .n_calls = 1000 };
	pthread_t thread;

	if (parse(&cycle, argc, argv) < 0) {
		fprintf(stderr, "usage: bps_cycle [-k KIND] [-b BLOCKS] [-n CALLS] "
		                "[-l LARGE] [-s SECONDS] FILE\n");
		return 2;
	}
	if (pthread_create(&thread, NULL, background, &cycle) != 0)
		return 2;
	pthread_join(thread, NULL);
	return 0;
}
