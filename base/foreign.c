/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/foreign.h"

#include "base/hostlist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct bps_foreign bps_foreign[BPS_FOREIGN_N] = {
#define BPS_FOREIGN(field_, name_, help_)       \
	{                                       \
		.name = #name_,                 \
		.help = (help_),                \
		.row = BPS_CONFIG_ROW_##field_, \
	},
#include "base/foreign.def"
#undef BPS_FOREIGN
};

#define NUM_SERVER "DMLC_NUM_SERVER"

/* Names with commas between them; what does not fit is left out. */
struct names {
	char text[768];
	size_t used;
};

static void add_text(struct names *names, const char *text, size_t n_chars)
{
	if (n_chars >= sizeof(names->text) - names->used)
		return;
	memcpy(names->text + names->used, text, n_chars);
	names->used += n_chars;
	names->text[names->used] = '\0';
}

static void add_name(struct names *names, const char *name, size_t n_chars)
{
	if (names->used)
		add_text(names, ", ", 2);
	add_text(names, name, n_chars);
}

static bool is_set(char *const *env, const char *name)
{
	const char *text = bps_env_get(env, name);

	return text && text[0];
}

const char *bps_foreign_name(enum bps_config_index row)
{
	for (size_t i = 0; i < BPS_FOREIGN_N; i++)
		if (bps_foreign[i].row == row)
			return bps_foreign[i].name;
	return NULL;
}

/* Those whose row has its value from @source. */
static void report_known(const struct bps_config *config, char *const *env,
                         enum bps_config_source source, const char *what)
{
	struct names names = { 0 };

	for (size_t i = 0; i < BPS_FOREIGN_N; i++) {
		const struct bps_foreign *foreign = &bps_foreign[i];
		char pair[128];

		if (config->source[foreign->row] != source || !is_set(env, foreign->name))
			continue;
		(void)snprintf(pair, sizeof(pair), "%s (%s)",
		               bps_config_rows[foreign->row].name, foreign->name);
		add_name(&names, pair, strlen(pair));
	}
	if (names.used)
		bps_info("%s: %s", what, names.text);
}

static bool is_known(const char *name, size_t n_chars, const struct bps_config *config)
{
	for (size_t i = 0; i < BPS_FOREIGN_N; i++)
		if (strlen(bps_foreign[i].name) == n_chars &&
		    memcmp(bps_foreign[i].name, name, n_chars) == 0)
			return true;
	return config->servers[0] && n_chars == strlen(NUM_SERVER) &&
	       memcmp(name, NUM_SERVER, n_chars) == 0;
}

static bool is_byteps(const char *name)
{
	return strncmp(name, "BYTEPS_", 7) == 0 || strncmp(name, "DMLC_", 5) == 0;
}

static void report_others(const struct bps_config *config, char *const *env)
{
	struct names names = { 0 };

	for (; env && *env; env++) {
		size_t n = strcspn(*env, "=");

		if (is_byteps(*env) && !is_known(*env, n, config))
			add_name(&names, *env, n);
	}
	if (names.used)
		bps_info("of BytePS's variables these mean nothing here: %s; see "
		         "bpsmpi-env(7)",
		         names.text);
}

/* A list that cannot be read is for the one who uses it to complain about. */
static void check_n_servers(const struct bps_config *config, char *const *env)
{
	const char *text = bps_env_get(env, NUM_SERVER);
	struct bps_hostlist list;
	char error[256];

	if (!text || !text[0] || !config->servers[0] ||
	    bps_hostlist_parse("BPSMPI_SERVERS", config->servers, 1, &list, error,
	                       sizeof(error)))
		return;
	if (strtoul(text, NULL, 10) != list.n_hosts)
		bps_warn("BPSMPI_SERVERS names %u server%s, which is what counts; "
		         "DMLC_NUM_SERVER is %.20s",
		         list.n_hosts, list.n_hosts == 1 ? "" : "s", text);
	bps_hostlist_deinit(&list);
}

void bps_foreign_report(const struct bps_config *config, char *const *env)
{
	if (!config->enable)
		return;
	if (config->log >= BPS_LOG_WARN)
		check_n_servers(config, env);
	if (config->log < BPS_LOG_INFO)
		return;
	report_known(config, env, BPS_CONFIG_FOREIGN,
	             "set by the name that BytePS has for it");
	report_known(config, env, BPS_CONFIG_ENVIRONMENT,
	             "BytePS's name gives way to ours, which is set too");
	report_others(config, env);
}
