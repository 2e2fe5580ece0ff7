/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/jobs/job.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FAILURES 20
#define MAX_REASONS  8

int bps_test_rank, bps_test_size;
bool bps_test_long;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static int n_failures;
static uint64_t threshold_bytes = 256 << 10;
static struct {
	const char *reason; /* "taken" comes first */
	uint64_t n, bytes;
} expected[BPS_TEST_N_COLLS][MAX_REASONS];

static const char *const names[] = { "MPI_Allreduce", "MPI_Bcast" };

void bps_test_init(int *argc, char ***argv, int level)
{
	const char *threshold = getenv("BPSMPI_THRESHOLD_BYTES");
	int provided = -1;

	if (level < 0)
		MPI_Init(argc, argv);
	else
		MPI_Init_thread(argc, argv, level, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &bps_test_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &bps_test_size);
	BPS_CHECK(provided >= level, "thread level %d, wanted %d", provided, level);
	if (threshold)
		threshold_bytes = strtoull(threshold, NULL, 10);
	for (int i = 1; i < *argc; i++)
		bps_test_long = bps_test_long || strcmp((*argv)[i], "--long") == 0;
}

void bps_test_fail(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	pthread_mutex_lock(&lock);
	if (n_failures++ < MAX_FAILURES)
		printf("rank %d: %s\n", bps_test_rank, text);
	fflush(stdout);
	pthread_mutex_unlock(&lock);
}

void bps_test_expect(enum bps_test_coll coll, uint64_t n, uint64_t bytes,
                     const char *reason)
{
	int i = 0;

	if (bytes == 0)
		reason = reason ? reason : "empty";
	else if (bytes < threshold_bytes)
		reason = "small";
	else if (!reason)
		reason = "taken";
	pthread_mutex_lock(&lock);
	while (i < MAX_REASONS && expected[coll][i].reason &&
	       strcmp(expected[coll][i].reason, reason) != 0)
		i++;
	if (i < MAX_REASONS) {
		expected[coll][i].reason = reason;
		expected[coll][i].n += n;
		expected[coll][i].bytes += n * bytes;
	}
	pthread_mutex_unlock(&lock);
}

int bps_test_end(void)
{
	char line[512];

	for (int coll = 0; coll < BPS_TEST_N_COLLS; coll++) {
		size_t used = (size_t)snprintf(line, sizeof(line), "expect r%d %s",
		                               bps_test_rank, names[coll]);

		for (int i = 0; i < MAX_REASONS && expected[coll][i].reason; i++)
			used += (size_t)snprintf(
				line + used, sizeof(line) - used, " %s=%llu/%llu",
				expected[coll][i].reason,
				(unsigned long long)expected[coll][i].n,
				(unsigned long long)expected[coll][i].bytes);
		puts(line);
	}
	if (n_failures)
		printf("rank %d: %d checks failed\n", bps_test_rank, n_failures);
	fflush(stdout);
	MPI_Finalize();
	return n_failures ? 1 : 0;
}

uint64_t bps_test_random(uint64_t *state, uint64_t limit)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (*state >> 33) % limit;
}

void bps_test_floats(float *send, float *recv, int count, MPI_Comm comm, int rank,
                     int size, uint64_t seed)
{
	float *fill = send ? send : recv;
	int i;

	for (i = 0; i < count; i++)
		fill[i] = (float)bps_test_value(rank, (uint64_t)i, seed);
	MPI_Allreduce(send ? send : MPI_IN_PLACE, recv, count, MPI_FLOAT, MPI_SUM, comm);
	for (i = 0; i < count; i++) {
		float want = (float)bps_test_sum(size, (uint64_t)i, seed);

		if (recv[i] == want)
			continue;
		bps_test_fail("element %d of %d is %g, not %g (seed %llu)", i, count,
		              (double)recv[i], (double)want, (unsigned long long)seed);
		break;
	}
}
