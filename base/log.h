/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One line a message on standard error:
 *
 *	bpsmpi <host>:<pid> r<rank> <folder>: text
 *
 * error = gave up; warn = odd, going on; info = once a job; debug = once an object.
 *
 * A line is one write(2) from a stack buffer, so lines of several processes do not mix.
 * No stdio stream, no allocation, no lock; errno is kept. Any thread may log at any time,
 * also before bps_log_init(). Each folder is compiled with BPS_FOLDER set to its name.
 */
#pragma once

#include <stdbool.h>

/* The longest line in bytes, newline included; what is longer ends in "...". */
#define BPS_LOG_LINE_BYTES 1024

enum bps_log_level {
	BPS_LOG_ERROR,
	BPS_LOG_WARN,
	BPS_LOG_INFO, /* the default: errors, warnings and infos are written */
	BPS_LOG_DEBUG,
};

/**
 * bps_log_init() - set the level and the rank in one call.
 * @level: the most talkative level that is still written
 * @rank: this process's rank in MPI_COMM_WORLD; negative: no rank is shown
 */
void bps_log_init(enum bps_log_level level, int rank);

/** bps_log_set_level() - change the most talkative level that is still written. */
void bps_log_set_level(enum bps_log_level level);

/** bps_log_set_rank() - change the rank that lines show; negative: none is shown. */
void bps_log_set_rank(int rank);

/**
 * bps_log_set_fd() - send lines to another descriptor than 2, for tests.
 * @fd: borrowed until the next call; returns the descriptor used before.
 */
int bps_log_set_fd(int fd);

/** bps_log_wants() - whether a line of @level would be written now. */
bool bps_log_wants(enum bps_log_level level);

/**
 * bps_log_write() - write one line, whatever the level; use the macros below.
 * @folder: the part of the program that speaks
 * @format: printf's, without a newline; control characters in the result (they may come
 * from a peer) are shown as '?'
 */
void bps_log_write(const char *folder, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));

#define bps_log(level, ...)                                     \
	do {                                                    \
		if (bps_log_wants(level))                       \
			bps_log_write(BPS_FOLDER, __VA_ARGS__); \
	} while (0)

#define bps_error(...) bps_log(BPS_LOG_ERROR, __VA_ARGS__)
#define bps_warn(...)  bps_log(BPS_LOG_WARN, __VA_ARGS__)
#define bps_info(...)  bps_log(BPS_LOG_INFO, __VA_ARGS__)
#define bps_debug(...) bps_log(BPS_LOG_DEBUG, __VA_ARGS__)
