/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is wrong with a push: by itself, or beside another member's of the same key. Pure
 * functions of headers, whatever a peer wrote into them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "transport/wire.h"

/**
 * bps_push_absurd() - why a push makes no sense whatever the others say; NULL: it does.
 * @known: whether there is a kernel for its type and operation
 */
const char *bps_push_absurd(const struct bps_wire_hdr *hdr, bool known);

/**
 * bps_push_disagrees() - whether two members' pushes of a key belong to different calls;
 * then @text says which, within @bytes.
 */
bool bps_push_disagrees(const struct bps_wire_hdr *first, const struct bps_wire_hdr *next,
                        char *text, size_t bytes);
