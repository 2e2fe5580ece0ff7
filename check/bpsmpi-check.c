/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bpsmpi-check(1): looks at things before a job runs. The command line chooses reports
 * from the table below; they are made in its order.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/output.h"
#include "check/check.h"
#include "check/job/job.h"

#define LINE_BYTES 16384 /* two paths, and more */

static const char help[] =
	"usage: bpsmpi-check [--json] [--xml=FILE] [--svg=FILE]\n"
	"       bpsmpi-check --plan N K [--bandwidth=SPEC] [--xml=FILE] [--svg=FILE]\n"
	"       bpsmpi-check --program FILE\n"
	"       bpsmpi-check --env\n"
	"       mpirun ... bpsmpi-check [--measure] [--json] [--svg=FILE] [--mpi=FILE]\n"
	"\n"
	"Without options: this box, its CPUs, memory, network cards and GPUs, what this\n"
	"process may use of them, and what is wrong here. As the program of an MPI job:\n"
	"all its boxes, its servers, and what is wrong with the job.\n"
	"\n"
	"  -x, --xml=FILE        the box that this file is about; lstopo FILE.xml writes it\n"
	"  -j, --json            the box, or the job, as JSON\n"
	"  -s, --svg=FILE        also write a picture to FILE: of the box, of the job, or\n"
	"                        with --plan of N boxes like it and K servers\n"
	"  -p, --plan N K        what N boxes (2 or more) and K dedicated servers (0 or\n"
	"                        more) should each sum, how long an operation takes then,\n"
	"                        and what a ring takes\n"
	"  -b, --bandwidth=SPEC  for --plan: a rate for all links (10Gbit, 1.25GB), or a\n"
	"                        list of boxes h1 to hN and servers s1 to sK, such as\n"
	"                        'h[1-2]=1Gbit,s3=100Mbit,*=10Gbit'\n"
	"  -P, --program FILE    whether LD_PRELOAD can bring the library into this program,\n"
	"                        or into the one that runs this script\n"
	"  -m, --measure         in a job: how fast boxes and servers exchange bytes\n"
	"  -M, --mpi=FILE        in a job: the MPI library, where it is not found\n"
	"  -e, --env             each variable, its value, and where that comes from\n"
	"  -h, --help            print this\n"
	"  -V, --version         print the version\n"
	"\n"
	"Exit status: 0 fine, 1 something is wrong, 2 it could not be looked at.\n"
	"See bpsmpi-check(1).\n";

static const struct option long_options[] = {
	{ "xml", required_argument, NULL, 'x' },
	{ "json", no_argument, NULL, 'j' },
	{ "svg", required_argument, NULL, 's' },
	{ "plan", required_argument, NULL, 'p' },
	{ "bandwidth", required_argument, NULL, 'b' },
	{ "program", required_argument, NULL, 'P' },
	{ "measure", no_argument, NULL, 'm' },
	{ "mpi", required_argument, NULL, 'M' },
	{ "env", no_argument, NULL, 'e' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ 0 },
};

/* Of a job's ranks, what each would say in the same words is rank 0's to say. */
static bool silent;

/* This box, or the job whose rank this is. */
static int check_here(const struct bps_check_options *options)
{
	if (options->xml || !bps_job_launched())
		return bps_check_box(options);
	silent = false; /* from here on ranks differ */
	return bps_check_job(options);
}

static const struct report {
	char option;
	int (*make)(const struct bps_check_options *options);
} reports[] = {
	{ 'x', check_here }, /* the first: also made where none is chosen */
	{ 'p', bps_check_plan },
	{ 'P', bps_check_program },
	{ 'e', bps_check_env },
};

#define N_REPORTS (sizeof(reports) / sizeof(reports[0]))

/* A line is one write: ranks share a terminal. */
void bps_check_complain(const char *format, ...)
{
	char line[LINE_BYTES] = "bpsmpi-check: ";
	const size_t head = strlen(line), room = sizeof(line) - head - 1;
	va_list args;
	int n;

	if (silent)
		return;
	va_start(args, format);
	n = vsnprintf(line + head, room, format, args);
	va_end(args);
	if (n < 0)
		return;
	n = (size_t)n < room ? n : (int)room - 1;
	line[head + (size_t)n] = '\n';
	if (write(STDERR_FILENO, line, head + (size_t)n + 1) < 0)
		return; /* there is nobody to tell */
}

static int usage(void)
{
	if (!silent)
		fputs("try bpsmpi-check --help\n", stderr);
	return BPS_CHECK_CANNOT;
}

static int make_reports(const bool *wanted, const struct bps_check_options *options)
{
	int worst = BPS_CHECK_FINE;

	for (size_t i = 0; i < N_REPORTS; i++) {
		int status = wanted[i] ? reports[i].make(options) : BPS_CHECK_FINE;

		if (status > worst)
			worst = status;
	}
	if (bps_output_end("bpsmpi-check"))
		return BPS_CHECK_WRONG;
	return worst == BPS_CHECK_USAGE ? usage() : worst;
}

/* Reports besides that on the box or the job. */
static bool wants_others(const bool *wanted)
{
	for (size_t i = 1; i < N_REPORTS; i++)
		if (wanted[i])
			return true;
	return false;
}

/* What is left on the command line is the K of --plan N K. */
static bool take_words(int n_words, char **words, struct bps_check_options *options)
{
	if (options->n_boxes && n_words > 0) {
		options->n_servers = words[0];
		n_words--;
		words++;
	}
	if (n_words > 0)
		bps_check_complain("'%s' is more than was expected", words[0]);
	else if (options->n_boxes && !options->n_servers)
		bps_check_complain("--plan %s: how many dedicated servers? type "
		                   "bpsmpi-check --plan %s K, where K may be 0",
		                   options->n_boxes, options->n_boxes);
	else if ((options->measure || options->mpi) && !bps_job_launched())
		bps_check_complain("%s is for jobs; type mpirun ... bpsmpi-check %s",
		                   options->measure ? "--measure" : "--mpi",
		                   options->measure ? "--measure" : "--mpi FILE");
	else if (options->bandwidth && !options->n_boxes)
		bps_check_complain("--bandwidth belongs to --plan N K");
	else
		return true;
	return false;
}

/* Nothing is no file, and no number: a variable of the user's was empty. */
static bool has_argument(int option)
{
	const struct option *row = long_options;

	while (row->val != option)
		row++;
	if (!row->has_arg || optarg[0])
		return true;
	bps_check_complain("--%s: what stands behind it is empty", row->name);
	return false;
}

static void take_option(int option, struct bps_check_options *options)
{
	if (option == 'b')
		options->bandwidth = optarg;
	if (option == 'j')
		options->json = true;
	if (option == 'm')
		options->measure = true;
	if (option == 'M')
		options->mpi = optarg;
	if (option == 'p')
		options->n_boxes = optarg;
	if (option == 'P')
		options->program = optarg;
	if (option == 's')
		options->svg = optarg;
	if (option == 'x')
		options->xml = optarg;
}

/* Whether the reports that are wanted can do what the other options say. */
static bool fit_together(const bool *wanted, const struct bps_check_options *options)
{
	const bool of_job = wanted[0] && !options->xml, others = wants_others(wanted);

	if (options->json && others)
		bps_check_complain("--json shows the box alone");
	else if (options->svg && !options->n_boxes && others && !wanted[0])
		bps_check_complain("--svg draws the box, or what --plan N K is about; "
		                   "leave the other reports out");
	else if ((options->measure || options->mpi) && !of_job)
		bps_check_complain("%s belongs to the report on a job; leave %s out",
		                   options->measure ? "--measure" : "--mpi",
		                   options->xml ? "--xml" : "the other reports");
	else
		return true;
	return false;
}

int main(int argc, char **argv)
{
	struct bps_check_options options = { 0 };
	bool wanted[N_REPORTS] = { false }, none[N_REPORTS] = { false };
	int option;

	silent = bps_job_launched() && !bps_job_is_first();
	opterr = !silent;
	while ((option = getopt_long(argc, argv, "x:js:p:b:P:mM:ehV", long_options,
	                             NULL)) != -1) {
		if (option == 'h' || option == 'V') {
			if (!silent)
				fputs(option == 'h' ? help
				                    : "bpsmpi-check " BPS_VERSION "\n",
				      stdout);
			return make_reports(none, &options);
		}
		if (option == '?' || !has_argument(option))
			return usage();
		take_option(option, &options);
		for (size_t i = 0; i < N_REPORTS; i++)
			wanted[i] |= reports[i].option == option;
	}
	if (!take_words(argc - optind, argv + optind, &options))
		return usage();
	wanted[0] |= !wants_others(wanted);
	if (!fit_together(wanted, &options))
		return usage();
	if (silent && (!wanted[0] || options.xml))
		return BPS_CHECK_FINE;
	return make_reports(wanted, &options);
}
