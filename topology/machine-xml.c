/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first look at an XML file that somebody gave us. hwloc and its parsers descend into
 * elements by recursion and trust sizes; so what is too much is refused here, with the
 * line it is in.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "topology/machine-build.h"

#define FILE_BYTES_MAX (64L << 20) /* 8192 CPUs, their caches and sets, are a third */
#define DEPTH_MAX      64
#define ELEMENTS_MAX   (1L << 18)
#define ATTRIBUTE_MAX  4096 /* a set of 8192 CPUs has 2816 characters */

struct scan {
	const char *path, *text;
	char *error;
	size_t error_bytes;
	long depth, n_elements;
};

static int refuse(struct scan *scan, int error, const char *at, const char *format, ...)
	__attribute__((format(printf, 4, 5), cold));

/* @at: where in the text, NULL: of the whole file. */
static int refuse(struct scan *scan, int error, const char *at, const char *format, ...)
{
	char why[128], where[32] = "";
	long line = 1;
	va_list args;

	for (const char *c = scan->text; at && c < at; c++)
		line += *c == '\n';
	if (at)
		(void)snprintf(where, sizeof(where), "line %ld: ", line);
	va_start(args, format);
	(void)vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	(void)snprintf(scan->error, scan->error_bytes, "%s: %s%s", scan->path, where,
	               why);
	return error;
}

/* The '>' that ends the tag at @at; NULL: none, or an attribute of absurd length. */
static const char *tag_end(const char *at)
{
	const char *opened = at;
	char quote = '\0';

	for (; *at && (quote || *at != '>'); at++) {
		if (quote ? *at == quote : *at == '"' || *at == '\'') {
			quote = (char)(quote ? '\0' : *at);
			opened = at;
		}
		if (at - opened > ATTRIBUTE_MAX)
			return NULL;
	}
	return *at ? at : NULL;
}

/* A comment, a declaration, or what else has no end tag; moves *at to its last byte. */
static int skip_other(struct scan *scan, const char **at)
{
	const char *start = *at, *end;

	if (strncmp(start, "<!--", 4) == 0)
		end = strstr(start + 4, "-->");
	else if (start[1] == '?')
		end = strstr(start, "?>");
	else
		end = strpbrk(start, "[>");
	if (!end)
		return refuse(scan, -EINVAL, start, "the file ends too early");
	if (*end == '[')
		return refuse(scan, -EINVAL, start,
		              "it defines entities of its own, which hwloc never does");
	*at = strchr(end, '>');
	return 0;
}

static int enter(struct scan *scan, const char *at, bool closed)
{
	if (scan->n_elements == 0 && strncmp(at, "<topology", 9) != 0)
		return refuse(scan, -EINVAL, at, "this is not a topology of hwloc");
	if (scan->n_elements > 0 && scan->depth == 0)
		return refuse(scan, -EINVAL, at, "more follows the topology");
	if (++scan->n_elements > ELEMENTS_MAX)
		return refuse(scan, -EINVAL, at, "more than %ld elements", ELEMENTS_MAX);
	if (!closed && ++scan->depth > DEPTH_MAX)
		return refuse(scan, -EINVAL, at, "elements are nested more than %d deep",
		              DEPTH_MAX);
	return 0;
}

/* Moves *at from a '<' to its '>'. */
static int scan_tag(struct scan *scan, const char **at)
{
	const char *start = *at, *end;

	if (start[1] == '!' || start[1] == '?')
		return skip_other(scan, at);
	end = tag_end(start);
	if (!end)
		return refuse(scan, -EINVAL, start, "an element without end");
	*at = end;
	if (start[1] != '/')
		return enter(scan, start, end[-1] == '/');
	if (--scan->depth < 0)
		return refuse(scan, -EINVAL, start, "an end without a beginning");
	return 0;
}

static int scan_text(struct scan *scan, size_t n_bytes)
{
	const char *at = strchr(scan->text, '<');
	int r = 0;

	if (strlen(scan->text) != n_bytes)
		return refuse(scan, -EINVAL, NULL, "this is not text");
	for (; at && !r; at = strchr(at, '<'))
		r = scan_tag(scan, &at);
	if (r)
		return r;
	if (scan->n_elements == 0)
		return refuse(scan, -EINVAL, NULL, "this is not a topology of hwloc");
	if (scan->depth > 0)
		return refuse(scan, -EINVAL, NULL, "the file ends too early");
	return 0;
}

static int read_text(struct scan *scan, char *text, size_t text_bytes)
{
	ssize_t n = bps_file_read(scan->path, text, text_bytes);

	if (n < 0)
		return refuse(scan, (int)n, NULL, "%s", strerror((int)-n));
	scan->text = text;
	return scan_text(scan, (size_t)n);
}

int bps_machine_xml_load(const char *path, char **ret_xml, size_t *ret_bytes,
                         char *ret_error, size_t error_bytes)
{
	struct scan scan = {
		.path = path,
		.text = "",
		.error = ret_error,
		.error_bytes = error_bytes,
	};
	struct stat status;
	char *text;
	int r;

	*ret_xml = NULL;
	*ret_bytes = 0;
	if (stat(path, &status))
		return refuse(&scan, -errno, NULL, "%s", strerror(errno));
	if (!S_ISREG(status.st_mode))
		return refuse(&scan, -EINVAL, NULL, "this is not a plain file");
	if (status.st_size > FILE_BYTES_MAX)
		return refuse(&scan, -EFBIG, NULL, "larger than %ld MiB",
		              FILE_BYTES_MAX >> 20);
	text = malloc((size_t)status.st_size + 2);
	if (!text)
		return refuse(&scan, -ENOMEM, NULL, "out of memory");
	r = read_text(&scan, text, (size_t)status.st_size + 2);
	if (r) {
		free(text);
		return r;
	}
	*ret_xml = text;
	*ret_bytes = strlen(text) + 1;
	return 0;
}
