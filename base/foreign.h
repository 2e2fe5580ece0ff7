/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The variables of BytePS that are honoured where ours are not set. Used by the parser of
 * the configuration; the tools that print the configuration name them too.
 */
#pragma once

#include "base/config.h"

struct bps_foreign {
	const char *name; /* BytePS's */
	const char *help;
	enum bps_config_index row; /* what it is called here */
};

enum {
#define BPS_FOREIGN(field, ...) BPS_FOREIGN_##field,
#include "base/foreign.def"
#undef BPS_FOREIGN
	BPS_FOREIGN_N
};

extern const struct bps_foreign bps_foreign[BPS_FOREIGN_N];

/** bps_foreign_name() - BytePS's name for a variable of ours; NULL: it has none. */
const char *bps_foreign_name(enum bps_config_index row);

/**
 * bps_foreign_report() - say which of BytePS's variables in @env are taken, which give
 * way to ours, and which mean nothing here: at most a line each, as infos that @config
 * wants or not. A warning where DMLC_NUM_SERVER is not the number of hosts in
 * BPSMPI_SERVERS.
 * @config: complete, made from @env
 */
void bps_foreign_report(const struct bps_config *config, char *const *env);
