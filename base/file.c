/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t read_some(int fd, char *at, size_t n_bytes)
{
	ssize_t n;

	do
		n = read(fd, at, n_bytes);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static ssize_t read_all(int fd, char *text, size_t text_bytes)
{
	size_t used = 0;
	ssize_t n;

	do {
		n = read_some(fd, text + used, text_bytes - used);
		if (n < 0)
			return n;
		used += (size_t)n;
		if (used == text_bytes)
			return -EFBIG;
	} while (n > 0);
	text[used] = '\0';
	return (ssize_t)used;
}

ssize_t bps_file_read(const char *path, char *ret_text, size_t text_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	ssize_t r;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status))
		r = -errno;
	else if (!S_ISREG(status.st_mode))
		r = -EINVAL;
	else
		r = read_all(fd, ret_text, text_bytes);
	close(fd);
	return r;
}
