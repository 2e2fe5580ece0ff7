/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job as JSON. What the schema says is in bpsmpi-check(1); whoever adds a field leaves
 * its version alone, whoever changes or removes one raises it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/check-job-impl.h"
#include "topology/boxes.h"

#define SCHEMA     1
#define CPUS_BYTES (5 * BPS_CPU_MAX)

/* Text in quotes; "" is null. What is not printable ASCII did not come this far. */
static void print_text(const char *text)
{
	if (!text || !text[0]) {
		fputs("null", stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text == '\n' ? ' ' : *text);
	}
	putchar('"');
}

static void print_field(const char *name, const char *text)
{
	printf("\"%s\": ", name);
	print_text(text);
}

/* A number that is not known is null. */
static void print_rate(const char *name, double value)
{
	if (value > 0)
		printf("\"%s\": %.0f", name, value);
	else
		printf("\"%s\": null", name);
}

/* Between two elements of an array, and before its end. */
static void next(uint32_t i, uint32_t n)
{
	fputs(i < n ? (i ? ",\n    " : "\n    ") : (n ? "\n  ]" : "]"), stdout);
}

/* Lines as an array of texts. */
static void print_lines(const char *name, const char *lines)
{
	char *copy = strdup(lines ? lines : ""), *rest = NULL;
	const char *between = "";

	printf("\"%s\": [", name);
	for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		fputs(between, stdout);
		print_text(line);
		between = ", ";
	}
	putchar(']');
	free(copy);
}

static void print_ranks(const struct bps_job *job)
{
	static char cpus[CPUS_BYTES];

	fputs(",\n  \"ranks\": [", stdout);
	for (uint32_t r = 0; r < job->size; r++) {
		const struct bps_job_rank *rank = &job->ranks[r];

		next(r, job->size);
		bps_cpuset_format(&rank->cpus, cpus, sizeof(cpus));
		printf("{\"box\": %u, \"cpus\": \"%s\", \"preloaded\": %s, ", rank->box,
		       cpus, rank->preload == BPS_PRELOAD_CARRIED ? "true" : "false");
		print_field("library", rank->library);
		fputs(", ", stdout);
		print_field("version", rank->version);
		fputs(", ", stdout);
		print_field("mpi", rank->mpi);
		putchar('}');
	}
	next(job->size, job->size);
}

static void print_boxes(const struct bps_job *job)
{
	const uint32_t common = bps_job_common(job);

	fputs(",\n  \"boxes\": [", stdout);
	for (uint32_t b = 0; b < job->n_boxes; b++) {
		const struct bps_job_box *box = &job->boxes[b];
		char *text = bps_job_difference(box, &job->boxes[common]);

		next(b, job->n_boxes);
		putchar('{');
		print_field("host", box->host);
		printf(", \"like\": %u, \"common\": %u, ", box->like, common);
		print_lines("differs", text);
		fputs(", \"interfaces\": [", stdout);
		for (uint32_t i = 0; i < box->n_nics; i++) {
			fputs(i ? ", " : "", stdout);
			print_text(box->nics[i]);
		}
		fputs("],\n    \"machine\": ", stdout);
		bps_box_print_json(box->machine, NULL);
		putchar('}');
		free(text);
	}
	next(job->n_boxes, job->n_boxes);
}

/* -- servers -- */

static const char *const answers[BPS_DOCTOR_N_ANSWERS] = {
	[BPS_DOCTOR_FINE] = "fine",
	[BPS_DOCTOR_NO_NAME] = "no name",
	[BPS_DOCTOR_REFUSED] = "refused",
	[BPS_DOCTOR_TIMED_OUT] = "timed out",
	[BPS_DOCTOR_UNREACHABLE] = "unreachable",
	[BPS_DOCTOR_SILENT] = "silent",
	[BPS_DOCTOR_STUCK] = "large packets lost",
	[BPS_DOCTOR_FOREIGN] = "foreign",
	[BPS_DOCTOR_PROTOCOL] = "other protocol",
	[BPS_DOCTOR_SOFTWARE] = "other version",
	[BPS_DOCTOR_REJECTS] = "rejects",
};

static void print_servers(const struct bps_job *job)
{
	const uint32_t n = job->charter.n_hosts;

	fputs(",\n  \"servers\": [", stdout);
	for (uint32_t s = 0; s < n; s++) {
		next(s, n);
		putchar('{');
		print_field("name", job->boxes[0].servers[s].name);
		fputs(", \"answers\": [", stdout);
		for (uint32_t b = 0; b < job->n_boxes; b++) {
			const struct bps_doctor_server *server =
				bps_job_server_answer(job, b, s);

			printf("%s{\"answer\": \"%s\", ", b ? ", " : "",
			       answers[server->answer]);
			print_field("detail", server->detail);
			fputs(", ", stdout);
			print_rate("round_trip_ns", (double)server->round_trip_ns);
			putchar('}');
		}
		fputs("]}", stdout);
	}
	next(n, n);
}

/* -- links and the plan -- */

static void print_links(const struct bps_job *job)
{
	static const char *const sources[BPS_RATE_N_SOURCES] = {
		[BPS_RATE_UNKNOWN] = "unknown",
		[BPS_RATE_KERNEL] = "kernel",
		[BPS_RATE_MEASURED] = "measured",
		[BPS_RATE_SAID] = "said",
	};
	const uint32_t n = job->n_boxes + job->charter.n_hosts;

	fputs(",\n  \"links\": [", stdout);
	for (uint32_t i = 0; i < n; i++) {
		next(i, n);
		putchar('{');
		print_field(i < job->n_boxes ? "box" : "server",
		            i < job->n_boxes
		                    ? job->boxes[i].host
		                    : job->boxes[0].servers[i - job->n_boxes].name);
		fputs(", ", stdout);
		print_rate("bytes_per_s", job->links[i].bytes_per_s);
		printf(", \"source\": \"%s\"}", sources[job->links[i].source]);
	}
	next(n, n);
}

static void print_exchanges(const struct bps_job *job)
{
	const struct bps_job_rates *rates = &job->rates;
	const char *between = "\n    ";

	fputs(",\n  \"exchanges\": [", stdout);
	for (uint32_t b = 0; b < job->n_boxes; b++)
		for (uint32_t i = 0; i < rates->n_rounds; i++) {
			const uint32_t at = b * rates->n_rounds + i;
			uint32_t other;

			if (!bps_job_partner(job->n_boxes, job->charter.n_hosts, b, i,
			                     &other))
				continue;
			printf("%s{\"box\": %u, \"%s\": %u, ", between, b,
			       job->charter.n_hosts ? "server" : "other", other);
			print_rate("alone", (double)rates->alone[at]);
			fputs(", ", stdout);
			print_rate("together", (double)rates->together[at]);
			putchar('}');
			between = ",\n    ";
		}
	next(rates->n_rounds, rates->n_rounds);
}

static void print_shares(const char *name, const double *shares, uint32_t n)
{
	printf(", \"%s\": [", name);
	for (uint32_t i = 0; i < n; i++)
		printf("%s%.9g", i ? ", " : "", shares[i]);
	putchar(']');
}

static void print_plan(const struct bps_job *job)
{
	const struct bps_job_plan *plan = &job->plan;
	const uint32_t n_servers = job->charter.n_hosts;

	fputs(",\n  \"plan\": ", stdout);
	if (!plan->made) {
		fputs("null", stdout);
		return;
	}
	printf("{\"runs\": %s, \"known\": %s, \"allreduce\": %.9g, \"broadcast\": %.9g, "
	       "\"ring\": %.9g, \"gain\": %.9g,\n    \"s_per_byte\": ",
	       plan->runs ? "true" : "false", plan->known ? "true" : "false",
	       plan->allreduce_s / plan->slowest_s, plan->bcast_s / plan->slowest_s,
	       plan->ring_s / plan->slowest_s, plan->ring_s / plan->allreduce_s);
	if (plan->known)
		printf("%.9g", plan->allreduce_s);
	else
		fputs("null", stdout);
	print_shares("servers", plan->shares, n_servers);
	print_shares("boxes", plan->shares + n_servers, job->n_boxes);
	putchar('}');
}

/* -- findings -- */

static void print_findings(const struct bps_job *job)
{
	const struct bps_job_findings *findings = &job->findings;

	fputs(",\n  \"findings\": [", stdout);
	for (uint32_t i = 0; i < findings->n; i++) {
		const struct bps_job_finding *finding = &findings->list[i];

		next(i, findings->n);
		putchar('{');
		print_field("check", finding->check);
		fputs(", \"boxes\": [", stdout);
		for (uint32_t b = 0; b < finding->n_boxes; b++)
			printf("%s%u", b ? ", " : "", finding->boxes[b]);
		fputs("], ", stdout);
		print_field("found", finding->found);
		fputs(", ", stdout);
		print_field("cost", finding->cost);
		fputs(", ", stdout);
		print_field("remedy", finding->remedy);
		fputs(", ", stdout);
		print_lines("type", finding->types);
		putchar('}');
	}
	next(findings->n, findings->n);
}

void bps_job_print_json(const struct bps_job *job)
{
	printf("{\n  \"schema\": \"bpsmpi-check job\",\n  \"version\": %d,\n  ", SCHEMA);
	printf("\"n_ranks\": %u,\n  \"n_boxes\": %u,\n  ", job->size, job->n_boxes);
	print_field("bytepsmpi", BPS_VERSION);
	print_ranks(job);
	print_boxes(job);
	print_servers(job);
	print_links(job);
	print_exchanges(job);
	print_plan(job);
	print_findings(job);
	fputs("\n}\n", stdout);
}
