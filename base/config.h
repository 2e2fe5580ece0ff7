/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration, made from the table in env.def: the struct, the parser, the range
 * check, the printed list. It is read once, in MPI_Init or at a tool's start; nothing
 * else in the project asks for environment variables.
 *
 * struct bps_config has no pointers and no undefined bytes once bps_config_defaults() has
 * filled it: between equal builds it travels as its bytes.
 */
#pragma once

#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BPS_ENV_PREFIX    "BPSMPI_"
#define BPS_ENV_MAX_BYTES (INT64_C(1) << 50)

/* What a value takes as text, with its end: the longest string. */
#define BPS_CONFIG_TEXT_BYTES 4096

enum bps_config_type {
	BPS_CONFIG_BOOL,
	BPS_CONFIG_INT,
	BPS_CONFIG_BYTES,
	BPS_CONFIG_STRING,
	BPS_CONFIG_WORD,
};

enum bps_mode {
	BPS_MODE_AUTO,   /* what was found to be faster */
	BPS_MODE_ALWAYS, /* ours, from the threshold on */
	BPS_MODE_NEVER,
};

/* Of 16-bit floats that are summed in two steps, what the first gives to the second. */
enum bps_half_push {
	BPS_HALF_PUSH_32,
	BPS_HALF_PUSH_16,
};

enum bps_config_source {
	BPS_CONFIG_DEFAULT,
	BPS_CONFIG_ENVIRONMENT,
	BPS_CONFIG_FOREIGN, /* BytePS's name for it, see base/foreign.h */
};

/* The index of each row: BPS_CONFIG_ROW_servers and so on. */
enum bps_config_index {
#define BPS_ENV(field, ...) BPS_CONFIG_ROW_##field,
#include "base/env.def"
#undef BPS_ENV
	BPS_CONFIG_N_ROWS
};

#define BPS_CONFIG_FIELD_bool(field, max)   bool field;
#define BPS_CONFIG_FIELD_int(field, max)    int32_t field;
#define BPS_CONFIG_FIELD_bytes(field, max)  uint64_t field;
#define BPS_CONFIG_FIELD_string(field, max) char field[max];
#define BPS_CONFIG_FIELD_level(field, max)  enum bps_log_level field;
#define BPS_CONFIG_FIELD_mode(field, max)   enum bps_mode field;
#define BPS_CONFIG_FIELD_half(field, max)   enum bps_half_push field;

struct bps_config {
#define BPS_ENV(field, name, type, def, unit, min, max, help) \
	BPS_CONFIG_FIELD_##type(field, max)
#include "base/env.def"
#undef BPS_ENV
	uint8_t source[BPS_CONFIG_N_ROWS]; /* enum bps_config_source of each row */
};

/* A row of the table as data, for printers. */
struct bps_config_row {
	const char *name; /* with BPSMPI_ */
	const char *def;
	const char *unit; /* "" where it has none */
	const char *help;
	const char *const *words; /* BPS_CONFIG_WORD: what numbers 0 and on are called */
	int64_t min;
	int64_t max;
	uint32_t offset; /* of the field in struct bps_config */
	enum bps_config_type type;
};

extern const struct bps_config_row bps_config_rows[BPS_CONFIG_N_ROWS];

/** bps_config_defaults() - fill every byte of @config as if no variable were set. */
void bps_config_defaults(struct bps_config *config);

/**
 * bps_config_parse() - fill @config from an environment.
 * @env: as environ ("NAME=value" strings, then NULL), or NULL; borrowed during the call
 *
 * A variable that is not set, or set to nothing, has its default. A value that cannot be
 * read or is out of range is an error of its own line, and the field has its default. A
 * BPSMPI_ variable that is not in the table is a warning, with the nearest name where one
 * is near. BytePS's names for our variables (base/foreign.def) count where ours are not
 * set.
 *
 * Returns 0, or -EINVAL (logged) where any value was wrong; @config is complete then too.
 */
int bps_config_parse(struct bps_config *config, char *const *env);

/**
 * bps_config_check() - may a variable have this value, which was given by another name?
 * @name: what its user calls it, such as "--loops"
 *
 * Returns 0, or -EINVAL after a line in the log that says why not.
 */
int bps_config_check(enum bps_config_index index, const char *name, const char *text);

/**
 * bps_config_print() - list every variable with value, unit, and where it came from.
 * @out: written to, borrowed during the call; who owns it asks whether that was possible
 */
void bps_config_print(const struct bps_config *config, FILE *out);

/**
 * bps_config_format() - a field's value as a user would write it.
 * @ret_text: at most @text_bytes with its end, BPS_CONFIG_TEXT_BYTES are always enough
 */
void bps_config_format(const struct bps_config *config, enum bps_config_index index,
                       char *ret_text, size_t text_bytes);

/**
 * bps_config_words() - what a BPS_CONFIG_WORD row allows: "auto, always or never".
 * @last: between the last two, for example " or "
 * @ret_text: at most @text_bytes with its end
 */
void bps_config_words(const struct bps_config_row *row, const char *last, char *ret_text,
                      size_t text_bytes);

/**
 * bps_bytes_format() - a number of bytes as a user would write it: "256K", "1G", "1000".
 * @ret_text: at most @text_bytes with its end, 24 are always enough
 */
void bps_bytes_format(uint64_t bytes, char *ret_text, size_t text_bytes);

/**
 * bps_bytes_parse() - read "1000", "64K", "64KB", "64KiB" (all powers of 1024; K, M, G, T
 * in either case).
 *
 * Returns 0 or -EINVAL; nothing is logged.
 */
int bps_bytes_parse(const char *text, uint64_t *ret_bytes);

/**
 * bps_env_get() - a variable's value in an environment, for what launchers set.
 * @env: as environ, NULL is an empty one
 *
 * Returns the value inside @env, borrowed until that changes; NULL where it is not set.
 */
const char *bps_env_get(char *const *env, const char *name);
