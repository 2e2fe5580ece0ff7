/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * B08: children of all kinds while sums go on. A child that exits takes nothing with it,
 * one that stays does not keep the job, and a child that calls us by mistake is not ours.
 */
#include "tests/jobs/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLOATS (64 << 10)

static void reap(pid_t pid, const char *what)
{
	int status = -1;

	if (pid > 0)
		waitpid(pid, &status, 0);
	BPS_CHECK(status == 0, "%s: the child ended with %#x", what, status);
}

/* Forks may not share the buffered output of the parent. */
static void child_exits(bool with_handlers)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (with_handlers)
			exit(0);
		_exit(0);
	}
	reap(pid, with_handlers ? "exit" : "_exit");
}

static void child_speaks(void)
{
	char line[64] = "";
	FILE *pipe = popen("echo hello", "r");

	BPS_CHECK(pipe && fgets(line, sizeof(line), pipe) && line[0] == 'h', "popen");
	BPS_CHECK(pipe && pclose(pipe) == 0, "pclose");
}

static void child_executes(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", "exit 0", (char *)NULL);
		_exit(127);
	}
	reap(pid, "exec");
}

/* It outlives the job, and holds no more than its sleep. */
static void child_stays(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		execl("/bin/sh", "sh", "-c", "exec sleep 20 <&- >&- 2>&-", (char *)NULL);
		_exit(127);
	}
	BPS_CHECK(pid > 0, "fork");
	printf("stays %d\n", (int)pid);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static float buf[FLOATS];
	int n;

	bps_test_init(&argc, &argv, -1);
	n = bps_test_long ? 200 : 30;
	child_stays();
	for (int i = 0; i < n; i++) {
		switch (i % 5) {
		case 0:
			BPS_CHECK(system("true") == 0, "system");
			break;
		case 1:
			child_speaks();
			break;
		case 2:
			child_exits(false);
			break;
		case 3:
			child_exits(true);
			break;
		case 4:
			child_executes();
			break;
		}
		bps_test_floats(NULL, buf, FLOATS, MPI_COMM_WORLD, bps_test_rank,
		                bps_test_size, (uint64_t)i);
	}
	bps_test_expect(BPS_TEST_ALLREDUCE, (uint64_t)n, sizeof(buf), NULL);
	return bps_test_end();
}
