/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * B03: communicators that come and go. "churn": many, one after the other; "live": many
 * at once; "groups": handles that come back for another group. Memory, descriptors and
 * /dev/shm stay as they were.
 */
#include "tests/jobs/job.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOATS (16 << 10) /* 64 KiB */

static float buf[FLOATS];

static long rss_kib(void)
{
	char line[128];
	long kib = -1;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "VmRSS: %ld", &kib);
	if (file)
		fclose(file);
	return kib;
}

static int entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

struct usage {
	long rss_kib;
	int fds, shm;
};

/* Mappings of files in /dev/shm: of this process alone, other jobs come and go. */
static int shm_maps(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (file && fgets(line, sizeof(line), file))
		n += strstr(line, "/dev/shm/") != NULL;
	if (file)
		fclose(file);
	return n;
}

static struct usage usage(void)
{
	return (struct usage){ rss_kib(), entries("/proc/self/fd"), shm_maps() };
}

static void check_usage(const struct usage *before)
{
	struct usage after = usage();

	BPS_CHECK(after.rss_kib < before->rss_kib + 5 * 1024, "memory grew by %ld KiB",
	          after.rss_kib - before->rss_kib);
	BPS_CHECK(after.fds == before->fds, "%d descriptors, %d before", after.fds,
	          before->fds);
	BPS_CHECK(after.shm == before->shm, "%d mappings of /dev/shm, %d before",
	          after.shm, before->shm);
}

static void use(MPI_Comm comm, uint64_t seed)
{
	int rank, size;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	bps_test_floats(NULL, buf, FLOATS, comm, rank, size, seed);
}

static void churn(int n)
{
	struct usage before;

	for (int i = 0; i < n; i++) {
		MPI_Comm comm;

		if (i == n / 4) /* warm by now */
			before = usage();
		MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? bps_test_rank : -bps_test_rank,
		               &comm);
		use(comm, (uint64_t)i);
		MPI_Comm_free(&comm);
	}
	bps_test_expect(BPS_TEST_ALLREDUCE, (uint64_t)n, sizeof(buf), NULL);
	check_usage(&before);
}

/* Those beyond BPSMPI_STAGING_BYTES pass; run-jobs lets them. */
static void live(int n)
{
	MPI_Comm *comms = calloc((size_t)n, sizeof(MPI_Comm));
	struct usage before;

	use(MPI_COMM_WORLD, 0);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < n; i++) {
			MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
			use(comms[i], (uint64_t)i);
		}
		for (int i = n - 1; i >= 0; i--)
			use(comms[i], (uint64_t)i + 1);
		for (int i = 0; i < n; i++)
			MPI_Comm_free(&comms[i]);
		if (round == 0)
			before = usage();
	}
	use(MPI_COMM_WORLD, 2);
	bps_test_expect(BPS_TEST_ALLREDUCE, 2 + 4 * (uint64_t)n, sizeof(buf), NULL);
	check_usage(&before);
	free(comms);
}

/* {0,1}, {0,2}, {1,3} and {3,2,1,0}, by turns; a grid, that is not freed. */
static void groups(int n)
{
	static const int members[][4] = { { 0, 1 }, { 0, 2 }, { 1, 3 }, { 3, 2, 1, 0 } };
	static const int sizes[] = { 2, 2, 2, 4 };
	MPI_Group world;
	MPI_Comm cart;
	uint64_t used = 0;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	for (int i = 0; i < n; i++) {
		MPI_Group group;
		MPI_Comm comm;

		MPI_Group_incl(world, sizes[i % 4], members[i % 4], &group);
		MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
		if (comm != MPI_COMM_NULL) {
			use(comm, (uint64_t)i);
			use(comm, (uint64_t)i + 1);
			MPI_Comm_free(&comm);
			used += 2;
		}
		MPI_Group_free(&group);
	}
	MPI_Group_free(&world);
	MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){ 2, 2 }, (int[]){ 1, 0 }, 1, &cart);
	use(cart, 3);
	used++;
	bps_test_expect(BPS_TEST_ALLREDUCE, used, sizeof(buf), NULL);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	bps_test_init(&argc, &argv, -1);
	if (strcmp(what, "churn") == 0)
		churn(bps_test_long ? 70000 : atoi(argv[2]));
	else if (strcmp(what, "live") == 0)
		live(bps_test_long ? 1500 : 150);
	else if (strcmp(what, "groups") == 0)
		groups(bps_test_long ? 4000 : 80);
	else
		bps_test_fail("usage: comms churn N | live | groups");
	return bps_test_end();
}
