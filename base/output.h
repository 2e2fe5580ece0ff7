/* SPDX-License-Identifier: BSD-3-Clause */
/* What all our programs do with standard output when they end. */
#pragma once

/**
 * bps_output_end() - write what is left, close standard output, and see whether all of it
 * got where it should. Full disks and lost servers of files may be noticed as late as
 * that.
 * @program: begins the line on standard error that is printed where something was lost
 *
 * Return: 0; -EIO: something was lost. One thread, when all others have ended.
 */
int bps_output_end(const char *program);
