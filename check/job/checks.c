/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks that look at a whole job: what its ranks carry, and what they were told. */
#include <stdlib.h>
#include <string.h>

#include "check/job/impl.h"
#include "topology/boxes.h"

#define LIBRARY "libbytepsmpi.so"

/* "4-7 (h2, h3)": the ranks for which @mine is set, and their boxes. */
static char *list_ranks(const struct bps_job *job, const bool *mine, char *ret,
                        size_t ret_bytes)
{
	uint32_t *list = calloc((size_t)job->size + job->n_boxes, sizeof(*list));
	uint32_t *boxes = list + job->size, n = 0, n_boxes = 0;
	char names[BPS_JOB_LIST_BYTES], ranks[BPS_JOB_LIST_BYTES];

	ret[0] = '\0';
	for (uint32_t r = 0; list && r < job->size; r++) {
		uint32_t box = job->ranks[r].box;

		if (!mine[r])
			continue;
		list[n++] = r;
		if (n_boxes == 0 || boxes[n_boxes - 1] != box)
			if (n_boxes < job->n_boxes)
				boxes[n_boxes++] = box;
	}
	if (n > 0)
		(void)snprintf(
			ret, ret_bytes, "rank%s %.500s on %.500s", n == 1 ? "" : "s",
			bps_ranks_format(list, n, ranks, sizeof(ranks)),
			bps_job_list_boxes(job, boxes, n_boxes, names, sizeof(names)));
	free(list);
	return ret;
}

/* -- the preloaded library -- */

static uint32_t count(const struct bps_job *job, enum bps_job_preload preload,
                      bool *ret_which)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < job->size; r++) {
		ret_which[r] = job->ranks[r].preload == preload;
		n += ret_which[r];
	}
	return n;
}

/* Where a rank that carries it has it. */
static const char *carried_path(const struct bps_job *job)
{
	for (uint32_t r = 0; r < job->size; r++)
		if (job->ranks[r].preload == BPS_PRELOAD_CARRIED)
			return job->ranks[r].library;
	return "/path/to/" LIBRARY;
}

static void report_none(const struct bps_job *job, struct bps_doctor_report *report)
{
	bps_doctor_found(report, "no rank carries " LIBRARY);
	bps_doctor_cost(report, "a job that is started like this runs without bytepsmpi");
	bps_doctor_remedy(report, "have mpirun set LD_PRELOAD for all ranks; the library "
	                          "has to be at that path on every host:");
	bps_doctor_type(report, "mpirun -x LD_PRELOAD=%s ...", carried_path(job));
}

static void report_missing(const struct bps_job *job, const bool *which,
                           struct bps_doctor_report *report)
{
	char ranks[BPS_JOB_LIST_BYTES];

	bps_doctor_found(report, "%s without " LIBRARY ", the others carry it",
	                 list_ranks(job, which, ranks, sizeof(ranks)));
	bps_doctor_cost(report, "it is all ranks or none: they all run without it");
	bps_doctor_remedy(report,
	                  "LD_PRELOAD that is set before mpirun reaches the ranks "
	                  "of its own host alone; have mpirun pass it on:");
	bps_doctor_type(report, "mpirun -x LD_PRELOAD=%s ...", carried_path(job));
}

static void report_lost(const struct bps_job *job, const bool *which,
                        struct bps_doctor_report *report)
{
	const char *path = "";
	char ranks[BPS_JOB_LIST_BYTES];

	for (uint32_t r = 0; r < job->size && !path[0]; r++)
		if (which[r])
			path = job->ranks[r].library;
	bps_doctor_found(report,
	                 "LD_PRELOAD names %s, which is not there, or cannot be "
	                 "loaded: %s",
	                 path, list_ranks(job, which, ranks, sizeof(ranks)));
	bps_doctor_cost(report, "it is all ranks or none: they all run without it");
	bps_doctor_remedy(report, "install it at the same path on every host. What is "
	                          "wrong says, there:");
	bps_doctor_type(report, "LD_PRELOAD=%s true", path);
}

void bps_job_check_preload(const struct bps_job *job, struct bps_doctor_report *report)
{
	bool *which = calloc(job->size, sizeof(*which));
	uint32_t n_carried, n_lost;

	report->check = "preload";
	if (!which)
		return;
	n_lost = count(job, BPS_PRELOAD_LOST, which);
	if (n_lost > 0)
		report_lost(job, which, report);
	n_carried = count(job, BPS_PRELOAD_CARRIED, which);
	if (n_carried == 0 && n_lost == 0)
		report_none(job, report);
	else if (count(job, BPS_PRELOAD_NONE, which) > 0)
		report_missing(job, which, report);
	free(which);
}

/* -- versions -- */

static const char *library_version(const struct bps_job_rank *rank)
{
	if (rank->preload != BPS_PRELOAD_CARRIED)
		return "";
	return rank->version[0] ? rank->version : "of unknown version";
}

static const char *mpi_version(const struct bps_job_rank *rank)
{
	return rank->mpi;
}

typedef const char *(*version_fn)(const struct bps_job_rank *rank);

/* "0.1.0 (ranks 0-3 on h1), 0.2.0 (rank 4 on h2)"; returns how many there are. */
static uint32_t list_versions(const struct bps_job *job, version_fn version, char *ret,
                              size_t ret_bytes)
{
	bool *told = calloc(job->size, sizeof(*told));
	bool *which = calloc(job->size, sizeof(*which));
	char ranks[BPS_JOB_LIST_BYTES];
	uint32_t n = 0;
	size_t used = 0;

	ret[0] = '\0';
	for (uint32_t r = 0; told && which && r < job->size; r++) {
		const char *one = version(&job->ranks[r]);

		if (told[r] || !one[0])
			continue;
		for (uint32_t i = 0; i < job->size; i++) {
			which[i] = strcmp(version(&job->ranks[i]), one) == 0;
			told[i] |= which[i];
		}
		if (used < ret_bytes)
			used += (size_t)snprintf(
				ret + used, ret_bytes - used, "%s%s (%.200s)",
				n ? ", " : "", one,
				list_ranks(job, which, ranks, sizeof(ranks)));
		n++;
	}
	free(told);
	free(which);
	return n;
}

static void check_tool(const struct bps_job *job, struct bps_doctor_report *report)
{
	for (uint32_t r = 0; r < job->size; r++) {
		const char *version = library_version(&job->ranks[r]);

		if (!version[0] || strcmp(version, BPS_VERSION) == 0)
			continue;
		bps_doctor_found(report,
		                 "the library that ranks carry is %s, and this is "
		                 "bpsmpi-check " BPS_VERSION,
		                 version);
		bps_doctor_cost(report, "what is said here of servers' versions and of "
		                        "plans is true for " BPS_VERSION);
		bps_doctor_remedy(report, "run the bpsmpi-check that was installed with "
		                          "the library:");
		bps_doctor_type(report, "ls -l %s", job->ranks[r].library);
		return;
	}
}

void bps_job_check_versions(const struct bps_job *job, struct bps_doctor_report *report)
{
	char versions[BPS_JOB_LIST_BYTES];

	report->check = "versions";
	if (list_versions(job, library_version, versions, sizeof(versions)) > 1) {
		bps_doctor_found(report,
		                 "ranks carry different versions of " LIBRARY ": %s",
		                 versions);
		bps_doctor_cost(report,
		                "they do not work together: all ranks run without "
		                "it");
		bps_doctor_remedy(report, "install the same version on every host. Which "
		                          "one it is says, there:");
		bps_doctor_type(report, "bpsmpi-check --version");
	} else {
		check_tool(job, report);
	}
	if (list_versions(job, mpi_version, versions, sizeof(versions)) > 1) {
		bps_doctor_found(report, "ranks have different MPI libraries: %s",
		                 versions);
		bps_doctor_cost(report,
		                "nobody has tried them together: jobs may hang or "
		                "end in their first messages");
		bps_doctor_remedy(report, "install the same one everywhere, or have "
		                          "mpirun pass on the way to it:");
		bps_doctor_type(report, "mpirun --prefix /path/to/openmpi ...");
	}
}

/* -- variables -- */

static bool is_variable(const char *name, size_t n)
{
	for (int i = 0; i < BPS_CONFIG_N_ROWS; i++)
		if (strlen(bps_config_rows[i].name) == n &&
		    strncmp(bps_config_rows[i].name, name, n) == 0)
			return true;
	return false;
}

static void report_setting(const struct bps_job *job, const char *line, size_t n,
                           struct bps_doctor_report *report)
{
	const int name = (int)strcspn(line, "=");
	bool *which = calloc(job->size, sizeof(*which));
	char ranks[BPS_JOB_LIST_BYTES];

	if (!which)
		return;
	for (uint32_t r = 0; r < job->size; r++)
		which[r] = bps_doctor_has_line(job->ranks[r].settings, line, n);
	bps_doctor_found(report, "%.*s on %s, and rank 0 has not", (int)n, line,
	                 list_ranks(job, which, ranks, sizeof(ranks)));
	if (!is_variable(line, (size_t)name)) {
		bps_doctor_cost(report,
		                "it is no variable of bytepsmpi and does nothing");
		bps_doctor_remedy(report, "correct it, or unset it; all that there are:");
		bps_doctor_type(report, "bpsmpi-check --env");
		free(which);
		return;
	}
	bps_doctor_cost(report, "rank 0's variables rule the job: this one does nothing");
	bps_doctor_remedy(report, "have mpirun set it for all ranks, or unset it there:");
	bps_doctor_type(report, "mpirun -x %.*s ...", name, line);
	free(which);
}

static bool was_seen(const struct bps_job *job, uint32_t rank, const char *line, size_t n)
{
	for (uint32_t r = 0; r < rank; r++)
		if (bps_doctor_has_line(job->ranks[r].settings, line, n))
			return true;
	return false;
}

void bps_job_check_settings(const struct bps_job *job, struct bps_doctor_report *report)
{
	report->check = "settings";
	for (uint32_t r = 1; r < job->size; r++) {
		const char *line = job->ranks[r].settings;

		for (; *line; line += strcspn(line, "\n") + 1) {
			size_t n = strcspn(line, "\n");

			if (!was_seen(job, r, line, n))
				report_setting(job, line, n, report);
		}
	}
	if (job->config.enable)
		return;
	bps_doctor_found(report, "rank 0 has BPSMPI_ENABLE=0");
	bps_doctor_cost(report, "all ranks run without bytepsmpi");
	bps_doctor_remedy(report, "where that is not meant so, unset it:");
	bps_doctor_type(report, "unset BPSMPI_ENABLE");
}
