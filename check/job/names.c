/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of hosts as people write them, and as base/hostlist.h reads them. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "check/job/impl.h"

/* "cpu" "07" ".example.org" of a name: a number at the end of its first part; or "host
 * (rank " "7" ")". */
struct name {
	const char *text;
	size_t prefix, digits; /* lengths */
	unsigned long number;
};

static struct name split(const char *text)
{
	const size_t n = strlen(text);
	const size_t end = n && text[n - 1] == ')' ? n - 1 : strcspn(text, ".:");
	struct name name = { .text = text };

	while (name.digits < end && name.digits < 9 &&
	       isdigit((unsigned char)text[end - name.digits - 1]))
		name.digits++;
	name.prefix = end - name.digits;
	if (name.digits > 0)
		name.number = strtoul(text + name.prefix, NULL, 10);
	return name;
}

/* Do both stand in one bracket? */
static bool are_alike(const struct name *a, const struct name *b)
{
	return a->digits > 0 && b->digits > 0 && a->prefix == b->prefix &&
	       strncmp(a->text, b->text, a->prefix) == 0 &&
	       strcmp(a->text + a->prefix + a->digits, b->text + b->prefix + b->digits) ==
	               0;
}

/* Does @b, which is alike, come right after @a in a range? */
static bool follows(const struct name *a, const struct name *b)
{
	const bool padded = a->text[a->prefix] == '0' || b->text[b->prefix] == '0';

	return b->number == a->number + 1 && (!padded || a->digits == b->digits);
}

/* Writes what fits of the list. */
struct writer {
	char *to;
	size_t bytes, used;
};

static void add(struct writer *writer, const char *text, size_t n)
{
	const size_t room = writer->bytes - 1 - writer->used;

	n = n < room ? n : room;
	memcpy(writer->to + writer->used, text, n);
	writer->used += n;
	writer->to[writer->used] = '\0';
}

static void add_number(struct writer *writer, const struct name *name)
{
	add(writer, name->text + name->prefix, name->digits);
}

/* "1-4,6-8" of @n names that are alike. */
static void add_numbers(struct writer *writer, const char *const *names, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct name first = split(names[i]);
		struct name last = first;

		for (; i + 1 < n; i++) {
			struct name next = split(names[i + 1]);

			if (!follows(&last, &next))
				break;
			last = next;
		}
		add_number(writer, &first);
		if (last.number != first.number) {
			add(writer, "-", 1);
			add_number(writer, &last);
		}
		add(writer, ",", i + 1 < n);
	}
}

char *bps_job_fold_names(const char *const *names, uint32_t n, char *ret,
                         size_t ret_bytes)
{
	struct writer writer = { .to = ret, .bytes = ret_bytes };
	uint32_t i = 0;

	ret[0] = '\0';
	while (i < n) {
		const struct name first = split(names[i]);
		uint32_t end = i + 1;

		for (struct name next; end < n; end++) {
			next = split(names[end]);
			if (!are_alike(&first, &next))
				break;
		}
		add(&writer, ",", i > 0);
		if (end == i + 1) {
			add(&writer, first.text, strlen(first.text));
		} else {
			add(&writer, first.text, first.prefix);
			add(&writer, "[", 1);
			add_numbers(&writer, names + i, end - i);
			add(&writer, "]", 1);
			add(&writer, first.text + first.prefix + first.digits,
			    strlen(first.text + first.prefix + first.digits));
		}
		i = end;
	}
	if (writer.used == ret_bytes - 1 && ret_bytes > 4)
		memcpy(ret + ret_bytes - 4, "...", 4);
	return ret;
}

const char *bps_job_host(const struct bps_job *job, uint32_t box)
{
	return job->ranks[job->boxes[box].ranks[0]].host;
}

void bps_job_name_boxes(struct bps_job *job)
{
	for (uint32_t b = 0; b < job->n_boxes; b++) {
		const char *host = bps_job_host(job, b);
		uint32_t n = 0;

		for (uint32_t i = 0; i < job->n_boxes && n < 2; i++)
			n += strcmp(bps_job_host(job, i), host) == 0;
		if (n > 1)
			(void)snprintf(job->boxes[b].host, BPS_JOB_NAME_BYTES,
			               "%s (rank %u)", host, job->boxes[b].ranks[0]);
	}
}

char *bps_job_list_boxes(const struct bps_job *job, const uint32_t *boxes, uint32_t n,
                         char *ret, size_t ret_bytes)
{
	const char **names = calloc((size_t)n + 1, sizeof(*names));

	ret[0] = '\0';
	for (uint32_t i = 0; names && i < n; i++)
		names[i] = job->boxes[boxes[i]].host;
	if (names)
		bps_job_fold_names(names, n, ret, ret_bytes);
	free(names);
	return ret;
}
