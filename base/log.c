/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include "base/atomic.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Each is one number that any thread may change at any time: nothing to order. */
static int log_level = BPS_LOG_INFO;
static int log_rank = -1;
static int log_fd = STDERR_FILENO;

void bps_log_init(enum bps_log_level level, int rank)
{
	bps_log_set_level(level);
	bps_log_set_rank(rank);
}

void bps_log_set_level(enum bps_log_level level)
{
	bps_store_relaxed(&log_level, (int)level);
}

void bps_log_set_rank(int rank)
{
	bps_store_relaxed(&log_rank, rank);
}

int bps_log_set_fd(int fd)
{
	return bps_exchange(&log_fd, fd);
}

bool bps_log_wants(enum bps_log_level level)
{
	return (int)level <= bps_load_relaxed(&log_level);
}

/* Who speaks; returns how long that is (it always fits a line). */
static size_t put_prefix(char *line, size_t line_bytes, const char *folder)
{
	int rank = bps_load_relaxed(&log_rank);
	char host[65] = "?";
	char rank_text[16] = "";
	int n;

	(void)gethostname(host, sizeof(host) - 1);
	if (rank >= 0)
		(void)snprintf(rank_text, sizeof(rank_text), " r%d", rank);
	n = snprintf(line, line_bytes, "bpsmpi %.64s:%d%s %.32s: ", host, (int)getpid(),
	             rank_text, folder);
	return n > 0 ? (size_t)n : 0;
}

/* One line stays one line, whoever sent the text. */
static void hide_controls(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

void bps_log_write(const char *folder, const char *format, ...)
{
	int saved_errno = errno;
	char line[BPS_LOG_LINE_BYTES];
	size_t used = put_prefix(line, sizeof(line), folder);
	size_t left =
		sizeof(line) - 1 - used; /* the newline takes the place of the end */
	va_list args;
	ssize_t n;

	va_start(args, format);
	errno = saved_errno; /* for %m */
	n = vsnprintf(line + used, left + 1, format, args);
	va_end(args);
	if (n < 0)
		line[used] = '\0';
	else if ((size_t)n > left)
		memcpy(line + sizeof(line) - 4, "...", 4);
	hide_controls(line + used);
	used += strlen(line + used);
	line[used++] = '\n';
	n = write(bps_load_relaxed(&log_fd), line, used);
	(void)n; /* there is nobody to tell */
	errno = saved_errno;
}
