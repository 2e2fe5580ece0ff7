/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small files read whole, without stdio: host lists and what the kernel says in /proc and
 * /sys.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/**
 * bps_file_read() - read a file from its start, without ever waiting for a writer.
 * @path: a plain file, of /proc and /sys too
 * @ret_text: at most @text_bytes with the end that is put behind the content
 *
 * Returns how many bytes were read, or a negative errno; -EFBIG: the file is larger than
 * @text_bytes - 1, -EINVAL: it is not a plain file. Nothing is logged.
 */
ssize_t bps_file_read(const char *path, char *ret_text, size_t text_bytes);
