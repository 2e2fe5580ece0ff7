/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Boxes in boxes, for pictures: a cell has lines of text, and below them other cells in a
 * column, a row or a grid. Sizes come from what is inside, places from who is around;
 * then all is written as SVG. Lengths are in pixels, text has 13 of them.
 *
 * Cells belong to a sheet and live as long as it does.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define BPS_CELL_LINES      14
#define BPS_CELL_LINE_BYTES 96  /* of a line, with its end; what is longer is cut */
#define BPS_CELL_HINT_BYTES 256 /* the same of a hint */

#define BPS_CELL_LINK_ROOM 104 /* between a cell and a bar: what stands at a link */

enum bps_cell_layout {
	BPS_CELL_COLUMN, /* each as wide as the cell */
	BPS_CELL_ROW,
	BPS_CELL_GRID, /* all of one size */
};

struct bps_cell {
	/* What it is; zero is fine for all. */
	const char *shape; /* class of its frame; NULL: none is drawn */
	enum bps_cell_layout layout;
	int columns; /* of a grid */
	int min_w;
	int round;    /* radius of its corners */
	bool grow;    /* takes the room that is left in its row */
	bool tall;    /* as high as its row */
	bool middle;  /* halfway down its row */
	bool centred; /* its text */
	bool turned;  /* its text goes upwards */

	/* What it says. */
	struct {
		char text[BPS_CELL_LINE_BYTES];
		bool strong;
	} lines[BPS_CELL_LINES];
	int n_lines;
	char hint[BPS_CELL_HINT_BYTES]; /* what a browser shows where one points at it */

	/* A link with a bar beside it: M that goes out and comes in. */
	const struct bps_cell *bar; /* NULL: there is none */
	double out, in;

	struct bps_cell *first, *last, *next; /* inside, and after it in its parent */
	struct bps_cell *made;                /* the one made before it */
	int x, y, w, h;                       /* as bps_sheet_arrange() found them */
};

struct bps_sheet {
	struct bps_cell root;
	struct bps_cell *made; /* owned, the last one first */
	struct bps_cell spare; /* stands for one that there was no memory for */
	bool failed;
};

void bps_sheet_init(struct bps_sheet *sheet);
void bps_sheet_deinit(struct bps_sheet *sheet);

/**
 * bps_cell_add() - a cell at the end of @parent, like @is. Where there is no memory, the
 * sheet has failed, and what is returned is not part of it.
 */
struct bps_cell *bps_cell_add(struct bps_sheet *sheet, struct bps_cell *parent,
                              const struct bps_cell *is);

/** bps_cell_line() - one more line of text, up to BPS_CELL_LINES. */
void bps_cell_line(struct bps_cell *cell, bool strong, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * bps_cell_wrap() - @text in lines of at most @chars characters (4 or more, less than
 * BPS_CELL_LINE_BYTES), cut at spaces and commas where there are any, and to @n_lines.
 */
void bps_cell_wrap(struct bps_cell *cell, bool strong, int chars, int n_lines,
                   const char *text);

/** bps_cell_hint() - of a cell with a shape; without one it is its first line. */
void bps_cell_hint(struct bps_cell *cell, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** bps_cell_units() - "0.5 M"; at most BPS_CELL_UNITS_CHARS, returns @buf. */
#define BPS_CELL_UNITS_CHARS 16
char *bps_cell_units(double units, char *buf);

/** bps_sheet_arrange() - find all sizes and places; the root begins at 0, 0. */
void bps_sheet_arrange(struct bps_sheet *sheet);

/** bps_sheet_draw() - write all cells, then all links. */
void bps_sheet_draw(const struct bps_sheet *sheet, FILE *out);

/** bps_svg_text() - @text as XML; what is not printable ASCII is '?'. */
void bps_svg_text(const char *text, FILE *out);
