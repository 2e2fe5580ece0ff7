/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines for people, of the width of their terminal. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "check/box/impl.h"
#include "check/check.h"

#define WIDTH       80 /* where there is no terminal */
#define WIDTH_MIN   40
#define HANGING     4 /* more indent of a line that goes on */
#define LEVEL_CHARS 2
#define CELL_BYTES  1024

int bps_check_width(void)
{
	struct winsize size;
	const char *columns = getenv("COLUMNS");
	int width = columns ? atoi(columns) : 0;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		width = size.ws_col;
	if (width <= 0)
		width = WIDTH;
	return width < WIDTH_MIN ? WIDTH_MIN : width;
}

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

/* Blanks are written once it is known that something comes behind them. */
void bps_box_cell(struct bps_box_row *row, int columns, const char *format, ...)
{
	char text[CELL_BYTES];
	int least = abs(columns), n;
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	n = (int)strlen(text);
	least = n > least ? n : least;
	if (row->column > 0 && row->column + 1 + least > row->width) {
		printf("\n%*s", HANGING, "");
		row->column = HANGING;
	} else if (row->column > 0) {
		printf("%*s", row->behind + 1, "");
		row->column++;
	}
	row->behind = columns < 0 ? least - n : 0;
	printf("%*s", least - row->behind, text);
	row->column += least;
}

void bps_box_row_end(struct bps_box_row *row)
{
	putchar('\n');
	row->column = row->behind = 0;
}

void bps_box_add(char *line, const char *format, ...)
{
	size_t used = strlen(line);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(line + used, BPS_BOX_LINE_BYTES - used, format, args);
	va_end(args);
}
