/* SPDX-License-Identifier: BSD-3-Clause */
#include "check/svg/cell.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SIZE     13 /* of text */
#define LINE     17 /* from line to line */
#define ASCENT   13 /* from the top of a line to where its letters stand */
#define PAD      9  /* inside a frame */
#define GAP      9  /* between cells */
#define LINK_AT  26 /* of a link's middle, below the top of its cell */
#define LINK_GAP 6  /* from there to its two lines */

void bps_sheet_init(struct bps_sheet *sheet)
{
	memset(sheet, 0, sizeof(*sheet));
}

void bps_sheet_deinit(struct bps_sheet *sheet)
{
	while (sheet->made) {
		struct bps_cell *cell = sheet->made;

		sheet->made = cell->made;
		free(cell);
	}
}

struct bps_cell *bps_cell_add(struct bps_sheet *sheet, struct bps_cell *parent,
                              const struct bps_cell *is)
{
	struct bps_cell *cell = malloc(sizeof(*cell));

	if (!cell) {
		sheet->failed = true;
		sheet->spare = *is;
		return &sheet->spare;
	}
	*cell = *is;
	cell->made = sheet->made;
	sheet->made = cell;
	if (parent->last)
		parent->last->next = cell;
	else
		parent->first = cell;
	parent->last = cell;
	return cell;
}

/* -- text -- */

/* What vsnprintf() said is @length: was that too long for @text? */
static void mark_cut(char *text, size_t text_bytes, int length)
{
	if (length >= (int)text_bytes)
		memcpy(text + text_bytes - 4, "...", 4);
}

void bps_cell_line(struct bps_cell *cell, bool strong, const char *format, ...)
{
	char *text;
	va_list args;

	if (cell->n_lines == BPS_CELL_LINES)
		return;
	text = cell->lines[cell->n_lines].text;
	va_start(args, format);
	mark_cut(text, BPS_CELL_LINE_BYTES,
	         vsnprintf(text, BPS_CELL_LINE_BYTES, format, args));
	va_end(args);
	cell->lines[cell->n_lines++].strong = strong;
}

void bps_cell_wrap(struct bps_cell *cell, bool strong, int chars, int n_lines,
                   const char *text)
{
	for (int i = 0; *text && i < n_lines; i++) {
		int n = (int)strnlen(text, (size_t)chars), cut = n;

		if (text[n] && i + 1 == n_lines) {
			bps_cell_line(cell, strong, "%.*s...", chars - 3, text);
			return;
		}
		while (text[n] && cut > 0 && text[cut] != ' ' && text[cut - 1] != ',')
			cut--;
		cut = cut ? cut : n;
		bps_cell_line(cell, strong, "%.*s", cut, text);
		text += cut;
		text += strspn(text, " ");
	}
}

void bps_cell_hint(struct bps_cell *cell, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	mark_cut(cell->hint, BPS_CELL_HINT_BYTES,
	         vsnprintf(cell->hint, BPS_CELL_HINT_BYTES, format, args));
	va_end(args);
}

char *bps_cell_units(double units, char *buf)
{
	if (units > 0 && units < 0.0005)
		(void)snprintf(buf, BPS_CELL_UNITS_CHARS, "<0.001 M");
	else
		(void)snprintf(buf, BPS_CELL_UNITS_CHARS,
		               units < 100 ? "%.4g M" : "%.0f M", units);
	return buf;
}

void bps_svg_text(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (*text == '&')
			fputs("&amp;", out);
		else if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else
			putc(*text >= ' ' && *text <= '~' ? *text : '?', out);
	}
}

/* In thousandths of its size, as wide as in the widest of the usual fonts. */
static int char_width(char c)
{
	if (strchr(" !\"'(),-./:;I[]fijlrt|", c))
		return 460;
	if (strchr("%@MWmw", c))
		return 1000;
	return c >= 'A' && c <= 'Z' ? 790 : 645;
}

static int line_width(const char *text, bool strong)
{
	int width = 0;

	for (; *text; text++)
		width += char_width(*text);
	return (width * (strong ? 112 : 100) / 100 * SIZE + 999) / 1000;
}

static int text_width(const struct bps_cell *cell)
{
	int width = 0;

	for (int i = 0; i < cell->n_lines; i++) {
		int w = line_width(cell->lines[i].text, cell->lines[i].strong);

		width = w > width ? w : width;
	}
	return width;
}

/* -- sizes -- */

static int max(int a, int b)
{
	return a > b ? a : b;
}

static int pad(const struct bps_cell *cell)
{
	return cell->shape ? PAD : 0;
}

static int columns(const struct bps_cell *cell, int n)
{
	return cell->columns > 0 && cell->columns < n ? cell->columns : n;
}

/* Of all that is inside, side by side as the layout says. */
static void measure_inside(struct bps_cell *cell, int *ret_w, int *ret_h)
{
	int n = 0, sum_w = 0, sum_h = 0, max_w = 0, max_h = 0;

	for (const struct bps_cell *at = cell->first; at; at = at->next, n++) {
		sum_w += at->w + (n ? GAP : 0);
		sum_h += at->h + (n ? GAP : 0);
		max_w = max(max_w, at->w);
		max_h = max(max_h, at->h);
	}
	if (n && cell->layout == BPS_CELL_GRID) {
		int across = columns(cell, n), down = (n + across - 1) / across;

		sum_w = max_w * across + GAP * (across - 1);
		max_h = max_h * down + GAP * (down - 1);
	}
	*ret_w = cell->layout == BPS_CELL_COLUMN ? max_w : sum_w;
	*ret_h = cell->layout == BPS_CELL_COLUMN ? sum_h : max_h;
}

static void measure(struct bps_cell *cell)
{
	int w, h, text_w = text_width(cell), text_h = LINE * cell->n_lines;

	for (struct bps_cell *at = cell->first; at; at = at->next)
		measure(at);
	measure_inside(cell, &w, &h);
	if (cell->turned) {
		int swap = text_w;

		text_w = text_h;
		text_h = swap;
	}
	cell->w = max(max(w, text_w) + 2 * pad(cell), cell->min_w);
	cell->h = h + text_h + (h && text_h ? GAP / 2 : 0) + 2 * pad(cell);
	if (cell->bar)
		cell->h = max(cell->h, 2 * LINK_AT);
}

/* -- places -- */

static void place(struct bps_cell *cell, int x, int y, int w, int h);

static void place_row(struct bps_cell *cell, int x, int y, int w, int h)
{
	int rest = w + GAP;

	for (const struct bps_cell *at = cell->first; at; at = at->next)
		rest -= at->w + GAP;
	for (struct bps_cell *at = cell->first; at; at = at->next) {
		int down = at->middle ? (h - at->h) / 2 : 0;

		place(at, x, y + down, at->w + (at->grow ? rest : 0),
		      at->tall ? h : at->h);
		x += at->w + GAP;
	}
}

static void place_grid(struct bps_cell *cell, int x, int y)
{
	int n = 0, i = 0, w = 0, h = 0;

	for (const struct bps_cell *at = cell->first; at; at = at->next, n++) {
		w = max(w, at->w);
		h = max(h, at->h);
	}
	for (struct bps_cell *at = cell->first; at; at = at->next, i++)
		place(at, x + i % columns(cell, n) * (w + GAP),
		      y + i / columns(cell, n) * (h + GAP), w, h);
}

/* All that is inside of it too. */
static void place(struct bps_cell *cell, int x, int y, int w, int h)
{
	int text_h = cell->n_lines && !cell->turned ? LINE * cell->n_lines + GAP / 2 : 0;
	int in_x = x + pad(cell), in_y = y + pad(cell) + text_h, in_w = w - 2 * pad(cell);

	cell->x = x;
	cell->y = y;
	cell->w = w;
	cell->h = h;
	if (cell->layout == BPS_CELL_ROW)
		place_row(cell, in_x, in_y, in_w, h - text_h - 2 * pad(cell));
	if (cell->layout == BPS_CELL_GRID)
		place_grid(cell, in_x, in_y);
	if (cell->layout != BPS_CELL_COLUMN)
		return;
	for (struct bps_cell *at = cell->first; at; at = at->next) {
		place(at, in_x, in_y, in_w, at->h);
		in_y += at->h + GAP;
	}
}

void bps_sheet_arrange(struct bps_sheet *sheet)
{
	measure(&sheet->root);
	place(&sheet->root, 0, 0, sheet->root.w, sheet->root.h);
}

/* -- drawing -- */

static void draw_line(const struct bps_cell *cell, int i, FILE *out)
{
	int x = cell->x + (cell->centred ? cell->w / 2 : pad(cell));
	int y = cell->y + pad(cell) + LINE * i + ASCENT;

	if (cell->turned)
		fprintf(out, "<text transform=\"translate(%d %d) rotate(-90)\"",
		        cell->x + cell->w / 2 + SIZE / 3, cell->y + cell->h / 2);
	else
		fprintf(out, "<text x=\"%d\" y=\"%d\"", x, y);
	if (cell->lines[i].strong)
		fputs(" class=\"strong\"", out);
	fputs(cell->centred || cell->turned ? " text-anchor=\"middle\">" : ">", out);
	bps_svg_text(cell->lines[i].text, out);
	fputs("</text>\n", out);
}

static void draw_hint(const char *hint, FILE *out)
{
	fputs("<title>", out);
	bps_svg_text(hint, out);
	fputs("</title>\n", out);
}

static void draw_cell(const struct bps_cell *cell, FILE *out)
{
	if (cell->shape) {
		fprintf(out, "<g class=\"%s\">\n", cell->shape);
		draw_hint(cell->hint[0] ? cell->hint : cell->lines[0].text, out);
		fprintf(out,
		        "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\"/>\n",
		        cell->x, cell->y, cell->w, cell->h, cell->round);
	}
	for (int i = 0; i < cell->n_lines; i++)
		draw_line(cell, i, out);
	for (const struct bps_cell *at = cell->first; at; at = at->next)
		draw_cell(at, out);
	if (cell->shape)
		fputs("</g>\n", out);
}

/* A line with a head at @to, and above or below it the M that it carries. */
static void draw_arrow(int from, int to, int y, FILE *out)
{
	int back = to > from ? -8 : 8;

	fprintf(out, "<path d=\"M%d %dH%dm%d -4l%d 4l%d 4\"/>\n", from, y, to, back,
	        -back, back);
}

static void draw_label(const char *what, double units, int x, int y, const char *anchor,
                       FILE *out)
{
	char text[BPS_CELL_UNITS_CHARS];

	fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s ", x, y, anchor,
	        what);
	bps_svg_text(bps_cell_units(units, text), out);
	fputs("</text>\n", out);
}

static void draw_link(const struct bps_cell *cell, FILE *out)
{
	const struct bps_cell *bar = cell->bar;
	bool leftwards = bar->x < cell->x;
	int near = leftwards ? cell->x : cell->x + cell->w;
	int far = leftwards ? bar->x + bar->w : bar->x;
	int label = far + (leftwards ? 14 : -14), y = cell->y + LINK_AT;
	const char *anchor = leftwards ? "start" : "end";
	char text[2][BPS_CELL_UNITS_CHARS];
	char hint[BPS_CELL_HINT_BYTES];

	(void)snprintf(hint, sizeof(hint), "%.128s: out %s, in %s",
	               cell->n_lines ? cell->lines[0].text : cell->hint,
	               bps_cell_units(cell->out, text[0]),
	               bps_cell_units(cell->in, text[1]));
	fputs("<g class=\"link\">\n", out);
	draw_hint(hint, out);
	if (cell->out > 0) {
		draw_arrow(near, far, y - LINK_GAP, out);
		draw_label("out", cell->out, label, y - LINK_GAP - 5, anchor, out);
	}
	if (cell->in > 0) {
		draw_arrow(far, near, y + LINK_GAP, out);
		draw_label("in", cell->in, label, y + LINK_GAP + 14, anchor, out);
	}
	fputs("</g>\n", out);
}

static void draw_links(const struct bps_cell *cell, FILE *out)
{
	if (cell->bar && (cell->out > 0 || cell->in > 0))
		draw_link(cell, out);
	for (const struct bps_cell *at = cell->first; at; at = at->next)
		draw_links(at, out);
}

void bps_sheet_draw(const struct bps_sheet *sheet, FILE *out)
{
	draw_cell(&sheet->root, out);
	draw_links(&sheet->root, out);
}
