/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether servers have the memory for a job's windows: each box asks each server for one
 * on each connection. Of the connections that are not given, and of network cards, one
 * each is counted: a job makes do with that.
 */
#include <stdlib.h>

#include "check/job/impl.h"
#include "engine/server.h"
#include "engine/window.h"

/* Of all boxes, at one server. */
static uint64_t wanted_bytes(const struct bps_job *job)
{
	const struct bps_config *config = &job->config;
	const uint64_t n = job->n_boxes *
	                   (config->connections > 0 ? (uint64_t)config->connections : 1);
	uint32_t n_slots = bps_window_slots(config, job->n_boxes);

	if (n_slots > BPS_WINDOW_MOST)
		n_slots = BPS_WINDOW_MOST;
	return n * bps_server_charge(n_slots, bps_window_slot_bytes(config, job->n_boxes),
	                             job->size);
}

/* The least that a box was told; UINT64_MAX: none was. */
static uint64_t left_bytes(const struct bps_job *job, uint32_t server)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t b = 0; b < job->n_boxes; b++) {
		const struct bps_doctor_server *answer =
			bps_job_server_answer(job, b, server);

		if (answer && answer->left_bytes > 0 && answer->left_bytes < least)
			least = answer->left_bytes;
	}
	return least;
}

bool bps_job_lacks_memory(const struct bps_job *job, uint32_t server)
{
	return job->n_boxes > 1 && left_bytes(job, server) < wanted_bytes(job);
}

bool bps_job_carries(const struct bps_job *job)
{
	return job->n_boxes > job->charter.n_hosts && job->n_boxes > 1;
}

bool bps_job_carries_too_much(const struct bps_job *job)
{
	return bps_job_carries(job) &&
	       (uint64_t)job->config.server_memory_bytes < wanted_bytes(job);
}

static unsigned long long in_mib(uint64_t bytes)
{
	return bytes >> 20;
}

static void report_dedicated(const struct bps_job *job, struct bps_doctor_report *report)
{
	const char **names = calloc(job->charter.n_hosts, sizeof(*names));
	const uint64_t wanted = wanted_bytes(job);
	uint64_t least = UINT64_MAX;
	char list[BPS_JOB_LIST_BYTES];
	uint32_t n = 0;

	for (uint32_t s = 0; names && s < job->charter.n_hosts; s++) {
		if (!bps_job_lacks_memory(job, s))
			continue;
		least = left_bytes(job, s) < least ? left_bytes(job, s) : least;
		names[n++] = bps_job_server_answer(job, 0, s)->name;
	}
	if (n > 0) {
		bps_doctor_found(report,
		                 "%s: %llu MiB of memory are left for windows, and those "
		                 "of this job take %llu MiB",
		                 bps_job_fold_names(names, n, list, sizeof(list)),
		                 in_mib(least), in_mib(wanted) + 1);
		bps_doctor_cost(report,
		                "some boxes are refused, and the job runs without "
		                "bytepsmpi");
		bps_doctor_remedy(report, "wait for other jobs to end, give the servers "
		                          "more memory, or have smaller windows:");
		bps_doctor_type(report, "bpsmpi-server --memory %lluM",
		                in_mib(wanted) + 1);
		bps_doctor_type(report, "mpirun -x BPSMPI_WINDOW_BYTES=1M ...");
	}
	free(names);
}

void bps_job_check_memory(const struct bps_job *job, struct bps_doctor_report *report)
{
	report->check = "servers";
	report_dedicated(job, report);
	if (!bps_job_carries_too_much(job))
		return;
	report->check = "settings";
	bps_doctor_found(report,
	                 "BPSMPI_SERVER_MEMORY_BYTES allows the server in each box %llu "
	                 "MiB, and the windows of this job take %llu MiB",
	                 in_mib((uint64_t)job->config.server_memory_bytes),
	                 in_mib(wanted_bytes(job)) + 1);
	bps_doctor_cost(report,
	                "some boxes are refused, and the job runs without bytepsmpi");
	bps_doctor_remedy(report, "allow more, or have smaller windows:");
	bps_doctor_type(report, "mpirun -x BPSMPI_SERVER_MEMORY_BYTES=%lluM ...",
	                in_mib(wanted_bytes(job)) + 1);
	bps_doctor_type(report, "mpirun -x BPSMPI_WINDOW_BYTES=1M ...");
}
