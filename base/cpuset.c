/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/cpuset.h"

#include "base/log.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

void bps_cpuset_add(struct bps_cpuset *set, uint32_t cpu)
{
	if (cpu < BPS_CPU_MAX)
		set->bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

bool bps_cpuset_has(const struct bps_cpuset *set, uint32_t cpu)
{
	return cpu < BPS_CPU_MAX && set->bits[cpu / 64] >> cpu % 64 & 1;
}

uint32_t bps_cpuset_count(const struct bps_cpuset *set)
{
	uint32_t n = 0;

	for (size_t i = 0; i < BPS_CPU_MAX / 64; i++)
		n += (uint32_t)__builtin_popcountll(set->bits[i]);
	return n;
}

/* The first CPU from @cpu on that is in the set (or, as @in says, is not). */
static uint32_t next_cpu(const struct bps_cpuset *set, uint32_t cpu, bool in)
{
	while (cpu < BPS_CPU_MAX && bps_cpuset_has(set, cpu) != in)
		cpu++;
	return cpu;
}

int bps_cpuset_nth(const struct bps_cpuset *set, uint32_t n)
{
	uint32_t cpu = next_cpu(set, 0, true);

	while (cpu < BPS_CPU_MAX && n-- > 0)
		cpu = next_cpu(set, cpu + 1, true);
	return cpu < BPS_CPU_MAX ? (int)cpu : -1;
}

void bps_cpuset_intersect(struct bps_cpuset *set, const struct bps_cpuset *other)
{
	for (size_t i = 0; i < BPS_CPU_MAX / 64; i++)
		set->bits[i] &= other->bits[i];
}

/* Reads digits at *at and moves behind them; false: none there, or no CPU's number. */
static bool read_cpu(const char **at, uint32_t *ret_cpu)
{
	const char *start = *at;
	uint32_t cpu = 0;

	for (; **at >= '0' && **at <= '9' && cpu < BPS_CPU_MAX; (*at)++)
		cpu = cpu * 10 + (uint32_t)(**at - '0');
	*ret_cpu = cpu;
	return *at > start && cpu < BPS_CPU_MAX;
}

static bool read_range(const char **at, struct bps_cpuset *set)
{
	uint32_t first, last;

	if (!read_cpu(at, &first))
		return false;
	last = first;
	if (**at == '-') {
		(*at)++;
		if (!read_cpu(at, &last) || last < first)
			return false;
	}
	for (uint32_t cpu = first; cpu <= last; cpu++)
		bps_cpuset_add(set, cpu);
	return true;
}

int bps_cpuset_parse(const char *what, const char *text, struct bps_cpuset *ret_set)
{
	struct bps_cpuset set = { 0 };
	const char *at = text;
	bool more = *at && *at != '\n';

	while (more) {
		if (!read_range(&at, &set) || (*at && *at != ',' && *at != '\n')) {
			bps_error(
				"%s: '%s' is not a list of CPUs from 0 to %d; write for "
				"example 0-3,8",
				what, text, BPS_CPU_MAX - 1);
			return -EINVAL;
		}
		more = *at == ',';
		at += more;
	}
	*ret_set = set;
	return 0;
}

void bps_cpuset_format(const struct bps_cpuset *set, char *ret_text, size_t text_bytes)
{
	uint32_t first = next_cpu(set, 0, true);
	size_t used = 0;

	if (text_bytes > 0)
		ret_text[0] = '\0';
	while (first < BPS_CPU_MAX) {
		uint32_t end = next_cpu(set, first, false);
		char range[24];
		int n = snprintf(range, sizeof(range), "%s%u", used ? "," : "", first);

		if (end - first > 1)
			n += snprintf(range + n, sizeof(range) - (size_t)n, "-%u",
			              end - 1);
		first = next_cpu(set, end, true);
		/* Keep room for the dots unless this is the last one. */
		if (used + (size_t)n + (first < BPS_CPU_MAX ? 3 : 0) >= text_bytes) {
			(void)snprintf(ret_text + used, text_bytes - used, "...");
			return;
		}
		memcpy(ret_text + used, range, (size_t)n + 1);
		used += (size_t)n;
	}
}

int bps_cpuset_allowed(struct bps_cpuset *ret_set)
{
	struct bps_cpuset set = { 0 };

	if (sched_getaffinity(0, sizeof(set), (cpu_set_t *)(void *)set.bits)) {
		int error = errno;

		bps_error("the kernel does not say which CPUs are allowed: %m");
		return -error;
	}
	*ret_set = set;
	return 0;
}

int bps_cpuset_usable(const char *what, const char *list, struct bps_cpuset *ret_set)
{
	struct bps_cpuset allowed = { 0 }, wanted = { 0 };
	char text[128];
	int r = bps_cpuset_allowed(&allowed);

	if (r)
		return r;
	if (list[0]) {
		r = bps_cpuset_parse(what, list, &wanted);
		if (r)
			return r;
		bps_cpuset_intersect(&wanted, &allowed);
	} else {
		wanted = allowed;
	}
	if (bps_cpuset_count(&wanted) == 0) {
		bps_cpuset_format(&allowed, text, sizeof(text));
		bps_error(
			"%s: none of the CPUs '%s' is among those this process may use, "
			"which are %s; name some of them",
			what, list, text);
		return -EINVAL;
	}
	*ret_set = wanted;
	return 0;
}

int bps_cpuset_bind(const struct bps_cpuset *set)
{
	if (sched_setaffinity(0, sizeof(*set),
	                      (const cpu_set_t *)(const void *)set->bits)) {
		int error = errno;
		char text[128];

		bps_cpuset_format(set, text, sizeof(text));
		bps_error("a thread cannot be bound to CPUs '%s': %m", text);
		return -error;
	}
	return 0;
}

uint32_t bps_cpuset_n_threads(const struct bps_cpuset *set)
{
	uint32_t n = bps_cpuset_count(set);
	uint32_t quota = bps_cpu_quota("");

	n = n < quota ? n : quota;
	return n > 0 ? n : 1;
}
