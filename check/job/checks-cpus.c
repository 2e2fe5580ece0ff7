/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks that look at where the ranks of a box may run. */
#include <stdlib.h>

#include "check/job/impl.h"

#define NOBODY UINT32_MAX

/*
 * The cores of a box, each by the index of the first CPU of it that may be used, and who
 * has it. A CPU whose core is not known is one of its own.
 */
struct cores {
	const struct bps_job *job;
	const struct bps_job_box *box;
	uint32_t *core_of; /* [n_cpus]; NOBODY: it may not be used */
	uint32_t
		*rank_of; /* [n_cpus]: the rank that has this core, by its place in box */
	bool *tried;      /* [n_cpus] */
	uint32_t n_cores;
};

static uint32_t find_core(const struct bps_machine *machine, uint32_t cpu)
{
	if (!machine->cpus[cpu].usable)
		return NOBODY;
	for (uint32_t i = 0; i < cpu; i++)
		if (machine->cpus[i].usable &&
		    machine->cpus[i].core == machine->cpus[cpu].core &&
		    machine->cpus[i].core != BPS_MACHINE_NONE)
			return i;
	return cpu;
}

static void cores_deinit(struct cores *cores)
{
	free(cores->core_of);
	free(cores->rank_of);
	free(cores->tried);
}

/* Return: 0 or -1: no memory. */
static int cores_init(struct cores *cores, const struct bps_job *job, uint32_t box)
{
	const struct bps_machine *machine = job->boxes[box].machine;
	const size_t n = (size_t)machine->n_cpus + 1;

	*cores = (struct cores){ .job = job, .box = &job->boxes[box] };
	cores->core_of = calloc(n, sizeof(*cores->core_of));
	cores->rank_of = calloc(n, sizeof(*cores->rank_of));
	cores->tried = calloc(n, sizeof(*cores->tried));
	if (!cores->core_of || !cores->rank_of || !cores->tried) {
		cores_deinit(cores);
		return -1;
	}
	for (uint32_t i = 0; i < machine->n_cpus; i++) {
		cores->core_of[i] = find_core(machine, i);
		cores->rank_of[i] = NOBODY;
		cores->n_cores += cores->core_of[i] == i;
	}
	return 0;
}

static bool may_use(const struct cores *cores, uint32_t rank, uint32_t cpu)
{
	return cores->core_of[cpu] != NOBODY &&
	       bps_cpuset_has(&cores->job->ranks[cores->box->ranks[rank]].cpus,
	                      cores->box->machine->cpus[cpu].number);
}

/* Gives @rank a core, if need be one of another rank that can have another one then. */
static bool give_core(struct cores *cores, uint32_t rank)
{
	for (uint32_t cpu = 0; cpu < cores->box->machine->n_cpus; cpu++) {
		const uint32_t core = cores->core_of[cpu];

		if (!may_use(cores, rank, cpu) || cores->tried[core])
			continue;
		cores->tried[core] = true;
		if (cores->rank_of[core] == NOBODY ||
		    give_core(cores, cores->rank_of[core])) {
			cores->rank_of[core] = rank;
			return true;
		}
	}
	return false;
}

/* How many ranks can have a core of their own, all at once. */
static uint32_t give_cores(struct cores *cores)
{
	uint32_t n = 0;

	for (uint32_t rank = 0; rank < cores->box->n_ranks; rank++) {
		for (uint32_t i = 0; i < cores->box->machine->n_cpus; i++)
			cores->tried[i] = false;
		n += give_core(cores, rank);
	}
	return n;
}

/* The one core that a rank may run on; NOBODY: there are several, or none. */
static uint32_t only_core(const struct cores *cores, uint32_t rank)
{
	uint32_t core = NOBODY;

	for (uint32_t cpu = 0; cpu < cores->box->machine->n_cpus; cpu++) {
		if (!may_use(cores, rank, cpu))
			continue;
		if (core != NOBODY && core != cores->core_of[cpu])
			return NOBODY;
		core = cores->core_of[cpu];
	}
	return core;
}

/* How many ranks are bound to one core; on how many cores they are. */
static uint32_t count_bound(const struct cores *cores, uint32_t *ret_n_taken)
{
	uint32_t n = 0;

	*ret_n_taken = 0;
	for (uint32_t rank = 0; rank < cores->box->n_ranks; rank++) {
		const uint32_t core = only_core(cores, rank);
		bool seen = false;

		if (core == NOBODY)
			continue;
		for (uint32_t i = 0; i < rank && !seen; i++)
			seen = only_core(cores, i) == core;
		n++;
		*ret_n_taken += !seen;
	}
	return n;
}

static void remedy_binding(const struct cores *cores, bool is_full,
                           struct bps_doctor_report *report)
{
	if (2 * cores->box->n_ranks <= cores->n_cores) {
		bps_doctor_remedy(report, "let ranks have more than one core, or any:");
		bps_doctor_type(report, "mpirun --map-by slot:PE=2 ...");
	} else if (is_full) {
		bps_doctor_remedy(report, "let ranks run where there is room, and start "
		                          "one less on each host if the job can do "
		                          "without:");
	} else {
		bps_doctor_remedy(report, "let ranks run where there is room:");
	}
	bps_doctor_type(report, "mpirun --bind-to none ...");
}

/* The first rank of a box starts the engine, whose thread stays within its CPUs. One box
 * needs none. */
static void check_engine(const struct cores *cores, struct bps_doctor_report *report)
{
	const uint32_t n_ranks = cores->box->n_ranks, n_cores = cores->n_cores;
	uint32_t n_taken, n_bound;
	bool is_full;

	if (cores->job->n_boxes < 2 || n_cores < 2 || only_core(cores, 0) == NOBODY)
		return;
	n_bound = count_bound(cores, &n_taken);
	is_full = n_bound == n_ranks && n_taken == n_cores;
	if (is_full)
		bps_doctor_found(report,
		                 "%u ranks are bound to a core each, and no core is left",
		                 n_bound);
	else if (n_ranks == 1)
		bps_doctor_found(report, "its rank is bound to one core, of %u", n_cores);
	else
		bps_doctor_found(report,
		                 "%u of %u ranks %s bound to one core each, of %u",
		                 n_bound, n_ranks, n_bound == 1 ? "is" : "are", n_cores);
	bps_doctor_cost(report, "the engine's thread, which sends and receives for this "
	                        "box, shares the core of the first rank: the one waits "
	                        "for the other");
	remedy_binding(cores, is_full, report);
}

/* Ranks that cannot have cores of their own, while there are some that no rank needs. */
static void check_sharing(struct cores *cores, struct bps_doctor_report *report)
{
	const uint32_t n_ranks = cores->box->n_ranks, n = give_cores(cores);
	const uint32_t n_without = n_ranks - n, n_free = cores->n_cores - n;

	if (n_without == 0 || n_free == 0)
		return;
	bps_doctor_found(report,
	                 "as its ranks are bound, %u of %u %s no core to %s, and %u of "
	                 "%u cores %s free",
	                 n_without, n_ranks, n_without == 1 ? "has" : "have",
	                 n_without == 1 ? "itself" : "themselves", n_free, cores->n_cores,
	                 n_free == 1 ? "is" : "are");
	bps_doctor_cost(report,
	                "ranks that share a core take turns on it, and all others "
	                "wait for them: each step takes twice as long, or more");
	bps_doctor_remedy(report, "bind each rank to a core of its own, or let them run "
	                          "where there is room:");
	bps_doctor_type(report, "mpirun --map-by core --bind-to core ...");
	bps_doctor_type(report, "mpirun --bind-to none ...");
}

void bps_job_check_binding(const struct bps_job *job, uint32_t box,
                           struct bps_doctor_report *report)
{
	struct cores cores;

	if (cores_init(&cores, job, box))
		return;
	report->check = "binding";
	check_engine(&cores, report);
	report->check = "cores";
	check_sharing(&cores, report);
	cores_deinit(&cores);
}

void bps_job_check_cpus(const struct bps_job *job, uint32_t box,
                        struct bps_doctor_report *report)
{
	report->check = "variables";
	if (job->n_boxes < 2 || !job->ranks[job->boxes[box].ranks[0]].cpus_wrong)
		return;
	bps_doctor_found(report, "BPSMPI_CPUS names no CPU that the first rank may use");
	bps_doctor_cost(report,
	                "the engine cannot start: all ranks run without bytepsmpi");
	bps_doctor_remedy(report,
	                  "correct it, unset it, or let ranks run where they want:");
	bps_doctor_type(report, "mpirun --bind-to none ...");
}

void bps_job_check_room(const struct bps_job *job, uint32_t box,
                        struct bps_doctor_report *report)
{
	const struct bps_job_box *of = &job->boxes[box];
	const uint32_t n = of->machine->n_usable;

	report->check = "ranks";
	if (n == 0 || of->n_ranks <= n)
		return;
	bps_doctor_found(report, "%u ranks run on %u CPU%s", of->n_ranks, n,
	                 n == 1 ? "" : "s");
	bps_doctor_cost(report,
	                "ranks wait for each other's time slices: an operation, in "
	                "which each waits for all, takes many of them");
	bps_doctor_remedy(
		report,
		"start fewer ranks on a host, or have slots=%u in the host file:", n);
	bps_doctor_type(report, "mpirun --map-by ppr:%u:node ...", n);
}
