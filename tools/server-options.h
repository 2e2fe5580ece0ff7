/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of bpsmpi-server. Most options are a variable of base/env.def under
 * another name: the option's value stands before the environment's, and one parser and
 * one range serve both.
 */
#pragma once

#include <stdint.h>

#include "base/config.h"

struct bps_server_options {
	struct bps_config config; /* interface, loops, reducers, cpus, memory, log */
	uint16_t port;            /* 0: any free one */
	uint32_t max_connections; /* 1 or more */
	uint32_t grace_s;         /* for the jobs that are there when it is told to end */
};

#define BPS_SERVER_OPTIONS_E_DONE 1 /* help or version was printed: exit in order */

/**
 * bps_server_options_parse() - read main()'s arguments and @env (as environ).
 *
 * Return: 0 with every field of @ret_options set; BPS_SERVER_OPTIONS_E_DONE; -EINVAL:
 * what is wrong was said; -ENOMEM.
 */
int bps_server_options_parse(int argc, char *const *argv, char *const *env,
                             struct bps_server_options *ret_options);
