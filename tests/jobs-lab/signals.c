/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mixed allreduces under a profiler's kind of fire: SIGALRM every millisecond without
 * SA_RESTART, and SIGCHLD every ten. And: what signals do is what it was, line "signals".
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job.h"

static volatile sig_atomic_t n_alarms, n_children;

static void on_alarm(int number)
{
	(void)number;
	n_alarms++;
}

static void on_child(int number)
{
	(void)number;
	n_children++;
}

static pid_t start_child(void)
{
	pid_t parent = getpid(), child = fork();

	while (child == 0) {
		usleep(10000);
		if (kill(parent, SIGCHLD) < 0)
			_exit(0);
	}
	return child;
}

static void handle(int number, void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler };

	sigaction(number, &action, NULL);
}

/* d: default, i: ignored, m: mine, o: another's; a character a signal. */
static void show_actions(const char *when)
{
	char text[80] = "";
	int number;

	for (number = 1; number < 65; number++) {
		struct sigaction action;
		char c = 'o';

		if (sigaction(number, NULL, &action) < 0)
			c = '-';
		else if (action.sa_handler == SIG_DFL)
			c = 'd';
		else if (action.sa_handler == SIG_IGN)
			c = 'i';
		else if (action.sa_handler == on_alarm || action.sa_handler == on_child)
			c = 'm';
		text[number - 1] = c;
	}
	printf("signals %s rank %d %s\n", when, job_rank, text);
}

int main(int argc, char **argv)
{
	static const int counts[] = { 17, 5000, 70001, 300007, 1000003 };
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
	MPI_Datatype types[] = { MPI_INT, MPI_FLOAT, MPI_DOUBLE };
	int n_calls = argc > 1 ? atoi(argv[1]) : 200, i;
	pid_t child;

	handle(SIGALRM, on_alarm);
	handle(SIGCHLD, on_child);
	child = start_child();
	setitimer(ITIMER_REAL, &often, NULL);
	job_begin(&argc, &argv);
	show_actions("after Init");
	for (i = 0; i < n_calls; i++) {
		if (job_allreduce(MPI_COMM_WORLD, job_world(), job_size, counts[i % 5],
		                  types[i % 3], (uint32_t)i))
			job_fail("MPI_Allreduce number %d", i);
	}
	if (n_alarms < 50 || n_children < 5)
		job_fail("only %d and %d signals came", (int)n_alarms, (int)n_children);
	setitimer(ITIMER_REAL, &never, NULL);
	i = job_end();
	show_actions("after Finalize");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return i;
}
