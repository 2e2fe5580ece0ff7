/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reports of bpsmpi-check. Each writes to standard output what it found, to standard
 * error what is wrong and what to type, and returns an exit status.
 */
#pragma once

enum {
	BPS_CHECK_FINE = 0,
	BPS_CHECK_WRONG = 1, /* what was looked at is not as it should be */
	BPS_CHECK_USAGE = 2, /* the command line */
};

/* The command line; strings are borrowed from main(). */
struct bps_check_options {
	const char *n_boxes; /* of --plan N K, NULL where it was not given */
	const char *n_servers;
	const char *bandwidth; /* NULL: not given */
};

/** bps_check_plan() - who should sum how much, and how long that takes. */
int bps_check_plan(const struct bps_check_options *options);

/** bps_check_env() - every variable of this environment: its value, and whence. */
int bps_check_env(const struct bps_check_options *options);

/** bps_check_complain() - a line on standard error, without its newline. */
void bps_check_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
