/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the unit tests of base share: cmocka with its includes in the order it wants, and
 * a place that catches what is logged.
 */
#pragma once

#include "base/config.h"
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* Log lines from capture_start() to capture_end() go to a file in memory. */
struct capture {
	int fd;
	int fd_before;
	char text[16384];
};

static inline void capture_start(struct capture *capture)
{
	capture->fd = memfd_create("log", MFD_CLOEXEC);
	assert_true(capture->fd >= 0);
	capture->fd_before = bps_log_set_fd(capture->fd);
}

/* What was logged since capture_start(); the text stays in @capture. */
static inline const char *capture_end(struct capture *capture)
{
	ssize_t n = pread(capture->fd, capture->text, sizeof(capture->text) - 1, 0);

	bps_log_set_fd(capture->fd_before);
	close(capture->fd);
	assert_true(n >= 0);
	capture->text[n] = '\0';
	return capture->text;
}

/* A list of all variables as it is printed; the text stays in @capture. */
static inline const char *print_config(const struct bps_config *config,
                                       struct capture *capture)
{
	FILE *out = fmemopen(capture->text, sizeof(capture->text), "w");

	assert_non_null(out);
	bps_config_print(config, out);
	assert_int_equal(fclose(out), 0);
	return capture->text;
}

static inline void assert_contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in '%s'", part, text);
}

static inline unsigned count_lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}
