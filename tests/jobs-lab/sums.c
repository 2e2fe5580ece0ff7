/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sums [-n CALLS] [-t SECONDS] [-d] [-T] [BYTES...]: allreduces and broadcasts of these
 * sizes in turn, each checked; so many calls, or until rank 0's time is over. -d: random
 * delays. -T: say what threads there are.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

#define MAX_SIZES 16

/* One line of /proc/self/task/@tid/status. */
static void find_line(const char *tid, const char *key, char *ret, size_t bytes)
{
	char path[300], line[300];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	ret[0] = '\0';
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		size_t n = strlen(key);

		if (strncmp(line, key, n) || line[n] != ':')
			continue;
		snprintf(ret, bytes, "%s", line + n + 1 + strspn(line + n + 1, " \t"));
		ret[strcspn(ret, "\n")] = '\0';
	}
	if (file)
		fclose(file);
}

/* "rank R thread NAME blocked HEX cpus LIST", once a thread of this process. */
static void show_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char name[64], blocked[64], cpus[128];

		if (entry->d_name[0] == '.')
			continue;
		find_line(entry->d_name, "Name", name, sizeof(name));
		find_line(entry->d_name, "SigBlk", blocked, sizeof(blocked));
		find_line(entry->d_name, "Cpus_allowed_list", cpus, sizeof(cpus));
		printf("rank %d thread %s blocked %s cpus %s\n", job_rank, name, blocked,
		       cpus);
	}
	if (dir)
		closedir(dir);
}

/* Whether rank 0 has had enough; a collective of a few bytes. */
static int over(double until)
{
	int flag = job_now() > until;

	MPI_Bcast(&flag, 1, MPI_INT, 0, MPI_COMM_WORLD);
	if (job_size > 1 && job_threshold <= sizeof(flag))
		job_n_bcast++;
	return flag;
}

static void one(uint32_t call, uint64_t bytes)
{
	MPI_Datatype types[] = { MPI_INT, MPI_FLOAT, MPI_DOUBLE };
	MPI_Datatype type = types[call % 3];
	int count = (int)(bytes / (type == MPI_DOUBLE ? 8 : 4));

	if (job_allreduce(MPI_COMM_WORLD, job_world(), job_size, count, type, call))
		job_fail("MPI_Allreduce number %u of %d elements", call, count);
	if (call % 4)
		return;
	if (job_bcast(MPI_COMM_WORLD, job_world(), (int)(call / 4) % job_size,
	              (int)(bytes / 4), call))
		job_fail("MPI_Bcast with call %u", call);
}

int main(int argc, char **argv)
{
	uint64_t sizes[MAX_SIZES] = { 1 << 20 };
	uint32_t n_calls = 20, n_sizes = 0, call, state;
	double seconds = 0, until;
	bool delays = false, threads = false;
	int option;

	job_begin(&argc, &argv);
	while ((option = getopt(argc, argv, "n:t:dT")) > 0) {
		if (option == 'n')
			n_calls = (uint32_t)atoi(optarg);
		else if (option == 't')
			seconds = atof(optarg);
		else if (option == 'd')
			delays = true;
		else
			threads = true;
	}
	for (; optind < argc && n_sizes < MAX_SIZES; optind++)
		sizes[n_sizes++] = strtoull(argv[optind], NULL, 10);
	n_sizes += n_sizes == 0;
	state = (uint32_t)job_rank * 77 + (uint32_t)getpid();
	until = job_now() + seconds;
	for (call = 0; seconds > 0 ? !over(until) : call < n_calls; call++) {
		if (delays)
			usleep(job_random(&state) % 4000);
		one(call, sizes[call % n_sizes]);
	}
	if (threads)
		show_threads();
	if (job_rank == 0)
		printf("calls %u\n", call);
	return job_end();
}
