/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CPU time of the engine threads, and of other processes, while all ranks sleep.
 *
 * usage: bps_idle BYTES SECONDS FILE [PID ...]
 *
 * SECONDS times an MPI_Allreduce of BYTES and a second of sleep, of which the first and
 * last 50 ms do not count: what a call leaves to be done. FILE gets the percent of a
 * core: the busiest engine thread, how many ranks have one, and all processes with those
 * numbers on rank 0's machine together.
 */
#include <dirent.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARGIN_US 50000
#define SLEEP_US  1000000

/* Ticks of a thread, from its stat file; -1 when it is not of that name or is gone. */
static long thread_ticks(const char *path, const char *name)
{
	FILE *file = fopen(path, "r");
	char line[1024];
	const char *start;
	const char *end;
	unsigned long user;
	unsigned long kernel;
	size_t bytes;

	if (!file)
		return -1;
	bytes = fread(line, 1, sizeof(line) - 1, file);
	(void)fclose(file);
	line[bytes] = '\0';
	start = strchr(line, '(');
	end = strrchr(line, ')'); /* a name may contain one */
	if (!start || !end ||
	    (name && ((size_t)(end - start - 1) != strlen(name) ||
	              strncmp(start + 1, name, strlen(name)) != 0)))
		return -1;
	if (sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
	           &kernel) != 2)
		return -1;
	return (long)(user + kernel);
}

/* Ticks of a process's threads of that name, or of all; -1 when there are none. */
static long process_ticks(const char *process, const char *name)
{
	char path[PATH_MAX];
	const struct dirent *entry;
	long sum = -1;
	DIR *tasks;

	(void)snprintf(path, sizeof(path), "/proc/%s/task", process);
	tasks = opendir(path);
	if (!tasks)
		return -1;
	while ((entry = readdir(tasks))) {
		long ticks;

		if (entry->d_name[0] == '.') /* "..": the process, with all its threads */
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%s/task/%s/stat", process,
		               entry->d_name);
		ticks = thread_ticks(path, name);
		if (ticks >= 0)
			sum = (sum < 0 ? 0 : sum) + ticks;
	}
	(void)closedir(tasks);
	return sum;
}

static long others_ticks(char **processes)
{
	long sum = 0;

	for (; *processes; processes++) {
		long ticks = process_ticks(*processes, NULL);

		if (ticks < 0)
			return -1;
		sum += ticks;
	}
	return sum;
}

/* Adds what was used in a second's sleep; 0, or -1 when another process is gone. */
static int sleep_once(char **processes, long ticks[2])
{
	long engine;
	long others;

	usleep(MARGIN_US);
	engine = process_ticks("self", "bpsmpi-engine");
	others = others_ticks(processes);
	usleep(SLEEP_US - 2 * MARGIN_US);
	ticks[0] += process_ticks("self", "bpsmpi-engine") - engine;
	ticks[1] += others_ticks(processes) - others;
	usleep(MARGIN_US);
	return others < 0 ? -1 : 0;
}

static int report(const char *path, int n_engines, const long ticks[2], int seconds)
{
	double scale = 100.0 / (double)sysconf(_SC_CLK_TCK) /
	               (seconds * (1 - 2.0 * MARGIN_US / SLEEP_US));
	FILE *file = fopen(path, "w");

	if (!file)
		return -1;
	fprintf(file,
	        "{\"engines\": %d, \"engine_percent\": %.3f, \"others_percent\": %.3f}\n",
	        n_engines, (double)ticks[0] * scale, (double)ticks[1] * scale);
	return ferror(file) | fclose(file) ? -1 : 0;
}

static int run(int rank, size_t bytes, int seconds, const char *path, char **processes)
{
	float *buffer = calloc(bytes / sizeof(float), sizeof(float));
	long ticks[2] = { 0, 0 };
	long most[2] = { 0, 0 };
	int has_engine;
	int n_engines = 0;

	if (!buffer)
		return -1;
	for (int i = 0; i < seconds; i++) {
		MPI_Allreduce(MPI_IN_PLACE, buffer, (int)(bytes / sizeof(float)),
		              MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		MPI_Barrier(MPI_COMM_WORLD);
		if (sleep_once(processes, ticks) < 0)
			return -1;
	}
	free(buffer);
	has_engine = process_ticks("self", "bpsmpi-engine") >= 0;
	MPI_Reduce(&has_engine, &n_engines, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(ticks, most, 2, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
	return rank == 0 ? report(path, n_engines, most, seconds) : 0;
}

int main(int argc, char **argv)
{
	static char *nobody[] = { NULL };
	size_t bytes = argc > 3 ? strtoull(argv[1], NULL, 10) : 0;
	int seconds = argc > 3 ? (int)strtol(argv[2], NULL, 10) : 0;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (bytes < sizeof(float) || bytes / sizeof(float) > INT_MAX || seconds < 1 ||
	    run(rank, bytes, seconds, argv[3], rank == 0 ? argv + 4 : nobody) < 0) {
		fprintf(stderr,
		        "bps_idle: wrong arguments, no memory, no file, or no such "
		        "process\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Finalize();
	return 0;
}
