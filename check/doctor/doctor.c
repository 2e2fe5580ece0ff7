/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all checks share: the table of them, and how a finding is written.
 */
#include "check/doctor/doctor.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "check/doctor/impl.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct check {
	const char *name;
	bps_doctor_check_fn function;
} checks[] = {
	{ "sysfs", bps_doctor_check_sysfs },
	{ "preload", bps_doctor_check_preload },
	{ "variables", bps_doctor_check_variables },
	{ "interface", bps_doctor_check_interface },
	{ "servers", bps_doctor_check_servers },
	{ "servers", bps_doctor_check_twice },
	{ "bridges", bps_doctor_check_bridges },
	{ "name", bps_doctor_check_name },
	{ "down", bps_doctor_check_down },
	{ "speed", bps_doctor_check_speed },
	{ "duplex", bps_doctor_check_duplex },
	{ "subnet", bps_doctor_check_subnet },
	{ "mtu", bps_doctor_check_mtu },
	{ "buffers", bps_doctor_check_buffers },
	{ "cpus", bps_doctor_check_cpus },
	{ "quota", bps_doctor_check_quota },
	{ "shm", bps_doctor_check_shm },
	{ "hugepages", bps_doctor_check_hugepages },
	{ "verbs", bps_doctor_check_verbs },
	{ "memlock", bps_doctor_check_memlock },
};

void bps_doctor_tame(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

bool bps_doctor_has_line(const char *lines, const char *line, size_t n)
{
	for (; lines && *lines; lines += strspn(lines, "\n")) {
		size_t length = strcspn(lines, "\n");

		if (length == n && strncmp(lines, line, n) == 0)
			return true;
		lines += length;
	}
	return false;
}

/* Words in lines of report->columns behind @head, which @indent columns stand before. */
static void write_words(const struct bps_doctor_report *report, size_t indent,
                        const char *head, char *text)
{
	FILE *out = report->out;
	size_t column = indent + strlen(head);
	char *rest = NULL;

	fprintf(out, "%*s%s", (int)indent, "", head);
	for (char *word = strtok_r(text, " ", &rest); word;
	     word = strtok_r(NULL, " ", &rest)) {
		size_t n = strlen(word) + 1;

		if (report->columns && column + n > report->columns) {
			fprintf(out, "\n%*s", (int)indent + 3, "");
			column = indent + 3;
		}
		fprintf(out, " %s", word);
		column += n;
	}
	fputc('\n', out);
}

static void write_part(struct bps_doctor_report *report, size_t indent, const char *head,
                       const char *format, va_list args)
	__attribute__((format(printf, 4, 0)));

static void write_part(struct bps_doctor_report *report, size_t indent, const char *head,
                       const char *format, va_list args)
{
	char text[2048];

	(void)vsnprintf(text, sizeof(text), format, args);
	bps_doctor_tame(text);
	write_words(report, indent, head, text);
}

static void write_head_part(struct bps_doctor_report *report, const char *format,
                            va_list args) __attribute__((format(printf, 2, 0)));

static void write_head_part(struct bps_doctor_report *report, const char *format,
                            va_list args)
{
	char head[128];

	(void)snprintf(head, sizeof(head), "%s, %s:", report->host, report->check);
	write_part(report, 0, head, format, args);
}

void bps_doctor_note(struct bps_doctor_report *report, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_head_part(report, format, args);
	va_end(args);
}

void bps_doctor_found(struct bps_doctor_report *report, const char *format, ...)
{
	va_list args;

	report->n_findings++;
	va_start(args, format);
	write_head_part(report, format, args);
	va_end(args);
}

void bps_doctor_cost(struct bps_doctor_report *report, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_part(report, 2, "cost:", format, args);
	va_end(args);
}

void bps_doctor_remedy(struct bps_doctor_report *report, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_part(report, 2, "remedy:", format, args);
	va_end(args);
}

void bps_doctor_type(struct bps_doctor_report *report, const char *format, ...)
{
	char text[2048];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	bps_doctor_tame(text);
	fprintf(report->out, "      %s\n", text);
}

void bps_doctor_run_checks(const struct bps_doctor_facts *facts,
                           struct bps_doctor_report *report)
{
	for (size_t i = 0; i < COUNT(checks); i++) {
		report->check = checks[i].name;
		checks[i].function(facts, report);
	}
}

void bps_doctor_name_host(char *ret)
{
	ret[64] = '\0';
	if (gethostname(ret, 64) || !ret[0])
		(void)snprintf(ret, 65, "this host");
}

int bps_doctor(FILE *out, uint32_t columns)
{
	struct bps_doctor_facts facts;
	char nothing[] = "nothing is wrong here", head[sizeof(facts.host) + 1];
	struct bps_doctor_report report = {
		.out = out,
		.host = facts.host,
		.columns = columns,
	};
	int r = bps_doctor_collect(environ, NULL, &facts);

	if (r == 0) {
		fputc('\n', out);
		bps_doctor_run_checks(&facts, &report);
		(void)snprintf(head, sizeof(head), "%s:", facts.host);
		if (report.n_findings == 0)
			write_words(&report, 0, head, nothing);
	}
	bps_doctor_facts_deinit(&facts);
	return r ? r : report.n_findings;
}
