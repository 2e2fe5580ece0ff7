/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/server-options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuset.h"
#include "base/hostlist.h"

#define DEFAULT_MAX_CONNECTIONS 4096
#define DEFAULT_GRACE_S         10

static const char help[] =
	"usage: bpsmpi-server [OPTION]...\n"
	"\n"
	"Sums what the members of MPI jobs push and answers them with the total.\n"
	"\n"
	"  -p, --port=N             TCP port to listen on (7000); 0: any free one\n"
	"  -b, --bind=WHERE         listen there only: an address, an interface (eth1),\n"
	"                           the beginning of interface names (ib), or a network\n"
	"                           (10.0.0.0/8); default: all addresses\n"
	"      --loops=N            threads that talk to the network (1)\n"
	"      --reducers=N         threads that sum (0: one for each usable CPU)\n"
	"      --cpus=LIST          CPUs to use, such as 0-3,8 (all that are allowed)\n"
	"      --memory=BYTES       bound on windows and sums of all jobs (1G)\n"
	"      --max-connections=N  bound on connections (4096)\n"
	"      --grace=SECONDS      on SIGTERM, how long jobs may still finish (10)\n"
	"      --log=LEVEL          error, warn, info or debug (info)\n"
	"  -h, --help               print this\n"
	"  -V, --version            print the version\n"
	"\n"
	"BPSMPI_INTERFACE, BPSMPI_LOOPS, BPSMPI_REDUCERS, BPSMPI_CPUS,\n"
	"BPSMPI_SERVER_MEMORY_BYTES and BPSMPI_LOG stand in for options that are not given.\n"
	"See bpsmpi-server(8).\n";

enum {
	OPTION_MAX_CONNECTIONS = 256,
	OPTION_GRACE,
	OPTION_ROW, /* and those after it: the rows of base/env.def */
};

static const struct option long_options[] = {
	{ "port", required_argument, NULL, 'p' },
	{ "max-connections", required_argument, NULL, OPTION_MAX_CONNECTIONS },
	{ "grace", required_argument, NULL, OPTION_GRACE },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ "bind", required_argument, NULL, 'b' },
	{ "loops", required_argument, NULL, OPTION_ROW + BPS_CONFIG_ROW_loops },
	{ "reducers", required_argument, NULL, OPTION_ROW + BPS_CONFIG_ROW_reducers },
	{ "cpus", required_argument, NULL, OPTION_ROW + BPS_CONFIG_ROW_cpus },
	{ "memory", required_argument, NULL,
	  OPTION_ROW + BPS_CONFIG_ROW_server_memory_bytes },
	{ "log", required_argument, NULL, OPTION_ROW + BPS_CONFIG_ROW_log },
	{ 0 },
};

#define OPTION_CHARS 32 /* "--max-connections" with its end, and more */

/* What the options put before the environment; "NAME=value", owned. */
struct overlay {
	char *entries[BPS_CONFIG_N_ROWS];
};

/* As its user calls an option, in @ret. */
static const char *name_option(int option, char ret[OPTION_CHARS])
{
	const struct option *row = long_options;

	while (row->val != option)
		row++;
	(void)snprintf(ret, OPTION_CHARS, "--%s", row->name);
	return ret;
}

static int overlay_set(struct overlay *overlay, int option, const char *value)
{
	enum bps_config_index row =
		option == 'b' ? BPS_CONFIG_ROW_interface : option - OPTION_ROW;
	char name[OPTION_CHARS], *entry;

	if (bps_config_check(row, name_option(option, name), value))
		return -EINVAL;
	if (asprintf(&entry, "%s=%s", bps_config_rows[row].name, value) < 0)
		return -ENOMEM;
	free(overlay->entries[row]);
	overlay->entries[row] = entry;
	return 0;
}

static void overlay_deinit(struct overlay *overlay)
{
	for (size_t i = 0; i < BPS_CONFIG_N_ROWS; i++)
		free(overlay->entries[i]);
}

/* The first entry of a name counts, so the options win. */
static int overlay_apply(const struct overlay *overlay, char *const *env,
                         struct bps_config *ret_config)
{
	size_t n_env = 0, n = 0;
	char **both;
	int r;

	while (env[n_env])
		n_env++;
	both = calloc(n_env + BPS_CONFIG_N_ROWS + 1, sizeof(*both));
	if (!both)
		return -ENOMEM;
	for (size_t i = 0; i < BPS_CONFIG_N_ROWS; i++) {
		if (overlay->entries[i])
			both[n++] = overlay->entries[i];
	}
	memcpy(both + n, env, n_env * sizeof(*both));
	r = bps_config_parse(ret_config, both);
	free(both);
	return r;
}

static int parse_number(const char *option, uint32_t min, uint32_t max,
                        uint32_t *ret_value)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(optarg, &end, 10);
	if (optarg[0] < '0' || optarg[0] > '9' || *end || errno || value < min ||
	    value > max) {
		bps_error("%s: '%s' is not a number from %u to %u", option, optarg, min,
		          max);
		return -EINVAL;
	}
	*ret_value = (uint32_t)value;
	return 0;
}

static int take_option(int option, struct bps_server_options *options,
                       struct overlay *overlay)
{
	uint32_t port = options->port;
	char name[OPTION_CHARS];
	int r;

	/* A variable of the user's was empty. */
	if (option != '?' && optarg && !optarg[0]) {
		bps_error("%s: what stands behind it is empty",
		          name_option(option, name));
		return -EINVAL;
	}
	switch (option) {
	case 'p':
		r = parse_number("--port", 0, UINT16_MAX, &port);
		options->port = (uint16_t)port;
		return r;
	case OPTION_MAX_CONNECTIONS:
		return parse_number("--max-connections", 1, 1000000,
		                    &options->max_connections);
	case OPTION_GRACE:
		return parse_number("--grace", 0, 86400, &options->grace_s);
	case 'h':
		fputs(help, stdout);
		return BPS_SERVER_OPTIONS_E_DONE;
	case 'V':
		puts("bpsmpi-server " BPS_VERSION);
		return BPS_SERVER_OPTIONS_E_DONE;
	case '?':
		return -EINVAL; /* getopt_long() has said what is wrong */
	default:
		return overlay_set(overlay, option, optarg);
	}
}

static int take_arguments(int argc, char *const *argv, struct bps_server_options *options,
                          struct overlay *overlay)
{
	int option, r = 0;

	while (r == 0 &&
	       (option = getopt_long(argc, argv, "p:b:hV", long_options, NULL)) != -1)
		r = take_option(option, options, overlay);
	if (r == 0 && optind < argc) {
		bps_error("'%s' is not an option; there are no other arguments",
		          argv[optind]);
		r = -EINVAL;
	}
	return r;
}

int bps_server_options_parse(int argc, char *const *argv, char *const *env,
                             struct bps_server_options *ret_options)
{
	struct overlay overlay = { 0 };
	struct bps_cpuset cpus;
	int r;

	ret_options->port = BPS_SERVER_PORT;
	ret_options->max_connections = DEFAULT_MAX_CONNECTIONS;
	ret_options->grace_s = DEFAULT_GRACE_S;
	r = take_arguments(argc, argv, ret_options, &overlay);
	if (r == 0)
		r = overlay_apply(&overlay, env, &ret_options->config);
	if (r == 0)
		r = bps_cpuset_parse(overlay.entries[BPS_CONFIG_ROW_cpus] ? "--cpus"
		                                                          : "BPSMPI_CPUS",
		                     ret_options->config.cpus, &cpus);
	overlay_deinit(&overlay);
	return r;
}
