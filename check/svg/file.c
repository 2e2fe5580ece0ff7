/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/check.h"
#include "check/svg/svg.h"

/* What a file gets that is just made; mkostemp() gives the owner alone. */
static mode_t usual_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

static int write_all(int fd, const char *text, size_t n_bytes)
{
	while (n_bytes > 0) {
		ssize_t n = write(fd, text, n_bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		n_bytes -= (size_t)n;
	}
	return 0;
}

/* Under another name first, so that at @path there is all or nothing. */
static int replace_file(const char *path, const char *text, size_t n_bytes)
{
	char temporary[PATH_MAX];
	struct stat there;
	int fd, r;

	if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
		return S_ISDIR(there.st_mode) ? -EISDIR : -EINVAL;
	if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >=
	    (int)sizeof(temporary))
		return -ENAMETOOLONG;
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = write_all(fd, text, n_bytes);
	if (!r && fchmod(fd, usual_mode()))
		r = -errno;
	if (close(fd) && !r)
		r = -errno;
	if (!r && rename(temporary, path))
		r = -errno;
	if (r)
		(void)unlink(temporary);
	return r;
}

int bps_picture_write(const struct bps_picture *picture, const char *path)
{
	char *text = NULL;
	size_t n_bytes = 0;
	FILE *out = open_memstream(&text, &n_bytes);
	int r = out ? bps_picture_print(picture, out) : -errno;

	if (out && fclose(out) && !r)
		r = -errno;
	if (!r)
		r = replace_file(path, text, n_bytes);
	free(text);
	if (!r)
		return BPS_CHECK_FINE;
	bps_check_complain("--svg: %s cannot be written: %s", path,
	                   r == -EINVAL ? "not a plain file" : strerror(-r));
	return BPS_CHECK_CANNOT;
}
