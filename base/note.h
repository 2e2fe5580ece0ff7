/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The version of the preloaded library, as an ELF note: "readelf -n" shows that it is
 * there, and bpsmpi-check finds it in a process that has the library, whatever its file
 * is called. Its place in memory is found by the program header PT_NOTE.
 */
#pragma once

#include <stdint.h>

#define BPS_NOTE_OWNER   "bytepsmpi"
#define BPS_NOTE_VERSION 1u /* the type: text follows, with its end */

/* Laid out as ELF wants it: both texts begin and end at multiples of four bytes. */
struct bps_note {
	uint32_t owner_bytes, text_bytes, type;
	char owner[(sizeof(BPS_NOTE_OWNER) + 3) & ~3u];
	char text[(sizeof(BPS_VERSION) + 3) & ~3u];
};
