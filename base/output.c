/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/output.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int bps_output_end(const char *program)
{
	bool lost = ferror(stdout); /* the reason is forgotten by now */

	errno = 0;
	if (fflush(stdout) == 0 && !lost && (close(STDOUT_FILENO) == 0 || errno == EBADF))
		return 0; /* who was started without one, and printed nothing, is fine */
	(void)fprintf(stderr, "%s: cannot write the output%s%s\n", program,
	              errno ? ": " : "", errno ? strerror(errno) : "");
	return -EIO;
}
