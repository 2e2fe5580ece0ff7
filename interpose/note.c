/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/note.h"

static const struct bps_note note
	__attribute__((section(".note.bytepsmpi"), used, aligned(4))) = {
		.owner_bytes = sizeof(BPS_NOTE_OWNER),
		.text_bytes = sizeof(BPS_VERSION),
		.type = BPS_NOTE_VERSION,
		.owner = BPS_NOTE_OWNER,
		.text = BPS_VERSION,
	};
