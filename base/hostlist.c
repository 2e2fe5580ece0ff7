/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/hostlist.h"

#include "base/file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FILE_MAX_BYTES (1 << 20)
#define SHOWN_CHARS    80 /* of an entry, in errors */
#define RANGE_DIGITS   9  /* of a number in brackets: it fits 32 bits */

#define BLANKS " \t\r\n"
#define NOT_NUMBERS                                       \
	"the brackets hold something else than numbers; " \
	"write for example cpu[01-16] or cpu[1,4,7-9]"

/* The work on one list. Every function below that takes it returns 0 or a negative errno
 * and has said why in the error text then. */
struct parser {
	const char *what;
	const char *file; /* NULL: the list is in the text itself */
	unsigned line;
	const char *entry; /* the one being read, NULL between them */
	bool comma;        /* between the last host and the next one */
	uint16_t default_port;
	struct bps_hostlist list;
	uint32_t n_allocated;
	char *error;
	size_t error_bytes;
};

/* Numbers in brackets: first to last, with zeros in front up to width digits. */
struct range {
	uint32_t first;
	uint32_t last;
	int width;
};

/* "BPSMPI_SERVERS: hosts.txt:3: 'cpu[01-': " and what is wrong. */
static int fail(struct parser *p, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4), cold));

static int fail(struct parser *p, int error, const char *format, ...)
{
	char place[128] = "", entry[SHOWN_CHARS + 8] = "", text[256];
	va_list args;

	if (p->file && p->line)
		(void)snprintf(place, sizeof(place), "%.100s:%u: ", p->file, p->line);
	if (p->entry)
		(void)snprintf(entry, sizeof(entry), "'%.*s%s': ", SHOWN_CHARS, p->entry,
		               strlen(p->entry) > SHOWN_CHARS ? "..." : "");
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)snprintf(p->error, p->error_bytes, "%s: %s%s%s", p->what, place, entry,
	               text);
	return error;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
	       c == '.' || c == '-' || c == '_';
}

static int add_host(struct parser *p, const char *name, uint16_t port)
{
	struct bps_hostlist *list = &p->list;

	if (list->n_hosts == BPS_HOSTLIST_MAX)
		return fail(p, -E2BIG, "the list has more than %d hosts",
		            BPS_HOSTLIST_MAX);
	if (list->n_hosts == p->n_allocated) {
		uint32_t n = p->n_allocated ? 2 * p->n_allocated : 16;
		void *hosts = realloc(list->hosts, n * sizeof(*list->hosts));

		if (!hosts)
			return fail(p, -ENOMEM, "out of memory");
		list->hosts = hosts;
		p->n_allocated = n;
	}
	/* Zeros to the end: hosts may travel as their bytes. */
	memset(&list->hosts[list->n_hosts], 0, sizeof(*list->hosts));
	(void)snprintf(list->hosts[list->n_hosts].name, BPS_HOST_BYTES, "%s", name);
	list->hosts[list->n_hosts++].port = port;
	return 0;
}

/* Takes what stands behind a host: nothing, or a colon and a number. */
static int parse_port(struct parser *p, const char *text, uint16_t *ret_port)
{
	uint32_t port = 0;
	const char *at;

	*ret_port = p->default_port;
	if (text[0] == '\0')
		return 0;
	if (text[0] != ':')
		return fail(p, -EINVAL,
		            "only a port may follow the brackets; "
		            "write for example [fd00::2]:7000");
	for (at = text + 1; is_digit(*at) && port <= UINT16_MAX; at++)
		port = port * 10 + (uint32_t)(*at - '0');
	if (*at || port == 0 || port > UINT16_MAX)
		return fail(p, -EINVAL,
		            "'%.20s' is not a port; write a number from 1 to %d",
		            text + 1, UINT16_MAX);
	*ret_port = (uint16_t)port;
	return 0;
}

/* Adds an IPv6 address (perhaps with %interface behind it) in its shortest form, so that
 * two writings of one address are seen to be the same. */
static int add_ipv6(struct parser *p, const char *text, size_t n_chars, uint16_t port)
{
	char address_text[INET6_ADDRSTRLEN], name[BPS_HOST_BYTES];
	size_t n_address = strcspn(text, "%]");
	size_t n_scope = n_chars - n_address; /* with the % */
	struct in6_addr address;

	(void)snprintf(address_text, sizeof(address_text), "%.*s", (int)n_address, text);
	if (n_address >= sizeof(address_text) || n_scope > 64 || n_scope == 1 ||
	    inet_pton(AF_INET6, address_text, &address) != 1)
		return fail(p, -EINVAL,
		            "it is not an IPv6 address; "
		            "write for example fd00::2 or [fd00::2]:7000");
	for (size_t i = n_address + 1; i < n_chars; i++)
		if (!is_name_char(text[i]))
			return fail(p, -EINVAL,
			            "the name behind %% is not an interface's");
	inet_ntop(AF_INET6, &address, address_text, sizeof(address_text));
	(void)snprintf(name, sizeof(name), "%s%.*s", address_text, (int)n_scope,
	               text + n_address);
	return add_host(p, name, port);
}

static int parse_number(struct parser *p, const char **at, uint32_t *ret_number)
{
	const char *start = *at;
	uint32_t number = 0;

	for (; is_digit(**at); (*at)++) {
		if (*at - start == RANGE_DIGITS)
			return fail(p, -EINVAL,
			            "a number in brackets has at most %d digits",
			            RANGE_DIGITS);
		number = number * 10 + (uint32_t)(**at - '0');
	}
	if (*at == start)
		return fail(p, -EINVAL, NOT_NUMBERS);
	*ret_number = number;
	return 0;
}

/* Reads "7" or "01-16" and the comma behind it, if any. */
static int parse_range(struct parser *p, const char **at, struct range *ret_range)
{
	const char *start = *at;
	int r = parse_number(p, at, &ret_range->first);

	if (r)
		return r;
	ret_range->width = (int)(*at - start);
	ret_range->last = ret_range->first;
	if (**at == '-') {
		(*at)++;
		r = parse_number(p, at, &ret_range->last);
		if (r)
			return r;
	}
	if (ret_range->last < ret_range->first)
		return fail(p, -EINVAL, "the range %u-%u runs backwards; write %u-%u",
		            ret_range->first, ret_range->last, ret_range->last,
		            ret_range->first);
	if (**at == ',' && (*at)[1] != ']')
		(*at)++;
	else if (**at != ']')
		return fail(p, -EINVAL, NOT_NUMBERS);
	return 0;
}

static int expand(struct parser *p, char *name, size_t used, const char *pattern,
                  size_t n_pattern, uint16_t port);

static int append(struct parser *p, char *name, size_t *used, const char *text,
                  size_t n_chars)
{
	if (n_chars >= BPS_HOST_BYTES - *used)
		return fail(p, -EINVAL, "a host's name has more than %d characters",
		            BPS_HOST_BYTES - 1);
	memcpy(name + *used, text, n_chars);
	*used += n_chars;
	name[*used] = '\0';
	return 0;
}

/* Goes through the numbers of a range, and for each through the rest of the pattern. */
static int expand_range(struct parser *p, char *name, size_t used,
                        const struct range *range, const char *rest, size_t n_rest,
                        uint16_t port)
{
	for (uint32_t i = range->first; i <= range->last; i++) {
		char digits[16];
		int n = snprintf(digits, sizeof(digits), "%0*u", range->width, i);
		size_t end = used;
		int r = append(p, name, &end, digits, (size_t)n);

		if (!r)
			r = expand(p, name, end, rest, n_rest, port);
		if (r)
			return r;
	}
	return 0;
}

/*
 * Adds what @pattern (whose brackets are known to close) stands for, behind the @used
 * characters that @name has already. Each level adds a character or more to the name, so
 * its size bounds the depth; each of its ends adds a host, so their limit bounds the
 * time.
 */
static int expand(struct parser *p, char *name, size_t used, const char *pattern,
                  size_t n_pattern, uint16_t port)
{
	const char *open = memchr(pattern, '[', n_pattern);
	size_t n_plain = open ? (size_t)(open - pattern) : n_pattern;
	const char *at, *close;
	int r = append(p, name, &used, pattern, n_plain);

	if (r)
		return r;
	if (!open)
		return add_host(p, name, port);
	close = memchr(open, ']', n_pattern - n_plain);
	at = open + 1;
	do {
		struct range range = { 0 };

		r = parse_range(p, &at, &range);
		if (!r)
			r = expand_range(p, name, used, &range, close + 1,
			                 n_pattern - (size_t)(close + 1 - pattern), port);
	} while (!r && *at != ']');
	return r;
}

/* Looks at a name with brackets before it is expanded; *ret_end: where its port begins.
 */
static int check_pattern(struct parser *p, const char *entry, const char **ret_end)
{
	bool inside = false;
	const char *at;

	for (at = entry; *at && (inside || *at != ':'); at++) {
		if (*at == '[' || *at == ']') {
			if ((*at == '[') == inside)
				return fail(p, -EINVAL,
				            inside ? "there are brackets within brackets"
				                   : "a ']' has no '[' before it");
			inside = !inside;
		} else if (!inside && *at == '@') {
			return fail(
				p, -EINVAL,
				"a file is named by @ at the start of the whole list");
		} else if (!inside && !is_name_char(*at)) {
			return fail(p, -EINVAL, "'%c' is not part of a host's name",
			            *at > ' ' && *at < 0x7f ? *at : '?');
		}
	}
	if (inside)
		return fail(
			p, -EINVAL,
			"the bracket is not closed; write for example cpu[01-16]:7000");
	if (at == entry)
		return fail(p, -EINVAL, "there is no host before the port");
	*ret_end = at;
	return 0;
}

static int parse_pattern(struct parser *p, const char *entry)
{
	char name[BPS_HOST_BYTES];
	const char *end = entry;
	uint16_t port;
	int r = check_pattern(p, entry, &end);

	if (!r)
		r = parse_port(p, end, &port);
	if (!r)
		r = expand(p, name, 0, entry, (size_t)(end - entry), port);
	return r;
}

/* A colon inside the leading brackets, or two and no bracket at all. */
static bool is_ipv6(const char *entry)
{
	const char *colon = strchr(entry, ':');

	if (!colon)
		return false;
	if (entry[0] == '[')
		return colon < entry + strcspn(entry, "]");
	return !strpbrk(entry, "[]") && strchr(colon + 1, ':');
}

static int parse_ipv6(struct parser *p, const char *entry)
{
	const char *close = strchr(entry, ']');
	uint16_t port;
	int r;

	if (entry[0] != '[')
		return add_ipv6(p, entry, strlen(entry), p->default_port);
	if (!close)
		return fail(
			p, -EINVAL,
			"the bracket is not closed; write for example [fd00::2]:7000");
	r = parse_port(p, close + 1, &port);
	return r ? r : add_ipv6(p, entry + 1, (size_t)(close - entry - 1), port);
}

static int parse_entry(struct parser *p, const char *entry)
{
	p->entry = entry;
	p->comma = false;
	return is_ipv6(entry) ? parse_ipv6(p, entry) : parse_pattern(p, entry);
}

/* The end of the entry at @at: a separator that is not inside brackets. */
static char *entry_end(char *at)
{
	bool inside = false;

	for (; *at && !strchr(inside ? BLANKS : BLANKS ",", *at); at++)
		if (*at == '[' || *at == ']')
			inside = *at == '[';
	return at;
}

/* A comma stands between two hosts: where one is missing, a variable was empty. */
static int take_comma(struct parser *p)
{
	p->entry = NULL;
	if (p->comma || p->list.n_hosts == 0)
		return fail(p, -EINVAL,
		            "there is no host before a comma; is a name missing?");
	p->comma = true;
	return 0;
}

/* Reads entries up to the end of the text, which is cut into pieces. */
static int parse_entries(struct parser *p, char *at)
{
	while (*at) {
		char *end = entry_end(at), separator = *end;
		int r = 0;

		*end = '\0';
		if (end > at)
			r = parse_entry(p, at);
		if (!r && separator == ',')
			r = take_comma(p);
		if (r || !separator)
			return r;
		at = end + 1;
	}
	return 0;
}

static int parse_lines(struct parser *p, char *text)
{
	char *line = text;

	while (line) {
		char *next = strchr(line, '\n');
		int r;

		if (next)
			*next++ = '\0';
		line[strcspn(line, "#")] = '\0';
		p->line++;
		r = parse_entries(p, line);
		if (r)
			return r;
		line = next;
	}
	return 0;
}

/* A copy of the list's text, from its file where it names one; the caller frees it. */
static int load_text(struct parser *p, const char *text, char **ret_text)
{
	ssize_t n;

	*ret_text = p->file ? malloc(FILE_MAX_BYTES + 1) : strdup(text);
	if (!*ret_text)
		return fail(p, -ENOMEM, "out of memory");
	if (!p->file)
		return 0;
	n = bps_file_read(p->file, *ret_text, FILE_MAX_BYTES + 1);
	if (n >= 0 && (size_t)n == strlen(*ret_text))
		return 0;
	free(*ret_text);
	*ret_text = NULL;
	if (n >= 0)
		return fail(p, -EINVAL, "%.200s is not a text file", p->file);
	return fail(p, (int)n, "%.200s cannot be read: %s", p->file, strerror((int)-n));
}

static int compare_hosts(const void *a, const void *b)
{
	const struct bps_host *const *one = a;
	const struct bps_host *const *other = b;
	int order = strcasecmp((*one)->name, (*other)->name);

	return order ? order : (*one)->port - (*other)->port;
}

static int refuse_duplicates(struct parser *p)
{
	const struct bps_hostlist *list = &p->list;
	const struct bps_host **sorted = malloc(list->n_hosts * sizeof(*sorted));
	int r = 0;

	if (!sorted)
		return fail(p, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < list->n_hosts; i++)
		sorted[i] = &list->hosts[i];
	qsort(sorted, list->n_hosts, sizeof(*sorted), compare_hosts);
	for (uint32_t i = 1; i < list->n_hosts && !r; i++)
		if (compare_hosts(&sorted[i - 1], &sorted[i]) == 0)
			r = fail(p, -EINVAL,
			         "%.80s, port %u, is there twice; name it once",
			         sorted[i]->name, sorted[i]->port);
	free(sorted);
	return r;
}

static int parse_text(struct parser *p, const char *text)
{
	char *copy = NULL;
	int r = load_text(p, text, &copy);

	if (!copy)
		return r;
	r = p->file ? parse_lines(p, copy) : parse_entries(p, copy);
	free(copy);
	if (r)
		return r;
	p->entry = NULL; /* what follows is about the whole list */
	p->line = 0;
	if (p->comma)
		return fail(p, -EINVAL,
		            "there is no host behind the last comma; is a name missing?");
	if (p->list.n_hosts == 0)
		return fail(p, -EINVAL,
		            "there is no host in it; write for example cpu[01-16]:7000");
	return refuse_duplicates(p);
}

int bps_hostlist_parse(const char *what, const char *text, uint16_t default_port,
                       struct bps_hostlist *ret_list, char *ret_error, size_t error_bytes)
{
	struct parser p = {
		.what = what,
		.file = text[0] == '@' ? text + 1 : NULL,
		.default_port = default_port,
		.error = ret_error,
		.error_bytes = error_bytes,
	};
	int r = parse_text(&p, text);

	if (r)
		bps_hostlist_deinit(&p.list);
	*ret_list = p.list;
	return r;
}

const char *bps_host_format(const struct bps_host *host, char *buf, size_t bytes)
{
	bool six = strchr(host->name, ':') != NULL;

	(void)snprintf(buf, bytes, "%s%s%s:%u", six ? "[" : "", host->name,
	               six ? "]" : "", host->port);
	return buf;
}

void bps_hostlist_deinit(struct bps_hostlist *list)
{
	free(list->hosts);
	*list = (struct bps_hostlist){ 0 };
}
