/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bpsmpi-check(1): looks at things before a job runs. The command line chooses reports
 * from the table below; they are made in its order.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "tools/check-job.h"
#include "tools/check.h"

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

/* This box, or the job whose rank this is. */
static int check_here(const struct bps_check_options *options)
{
	if (options->xml || !bps_job_launched())
		return bps_check_box(options);
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

void bps_check_complain(const char *format, ...)
{
	va_list args;

	fputs("bpsmpi-check: ", stderr);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

static int usage(void)
{
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
	if (fflush(stdout) || ferror(stdout)) {
		bps_check_complain("cannot write: %m");
		return BPS_CHECK_WRONG;
	}
	return worst == BPS_CHECK_USAGE ? usage() : worst;
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

int main(int argc, char **argv)
{
	struct bps_check_options options = { 0 };
	bool wanted[N_REPORTS] = { false }, others = false;
	int option;

	while ((option = getopt_long(argc, argv, "x:js:p:b:P:mM:ehV", long_options,
	                             NULL)) != -1) {
		if (option == 'h' || option == 'V') {
			fputs(option == 'h' ? help : "bpsmpi-check " BPS_VERSION "\n",
			      stdout);
			return make_reports(wanted, &options);
		}
		if (option == '?')
			return usage();
		take_option(option, &options);
		for (size_t i = 0; i < N_REPORTS; i++)
			wanted[i] |= reports[i].option == option;
	}
	if (!take_words(argc - optind, argv + optind, &options))
		return usage();
	for (size_t i = 1; i < N_REPORTS; i++)
		others |= wanted[i];
	if (options.json && others) {
		bps_check_complain("--json shows the box alone");
		return usage();
	}
	if (options.svg && !options.n_boxes && others && !wanted[0]) {
		bps_check_complain("--svg draws the box, or what --plan N K is about; "
		                   "leave the other reports out");
		return usage();
	}
	wanted[0] |= !others;
	return make_reports(wanted, &options);
}
