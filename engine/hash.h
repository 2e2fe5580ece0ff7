/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uthash as the engine uses it: an allocation that fails leaves the element out (its
 * hh.tbl is NULL then), and a hash function of a few multiplications (FNV-1a over words)
 * that clang compiles without a warning.
 */
#pragma once

#include <stdint.h>
#include <string.h>

/* Of @bytes bytes, a multiple of 8. */
static inline unsigned bps_hash_words(const void *key, size_t bytes)
{
	const unsigned char *at = key;
	uint64_t hash = 0xcbf29ce484222325u;
	uint64_t word;

	for (; bytes >= sizeof(word); bytes -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 32;
	}
	return (unsigned)hash;
}

#define HASH_NONFATAL_OOM                   1
#define HASH_FUNCTION(key, bytes, ret_hash) ((ret_hash) = bps_hash_words(key, bytes))

#include <uthash.h>
