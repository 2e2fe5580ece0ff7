/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/server/job.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/random.h"
#include "tests/unit/server/member.h"

struct worker {
	struct job *job;
	uint16_t rank;
	uint8_t id[16];
	pthread_t thread;
	struct member member;
	uint32_t *more;   /* the job's: another operation follows; by rank 0 */
	uint32_t *broken; /* the job's, atomic: somebody failed */
	pthread_barrier_t *barrier;
	uint8_t *in, *out, *expected, *other;
	char failure[512];
};

/* One operation, the same for every member. */
struct step {
	bool bcast;
	enum bps_dtype dtype;
	enum bps_redop redop;
	uint16_t root;
	uint64_t bytes;
	uint64_t seed; /* of the data */
};

static struct step make_step(const struct job *job, uint64_t number)
{
	static const enum bps_dtype dtypes[] = { BPS_I32, BPS_F32, BPS_F64, BPS_U8 };
	struct bps_prng prng;
	struct step step;

	bps_prng_init(&prng, job->seed * 1000003 + number);
	step.bcast = bps_prng_below(&prng, 3) == 0;
	step.dtype = dtypes[bps_prng_below(&prng, 4)];
	step.redop = bps_prng_below(&prng, 4) ? BPS_SUM : BPS_MAX;
	step.root = (uint16_t)bps_prng_below(&prng, job->n_members);
	step.bytes = 8 * (1 + bps_prng_below(&prng, job->max_bytes / 8));
	step.seed = bps_prng_u64(&prng);
	return step;
}

/* Floats of very different size, so that another order of summing gives other bits. */
static void fill(const struct step *step, uint16_t rank, uint8_t *buf)
{
	uint64_t n = step->bytes / bps_dtype_bytes(step->dtype);
	struct bps_prng prng;

	bps_prng_init(&prng, step->seed + 77 * rank);
	if (step->bcast || step->dtype == BPS_I32 || step->dtype == BPS_U8) {
		bps_prng_fill(&prng, buf, step->bytes);
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		double value = (bps_prng_unit(&prng) - 0.5) *
		               (double)(UINT64_C(1) << bps_prng_below(&prng, 40));

		if (step->dtype == BPS_F32)
			((float *)(void *)buf)[i] = (float)value;
		else
			((double *)(void *)buf)[i] = value;
	}
}

#define COMBINE(type, sum_type)                                                   \
	do {                                                                      \
		type *a = (type *)(void *)to;                                     \
		const type *b = (const type *)(const void *)from;                 \
                                                                                  \
		for (uint64_t i = 0; i < step->bytes / sizeof(type); i++)         \
			a[i] = step->redop == BPS_MAX                             \
			               ? (a[i] > b[i] ? a[i] : b[i])              \
			               : (type)((sum_type)a[i] + (sum_type)b[i]); \
	} while (0)

static void combine(const struct step *step, uint8_t *to, const uint8_t *from)
{
	switch (step->dtype) {
	case BPS_I32:
		COMBINE(int32_t, uint32_t);
		break;
	case BPS_F32:
		COMBINE(float, float);
		break;
	case BPS_F64:
		COMBINE(double, double);
		break;
	default:
		COMBINE(uint8_t, uint8_t);
		break;
	}
}

/* What every member must have, by this file's own arithmetic, in member order. */
static void expect(struct worker *worker, const struct step *step)
{
	fill(step, step->bcast ? step->root : 0, worker->expected);
	for (uint16_t m = 1; !step->bcast && m < worker->job->n_members; m++) {
		fill(step, m, worker->other);
		combine(step, worker->expected, worker->other);
	}
}

static int do_step(struct worker *worker, const struct step *step, uint64_t number)
{
	struct member *member = &worker->member;
	int r;

	memset(worker->out, 0xa5, step->bytes);
	fill(step, worker->rank, worker->in);
	if (step->bcast) {
		if (worker->rank == step->root)
			memcpy(worker->out, worker->in, step->bytes);
		r = member_bcast(member, step->root, worker->out, step->bytes);
	} else {
		r = member_allreduce(member, step->dtype, step->redop, worker->in,
		                     worker->out, step->bytes);
	}
	if (r < 0) {
		snprintf(worker->failure, sizeof(worker->failure),
		         "rank %u, op %" PRIu64 ": %.300s (%s)", worker->rank, number,
		         member->reason.text, strerror(-r));
		return r;
	}
	expect(worker, step);
	if (memcmp(worker->out, worker->expected, step->bytes) == 0)
		return 0;
	snprintf(worker->failure, sizeof(worker->failure),
	         "rank %u, op %" PRIu64 ": wrong result, bytes %" PRIu64 ", bcast %d",
	         worker->rank, number, step->bytes, step->bcast);
	return -1;
}

/* Rank 0 looks at the clock for all; after the barrier everybody knows. */
static bool one_more(struct worker *worker, uint64_t number)
{
	struct job *job = worker->job;

	if (!job->until_ns)
		return number < job->n_ops;
	if (worker->rank == 0)
		*worker->more = !bps_load_relaxed(worker->broken) &&
		                (number < job->n_ops || bps_now_ns() < job->until_ns);
	pthread_barrier_wait(worker->barrier);
	bool more = *worker->more;
	pthread_barrier_wait(worker->barrier);
	return more;
}

static void *worker_main(void *arg)
{
	struct worker *worker = arg;
	struct job *job = worker->job;
	struct member_config config = {
		.rank = worker->rank,
		.n_ranks = job->n_members,
		.servers = job->servers,
		.n_servers = job->n_servers,
		.slot_bytes = job->slot_bytes,
		.n_slots = job->n_slots,
		.timeout_ns = 60 * BPS_NS_PER_S,
	};
	uint64_t number = 0;
	int r;

	memcpy(config.job, worker->id, sizeof(config.job));
	r = member_open(&worker->member, &config);
	if (r < 0)
		snprintf(worker->failure, sizeof(worker->failure), "rank %u: %.300s (%s)",
		         worker->rank, worker->member.reason.text, strerror(-r));
	/* After a failure go through the motions: the others count on us. */
	for (; one_more(worker, number); number++) {
		struct step step = make_step(job, number);

		if (r == 0)
			r = do_step(worker, &step, number);
		if (r < 0)
			bps_store_relaxed(worker->broken, 1u);
		else if (worker->rank == 0)
			job->n_bytes += step.bytes;
	}
	if (r == 0 && worker->rank == 0)
		job->n_ops_done = number;
	member_close(&worker->member);
	return NULL;
}

static bool worker_init(struct worker *worker, struct job *job)
{
	worker->job = job;
	worker->in = malloc(job->max_bytes);
	worker->out = malloc(job->max_bytes);
	worker->expected = malloc(job->max_bytes);
	worker->other = malloc(job->max_bytes);
	return worker->in && worker->out && worker->expected && worker->other;
}

static void worker_deinit(struct worker *worker)
{
	free(worker->in);
	free(worker->out);
	free(worker->expected);
	free(worker->other);
}

static void start_workers(struct worker *workers, struct job *job,
                          pthread_barrier_t *barrier, uint32_t *flags)
{
	uint8_t id[16];

	(void)bps_random_bytes(id, sizeof(id));
	for (uint16_t m = 0; m < job->n_members; m++) {
		struct worker *worker = &workers[m];

		worker->rank = m;
		worker->barrier = barrier;
		worker->more = &flags[0];
		worker->broken = &flags[1];
		memcpy(worker->id, id, sizeof(id));
		if (pthread_create(&worker->thread, NULL, worker_main, worker))
			abort();
	}
}

bool job_run(struct job *job)
{
	struct worker workers[JOB_MAX_MEMBERS] = { 0 };
	pthread_barrier_t barrier;
	uint32_t flags[2] = { 0 };

	job->failure[0] = '\0';
	job->n_bytes = job->n_ops_done = 0;
	for (uint16_t m = 0; m < job->n_members; m++) {
		if (!worker_init(&workers[m], job))
			abort();
	}
	pthread_barrier_init(&barrier, NULL, job->n_members);
	start_workers(workers, job, &barrier, flags);
	for (uint16_t m = 0; m < job->n_members; m++) {
		pthread_join(workers[m].thread, NULL);
		if (workers[m].failure[0] && !job->failure[0])
			snprintf(job->failure, sizeof(job->failure),
			         "seed %" PRIu64 ": %s", job->seed, workers[m].failure);
		worker_deinit(&workers[m]);
	}
	pthread_barrier_destroy(&barrier);
	return !job->failure[0];
}
