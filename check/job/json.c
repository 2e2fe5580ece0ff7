/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job as JSON. What the schema says is in bpsmpi-check(1); whoever adds a field leaves
 * its version alone, whoever changes or removes one raises it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "check/box/impl.h"
#include "check/job/impl.h"
#include "topology/boxes.h"

#define SCHEMA     1
#define CPUS_BYTES (5 * BPS_CPU_MAX)

/* Lines as an array of texts. */
static void print_lines(const char *name, const char *lines)
{
	char *copy = strdup(lines ? lines : ""), *rest = NULL;
	const char *between = "";

	printf("\"%s\": [", name);
	for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		fputs(between, stdout);
		bps_json_text(line);
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

		bps_json_next(r, job->size);
		bps_cpuset_format(&rank->cpus, cpus, sizeof(cpus));
		printf("{\"box\": %u, \"cpus\": \"%s\", \"preloaded\": %s, ", rank->box,
		       cpus, rank->preload == BPS_PRELOAD_CARRIED ? "true" : "false");
		bps_json_field("library", rank->library);
		fputs(", ", stdout);
		bps_json_field("version", rank->version);
		fputs(", ", stdout);
		bps_json_field("mpi", rank->mpi);
		putchar('}');
	}
	bps_json_next(job->size, job->size);
}

static void print_machine(const struct bps_job *job, const struct bps_job_box *box)
{
	struct bps_box_plan plan;
	const bool made = bps_job_place(job, box, &plan) == 0;

	bps_box_print_json(box->machine, made ? &plan : NULL);
	bps_box_plan_deinit(&plan);
}

static void print_boxes(const struct bps_job *job)
{
	const uint32_t common = bps_job_common(job);

	fputs(",\n  \"boxes\": [", stdout);
	for (uint32_t b = 0; b < job->n_boxes; b++) {
		const struct bps_job_box *box = &job->boxes[b];
		char *text = bps_job_difference(job, box, &job->boxes[common]);

		bps_json_next(b, job->n_boxes);
		putchar('{');
		bps_json_field("host", bps_job_host(job, b));
		printf(", \"like\": %u, \"common\": %u, ", box->like, common);
		print_lines("differs", text);
		fputs(", \"interfaces\": [", stdout);
		for (uint32_t i = 0; i < box->n_nics; i++) {
			fputs(i ? ", " : "", stdout);
			bps_json_text(box->nics[i]);
		}
		fputs("],\n    \"machine\": ", stdout);
		print_machine(job, box);
		putchar('}');
		free(text);
	}
	bps_json_next(job->n_boxes, job->n_boxes);
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
		bps_json_next(s, n);
		putchar('{');
		bps_json_field("name", job->boxes[0].servers[s].name);
		fputs(", \"answers\": [", stdout);
		for (uint32_t b = 0; b < job->n_boxes; b++) {
			const struct bps_doctor_server *server =
				bps_job_server_answer(job, b, s);

			printf("%s{\"answer\": \"%s\", ", b ? ", " : "",
			       answers[server->answer]);
			bps_json_field("detail", server->detail);
			fputs(", ", stdout);
			bps_json_rate("round_trip_ns", (double)server->round_trip_ns);
			putchar('}');
		}
		fputs("]}", stdout);
	}
	bps_json_next(n, n);
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
		bps_json_next(i, n);
		putchar('{');
		bps_json_field(i < job->n_boxes ? "box" : "server",
		               i < job->n_boxes
		                       ? bps_job_host(job, i)
		                       : job->boxes[0].servers[i - job->n_boxes].name);
		fputs(", ", stdout);
		bps_json_rate("bytes_per_s", job->links[i].bytes_per_s);
		printf(", \"source\": \"%s\", \"link\": %u}",
		       sources[job->links[i].source], job->on[i]);
	}
	bps_json_next(n, n);
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

			if (!bps_job_partner(job, b, i, &other))
				continue;
			printf("%s{\"box\": %u, \"%s\": %u, ", between, b,
			       job->charter.n_hosts ? "server" : "other", other);
			bps_json_rate("alone", (double)rates->alone[at]);
			fputs(", ", stdout);
			bps_json_rate("together", (double)rates->together[at]);
			putchar('}');
			between = ",\n    ";
		}
	bps_json_next(rates->n_rounds, rates->n_rounds);
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

		bps_json_next(i, findings->n);
		putchar('{');
		bps_json_field("check", finding->check);
		fputs(", \"boxes\": [", stdout);
		for (uint32_t b = 0; b < finding->n_boxes; b++)
			printf("%s%u", b ? ", " : "", finding->boxes[b]);
		fputs("], ", stdout);
		bps_json_field("found", finding->found);
		fputs(", ", stdout);
		bps_json_field("cost", finding->cost);
		fputs(", ", stdout);
		bps_json_field("remedy", finding->remedy);
		fputs(", ", stdout);
		print_lines("type", finding->types);
		putchar('}');
	}
	bps_json_next(findings->n, findings->n);
}

void bps_job_print_json(const struct bps_job *job)
{
	printf("{\n  \"schema\": \"bpsmpi-check job\",\n  \"version\": %d,\n  ", SCHEMA);
	printf("\"n_ranks\": %u,\n  \"n_boxes\": %u,\n  ", job->size, job->n_boxes);
	bps_json_field("bytepsmpi", BPS_VERSION);
	print_ranks(job);
	print_boxes(job);
	print_servers(job);
	print_links(job);
	print_exchanges(job);
	print_plan(job);
	print_findings(job);
	fputs("\n}\n", stdout);
}
