/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/bandwidth.h"

#include "base/file.h"
#include "base/hostlist.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define RATE_DIGITS 15 /* a number of so many digits is exact in a double */
#define SHOWN_CHARS 80 /* of an entry, in errors */

struct bps_bandwidth {
	char name[BPS_HOST_BYTES];
	double bytes_per_s;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits with or without a point among them; not strtod(), which minds the locale. */
static int parse_decimal(const char **at, double *ret_value)
{
	double value = 0, divisor = 1;
	bool point = false;
	int n = 0;

	if (!is_digit(**at))
		return -EINVAL;
	for (; is_digit(**at) || (**at == '.' && !point && is_digit((*at)[1])); (*at)++) {
		if (**at == '.') {
			point = true;
			continue;
		}
		if (++n > RATE_DIGITS)
			return -EINVAL;
		value = value * 10 + (**at - '0');
		divisor = point ? divisor * 10 : divisor;
	}
	*ret_value = value / divisor;
	return 0;
}

/* Reads the k, M, G or T, if any, and an i behind it. */
static double parse_prefix(const char **at)
{
	static const char letters[] = "KMGT";
	const char *letter = **at ? strchr(letters, **at & ~0x20) : NULL;
	double step = 1000, factor = 1;

	if (!letter)
		return 1;
	(*at)++;
	if (**at == 'i') {
		step = 1024;
		(*at)++;
	}
	for (; letter >= letters; letter--)
		factor *= step;
	return factor;
}

int bps_rate_parse(const char *text, double *ret_bytes_per_s)
{
	double value, factor;
	const char *at = text;

	if (parse_decimal(&at, &value))
		return -EINVAL;
	factor = parse_prefix(&at);
	if (strncasecmp(at, "bit", 3) == 0) {
		value /= 8;
		at += 3;
	} else if (*at == 'B') {
		at++;
	} else {
		return -EINVAL;
	}
	value *= factor;
	if ((*at && strcmp(at, "/s") != 0) || value < BPS_RATE_MIN ||
	    value > BPS_RATE_MAX)
		return -EINVAL;
	*ret_bytes_per_s = value;
	return 0;
}

char *bps_rate_format(double bytes_per_s, char *buf)
{
	static const char *const units[] = { "bit/s", "kbit/s", "Mbit/s", "Gbit/s",
		                             "Tbit/s" };
	double rate = bytes_per_s * 8;
	size_t unit = 0;

	for (; rate >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		rate /= 1000;
	(void)snprintf(buf, BPS_RATE_CHARS, "%.4g %s", rate, units[unit]);
	return buf;
}

/* -- what a user says -- */

struct parser {
	const char *what;
	struct bps_bandwidths list;
	char *error;
	size_t error_bytes;
};

static int fail(struct parser *p, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4), cold));

static int fail(struct parser *p, int error, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)snprintf(p->error, p->error_bytes, "%s: %s", p->what, text);
	return error;
}

static int parse_rate(struct parser *p, const char *text, double *ret_bytes_per_s)
{
	if (bps_rate_parse(text, ret_bytes_per_s) == 0)
		return 0;
	return fail(
		p, -EINVAL,
		"'%.*s' is not a rate from 1kbit to 100Tbit; write for example 10Gbit, "
		"or 1.25GB for bytes",
		SHOWN_CHARS, text);
}

static struct bps_bandwidth *find_row(const struct bps_bandwidths *bandwidths,
                                      const char *host)
{
	for (uint32_t i = 0; i < bandwidths->n_rows; i++)
		if (strcasecmp(bandwidths->rows[i].name, host) == 0)
			return &bandwidths->rows[i];
	return NULL;
}

static int add_rows(struct parser *p, const struct bps_hostlist *hosts, double rate)
{
	size_t n = (size_t)p->list.n_rows + hosts->n_hosts;
	struct bps_bandwidth *rows;

	if (n > BPS_HOSTLIST_MAX)
		return fail(p, -E2BIG, "it names more than %d hosts", BPS_HOSTLIST_MAX);
	rows = realloc(p->list.rows, n * sizeof(*rows));
	if (!rows)
		return fail(p, -ENOMEM, "out of memory");
	p->list.rows = rows;
	for (uint32_t i = 0; i < hosts->n_hosts; i++) {
		const char *name = hosts->hosts[i].name;

		if (find_row(&p->list, name))
			return fail(p, -EINVAL, "%.80s has two rates; name it once",
			            name);
		memcpy(rows[p->list.n_rows].name, name, BPS_HOST_BYTES);
		rows[p->list.n_rows++].bytes_per_s = rate;
	}
	return 0;
}

/* A port stands behind brackets that close, or behind a name with a single colon. */
static bool has_port(const char *names)
{
	const char *colon = strrchr(names, ':');

	return colon && (strchr(names, ':') == colon || strstr(names, "]:"));
}

static int parse_names(struct parser *p, const char *names, double rate)
{
	struct bps_hostlist hosts;
	int r;

	if (names[0] == '@' || has_port(names))
		return fail(p, -EINVAL, "'%.*s' is not the name of a host; leave out %s",
		            SHOWN_CHARS, names, names[0] == '@' ? "the @" : "the port");
	r = bps_hostlist_parse(p->what, names, 1, &hosts, p->error, p->error_bytes);
	if (!r)
		r = add_rows(p, &hosts, rate);
	bps_hostlist_deinit(&hosts);
	return r;
}

/* "n[1-8]=10Gbit", "*=1Gbit", or "10Gbit" where it is @alone. */
static int parse_entry(struct parser *p, char *entry, bool alone)
{
	char *equals = strchr(entry, '=');
	double rate = 0;
	int r = 0;

	if (!entry[strspn(entry, " \t")])
		return fail(
			p, -EINVAL,
			"there is nothing on one side of a comma; is a rate missing?");
	if (!equals && !alone)
		return fail(p, -EINVAL,
		            "'%.*s' does not say whose rate it is; "
		            "write for example n[1-8]=10Gbit,*=1Gbit",
		            SHOWN_CHARS, entry);
	r = parse_rate(p, equals ? equals + 1 : entry, &rate);
	if (r)
		return r;
	if (equals)
		*equals = '\0';
	if (equals && strcmp(entry, "*") != 0)
		return parse_names(p, entry, rate);
	if (p->list.others > 0)
		return fail(p, -EINVAL, "* has two rates; write it once");
	p->list.others = rate;
	return 0;
}

/* The comma behind the entry at @at that is not inside brackets; NULL: it is the last. */
static char *next_comma(char *at)
{
	bool inside = false;

	for (; *at && (inside || *at != ','); at++)
		if (*at == '[' || *at == ']')
			inside = *at == '[';
	return *at ? at : NULL;
}

static int parse_entries(struct parser *p, char *text)
{
	bool alone = !next_comma(text);
	char *entry = text;
	int r = 0;

	while (entry && !r) {
		char *comma = next_comma(entry);

		if (comma)
			*comma = '\0';
		r = parse_entry(p, entry, alone);
		entry = comma ? comma + 1 : NULL;
	}
	return r;
}

int bps_bandwidths_parse(const char *what, const char *text, struct bps_bandwidths *ret,
                         char *ret_error, size_t error_bytes)
{
	struct parser p = {
		.what = what,
		.error = ret_error,
		.error_bytes = error_bytes,
	};
	char *copy = strdup(text);
	int r = 0;

	if (!copy)
		r = fail(&p, -ENOMEM, "out of memory");
	else if (copy[0])
		r = parse_entries(&p, copy);
	free(copy);
	if (r)
		bps_bandwidths_deinit(&p.list);
	*ret = p.list;
	return r;
}

void bps_bandwidths_deinit(struct bps_bandwidths *bandwidths)
{
	free(bandwidths->rows);
	*bandwidths = (struct bps_bandwidths){ 0 };
}

/* n1 and n1.example.org, but not 10 and 10.0.0.1. */
static bool same_label(const char *a, const char *b)
{
	size_t n = strcspn(a, ".");
	bool bare = !a[n] || !b[strcspn(b, ".")];

	return bare && n == strcspn(b, ".") && strncasecmp(a, b, n) == 0 &&
	       strspn(a, "0123456789") < n;
}

double bps_bandwidths_of(const struct bps_bandwidths *bandwidths, const char *host)
{
	const struct bps_bandwidth *row = find_row(bandwidths, host);

	for (uint32_t i = 0; i < bandwidths->n_rows && !row; i++)
		if (same_label(bandwidths->rows[i].name, host))
			row = &bandwidths->rows[i];
	return row ? row->bytes_per_s : bandwidths->others;
}

const char *bps_bandwidths_name(const struct bps_bandwidths *bandwidths, uint32_t row)
{
	return bandwidths->rows[row].name;
}

/* -- what the kernel says -- */

/* Drivers of virtual machines' network cards: their speed is made up. */
static bool is_made_up(const char *driver)
{
	static const char *const drivers[] = { "virtio_net", "vmxnet3", "hv_netvsc",
		                               "vif",        "gve",     "netdevsim" };

	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		if (strcmp(driver, drivers[i]) == 0)
			return true;
	return false;
}

/* Is there hardware behind the interface? Its driver is a link's last part. */
static bool is_hardware(const char *sysfs, const char *interface)
{
	char path[PATH_MAX], link[PATH_MAX];
	const char *slash;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s/device/driver", sysfs, interface);
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return false;
	link[n] = '\0';
	slash = strrchr(link, '/');
	return !is_made_up(slash ? slash + 1 : link);
}

static int read_speed(const char *sysfs, const char *interface, double *ret_bytes_per_s)
{
	char path[PATH_MAX], text[32], *end;
	double bytes_per_s;
	long mbits;

	(void)snprintf(path, sizeof(path), "%s/%s/speed", sysfs, interface);
	if (bps_file_read(path, text, sizeof(text)) < 0)
		return BPS_NIC_E_UNKNOWN;
	mbits = strtol(text, &end, 10);
	bytes_per_s = (double)mbits * 125e3;
	if (end == text || mbits <= 0 || bytes_per_s > BPS_RATE_MAX)
		return BPS_NIC_E_UNKNOWN;
	*ret_bytes_per_s = bytes_per_s;
	return 0;
}

int bps_nic_speed(const char *sysfs, const char *interface, double *ret_bytes_per_s)
{
	char path[PATH_MAX];

	if (!interface[0] || interface[0] == '.' || strchr(interface, '/'))
		return -EINVAL;
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", sysfs, interface) >=
	            sizeof(path) ||
	    access(path, F_OK) < 0)
		return -ENODEV;
	if (!is_hardware(sysfs, interface))
		return BPS_NIC_E_UNKNOWN;
	return read_speed(sysfs, interface, ret_bytes_per_s);
}
