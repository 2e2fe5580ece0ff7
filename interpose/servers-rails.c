/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network cards of a leader, and the rails that they are to each server.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/cards.h"
#include "interpose/servers.h"
#include "topology/bandwidth.h"

/* A rail that is not there after this, while another one to that server is, is given up.
 */
#define PATIENCE_NS (2 * BPS_NS_PER_S)

int bps_servers_nics(struct bps_job *job, struct bps_reason *ret_reason)
{
	char why[480];
	int n;

	if (job->n_nics > 0)
		return 0;
	n = bps_cards_choose(job->config.interface, job->nics, BPS_MAX_NICS, why,
	                     sizeof(why));
	if (n < 0) {
		snprintf(ret_reason->text, sizeof(ret_reason->text), "%s%s",
		         job->config.interface[0] ? "BPSMPI_INTERFACE: " : "", why);
		return n;
	}
	job->n_nics = n;
	if (job->config.interface[0] && n > 0)
		job->local = job->nics[0].addr;
	return 0;
}

/* The user's choice: in the server's network, or by the kernel's way to it, or any. */
const struct bps_addr *bps_servers_source(const struct bps_job *job,
                                          const struct bps_job_server *server)
{
	const struct bps_addr *to = &server->addrs[0];
	const struct bps_netif *routed = NULL;
	struct bps_addr from;
	int i;

	if (job->config.interface[0] == '\0' || job->n_nics == 0 || server->n_addrs < 1)
		return NULL;
	for (i = 0; i < job->n_nics; i++) {
		if (bps_netif_near(&job->nics[i], to))
			return &job->nics[i].addr;
	}
	if (bps_reach_route(to, &from) == 0)
		routed = bps_netif_find(job->nics, job->n_nics, &from);
	if (routed)
		return &routed->addr;
	for (i = 0; i < job->n_nics; i++) {
		if (job->nics[i].addr.sa.sa_family == to->sa.sa_family)
			return &job->nics[i].addr;
	}
	return &job->nics[0].addr;
}

/* -- rails -- */

/* The rails of all servers that are to be tried. */
struct trials {
	struct bps_engine_trial *all;
	uint32_t n;
};

/*
 * The rails to one server: its first connection's, then those to be tried. Return:
 * whether the first one is one of those that there should be.
 */
static bool plan_rails(const struct bps_job *job, uint32_t server, struct trials *trials)
{
	struct bps_job_server *to = &job->servers[server];
	struct bps_engine_ways ways;
	uint32_t i;

	bps_engine_ways(job->engine, server, job->nics, job->n_nics, &ways);
	if (ways.first.to.bytes == 0)
		return true;
	to->rails[0] = ways.first;
	to->n_rails = 1;
	for (i = 0; i < ways.n_others; i++)
		trials->all[trials->n++] = (struct bps_engine_trial){
			.server = server, .name = to->name, .rail = ways.others[i]
		};
	return ways.keeps_first;
}

/* "10.0.0.0/24" */
static void format_network(const struct bps_netif *netif, char *buf, size_t bytes)
{
	struct bps_addr network = netif->addr;
	char text[BPS_ADDR_CHARS];
	unsigned n_bits, i;
	uint8_t *address = (uint8_t *)bps_addr_bytes(&network, &n_bits);

	for (i = netif->n_bits; i < n_bits; i++)
		address[i / 8] &= (uint8_t) ~(0x80u >> i % 8);
	snprintf(buf, bytes, "%s/%u", bps_addr_format_host(&network, text, sizeof(text)),
	         netif->n_bits);
}

/* The other card of this box that is in the same network; NULL: there is none. */
static const struct bps_netif *neighbour(const struct bps_job *job,
                                         const struct bps_netif *card)
{
	int i;

	for (i = 0; i < job->n_nics; i++) {
		if (strcmp(job->nics[i].name, card->name) != 0 &&
		    bps_netif_near(&job->nics[i], &card->addr))
			return &job->nics[i];
	}
	return NULL;
}

/* Kept until the leaders agree on who says it; what comes later is for debugging. */
static void note(struct bps_job *job, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void note(struct bps_job *job, const char *format, ...)
{
	char text[sizeof(job->idle_card)];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (job->idle_card[0])
		bps_debug("%s", text);
	else
		memcpy(job->idle_card, text, sizeof(text));
}

static bool has_rail(const struct bps_job *job, const char *card)
{
	uint32_t s, i;

	for (s = 0; s < job->n_servers; s++) {
		for (i = 0; i < job->servers[s].n_rails; i++) {
			if (strcmp(job->servers[s].rails[i].card, card) == 0)
				return true;
		}
	}
	return false;
}

/* Two cards in one network; this is the second. */
static void explain_second(struct bps_job *job, const struct bps_netif *card,
                           const struct bps_netif *first, const char *server)
{
	char from[BPS_ADDR_CHARS], network[BPS_ADDR_CHARS + 8];

	bps_addr_format_host(&card->addr, from, sizeof(from));
	format_network(card, network, sizeof(network));
	note(job,
	     "network card %s (%s) carries nothing: the way to server %s is by %s, in "
	     "the same network. To have both, set on both hosts: sysctl -w "
	     "net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 "
	     "net.ipv4.conf.%s.rp_filter=2; or the first of these, and a way of its "
	     "own for each second card: ip route add %s dev %s src %s table 101; ip "
	     "rule add from %s table 101. To have one: BPSMPI_INTERFACE=%s",
	     card->name, from, server, first->name, card->name, network, card->name, from,
	     from, first->name);
}

/* As it is where the kernel has another way, or a filter drops what comes by this one. */
static bool leads_nowhere(int error)
{
	return error == -ETIMEDOUT || error == -EHOSTUNREACH || error == -ENETUNREACH;
}

static void explain(struct bps_job *job, const struct bps_engine_trial *trial)
{
	const struct bps_rail *rail = &trial->rail;
	const struct bps_netif *own = bps_netif_find(job->nics, job->n_nics, &rail->from);
	const struct bps_netif *other = own ? neighbour(job, own) : NULL;
	char from[BPS_ADDR_CHARS], to[BPS_ADDR_CHARS];

	if (other && leads_nowhere(trial->reason.error) && !has_rail(job, rail->card)) {
		explain_second(job, own, other, trial->name);
		return;
	}
	note(job,
	     "network card %s (%s) carries nothing to %s of server %s: %s. "
	     "BPSMPI_INTERFACE says which cards to use",
	     rail->card, bps_addr_format_host(&rail->from, from, sizeof(from)),
	     bps_addr_format(&rail->to, to, sizeof(to)), trial->name,
	     bps_engine_trial_why(trial));
}

/* One line a card. */
static void explain_failed(struct bps_job *job, const struct trials *trials)
{
	uint32_t i, j;

	for (i = 0; i < trials->n; i++) {
		if (trials->all[i].reason.error == 0)
			continue;
		for (j = 0; j < i; j++) {
			if (trials->all[j].reason.error < 0 &&
			    strcmp(trials->all[j].rail.card, trials->all[i].rail.card) ==
			            0)
				break;
		}
		if (j == i)
			explain(job, &trials->all[i]);
	}
}

static bool was_tried(const struct trials *trials, const char *card)
{
	uint32_t i;

	for (i = 0; i < trials->n; i++) {
		if (strcmp(trials->all[i].rail.card, card) == 0)
			return true;
	}
	return false;
}

/* A server whose rails are by the card of @first; NULL: there is none. */
static const struct bps_job_server *server_by(const struct bps_job *job,
                                              const struct bps_netif *first)
{
	uint32_t s, i;

	for (s = 0; s < job->n_servers; s++) {
		for (i = 0; i < job->servers[s].n_rails; i++) {
			const struct bps_rail *rail = &job->servers[s].rails[i];

			if (strcmp(rail->card, first->name) == 0 &&
			    bps_netif_near(first, &rail->to) &&
			    !bps_netif_find(job->nics, job->n_nics, &rail->to))
				return &job->servers[s];
		}
	}
	return NULL;
}

/* Cards that had to be left out for what is set on this box. */
static void explain_unused(struct bps_job *job, const struct trials *trials)
{
	const struct bps_job_server *server;
	const struct bps_netif *first;
	int i;

	for (i = 0; i < job->n_nics; i++) {
		const struct bps_netif *card = &job->nics[i];

		first = neighbour(job, card);
		server = first ? server_by(job, first) : NULL;
		if (!server || was_tried(trials, card->name) || has_rail(job, card->name))
			continue;
		explain_second(job, card, first, server->name);
		return; /* the others are alike */
	}
}

/* The connections that are open now, in their order. */
static void settle(struct bps_job *job, uint32_t server, bool wants_first,
                   const struct trials *trials)
{
	struct bps_job_server *to = &job->servers[server];
	uint32_t i;

	for (i = 0; i < trials->n && to->n_rails < BPS_REACH_MAX_RAILS; i++) {
		if (trials->all[i].server == server && trials->all[i].reason.error == 0)
			to->rails[to->n_rails++] = trials->all[i].rail;
	}
	if (wants_first || to->n_rails < 2)
		return;
	bps_engine_drop(job->engine, server);
	memmove(&to->rails[0], &to->rails[1], --to->n_rails * sizeof(to->rails[0]));
}

static void show(const struct bps_job_server *server)
{
	char from[BPS_ADDR_CHARS], to[BPS_ADDR_CHARS];
	uint32_t i;

	for (i = 0; i < server->n_rails; i++)
		bps_debug(
			"server %s: rail %u is %s (%s) to %s", server->name, i,
			server->rails[i].card,
			bps_addr_format_host(&server->rails[i].from, from, sizeof(from)),
			bps_addr_format(&server->rails[i].to, to, sizeof(to)));
}

int bps_servers_rails(struct bps_job *job)
{
	struct trials trials = { .n = 0 };
	bool *wants_first = calloc(job->n_servers, sizeof(*wants_first));
	uint32_t i;
	int r = 0;

	trials.all =
		calloc((size_t)job->n_servers * BPS_REACH_MAX_RAILS, sizeof(*trials.all));
	if (!wants_first || !trials.all)
		r = -ENOMEM;
	for (i = 0; i < job->n_servers && r == 0; i++) {
		if (!job->servers[i].rails)
			job->servers[i].rails =
				calloc(BPS_REACH_MAX_RAILS, sizeof(struct bps_rail));
		if (!job->servers[i].rails)
			r = -ENOMEM;
		else
			wants_first[i] = plan_rails(job, i, &trials);
	}
	if (r == 0 && trials.n > 0)
		bps_engine_try(job->engine, trials.all, trials.n, PATIENCE_NS);
	for (i = 0; i < job->n_servers && r == 0; i++) {
		settle(job, i, wants_first[i], &trials);
		show(&job->servers[i]);
	}
	if (r == 0) {
		explain_failed(job, &trials);
		explain_unused(job, &trials);
	}
	free(trials.all);
	free(wants_first);
	return r;
}

/* -- what the cards are -- */

uint32_t bps_servers_cards(const struct bps_job *job, char (*ret_names)[IF_NAMESIZE])
{
	uint32_t n = 0, s, i, j;

	for (s = 0; s < job->n_servers; s++) {
		for (i = 0; i < job->servers[s].n_rails; i++) {
			const char *card = job->servers[s].rails[i].card;

			for (j = 0; j < n && strcmp(ret_names[j], card) != 0; j++)
				;
			if (j == n && n < BPS_SERVERS_MAX_CARDS)
				memcpy(ret_names[n++], card, IF_NAMESIZE);
		}
	}
	return n;
}

double bps_servers_nic_rate(const struct bps_job *job)
{
	char cards[BPS_SERVERS_MAX_CARDS][IF_NAMESIZE];
	uint32_t n = bps_servers_cards(job, cards), i;
	double sum = 0, rate;

	for (i = 0; i < n; i++) {
		if (bps_nic_speed("/sys/class/net", cards[i], &rate) != 0)
			return 0;
		sum += rate;
	}
	return sum;
}

void bps_servers_print_cards(const struct bps_job *job)
{
	struct bps_engine_card cards[BPS_SERVERS_MAX_CARDS];
	uint32_t n, i;

	if (!job->engine)
		return;
	n = bps_engine_cards(job->engine, cards, BPS_SERVERS_MAX_CARDS);
	for (i = 0; i < n; i++)
		bps_log_write("stats", "card %s sent=%llu received=%llu connections=%u",
		              cards[i].name, (unsigned long long)cards[i].sent_bytes,
		              (unsigned long long)cards[i].received_bytes,
		              cards[i].n_connections);
}
