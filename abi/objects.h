/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects (program, libraries) that are loaded in this process at one moment.
 * A list belongs to the thread that took it.
 */
#pragma once

#include "abi/abi.h"

struct bps_object {
	struct bps_span span;
	const char *name; /* as dlopen() knows it; "" is the main program */
};

struct bps_objects {
	struct bps_object *object; /* the main program first */
	size_t n_objects;
	char *names; /* what object[].name point into */
};

static inline bool bps_span_has(const struct bps_span *span, const void *address)
{
	return (uintptr_t)address >= span->start && (uintptr_t)address < span->end;
}

/**
 * bps_objects_init() - take the list.
 *
 * Takes the loader's lock for a short time; any thread. Return: 0, or -ENOMEM.
 */
int bps_objects_init(struct bps_objects *objects);

/** bps_objects_deinit() - free the list, and the names in it. */
void bps_objects_deinit(struct bps_objects *objects);

/** bps_objects_find() - the object that @address lies in, or NULL. */
const struct bps_object *bps_objects_find(const struct bps_objects *objects,
                                          const void *address);
