/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CPU time that control groups grant. The kernel enforces the limit of the process's
 * own group and of every group above it; in a container the upper ones may be out of
 * sight, and the path that /proc names need not exist below the mount point: then its
 * root is the container's own group.
 */
#include "base/cpuset.h"
#include "base/file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one group grants, UINT32_MAX for no limit; @dir is the group's folder. */
typedef uint32_t (*group_quota_fn)(const char *dir);

static uint32_t whole_cpus(long long quota_us, long long period_us)
{
	if (quota_us <= 0 || period_us <= 0 || quota_us / period_us >= BPS_CPU_MAX)
		return UINT32_MAX;
	return (uint32_t)(quota_us / period_us + (quota_us % period_us != 0));
}

static bool read_group_file(const char *dir, const char *name, char *text,
                            size_t text_bytes)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s", dir, name);

	return n > 0 && (size_t)n < sizeof(path) &&
	       bps_file_read(path, text, text_bytes) > 0;
}

/* Version 2: "200000 100000" or "max 100000" microseconds a period. */
static uint32_t unified_quota(const char *dir)
{
	char text[64];
	char *end;
	long long quota_us;

	if (!read_group_file(dir, "cpu.max", text, sizeof(text)))
		return UINT32_MAX;
	quota_us = strtoll(text, &end, 10); /* "max" reads as 0: no limit */
	return whole_cpus(quota_us, strtoll(end, NULL, 10));
}

/* Version 1: a file a number, -1 for no limit. */
static uint32_t legacy_quota(const char *dir)
{
	char quota[32], period[32];

	if (!read_group_file(dir, "cpu.cfs_quota_us", quota, sizeof(quota)) ||
	    !read_group_file(dir, "cpu.cfs_period_us", period, sizeof(period)))
		return UINT32_MAX;
	return whole_cpus(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/* The least of a group and all above it; @group is shortened on the way. */
static uint32_t least_quota(const char *root, const char *mount, char *group,
                            group_quota_fn group_quota)
{
	uint32_t least = UINT32_MAX;

	for (;;) {
		char dir[PATH_MAX];
		char *slash = strrchr(group, '/');
		int n = snprintf(dir, sizeof(dir), "%s%s%s", root, mount, group);

		if (n > 0 && (size_t)n < sizeof(dir)) {
			uint32_t quota = group_quota(dir);

			least = quota < least ? quota : least;
		}
		if (!slash)
			return least;
		*slash = '\0';
	}
}

static bool names_cpu(const char *controllers)
{
	for (const char *at = controllers; at; at = strchr(at + 1, ',')) {
		const char *name = at + (*at == ',');

		if (strncmp(name, "cpu", 3) == 0 && (name[3] == ',' || !name[3]))
			return true;
	}
	return false;
}

/* One line of /proc/self/cgroup: hierarchy:controllers:group. */
static uint32_t line_quota(const char *root, char *line)
{
	char *controllers = strchr(line, ':');
	char *group = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!group)
		return UINT32_MAX;
	*controllers++ = '\0';
	*group++ = '\0';
	if (controllers[0] == '\0')
		return least_quota(root, "/sys/fs/cgroup", group, unified_quota);
	if (names_cpu(controllers))
		return least_quota(root, "/sys/fs/cgroup/cpu", group, legacy_quota);
	return UINT32_MAX;
}

uint32_t bps_cpu_quota(const char *root)
{
	char path[PATH_MAX], text[8192];
	char *rest = NULL;
	uint32_t least = UINT32_MAX;

	(void)snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	if (bps_file_read(path, text, sizeof(text)) < 0)
		return UINT32_MAX;
	for (char *line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		uint32_t quota = line_quota(root, line);

		least = quota < least ? quota : least;
	}
	return least;
}
