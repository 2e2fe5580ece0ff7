/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which file it is that runs where a program is started: as mpirun finds it, as execve(2)
 * goes from a script to its interpreter, and as env(1) does, which most scripts name.
 * Nothing is run. One thread.
 */
#pragma once

#include <limits.h>
#include <stdint.h>

#define BPS_START_LINE_BYTES 256 /* of a script's first line, as the kernel reads it */

struct bps_start {
	char path[PATH_MAX];    /* what is started now */
	char dropper[PATH_MAX]; /* the script that has env drop LD_PRELOAD; "": none */
	char why[2 * PATH_MAX]; /* what is wrong, after a failure */
	const char *folders;    /* where env looks, borrowed from there, or own_folders;
	                         * NULL:    PATH is not set any more */
	uint32_t n_scripts;     /* that are each other's interpreters */
	uint32_t n_envs;
	char line[BPS_START_LINE_BYTES + 1]; /* of the last script */
	char own_folders[BPS_START_LINE_BYTES];
};

/**
 * bps_start_find() - the file of a program as a launcher is told it.
 * @ret_start: all of it is set; its path is what @name stands for
 * Return: 0; -EINVAL: there is none, and why says so.
 */
int bps_start_find(const char *name, struct bps_start *ret_start);

/**
 * bps_start_open() - open start->path to look at, if it can be started.
 * Return: a descriptor, the caller's; -EINVAL: it cannot, and why says why.
 */
int bps_start_open(struct bps_start *start);

/**
 * bps_start_follow() - go from a script to what runs it.
 * @fd: start->path, borrowed
 * Return: 0: it is no script; 1: it is, and start->path is now the file that runs it;
 * -EINVAL: it does not run, and why says why.
 */
int bps_start_follow(struct bps_start *start, int fd);
