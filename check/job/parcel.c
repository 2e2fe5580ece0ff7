/* SPDX-License-Identifier: BSD-3-Clause */
#include "check/job/parcel.h"

#include <endian.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 4096u

struct bps_parcel bps_parcel_open(void *bytes, size_t n_bytes)
{
	return (struct bps_parcel){ .bytes = bytes, .n_bytes = n_bytes, .reading = true };
}

void bps_parcel_deinit(struct bps_parcel *parcel)
{
	if (!parcel->reading)
		free(parcel->bytes);
	*parcel = (struct bps_parcel){ 0 };
}

static void fail(struct bps_parcel *parcel, int error)
{
	if (!parcel->error)
		parcel->error = error;
}

static bool make_room(struct bps_parcel *parcel, size_t n)
{
	size_t max = parcel->max_bytes ? parcel->max_bytes : FIRST_BYTES;
	uint8_t *bytes;

	while (max - parcel->n_bytes < n)
		max *= 2;
	if (max == parcel->max_bytes)
		return true;
	bytes = realloc(parcel->bytes, max);
	if (!bytes) {
		fail(parcel, -ENOMEM);
		return false;
	}
	parcel->bytes = bytes;
	parcel->max_bytes = max;
	return true;
}

/* @n bytes, in or out. Return: whether it went well. */
static bool carry(struct bps_parcel *parcel, void *data, size_t n)
{
	if (parcel->error)
		return false;
	if (!parcel->reading) {
		if (!make_room(parcel, n))
			return false;
		if (n > 0)
			memcpy(parcel->bytes + parcel->n_bytes, data, n);
		parcel->n_bytes += n;
		return true;
	}
	if (parcel->n_bytes - parcel->at < n) {
		fail(parcel, -EBADMSG);
		return false;
	}
	if (n > 0)
		memcpy(data, parcel->bytes + parcel->at, n);
	parcel->at += n;
	return true;
}

void bps_parcel_u64(struct bps_parcel *parcel, uint64_t *value)
{
	uint64_t wire = htole64(*value);

	if (carry(parcel, &wire, sizeof(wire)) && parcel->reading)
		*value = le64toh(wire);
}

/* A number below @end, or UINT32_MAX if that may stand for none. */
static void carry_u32(struct bps_parcel *parcel, uint32_t *value, uint64_t end, bool none)
{
	uint32_t wire = htole32(*value);

	if (!carry(parcel, &wire, sizeof(wire)) || !parcel->reading)
		return;
	wire = le32toh(wire);
	if (wire < end || (none && wire == UINT32_MAX))
		*value = wire;
	else
		fail(parcel, -EBADMSG);
}

void bps_parcel_u32(struct bps_parcel *parcel, uint32_t *value, uint32_t most)
{
	carry_u32(parcel, value, (uint64_t)most + 1, false);
}

void bps_parcel_index(struct bps_parcel *parcel, uint32_t *value, uint32_t n)
{
	carry_u32(parcel, value, n, true);
}

void bps_parcel_rate(struct bps_parcel *parcel, double *value)
{
	uint64_t bits;
	double read;

	memcpy(&bits, value, sizeof(bits));
	bps_parcel_u64(parcel, &bits);
	memcpy(&read, &bits, sizeof(read));
	if (parcel->error || !parcel->reading)
		return;
	if (isfinite(read) && read >= 0)
		*value = read;
	else
		fail(parcel, -EBADMSG);
}

void bps_parcel_bool(struct bps_parcel *parcel, bool *value)
{
	uint32_t number = *value;

	bps_parcel_u32(parcel, &number, 1);
	*value = number;
}

/* Whoever wrote it may have had anything in it. */
static void tame(char *text, size_t n, bool lines)
{
	for (size_t i = 0; i < n; i++)
		if ((text[i] < ' ' || text[i] > '~') && !(lines && text[i] == '\n'))
			text[i] = '?';
}

void bps_parcel_text(struct bps_parcel *parcel, char *text, size_t bytes)
{
	uint32_t n = parcel->reading ? 0 : (uint32_t)strnlen(text, bytes - 1);

	bps_parcel_u32(parcel, &n, (uint32_t)bytes - 1);
	if (!carry(parcel, text, n) || !parcel->reading)
		return;
	text[n] = '\0';
	tame(text, n, false);
}

void bps_parcel_string(struct bps_parcel *parcel, char **text, size_t most)
{
	uint32_t n = parcel->reading || !*text ? 0 : (uint32_t)strnlen(*text, most);

	bps_parcel_u32(parcel, &n, (uint32_t)most);
	if (!parcel->reading) {
		(void)carry(parcel, *text, n);
		return;
	}
	*text = NULL;
	if (parcel->n_bytes - parcel->at < n)
		fail(parcel, -EBADMSG);
	if (parcel->error)
		return;
	*text = calloc(1, (size_t)n + 1);
	if (*text && carry(parcel, *text, n))
		tame(*text, n, true);
	else
		fail(parcel, -ENOMEM);
}

/* As many words as there are up to the last that is not 0. */
void bps_parcel_cpuset(struct bps_parcel *parcel, struct bps_cpuset *set)
{
	const uint32_t most = BPS_CPU_MAX / 64;
	uint32_t n = most;

	while (n > 0 && set->bits[n - 1] == 0)
		n--;
	bps_parcel_u32(parcel, &n, most);
	if (parcel->reading)
		*set = (struct bps_cpuset){ 0 };
	for (uint32_t i = 0; i < n && !parcel->error; i++)
		bps_parcel_u64(parcel, &set->bits[i]);
}

/* An element takes a byte or more, so a count beyond the bytes that follow is a lie. */
void bps_parcel_array(struct bps_parcel *parcel, void **array, uint32_t *n, uint32_t most,
                      size_t element_bytes)
{
	uint32_t count = *n;

	bps_parcel_u32(parcel, &count, most);
	if (!parcel->reading)
		return;
	*array = NULL;
	*n = 0;
	if (parcel->error)
		return;
	if (parcel->n_bytes - parcel->at < count) {
		fail(parcel, -EBADMSG);
		return;
	}
	if (count > 0)
		*array = calloc(count, element_bytes);
	if (count > 0 && !*array)
		fail(parcel, -ENOMEM);
	else
		*n = count;
}
