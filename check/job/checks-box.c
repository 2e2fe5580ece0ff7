/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks that look at one box among those of a job, and at what is between them. */
#include <stdlib.h>
#include <string.h>

#include "check/job/impl.h"
#include "topology/bandwidth.h"

#define PATH_PART                                                            \
	0.5 /* of what both ends carry with others; less is the path's fault \
	     */

/* -- MTU -- */

static uint32_t mtu_of(const struct bps_job *job, uint32_t box, const char *name)
{
	const struct bps_machine_nic *nic = bps_job_nic(&job->boxes[box], name);

	return nic ? nic->mtu : 0;
}

/* That of most boxes, of as many the first one's. */
static uint32_t usual_mtu(const struct bps_job *job, const char *name)
{
	uint32_t best = 0, most = 0;

	for (uint32_t b = 0; b < job->n_boxes; b++) {
		uint32_t mtu = mtu_of(job, b, name), n = 0;

		for (uint32_t i = 0; i < job->n_boxes && mtu; i++)
			n += mtu_of(job, i, name) == mtu;
		if (n > most) {
			most = n;
			best = mtu;
		}
	}
	return best;
}

void bps_job_check_mtu(const struct bps_job *job, uint32_t box,
                       struct bps_doctor_report *report)
{
	const struct bps_job_box *of = &job->boxes[box];

	report->check = "mtu";
	for (uint32_t i = 0; i < of->n_nics; i++) {
		const char *name = of->nics[i];
		uint32_t mtu = mtu_of(job, box, name), usual = usual_mtu(job, name);

		if (!mtu || mtu == usual)
			continue;
		bps_doctor_found(report, "%s has MTU %u, that of other boxes is %u", name,
		                 mtu, usual);
		bps_doctor_cost(report,
		                "TCP agrees on the smaller packets: more of them, "
		                "and more CPU time, for the same bytes. What does "
		                "not agree (RDMA, a switch on the way) drops the "
		                "larger ones, and connections hang");
		bps_doctor_remedy(report,
		                  "give all boxes, and the switches between them, "
		                  "the same:");
		bps_doctor_type(report, "ip link set %s mtu %u", name, usual);
	}
}

/* -- links -- */

static const char *const sources[BPS_RATE_N_SOURCES] = {
	[BPS_RATE_KERNEL] = "as the kernel says",
	[BPS_RATE_MEASURED] = "measured",
	[BPS_RATE_SAID] = "as BPSMPI_BANDWIDTH says",
};

static void report_remedy(const struct bps_job_link *link, const char *type,
                          struct bps_doctor_report *report)
{
	if (link->source == BPS_RATE_SAID) {
		bps_doctor_remedy(report, "give it a faster link, or have the job do "
		                          "without it; if it is not that slow, correct "
		                          "BPSMPI_BANDWIDTH. How fast it is says:");
		bps_doctor_type(report, "mpirun ... bpsmpi-check --measure");
	} else {
		bps_doctor_remedy(report, "what it negotiated, errors, and what else "
		                          "uses it, say there:");
		bps_doctor_type(report, "%s", type);
	}
}

void bps_job_check_link(const struct bps_job *job, uint32_t box,
                        struct bps_doctor_report *report)
{
	const struct bps_job_link *link = &job->links[box];
	double usual = bps_job_median_rate(job->links, job->n_boxes);
	char rate[BPS_RATE_CHARS], others[BPS_RATE_CHARS], type[80];
	const char *nic = job->boxes[box].n_nics ? job->boxes[box].nics[0] : "eth0";

	report->check = "link";
	if (!bps_job_is_slow(link, usual))
		return;
	bps_doctor_found(report, "its link carries %s (%s), those of other boxes %s",
	                 bps_rate_format(link->bytes_per_s, rate), sources[link->source],
	                 bps_rate_format(usual, others));
	bps_doctor_cost(report, "each allreduce takes %.2f times as long, on all boxes",
	                bps_job_slower(job, box, usual));
	(void)snprintf(type, sizeof(type), "ethtool %s; ip -s link show %s", nic, nic);
	report_remedy(link, type, report);
}

static void check_server_links(const struct bps_job *job,
                               struct bps_doctor_report *report)
{
	const struct bps_job_link *links = job->links + job->n_boxes;
	const uint32_t n = job->charter.n_hosts;
	double usual = bps_job_median_rate(links, n);

	for (uint32_t s = 0; s < n; s++) {
		char rate[BPS_RATE_CHARS], others[BPS_RATE_CHARS];

		if (!bps_job_is_slow(&links[s], usual))
			continue;
		bps_doctor_found(report,
		                 "the link of server %s carries %s (%s), those of "
		                 "other servers %s",
		                 job->boxes[0].servers[s].name,
		                 bps_rate_format(links[s].bytes_per_s, rate),
		                 sources[links[s].source],
		                 bps_rate_format(usual, others));
		bps_doctor_cost(report, "it gets a smaller share, the others sum more");
		report_remedy(&links[s], "ip -s link", report);
	}
}

/* An exchange that was slow though both ends are fast with others. */
static void check_paths(const struct bps_job *job, struct bps_doctor_report *report)
{
	const struct bps_job_rates *rates = &job->rates;
	const uint32_t n_servers = job->charter.n_hosts;

	for (uint32_t b = 0; b < job->n_boxes; b++)
		for (uint32_t i = 0; n_servers && i < rates->n_rounds; i++) {
			double rate = (double)rates->alone[b * rates->n_rounds + i],
			       least;
			char text[BPS_RATE_CHARS], ends[BPS_RATE_CHARS];
			uint32_t s;

			if (!bps_job_partner(job, b, i, &s))
				continue;
			least = bps_job_fastest(job, b);
			if (bps_job_fastest(job, job->n_boxes + s) < least)
				least = bps_job_fastest(job, job->n_boxes + s);
			if (rate == 0 || rate >= PATH_PART * least)
				continue;
			bps_doctor_found(report,
			                 "%s and server %s exchange %s, either "
			                 "with others %s or more",
			                 job->boxes[b].host,
			                 job->boxes[0].servers[s].name,
			                 bps_rate_format(rate, text),
			                 bps_rate_format(least, ends));
			bps_doctor_cost(report, "all boxes wait for what goes that way");
			bps_doctor_remedy(report, "see which way packets take, and "
			                          "where they are lost, on the box:");
			bps_doctor_type(report, "tracepath %s",
			                job->charter.hosts[s].name);
		}
}

/* What all exchange at once, against what their links carry one by one. */
static void check_together(const struct bps_job *job, struct bps_doctor_report *report)
{
	const double sum = bps_job_at_once(job, job->rates.together);
	const double most = bps_job_one_by_one(job);
	char rate[BPS_RATE_CHARS], carried[BPS_RATE_CHARS];

	if (!bps_job_is_crowded(job))
		return;
	bps_doctor_found(report,
	                 "all at once boxes and servers exchange %s; their links "
	                 "carry %s",
	                 bps_rate_format(sum, rate), bps_rate_format(most, carried));
	bps_doctor_cost(report,
	                "an allreduce, in which all of them exchange at once, "
	                "takes up to %.1f times as long as the plan says",
	                most / sum);
	bps_doctor_remedy(report, "a switch that carries less than its ports, or that "
	                          "drops packets, is between them, others use it, or "
	                          "cores are busy. Packets that were sent again are "
	                          "counted on each box:");
	bps_doctor_type(report, "nstat -az TcpRetransSegs");
}

void bps_job_check_network(const struct bps_job *job, struct bps_doctor_report *report)
{
	report->check = "network";
	if (job->rates.why[0]) {
		bps_doctor_found(report, "a measurement failed: %s", job->rates.why);
		bps_doctor_cost(report,
		                "what is known of the links is not all that there "
		                "is to know");
		bps_doctor_remedy(report, "mend what it says, and measure again:");
		bps_doctor_type(report, "mpirun ... bpsmpi-check --measure");
	}
	check_server_links(job, report);
	check_paths(job, report);
	check_together(job, report);
}
