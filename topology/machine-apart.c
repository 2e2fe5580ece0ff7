/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hwloc on XML of unknown origin, in a child process: it believes what it reads, and some
 * files make it crash. What it made of a file comes back through a pipe; a child that
 * died on the way leaves the pipe short.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "topology/machine-build.h"

#define CPU_SECONDS 5 /* that a file may take */
#define N_ARRAYS    7

struct answer {
	int r;
	char error[256];
	struct bps_machine machine; /* its pointers say which arrays follow */
};

struct array {
	void **at;
	size_t n, n_max, element_bytes;
};

static void list_arrays(struct bps_machine *m, struct array *ret)
{
	const size_t n_nodes = m->n_nodes;
	const struct array arrays[N_ARRAYS] = {
		{ (void **)&m->packages, m->n_packages, BPS_CPU_MAX,
		  sizeof(*m->packages) },
		{ (void **)&m->nodes, n_nodes, BPS_MACHINE_NODES_MAX, sizeof(*m->nodes) },
		{ (void **)&m->cpus, m->n_cpus, BPS_CPU_MAX, sizeof(*m->cpus) },
		{ (void **)&m->bridges, m->n_bridges, BPS_MACHINE_DEVICES_MAX,
		  sizeof(*m->bridges) },
		{ (void **)&m->nics, m->n_nics, BPS_MACHINE_DEVICES_MAX,
		  sizeof(*m->nics) },
		{ (void **)&m->gpus, m->n_gpus, BPS_MACHINE_DEVICES_MAX,
		  sizeof(*m->gpus) },
		{ (void **)&m->distances, m->distances ? n_nodes * n_nodes : 0,
		  (size_t)BPS_MACHINE_NODES_MAX * BPS_MACHINE_NODES_MAX,
		  sizeof(uint32_t) },
	};

	memcpy(ret, arrays, sizeof(arrays));
}

static int write_all(int fd, const void *from, size_t n_bytes)
{
	const char *at = from;

	while (n_bytes > 0) {
		ssize_t n = write(fd, at, n_bytes);

		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? n : 0;
		n_bytes -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int read_all(int fd, void *to, size_t n_bytes)
{
	char *at = to;

	while (n_bytes > 0) {
		ssize_t n = read(fd, at, n_bytes);

		if (n == 0)
			return -EPIPE;
		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? n : 0;
		n_bytes -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* No word on standard error, no core, no end to its time. */
static void restrain(void)
{
	const struct rlimit cpu = { CPU_SECONDS, CPU_SECONDS }, none = { 0, 0 };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null >= 0)
		(void)dup2(null, STDERR_FILENO);
	(void)setrlimit(RLIMIT_CPU, &cpu);
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

__attribute__((noreturn)) static void child(int fd, const struct bps_machine *empty,
                                            const char *hwloc, const char *xml,
                                            size_t xml_bytes)
{
	struct answer answer = { .machine = *empty };
	struct array arrays[N_ARRAYS];
	int r;

	restrain();
	answer.r = bps_machine_from_hwloc(&answer.machine, hwloc, xml, xml_bytes,
	                                  answer.error, sizeof(answer.error));
	list_arrays(&answer.machine, arrays);
	r = write_all(fd, &answer, sizeof(answer));
	for (size_t i = 0; i < N_ARRAYS && !r && !answer.r; i++)
		r = write_all(fd, *arrays[i].at, arrays[i].n * arrays[i].element_bytes);
	_exit(r ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* Their pointers are the child's, so each is replaced before anything can fail. */
static int read_arrays(int fd, struct bps_machine *machine)
{
	struct array arrays[N_ARRAYS];
	int r = 0;

	list_arrays(machine, arrays);
	for (size_t i = 0; i < N_ARRAYS; i++)
		*arrays[i].at = NULL;
	for (size_t i = 0; i < N_ARRAYS && !r; i++) {
		if (arrays[i].n > arrays[i].n_max)
			return -EINVAL;
		if (arrays[i].n == 0)
			continue;
		*arrays[i].at = calloc(arrays[i].n, arrays[i].element_bytes);
		r = *arrays[i].at ? read_all(fd, *arrays[i].at,
		                             arrays[i].n * arrays[i].element_bytes)
		                  : -ENOMEM;
	}
	return r;
}

static int take_answer(int fd, struct bps_machine *machine, char *ret_error,
                       size_t error_bytes)
{
	struct answer answer;
	int r = read_all(fd, &answer, sizeof(answer));

	if (!r && answer.r) {
		(void)snprintf(ret_error, error_bytes, "%.*s",
		               (int)sizeof(answer.error) - 1, answer.error);
		return answer.r;
	}
	if (!r) {
		*machine = answer.machine;
		r = read_arrays(fd, machine);
	}
	if (r)
		(void)snprintf(ret_error, error_bytes, "%s",
		               r == -ENOMEM ? "out of memory" : "hwloc breaks on this");
	return !r || r == -ENOMEM ? r : -EINVAL;
}

int bps_machine_from_xml(struct bps_machine *machine, const char *hwloc, const char *xml,
                         size_t xml_bytes, char *ret_error, size_t error_bytes)
{
	int fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC)) {
		r = -errno;
		(void)snprintf(ret_error, error_bytes, "no pipe: %s", strerror(-r));
		return r;
	}
	pid = fork();
	if (pid == 0)
		child(fds[1], machine, hwloc, xml, xml_bytes);
	r = -errno;
	close(fds[1]);
	if (pid > 0)
		r = take_answer(fds[0], machine, ret_error, error_bytes);
	else
		(void)snprintf(ret_error, error_bytes, "no process: %s", strerror(-r));
	close(fds[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}
