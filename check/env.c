/* SPDX-License-Identifier: BSD-3-Clause */
#include "check/check.h"

#include <stdio.h>
#include <unistd.h>

#include "base/config.h"
#include "base/cpuset.h"
#include "base/hostlist.h"
#include "topology/bandwidth.h"

static bool check_servers(const struct bps_config *config)
{
	struct bps_hostlist list;
	char error[512];

	if (!config->servers[0])
		return true;
	if (bps_hostlist_parse("BPSMPI_SERVERS", config->servers, 1, &list, error,
	                       sizeof(error))) {
		bps_check_complain("%s", error);
		return false;
	}
	bps_hostlist_deinit(&list);
	return true;
}

static bool check_bandwidth(const struct bps_config *config)
{
	struct bps_bandwidths list;
	char error[512];

	if (bps_bandwidths_parse("BPSMPI_BANDWIDTH", config->bandwidth, &list, error,
	                         sizeof(error))) {
		bps_check_complain("%s", error);
		return false;
	}
	bps_bandwidths_deinit(&list);
	return true;
}

int bps_check_env(const struct bps_check_options *options)
{
	static struct bps_config config;
	struct bps_cpuset cpus;
	bool good;

	(void)options;
	good = bps_config_parse(&config, environ) == 0;
	good &= check_servers(&config);
	good &= check_bandwidth(&config);
	good &= bps_cpuset_parse("BPSMPI_CPUS", config.cpus, &cpus) == 0;
	bps_config_print(&config, stdout);
	return good ? BPS_CHECK_FINE : BPS_CHECK_WRONG;
}
