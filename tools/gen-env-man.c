/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints the scdoc source of bpsmpi-env(7), made from the table of variables. Run by the
 * build; nothing about a variable is written by hand elsewhere.
 */
#include "base/config.h"
#include "base/foreign.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char intro[] =
	"bpsmpi-env(7) \"bytepsmpi\"\n"
	"\n"
	"# NAME\n"
	"\n"
	"bpsmpi-env - the environment variables of bytepsmpi\n"
	"\n"
	"# DESCRIPTION\n"
	"\n"
	"The preloaded library reads these variables once, in MPI\\_Init; the values of rank "
	"0 rule the job. bpsmpi-server(8) reads those that concern servers when it starts. "
	"A variable that is set to nothing counts as not set.\n"
	"\n"
	"A value that is out of its range is an error: one line says what is allowed, and the "
	"job runs with the MPI library alone. A variable whose name begins with BPSMPI\\_ and "
	"that is not listed here is reported, together with the nearest name if one is near.\n"
	"\n"
	"In lists a comma stands between two items; one with nothing on one side is an error, "
	"since there a name is missing.\n"
	"\n"
	"Sizes may end in K, M, G or T, which stand for powers of 1024. Switches take 0 or "
	"1, no or yes, off or on, false or true.\n"
	"\n"
	"# VARIABLES\n"
	"\n";

static const char foreign_intro[] =
	"# VARIABLES OF BYTEPS\n"
	"\n"
	"Where BytePS has a variable of the same meaning, its name counts too, unless ours "
	"is set; one line says which names were used. A value that cannot be used here is a "
	"warning.\n"
	"\n";

static const char foreign_outro[] =
	"*DMLC\\_NUM\\_SERVER*\n"
	"\tCompared with the number of hosts in BPSMPI\\_SERVERS, where that is set; a "
	"difference is a warning.\n"
	"\n"
	"All others whose names begin with BYTEPS\\_ or DMLC\\_ mean nothing here, and one "
	"line names those that are set. BYTEPS\\_SCHEDULING\\_CREDIT is one of them: it "
	"bounds what one machine sums among its own GPUs, not what is under way to a "
	"server; that is BPSMPI\\_WINDOW\\_BYTES.\n"
	"\n";

static const char outro[] = "# SEE ALSO\n"
			    "\n"
			    "*bytepsmpi*(7), *bpsmpi-check*(1), *bpsmpi-server*(8)\n";

/* Text as scdoc shows it unchanged. */
static void put_escaped(const char *text)
{
	for (; *text; text++) {
		if (strchr("\\*_#~+", *text))
			putchar('\\');
		putchar(*text);
	}
}

static void put_range(const struct bps_config_row *row)
{
	char min[24], max[24], words[128];

	switch (row->type) {
	case BPS_CONFIG_INT:
		printf(" Range: %" PRId64 " to %" PRId64 ".", row->min, row->max);
		break;
	case BPS_CONFIG_BYTES:
		bps_bytes_format((uint64_t)row->min, min, sizeof(min));
		bps_bytes_format((uint64_t)row->max, max, sizeof(max));
		printf(" Range: %s to %s.", min, max);
		break;
	case BPS_CONFIG_STRING:
		printf(" At most %" PRId64 " characters.", row->max - 1);
		break;
	case BPS_CONFIG_WORD:
		bps_config_words(row, " and ", words, sizeof(words));
		printf(" One of %s.", words);
		break;
	case BPS_CONFIG_BOOL:
		break;
	}
}

static void put_row(const struct bps_config_row *row)
{
	printf("*");
	put_escaped(row->name);
	printf("*");
	if (row->unit[0])
		printf(" (%s)", row->unit);
	printf("\n\t");
	put_escaped(row->help);
	printf(".\n\n\tDefault: ");
	put_escaped(row->def[0] ? row->def : "empty");
	printf(".");
	put_range(row);
	printf("\n\n");
}

static void put_foreign(const struct bps_foreign *foreign)
{
	printf("*");
	put_escaped(foreign->name);
	printf("*\n\tIs ");
	put_escaped(bps_config_rows[foreign->row].name);
	printf("; ");
	put_escaped(foreign->help);
	printf(".\n\n");
}

int main(void)
{
	fputs(intro, stdout);
	for (size_t i = 0; i < BPS_CONFIG_N_ROWS; i++)
		put_row(&bps_config_rows[i]);
	fputs(foreign_intro, stdout);
	for (size_t i = 0; i < BPS_FOREIGN_N; i++)
		put_foreign(&bps_foreign[i]);
	fputs(foreign_outro, stdout);
	fputs(outro, stdout);
	return fflush(stdout) || ferror(stdout);
}
