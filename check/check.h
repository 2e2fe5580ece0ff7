/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reports of bpsmpi-check. Each writes to standard output what it found, to standard
 * error what is wrong and what to type, and returns an exit status.
 */
#pragma once

#include <stdbool.h>

enum {
	BPS_CHECK_FINE = 0,
	BPS_CHECK_WRONG = 1,  /* what was looked at is not as it should be */
	BPS_CHECK_CANNOT = 2, /* it could not be looked at */
	BPS_CHECK_USAGE = 3,  /* the command line: ends as CANNOT does, with a hint */
};

/* The command line; strings are borrowed from main(). */
struct bps_check_options {
	const char *n_boxes; /* of --plan N K, NULL where it was not given */
	const char *n_servers;
	const char *bandwidth; /* NULL: not given */
	const char *xml;       /* the same */
	const char *program;   /* the same */
	const char *svg;       /* the same */
	const char *mpi;       /* the same */
	bool json;
	bool measure;
};

struct bps_machine;

/**
 * bps_check_box() - this box, or the one in options->xml, as a tree or as JSON; after the
 * tree of this box what the doctor finds.
 */
int bps_check_box(const struct bps_check_options *options);

/**
 * bps_box_describe() - this box, or the one in options->xml; the caller owns it. Return:
 * 0, or a negative errno after a line on standard error.
 */
int bps_box_describe(const struct bps_check_options *options,
                     const struct bps_machine **ret);

/** bps_box_print() - a tree, in lines of at most @width characters where words allow. */
void bps_box_print(const struct bps_machine *machine, int width);

struct bps_box_plan;

/**
 * bps_box_print_json() - the same in version 1 of the schema in bpsmpi-check(1).
 * @plan: NULL is null there
 */
void bps_box_print_json(const struct bps_machine *machine,
                        const struct bps_box_plan *plan);

/** bps_check_plan() - who should sum how much, and how long that takes. */
int bps_check_plan(const struct bps_check_options *options);

/** bps_check_program() - whether LD_PRELOAD can bring the library into it. */
int bps_check_program(const struct bps_check_options *options);

/** bps_check_env() - every variable of this environment: its value, and whence. */
int bps_check_env(const struct bps_check_options *options);

/** bps_check_width() - how many characters a line for people has: those of the terminal,
 * or without one COLUMNS, or 80; at least 40. */
int bps_check_width(void);

/** bps_check_complain() - a line on standard error, without its newline. */
void bps_check_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
