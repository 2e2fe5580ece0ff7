/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines for people, of the width of their terminal. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check/box/impl.h"

#define HANGING     4 /* more indent of a line that goes on */
#define LEVEL_CHARS 2

/* How much of @text goes on a line with room for @room: up to a space or comma. */
static size_t fitting(const char *text, size_t room)
{
	size_t best = 0;

	for (size_t i = 0; text[i]; i++) {
		if (i >= room && best > 0)
			return best;
		if (text[i] == ' ' || text[i] == ',')
			best = text[i] == ',' ? i + 1 : i;
		if (best > room)
			return best;
	}
	return strlen(text) <= room || best == 0 ? strlen(text) : best;
}

void bps_box_line(const struct bps_box_printer *printer, int level, const char *format,
                  ...)
{
	char text[BPS_BOX_LINE_BYTES];
	const char *at = text;
	int indent = level * LEVEL_CHARS;
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	do {
		int room = printer->width - indent;
		size_t n = fitting(at, room > 0 ? (size_t)room : 1);

		printf("%*s%.*s\n", indent, "", (int)n, at);
		at += n;
		at += strspn(at, " ");
		indent = level * LEVEL_CHARS + HANGING;
	} while (*at);
}

void bps_box_add(char *line, const char *format, ...)
{
	size_t used = strlen(line);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(line + used, BPS_BOX_LINE_BYTES - used, format, args);
	va_end(args);
}
