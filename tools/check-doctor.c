/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all checks share: the table of them, and how a finding is written.
 */
#include "tools/check-doctor.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "tools/check-doctor-impl.h"

#define COLUMNS      80
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct check {
	const char *name;
	bps_doctor_check_fn function;
} checks[] = {
	{ "variables", bps_doctor_check_variables },
	{ "servers", bps_doctor_check_servers },
	{ "bridges", bps_doctor_check_bridges },
	{ "name", bps_doctor_check_name },
	{ "down", bps_doctor_check_down },
	{ "speed", bps_doctor_check_speed },
	{ "duplex", bps_doctor_check_duplex },
	{ "buffers", bps_doctor_check_buffers },
	{ "cpus", bps_doctor_check_cpus },
	{ "quota", bps_doctor_check_quota },
	{ "shm", bps_doctor_check_shm },
	{ "memlock", bps_doctor_check_memlock },
};

/* Text of a peer may be in it: one line stays one line. */
static void tame(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

/* Words in lines of COLUMNS behind @head, which @indent columns stand before. */
static void write_words(FILE *out, size_t indent, const char *head, char *text)
{
	size_t column = indent + strlen(head);
	char *rest = NULL;

	fprintf(out, "%*s%s", (int)indent, "", head);
	for (char *word = strtok_r(text, " ", &rest); word;
	     word = strtok_r(NULL, " ", &rest)) {
		size_t n = strlen(word) + 1;

		if (column + n > COLUMNS) {
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
	tame(text);
	write_words(report->out, indent, head, text);
}

void bps_doctor_found(struct bps_doctor_report *report, const char *format, ...)
{
	char head[128];
	va_list args;

	report->n_findings++;
	(void)snprintf(head, sizeof(head), "%s, %s:", report->host, report->check);
	va_start(args, format);
	write_part(report, 0, head, format, args);
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
	tame(text);
	fprintf(report->out, "      %s\n", text);
}

int bps_doctor_examine(const struct bps_doctor_facts *facts, FILE *out)
{
	struct bps_doctor_report report = { .out = out, .host = facts->host };

	for (size_t i = 0; i < COUNT(checks); i++) {
		report.check = checks[i].name;
		checks[i].function(facts, &report);
	}
	if (report.n_findings == 0)
		fprintf(out, "%s: nothing is wrong here\n", facts->host);
	return report.n_findings;
}

int bps_doctor(FILE *out)
{
	struct bps_doctor_facts facts;
	int r = bps_doctor_collect(environ, &facts);

	if (r == 0) {
		fputc('\n', out);
		r = bps_doctor_examine(&facts, out);
	}
	bps_doctor_facts_deinit(&facts);
	return r;
}
