/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the report on a box share; all write to standard output. */
#pragma once

#include "check/box/plan.h"
#include "topology/machine.h"

#define BPS_BOX_LINE_BYTES 4096
#define BPS_BOX_LIST_BYTES 1024 /* of a list of CPUs, for people */

struct bps_box_printer {
	const struct bps_machine *machine;
	int width; /* characters of a line */
};

/** bps_box_line() - a line, or several where it is too long, indented by @level. */
void bps_box_line(const struct bps_box_printer *printer, int level, const char *format,
                  ...) __attribute__((format(printf, 3, 4)));

/* A row of a table. What does not fit on its line goes on in the next one. */
struct bps_box_row {
	int width;  /* characters of a line */
	int column; /* where the next cell begins */
	int behind; /* blanks behind the last one */
};

/** bps_box_cell() - the next cell, of at least @columns: at their right end, or where
 * @columns is negative at their left. */
void bps_box_cell(struct bps_box_row *row, int columns, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** bps_box_row_end() - end the row, which can begin again. */
void bps_box_row_end(struct bps_box_row *row);

/** bps_box_name_cell() - the first cell of a row; a longer name gets lines of its own
 * above. */
void bps_box_name_cell(struct bps_box_row *row, int columns, const char *name);

/* -- a plan -- */

struct bps_plan_bounds {
	bool known;                          /* bandwidths are */
	double allreduce_s, bcast_s, ring_s; /* for a byte */
	double slowest_s;                    /* a byte over the link of the slowest box */
};

/** bps_plan_print_head() - above its rows. @columns: of the first cell, in all of these;
 * @server: what that is called */
void bps_plan_print_head(struct bps_box_row *row, int columns, const char *server);

/** bps_plan_print_row() - what a server sums. @rate: of its link */
void bps_plan_print_row(struct bps_box_row *row, int columns, const char *name,
                        bool dedicated, const char *rate, double allreduce, double bcast);

/** bps_plan_print_bounds() - how long operations take, and what the table means.
 * @first: the box that a broadcast is from */
void bps_plan_print_bounds(const struct bps_plan_bounds *bounds, struct bps_box_row *row,
                           int columns, const char *first);

/** bps_box_add() - add to the line at @line, which has BPS_BOX_LINE_BYTES. */
void bps_box_add(char *line, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** bps_box_print_links() - which GPUs are joined by what; nothing where it is not known.
 */
void bps_box_print_links(const struct bps_box_printer *printer);

/** bps_box_print_plan() - what the engine would do. */
void bps_box_print_plan(const struct bps_box_printer *printer,
                        const struct bps_box_plan *plan);

/* -- JSON -- */

/** bps_json_text() - "text"; "" and NULL are null. Newlines become spaces; other
 * characters are printable ASCII. */
void bps_json_text(const char *text);
/** bps_json_field() - "name": "text" */
void bps_json_field(const char *name, const char *text);
/** bps_json_rate() - "name": value, where 0 is null. */
void bps_json_rate(const char *name, double value);
/** bps_json_number() - "name": value, where NONE is null. */
void bps_json_number(const char *name, uint32_t value);
/** bps_json_set() - "name": "0-3,8" */
void bps_json_set(const char *name, const struct bps_cpuset *set);
/** bps_json_next() - between two elements of an array, and before its end. */
void bps_json_next(uint32_t i, uint32_t n);
/** bps_json_plan() - , "plan": all of it; @plan NULL: null */
void bps_json_plan(const struct bps_machine *machine, const struct bps_box_plan *plan);
