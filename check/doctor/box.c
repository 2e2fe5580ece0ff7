/* SPDX-License-Identifier: BSD-3-Clause */
/* The doctor's checks of sysfs, memory, CPUs and variables. */
#include <inttypes.h>
#include <string.h>

#include "check/doctor/impl.h"
#include "topology/machine.h"

#define MIB (UINT64_C(1) << 20)

/* What MPI libraries register with a verbs device grows with the buffers of the job. */
#define LEAST_MEMLOCK_BYTES (1024 * MIB)

/* Some ranks' worth of Open MPI's segments, 4 MiB each, and then some. */
#define LEAST_SHM_BYTES (64 * MIB)

void bps_doctor_check_sysfs(const struct bps_doctor_facts *facts,
                            struct bps_doctor_report *report)
{
	if (!facts->no_sysfs)
		return;
	bps_doctor_found(
		report, "/sys is missing, or most of it: there is no " BPS_MACHINE_SYSFS);
	bps_doctor_cost(report, "packages, memory nodes, PCI and the speed of network "
	                        "cards are not known: neither the ranks of a box nor its "
	                        "cards are used by what is near to what");
	bps_doctor_remedy(report,
	                  "mount it; in a container, leave it to who starts that:");
	bps_doctor_type(report, "mount -t sysfs sysfs /sys");
}

void bps_doctor_check_memlock(const struct bps_doctor_facts *facts,
                              struct bps_doctor_report *report)
{
	if (facts->n_ports == 0 || facts->memlock_bytes >= LEAST_MEMLOCK_BYTES)
		return;
	bps_doctor_found(report,
	                 "a process may lock %" PRIu64 " KiB of memory, and there is the "
	                 "RDMA device %s",
	                 facts->memlock_bytes / 1024, facts->ports[0].device);
	bps_doctor_cost(report, "the MPI library cannot register its buffers with that "
	                        "device: it fails, or takes TCP instead");
	bps_doctor_remedy(report, "lift the limit for the shell that starts the job, or "
	                          "in the unit of the batch system's daemon:");
	bps_doctor_type(report, "ulimit -l unlimited");
	bps_doctor_type(report, "LimitMEMLOCK=infinity   # in the [Service] of the unit");
	bps_doctor_type(report, "* - memlock unlimited   # in /etc/security/limits.conf");
}

/*
 * For the program's own buffers. What the ranks of a box share is small and used again
 * and again, so that it stays in the caches and in the TLB, and the library asks for no
 * huge pages there.
 */
void bps_doctor_check_hugepages(const struct bps_doctor_facts *facts,
                                struct bps_doctor_report *report)
{
	if (!facts->no_huge_pages)
		return;
	bps_doctor_found(report, "no program gets huge pages "
	                         "(transparent_hugepage/enabled is never)");
	bps_doctor_cost(
		report,
		"an operation on a buffer that the program has just made stops for "
		"each 4 KiB of it that nobody touched yet, instead of each 2 MiB");
	bps_doctor_remedy(report,
	                  "unless somebody wants it so: give them to programs that "
	                  "ask, as numpy does for its arrays, or to all (always); "
	                  "for good with transparent_hugepage=madvise on the "
	                  "kernel's command line:");
	bps_doctor_type(report,
	                "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled");
}

void bps_doctor_check_shm(const struct bps_doctor_facts *facts,
                          struct bps_doctor_report *report)
{
	if (facts->shm && facts->shm_free_bytes >= LEAST_SHM_BYTES)
		return;
	if (facts->shm)
		bps_doctor_found(report, "/dev/shm has %" PRIu64 " MiB free",
		                 facts->shm_free_bytes / MIB);
	else
		bps_doctor_found(report, "there is no /dev/shm");
	bps_doctor_cost(report, "Open MPI keeps the messages between ranks of a host "
	                        "there, some 4 MiB a rank: the job warns, is slow, or "
	                        "ends in a bus error (bytepsmpi itself needs nothing "
	                        "there)");
	bps_doctor_remedy(report,
	                  "%s, or let Open MPI use another folder; a container gets "
	                  "more with docker run --shm-size=1g:",
	                  facts->shm ? "make room or make it larger" : "mount one");
	bps_doctor_type(report,
	                facts->shm ? "mount -o remount,size=1G /dev/shm"
	                           : "mount -t tmpfs -o mode=1777,size=1G shm /dev/shm");
	bps_doctor_type(report, "mpirun --mca btl_vader_backing_directory /tmp ...");
}

void bps_doctor_check_cpus(const struct bps_doctor_facts *facts,
                           struct bps_doctor_report *report)
{
	if (facts->n_usable >= facts->n_online)
		return;
	bps_doctor_found(report, "%" PRIu32 " of %" PRIu32 " CPUs usable",
	                 facts->n_usable, facts->n_online);
	bps_doctor_cost(report,
	                "the ranks, and the threads that sum and send for them, "
	                "share %s",
	                facts->n_usable == 1 ? "this one" : "these");
	bps_doctor_remedy(report, "where that is not meant so: ask the batch system for "
	                          "more, widen the cpuset of the container, or let ranks "
	                          "go where they want:");
	bps_doctor_type(report, "mpirun --bind-to none ...");
}

void bps_doctor_check_quota(const struct bps_doctor_facts *facts,
                            struct bps_doctor_report *report)
{
	if (facts->n_granted >= facts->n_usable)
		return;
	bps_doctor_found(report,
	                 "%" PRIu32
	                 " CPUs are seen, but control groups grant the time of "
	                 "%" PRIu32,
	                 facts->n_usable, facts->n_granted);
	bps_doctor_cost(report,
	                "programs start a thread for each CPU that they see, use the "
	                "time up, and stand still for the rest of each period, often "
	                "100 ms; all ranks of the job wait for them");
	bps_doctor_remedy(report,
	                  "raise the quota (docker run --cpus, Kubernetes' limits.cpu, "
	                  "systemd's CPUQuota), or start no more than fits:");
	bps_doctor_type(report, "mpirun -n %" PRIu32 " -x OMP_NUM_THREADS=1 ...",
	                facts->n_granted);
}

void bps_doctor_check_interface(const struct bps_doctor_facts *facts,
                                struct bps_doctor_report *report)
{
	if (!facts->interface_wrong[0])
		return;
	bps_doctor_found(report, "BPSMPI_INTERFACE: %s", facts->interface_wrong);
	bps_doctor_cost(report, "jobs run without bytepsmpi");
	bps_doctor_remedy(report,
	                  "name one that all hosts have, or their network, or leave "
	                  "the choice to the library:");
	bps_doctor_type(report, "export BPSMPI_INTERFACE=10.0.0.0/24");
	bps_doctor_type(report, "unset BPSMPI_INTERFACE");
}

static void report_variable(const char *line, int n, const char *cost,
                            struct bps_doctor_report *report)
{
	bps_doctor_found(report, "%.*s", n, line);
	bps_doctor_cost(report, "%s", cost);
	bps_doctor_remedy(report, "correct it, or unset it; all that there are:");
	bps_doctor_type(report, "bpsmpi-check --env");
}

void bps_doctor_check_variables(const struct bps_doctor_facts *facts,
                                struct bps_doctor_report *report)
{
	int n;

	for (const char *line = facts->variables; line && *line;
	     line += n + (line[n] == '\n')) {
		n = (int)strcspn(line, "\n");
		report_variable(line, n,
		                bps_doctor_has_line(facts->values, line, (size_t)n)
		                        ? "jobs run without bytepsmpi"
		                        : "it does nothing",
		                report);
	}
	for (const char *line = facts->readings; line && *line;
	     line += n + (line[n] == '\n')) {
		n = (int)strcspn(line, "\n");
		report_variable(line, n, "jobs of several hosts run without bytepsmpi",
		                report);
	}
}
