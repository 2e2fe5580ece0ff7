/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The doctor's check of the servers: those with the same trouble at the same port are one
 * finding.
 */
#include <string.h>

#include "check/doctor/impl.h"

/* So many servers are named in a finding; of the others, the number. */
#define MAX_NAMED 8

/* What to say behind the names, then in the other parts, of each answer. */
static const struct {
	const char *found;
	const char *cost;
	const char *remedy;
	const char *type[2]; /* what to type, before and behind the port; NULL: nothing */
} texts[BPS_DOCTOR_N_ANSWERS] = {
	[BPS_DOCTOR_NO_NAME] = {
		"no address is known",
		"jobs wait for it, and then run without bytepsmpi",
		"correct BPSMPI_SERVERS, or have the name in the DNS or in /etc/hosts of "
		"all hosts",
		{ NULL },
	},
	[BPS_DOCTOR_REFUSED] = {
		"connection refused",
		"jobs try for BPSMPI_RETRY_S, and then run without bytepsmpi",
		"most likely no server runs there; start it, at an address that the hosts "
		"reach (--bind). A firewall that rejects looks the same. There, type:",
		{ "bpsmpi-server --port ", "" },
	},
	[BPS_DOCTOR_TIMED_OUT] = {
		"no answer at all",
		"jobs try for BPSMPI_RETRY_S, and then run without bytepsmpi",
		"the host is down, or a firewall drops what comes for this port. Where "
		"ping reaches it, open the port there:",
		{ "firewall-cmd --permanent --add-port=", "/tcp && firewall-cmd --reload" },
	},
	[BPS_DOCTOR_UNREACHABLE] = {
		"not reachable",
		"jobs try for BPSMPI_RETRY_S, and then run without bytepsmpi",
		"the host is down, no route leads there, or a firewall says so",
		{ NULL },
	},
	[BPS_DOCTOR_SILENT] = {
		"it takes connections, then nothing comes",
		"jobs wait for it, and then run without bytepsmpi",
		"it is another program, or a server that was stopped (SIGSTOP, debugger) "
		"or is starved of CPU time. There, type:",
		{ "ss -ltnp 'sport = :", "'" },
	},
	[BPS_DOCTOR_STUCK] = {
		"small packets pass, large ones are lost",
		"jobs give up after some seconds, and then run without bytepsmpi",
		"give the cards of both hosts, and all that is between them (switches, "
		"tunnels, VLANs), the same MTU, and let ICMP \"fragmentation needed\" "
		"pass. ping -M do -s 1472 to that host shows whether 1500 bytes pass.",
		{ NULL },
	},
	[BPS_DOCTOR_FOREIGN] = {
		"not a bpsmpi-server",
		"jobs run without bytepsmpi",
		"correct the port in BPSMPI_SERVERS, or move that program to another one. "
		"Which one it is says there:",
		{ "ss -ltnp 'sport = :", "'" },
	},
	[BPS_DOCTOR_PROTOCOL] = {
		"of another version, whose protocol differs from that of " BPS_VERSION,
		"jobs run without bytepsmpi",
		"install the same version on servers and hosts, and start the server "
		"again",
		{ NULL },
	},
	[BPS_DOCTOR_SOFTWARE] = {
		"of another version than this program, " BPS_VERSION,
		"they understand each other, but nobody has tried the two together",
		"install the same version on servers and hosts, and start the server "
		"again",
		{ NULL },
	},
	[BPS_DOCTOR_REJECTS] = {
		"it takes no more jobs",
		"jobs run without bytepsmpi",
		"wait for other jobs to end, or let it use more memory:",
		{ "bpsmpi-server --memory 4G --port ", "" },
	},
};

static bool same_trouble(const struct bps_doctor_server *a,
                         const struct bps_doctor_server *b)
{
	return a->answer == b->answer && a->port == b->port && a->reached == b->reached &&
	       strcmp(a->detail, b->detail) == 0;
}

static bool was_told(const struct bps_doctor_facts *facts, uint32_t at)
{
	for (uint32_t i = 0; i < at; i++)
		if (same_trouble(&facts->servers[i], &facts->servers[at]))
			return true;
	return false;
}

/* "s1:7000, s2:7000", and how many more. */
static void list_servers(const struct bps_doctor_facts *facts, uint32_t first, char *ret,
                         size_t ret_bytes)
{
	uint32_t n = 0;
	int used = 0;

	for (uint32_t i = first; i < facts->n_servers; i++) {
		if (!same_trouble(&facts->servers[i], &facts->servers[first]) ||
		    n++ >= MAX_NAMED)
			continue;
		used += snprintf(ret + used, ret_bytes - (size_t)used, "%s%.120s",
		                 used ? ", " : "", facts->servers[i].name);
	}
	if (n > MAX_NAMED)
		(void)snprintf(ret + used, ret_bytes - (size_t)used, " and %u more",
		               n - MAX_NAMED);
}

static void report_servers(const struct bps_doctor_facts *facts, uint32_t first,
                           struct bps_doctor_report *report)
{
	const struct bps_doctor_server *server = &facts->servers[first];
	const char *const *type = texts[server->answer].type;
	char names[MAX_NAMED * 122 + 32];

	list_servers(facts, first, names, sizeof(names));
	bps_doctor_found(report, "%s: %s%s%s", names, texts[server->answer].found,
	                 server->detail[0] ? ": " : "", server->detail);
	bps_doctor_cost(report, "%s", texts[server->answer].cost);
	if (server->reached) {
		bps_doctor_remedy(
			report, "other hosts reach it: look for a firewall on this one, "
				"and at its routes. Both are shown, here, by:");
		bps_doctor_type(report, "ip route; iptables -nL OUTPUT");
		return;
	}
	bps_doctor_remedy(report, "%s", texts[server->answer].remedy);
	if (type[0])
		bps_doctor_type(report, "%s%u%s", type[0], server->port, type[1]);
}

bool bps_doctor_same_server(const struct bps_doctor_server *servers, uint32_t at,
                            uint32_t *ret_first)
{
	for (uint32_t i = 0; i < at && servers[at].id != 0; i++) {
		*ret_first = i;
		if (servers[i].id == servers[at].id)
			return true;
	}
	return false;
}

void bps_doctor_check_twice(const struct bps_doctor_facts *facts,
                            struct bps_doctor_report *report)
{
	uint32_t first;

	for (uint32_t i = 1; i < facts->n_servers; i++) {
		if (!bps_doctor_same_server(facts->servers, i, &first))
			continue;
		bps_doctor_found(report, "%.160s and %.160s are one and the same server",
		                 facts->servers[first].name, facts->servers[i].name);
		bps_doctor_cost(report,
		                "it takes a job once: jobs run without bytepsmpi");
		bps_doctor_remedy(report,
		                  "leave one of them out of BPSMPI_SERVERS. Where "
		                  "a name leads says getent ahosts NAME.");
	}
}

void bps_doctor_check_servers(const struct bps_doctor_facts *facts,
                              struct bps_doctor_report *report)
{
	if (facts->servers_wrong[0]) {
		bps_doctor_found(report, "%s", facts->servers_wrong);
		bps_doctor_cost(report, "jobs run without bytepsmpi");
		bps_doctor_remedy(report, "write it as bytepsmpi(7) says, for example:");
		bps_doctor_type(report, "export BPSMPI_SERVERS='cpu[01-16]:7000'");
	}
	for (uint32_t i = 0; i < facts->n_servers; i++)
		if (facts->servers[i].answer != BPS_DOCTOR_FINE && !was_told(facts, i))
			report_servers(facts, i, report);
}
