/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one rank of bpsmpi-check tells another, as bytes. The same function writes and
 * reads: it names each field in turn, and the parcel either appends the field's value or
 * sets it. So the two sides cannot be out of step, and there is one list of fields.
 *
 * A reader trusts nothing: each field is checked against the bytes that are there and the
 * bounds that the caller gives. After the first error nothing is read or written any
 * more; who is at the end asks for .error. Numbers are little-endian. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpuset.h"

struct bps_parcel {
	uint8_t *bytes; /* written: owned; read: borrowed, it is not written to */
	size_t n_bytes, max_bytes;
	size_t at; /* of the next field, when it is read */
	bool reading;
	int error; /* 0; -EBADMSG: read, and it is none of ours; -ENOMEM */
};

/** bps_parcel_open() - read @n_bytes at @bytes, which are borrowed. */
struct bps_parcel bps_parcel_open(void *bytes, size_t n_bytes);

/** bps_parcel_deinit() - free what was written; nothing of what was read. */
void bps_parcel_deinit(struct bps_parcel *parcel);

/** bps_parcel_u32() - a number of at most @most. */
void bps_parcel_u32(struct bps_parcel *parcel, uint32_t *value, uint32_t most);

/** bps_parcel_index() - an index below @n, or UINT32_MAX for none. */
void bps_parcel_index(struct bps_parcel *parcel, uint32_t *value, uint32_t n);

void bps_parcel_u64(struct bps_parcel *parcel, uint64_t *value);

/** bps_parcel_rate() - a finite number, 0 or more. */
void bps_parcel_rate(struct bps_parcel *parcel, double *value);

void bps_parcel_bool(struct bps_parcel *parcel, bool *value);

/** bps_parcel_text() - text in an array of @bytes, with its end; '?' for what is not
 * printable ASCII. */
void bps_parcel_text(struct bps_parcel *parcel, char *text, size_t bytes);

/**
 * bps_parcel_string() - likewise, of any length up to @most, with newlines; NULL is "".
 * Read: the caller frees *@text, which is NULL after an error.
 */
void bps_parcel_string(struct bps_parcel *parcel, char **text, size_t most);

void bps_parcel_cpuset(struct bps_parcel *parcel, struct bps_cpuset *set);

/**
 * bps_parcel_array() - how many elements an array has, at most @most. Read: allocates
 * them, zeroed; the caller frees *@array, which is NULL where there are none. Its
 * elements follow field by field.
 */
void bps_parcel_array(struct bps_parcel *parcel, void **array, uint32_t *n, uint32_t most,
                      size_t element_bytes);
