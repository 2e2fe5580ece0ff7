/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/config.h"

#include "base/foreign.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The longest name that is compared with an unknown one, and the most of a value that an
 * error shows. */
#define SHOWN_CHARS 64

#define TYPE_bool   BPS_CONFIG_BOOL
#define TYPE_int    BPS_CONFIG_INT
#define TYPE_bytes  BPS_CONFIG_BYTES
#define TYPE_string BPS_CONFIG_STRING
#define TYPE_level  BPS_CONFIG_WORD
#define TYPE_mode   BPS_CONFIG_WORD
#define TYPE_half   BPS_CONFIG_WORD

/* The orders are those of enum bps_log_level, enum bps_mode and enum bps_half_push. */
static const char *const level_words[] = { "error", "warn", "info", "debug" };
static const char *const mode_words[] = { "auto", "always", "never" };
static const char *const half_words[] = { "32", "16" };

#define WORDS_bool   NULL
#define WORDS_int    NULL
#define WORDS_bytes  NULL
#define WORDS_string NULL
#define WORDS_level  level_words
#define WORDS_mode   mode_words
#define WORDS_half   half_words

const struct bps_config_row bps_config_rows[BPS_CONFIG_N_ROWS] = {
#define BPS_ENV(field_, name_, type_, def_, unit_, min_, max_, help_) \
	{                                                             \
		.name = BPS_ENV_PREFIX #name_,                        \
		.def = (def_),                                        \
		.unit = (unit_),                                      \
		.help = (help_),                                      \
		.words = WORDS_##type_,                               \
		.min = (min_),                                        \
		.max = (max_),                                        \
		.offset = offsetof(struct bps_config, field_),        \
		.type = TYPE_##type_,                                 \
	},
#include "base/env.def"
#undef BPS_ENV
};

/* Words come in pairs: the even ones are false. */
static const char *const bool_words[] = { "0",   "1",  "no",    "yes",
	                                  "off", "on", "false", "true" };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int find_word(const char *const *words, size_t n_words, const char *text)
{
	for (size_t i = 0; i < n_words; i++)
		if (strcasecmp(words[i], text) == 0)
			return (int)i;
	return -1;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits with an optional minus, nothing before or behind. */
static int parse_int(const char *text, int64_t *ret_value)
{
	char *end;
	long long value;

	if (!is_digit(text[text[0] == '-']))
		return -EINVAL;
	errno = 0;
	value = strtoll(text, &end, 10);
	if (*end || errno)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

/* How far to shift for what stands behind the digits; -1: it is no unit. */
static int unit_shift(const char *unit)
{
	static const char letters[] = "KMGT";
	const char *letter;

	if (unit[0] == '\0' || strcasecmp(unit, "B") == 0)
		return 0;
	for (letter = letters; *letter && (unit[0] & ~0x20) != *letter; letter++)
		;
	unit++;
	if (!*letter ||
	    (*unit && strcasecmp(unit, "B") != 0 && strcasecmp(unit, "iB") != 0))
		return -1;
	return 10 * (int)(letter - letters + 1);
}

int bps_bytes_parse(const char *text, uint64_t *ret_bytes)
{
	unsigned long long value;
	char *end;
	int shift;

	if (!is_digit(text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	shift = unit_shift(end);
	if (errno || shift < 0 || value > UINT64_MAX >> shift)
		return -EINVAL;
	*ret_bytes = (uint64_t)value << shift;
	return 0;
}

void bps_bytes_format(uint64_t bytes, char *ret_text, size_t text_bytes)
{
	static const char *const units[] = { "", "K", "M", "G", "T" };
	size_t unit = 0;

	while (unit + 1 < COUNT(units) && bytes > 0 && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	(void)snprintf(ret_text, text_bytes, "%" PRIu64 "%s", bytes, units[unit]);
}

static bool in_range(const struct bps_config_row *row, int64_t value)
{
	return value >= row->min && value <= row->max;
}

/* A number that the library finds by itself, unless it is given: 0 until then. */
static bool may_be_auto(const struct bps_config_row *row)
{
	return (row->type == BPS_CONFIG_BYTES || row->type == BPS_CONFIG_INT) &&
	       strcmp(row->def, "auto") == 0;
}

static int set_number(const struct bps_config_row *row, const char *text, void *field)
{
	int64_t value;

	if (may_be_auto(row) && strcasecmp(text, row->def) == 0) {
		*(int32_t *)field = 0;
		return 0;
	}
	if (parse_int(text, &value) || !in_range(row, value))
		return -EINVAL;
	*(int32_t *)field = (int32_t)value;
	return 0;
}

static int set_bytes(const struct bps_config_row *row, const char *text, void *field)
{
	uint64_t value;

	if (may_be_auto(row) && strcasecmp(text, row->def) == 0) {
		*(uint64_t *)field = 0;
		return 0;
	}
	if (bps_bytes_parse(text, &value) || value > INT64_MAX ||
	    !in_range(row, (int64_t)value))
		return -EINVAL;
	*(uint64_t *)field = value;
	return 0;
}

/* The whole array is written: no byte of the struct depends on what was there before. */
static int set_string(const struct bps_config_row *row, const char *text, void *field)
{
	size_t n = strlen(text);

	if (n >= (size_t)row->max)
		return -EINVAL;
	memset(field, 0, (size_t)row->max);
	memcpy(field, text, n);
	return 0;
}

static int set_bool(const char *text, bool *field)
{
	int word = find_word(bool_words, COUNT(bool_words), text);

	if (word < 0)
		return -EINVAL;
	*field = word % 2;
	return 0;
}

/* The field is an enum without negative values: an unsigned int to our compilers. */
static int set_word(const struct bps_config_row *row, const char *text, unsigned *field)
{
	int word = find_word(row->words, (size_t)row->max + 1, text);

	if (word < 0)
		return -EINVAL;
	*field = (unsigned)word;
	return 0;
}

/* Returns -EINVAL, the field unchanged, where the row does not allow the text. */
static int set_field(struct bps_config *config, const struct bps_config_row *row,
                     const char *text)
{
	void *field = (char *)config + row->offset;

	switch (row->type) {
	case BPS_CONFIG_BOOL:
		return set_bool(text, field);
	case BPS_CONFIG_INT:
		return set_number(row, text, field);
	case BPS_CONFIG_BYTES:
		return set_bytes(row, text, field);
	case BPS_CONFIG_STRING:
		return set_string(row, text, field);
	case BPS_CONFIG_WORD:
		return set_word(row, text, field);
	}
	return -EINVAL;
}

void bps_config_defaults(struct bps_config *config)
{
	memset(config, 0, sizeof(*config));
	for (size_t i = 0; i < BPS_CONFIG_N_ROWS; i++)
		(void)set_field(config, &bps_config_rows[i], bps_config_rows[i].def);
}

void bps_config_words(const struct bps_config_row *row, const char *last, char *ret_text,
                      size_t text_bytes)
{
	const char *between = "";
	size_t used = 0;

	for (int64_t i = 0; i <= row->max && used < text_bytes; i++) {
		used += (size_t)snprintf(ret_text + used, text_bytes - used, "%s%s",
		                         between, row->words[i]);
		between = i + 1 < row->max ? ", " : last;
	}
}

/* What the row allows, to be read behind "is not". */
static void describe_allowed(const struct bps_config_row *row, char *text,
                             size_t text_bytes)
{
	const char *of = row->unit[0] ? " of " : "";
	char min[24], max[24];

	switch (row->type) {
	case BPS_CONFIG_BOOL:
		(void)snprintf(text, text_bytes, "0 or 1");
		break;
	case BPS_CONFIG_INT:
		(void)snprintf(text, text_bytes,
		               "%sa number%s%s from %" PRId64 " to %" PRId64,
		               may_be_auto(row) ? "auto or " : "", of, row->unit,
		               row->min, row->max);
		break;
	case BPS_CONFIG_BYTES:
		bps_bytes_format((uint64_t)row->min, min, sizeof(min));
		bps_bytes_format((uint64_t)row->max, max, sizeof(max));
		(void)snprintf(text, text_bytes,
		               "%sa number%s%s from %s to %s, such as 64K or 1M",
		               may_be_auto(row) ? "auto or " : "", of, row->unit, min,
		               max);
		break;
	case BPS_CONFIG_STRING:
		(void)snprintf(text, text_bytes, "at most %" PRId64 " characters long",
		               row->max - 1);
		break;
	case BPS_CONFIG_WORD:
		bps_config_words(row, " or ", text, text_bytes);
		break;
	}
}

/* Says what is wrong with a value: "NAME: 'value' is not what it allows". */
static void describe_wrong(const struct bps_config_row *row, const char *name,
                           const char *value, char *text, size_t text_bytes)
{
	char allowed[128];

	describe_allowed(row, allowed, sizeof(allowed));
	(void)snprintf(text, text_bytes, "%s: '%.*s%s' is not %s", name, SHOWN_CHARS,
	               value, strlen(value) > SHOWN_CHARS ? "..." : "", allowed);
}

/* BytePS's name for the row. What cannot be used here may be fine there: no error. */
static void parse_foreign(struct bps_config *config, enum bps_config_index index,
                          char *const *env)
{
	const struct bps_config_row *row = &bps_config_rows[index];
	const char *name = bps_foreign_name(index);
	const char *text = name ? bps_env_get(env, name) : NULL;
	char wrong[256];

	if (!text || !text[0])
		return;
	if (set_field(config, row, text)) {
		describe_wrong(row, name, text, wrong, sizeof(wrong));
		bps_warn("%s; %s keeps its default '%s'", wrong, row->name, row->def);
		return;
	}
	config->source[index] = BPS_CONFIG_FOREIGN;
}

/* A field to what the user wrote, who calls it @name. */
static int take_value(struct bps_config *config, const struct bps_config_row *row,
                      const char *name, const char *text)
{
	char wrong[256];

	if (set_field(config, row, text) == 0)
		return 0;
	describe_wrong(row, name, text, wrong, sizeof(wrong));
	bps_error("%s; its default is '%s'", wrong, row->def);
	return -EINVAL;
}

static int parse_row(struct bps_config *config, enum bps_config_index index,
                     char *const *env)
{
	const struct bps_config_row *row = &bps_config_rows[index];
	const char *text = bps_env_get(env, row->name);
	int r;

	if (!text || !text[0]) {
		parse_foreign(config, index, env);
		return 0;
	}
	r = take_value(config, row, row->name, text);
	if (r == 0)
		config->source[index] = BPS_CONFIG_ENVIRONMENT;
	return r;
}

int bps_config_check(enum bps_config_index index, const char *name, const char *text)
{
	struct bps_config unused;

	return take_value(&unused, &bps_config_rows[index], name, text);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/*
 * The fewest letters to insert, drop or change on the way from @a to @b, times 4; the end
 * of @b may be left out for less, since people forget the unit.
 */
static size_t edit_distance(const char *a, const char *b)
{
	size_t n_b = strnlen(b, SHOWN_CHARS);
	size_t row[SHOWN_CHARS + 1]; /* [j]: from what was read of a to j letters of b */
	size_t best = SIZE_MAX;

	for (size_t j = 0; j <= n_b; j++)
		row[j] = j;
	for (size_t i = 0; a[i] && i < SHOWN_CHARS; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 1; j <= n_b; j++) {
			size_t changed = diagonal + (a[i] != b[j - 1]);

			diagonal = row[j];
			row[j] = least(changed, least(row[j], row[j - 1]) + 1);
		}
	}
	for (size_t j = 0; j <= n_b; j++)
		best = least(best, 4 * row[j] + least(n_b - j, 3));
	return best;
}

/* NULL: none is near. A letter in three may be another one, and so none of two. */
static const char *nearest_name(const char *name)
{
	const char *nearest = NULL;
	size_t least_distance = (strlen(name) - strlen(BPS_ENV_PREFIX)) / 3 * 4 + 1;

	for (size_t i = 0; i < BPS_CONFIG_N_ROWS; i++) {
		size_t distance = edit_distance(name, bps_config_rows[i].name);

		if (distance < least_distance) {
			least_distance = distance;
			nearest = bps_config_rows[i].name;
		}
	}
	return nearest;
}

static bool is_known(const char *name, size_t n_chars)
{
	for (size_t i = 0; i < BPS_CONFIG_N_ROWS; i++) {
		const char *known = bps_config_rows[i].name;

		if (strncmp(name, known, n_chars) == 0 && known[n_chars] == '\0')
			return true;
	}
	return false;
}

static void warn_of_unknown(char *const *env)
{
	for (; env && *env; env++) {
		size_t n = strcspn(*env, "=");
		char name[SHOWN_CHARS + 1];
		const char *nearest;

		if (strncmp(*env, BPS_ENV_PREFIX, strlen(BPS_ENV_PREFIX)) != 0 ||
		    is_known(*env, n))
			continue;
		n = least(n, SHOWN_CHARS);
		memcpy(name, *env, n);
		name[n] = '\0';
		nearest = nearest_name(name);
		bps_warn("%s is not a variable of ours and does nothing; %s%s", name,
		         nearest ? "the nearest one is " : "bpsmpi-check --env lists all",
		         nearest ? nearest : "");
	}
}

int bps_config_parse(struct bps_config *config, char *const *env)
{
	int result = 0;

	bps_config_defaults(config);
	for (size_t i = 0; i < BPS_CONFIG_N_ROWS; i++) {
		int r = parse_row(config, (enum bps_config_index)i, env);

		if (r)
			result = r;
	}
	warn_of_unknown(env);
	bps_foreign_report(config, env);
	return result;
}

void bps_config_format(const struct bps_config *config, enum bps_config_index index,
                       char *ret_text, size_t text_bytes)
{
	const struct bps_config_row *row = &bps_config_rows[index];
	const void *field = (const char *)config + row->offset;

	switch (row->type) {
	case BPS_CONFIG_BOOL:
		(void)snprintf(ret_text, text_bytes, "%d", *(const bool *)field);
		break;
	case BPS_CONFIG_INT:
		if (may_be_auto(row) && *(const int32_t *)field == 0)
			(void)snprintf(ret_text, text_bytes, "%s", row->def);
		else
			(void)snprintf(ret_text, text_bytes, "%" PRId32,
			               *(const int32_t *)field);
		break;
	case BPS_CONFIG_BYTES:
		if (may_be_auto(row) && *(const uint64_t *)field == 0) {
			(void)snprintf(ret_text, text_bytes, "%s", row->def);
			break;
		}
		bps_bytes_format(*(const uint64_t *)field, ret_text, text_bytes);
		break;
	case BPS_CONFIG_STRING:
		(void)snprintf(ret_text, text_bytes, "%s", (const char *)field);
		break;
	case BPS_CONFIG_WORD:
		(void)snprintf(ret_text, text_bytes, "%s",
		               row->words[*(const unsigned *)field]);
		break;
	}
}

static const char *source_name(const struct bps_config *config,
                               enum bps_config_index index)
{
	switch ((enum bps_config_source)config->source[index]) {
	case BPS_CONFIG_ENVIRONMENT:
		return "environment";
	case BPS_CONFIG_FOREIGN:
		return bps_foreign_name(index);
	case BPS_CONFIG_DEFAULT:
		break;
	}
	return "default";
}

void bps_config_print(const struct bps_config *config, FILE *out)
{
	for (size_t i = 0; i < BPS_CONFIG_N_ROWS; i++) {
		const struct bps_config_row *row = &bps_config_rows[i];
		char text[BPS_CONFIG_TEXT_BYTES];

		bps_config_format(config, (enum bps_config_index)i, text, sizeof(text));
		(void)fprintf(out, "%-28s %-16s %-8s %s\n", row->name,
		              text[0] ? text : "\"\"", row->unit[0] ? row->unit : "-",
		              source_name(config, (enum bps_config_index)i));
	}
}

const char *bps_env_get(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}
