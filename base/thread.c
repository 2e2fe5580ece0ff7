/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include "base/cpuset.h"
#include "base/log.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Returns a positive errno, as pthread functions do. */
static int set_attributes(pthread_attr_t *attr, int cpu)
{
	struct bps_cpuset set = { 0 };
	int error = pthread_attr_setstacksize(attr, BPS_THREAD_STACK_BYTES);

	if (error || cpu < 0)
		return error;
	bps_cpuset_add(&set, (uint32_t)cpu);
	return pthread_attr_setaffinity_np(attr, sizeof(set),
	                                   (const cpu_set_t *)(const void *)&set);
}

/* A thread inherits the mask of the one that creates it. */
static int create_without_signals(pthread_t *thread, const pthread_attr_t *attr,
                                  bps_thread_fn fn, void *arg)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	error = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (error)
		return error;
	error = pthread_create(thread, attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

int bps_thread_start(const char *name, bps_thread_fn fn, void *arg, int cpu,
                     pthread_t *ret_thread)
{
	char short_name[16];
	pthread_attr_t attr;
	int error = pthread_attr_init(&attr);

	if (!error) {
		error = set_attributes(&attr, cpu);
		if (!error)
			error = create_without_signals(ret_thread, &attr, fn, arg);
		pthread_attr_destroy(&attr);
	}
	if (error) {
		bps_error("thread %s does not start on CPU %d: %s", name, cpu,
		          strerror(error));
		return -error;
	}
	(void)snprintf(short_name, sizeof(short_name), "%s", name);
	pthread_setname_np(*ret_thread, short_name);
	return 0;
}

void bps_thread_join(pthread_t thread)
{
	pthread_join(thread, NULL);
}
