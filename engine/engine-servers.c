/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The servers of an engine: connections to them, and the cards that these take.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine-impl.h"
#include "transport/local.h"

/* One more connection to a server that has answered. */
#define ONE_MORE_NS (2 * BPS_NS_PER_S)

struct greet {
	const struct bps_engine_server *servers;
	uint32_t n;
	struct bps_reason *reason;
	int r;
};

static int greet_local(struct bps_engine *engine, uint32_t number, const char *name)
{
	struct bps_conn *ours, *theirs;
	int r = bps_local_pair(engine->loop, &ours, &theirs);

	if (r == 0) {
		r = bps_server_accept(engine->server, engine->loop, theirs);
		if (r < 0)
			bps_conn_close(ours);
	}
	return r < 0 ? r : bps_client_attach(engine->client, number, ours, name, 0);
}

/* @first: on this way. */
static int dial_server(struct bps_engine *engine, uint32_t number,
                       const struct bps_tcp_dial *dial, bool first)
{
	uint32_t fill_bytes =
		first ? bps_reach_greeting_bytes(dial->local, &dial->addrs[0]) : 0;
	struct bps_conn *conn;
	int r = bps_tcp_dial(engine->loop, dial, NULL, NULL, &conn);

	return r < 0 ? r
	             : bps_client_attach(engine->client, number, conn, dial->name,
	                                 fill_bytes);
}

static int dial_rail(struct bps_engine *engine, uint32_t number, const char *name,
                     const struct bps_rail *rail, uint64_t retry_ns, bool first)
{
	const struct bps_tcp_dial dial = {
		.name = name,
		.addrs = &rail->to,
		.n_addrs = 1,
		.local = &rail->from,
		.retry_ns = retry_ns,
	};

	return dial_server(engine, number, &dial, first);
}

/* Connection @i, one more. */
static int greet_one(struct bps_engine *engine, const struct bps_engine_server *server,
                     uint32_t number, uint32_t i)
{
	const struct bps_tcp_dial dial = {
		.name = server->name,
		.addrs = server->addrs,
		.n_addrs = server->n_addrs,
		.local = server->source,
		.retry_ns = i == 0 ? engine->config.retry_ns : ONE_MORE_NS,
	};

	if (server->local)
		return greet_local(engine, number, server->name);
	if (server->n_rails > 0)
		return dial_rail(engine, number, server->name,
		                 &server->rails[i % server->n_rails], ONE_MORE_NS, false);
	return dial_server(engine, number, &dial, i == 0);
}

/* As many on each rail, within what a server takes of a member. */
static uint32_t n_wanted(const struct bps_engine_server *server)
{
	uint32_t n_rails = server->n_rails > 0 ? server->n_rails : 1;
	uint32_t most = BPS_WIRE_MAX_CONNECTIONS / n_rails;

	if (server->local)
		return 1;
	return n_rails * (server->n_connections < most ? server->n_connections : most);
}

static int greet_server(struct bps_engine *engine, const struct bps_engine_server *server,
                        uint32_t number)
{
	uint32_t wanted = n_wanted(server), i;
	int r = 0;

	for (i = bps_client_n_connections(engine->client, number); i < wanted && r == 0;
	     i++)
		r = greet_one(engine, server, number, i);
	if (server->carried)
		bps_client_carried(engine->client, number);
	bps_client_keep(engine->client, number, wanted);
	/* Those that were tried in vain count too: a few less then. */
	return r == -ENOSPC ? 0 : r;
}

static void do_greet(struct bps_engine *engine, void *arg)
{
	struct greet *greet = arg;
	uint32_t i;

	engine->n_servers = greet->n;
	for (i = 0; i < greet->n && greet->r == 0; i++) {
		greet->r = greet_server(engine, &greet->servers[i], i);
		if (greet->r < 0)
			snprintf(greet->reason->text, sizeof(greet->reason->text),
			         "server %s: %s", greet->servers[i].name,
			         strerror(-greet->r));
	}
}

/* The worst state of all servers: an error, then -EINPROGRESS, then 0. */
static void do_status(struct bps_engine *engine, void *arg)
{
	struct greet *greet = arg;
	const struct bps_reason *reason;
	uint32_t i;

	greet->r = 0;
	for (i = 0; i < greet->n; i++) {
		int r = bps_client_status(engine->client, i, &reason);

		if (r == 0)
			continue;
		greet->r = r;
		if (r == -EINPROGRESS)
			continue;
		*greet->reason = *reason;
		return;
	}
}

int bps_engine_connect(struct bps_engine *engine, const struct bps_engine_server *servers,
                       uint32_t n, struct bps_reason *ret_reason)
{
	struct greet greet = { .servers = servers, .n = n, .reason = ret_reason };

	bps_engine_call(engine, do_greet, &greet);
	while (greet.r == 0 || greet.r == -EINPROGRESS) {
		bps_engine_call(engine, do_status, &greet);
		if (greet.r == 0)
			return 0;
		if (greet.r == -EINPROGRESS)
			usleep(1000);
	}
	ret_reason->error = greet.r;
	return greet.r;
}

struct load {
	const uint32_t *servers;
	uint32_t n;
	struct bps_load *loads;
};

static void do_load(struct bps_engine *engine, void *arg)
{
	struct load *load = arg;
	uint32_t i;

	for (i = 0; i < load->n; i++)
		bps_client_load(engine->client, load->servers[i], &load->loads[i]);
}

void bps_engine_load(struct bps_engine *engine, const uint32_t *servers, uint32_t n,
                     struct bps_load *ret_loads)
{
	struct load load = { servers, n, ret_loads };

	bps_engine_call(engine, do_load, &load);
}

/* -- rails -- */

struct ask {
	uint32_t server;
	struct bps_engine_answer *answer;
};

static void do_ask(struct bps_engine *engine, void *arg)
{
	const struct ask *ask = arg;
	struct bps_engine_answer *answer = ask->answer;
	const struct bps_card_addr *addrs;
	struct bps_connection first;

	*answer = (struct bps_engine_answer){ .n_addrs = 0 };
	if (bps_client_look(engine->client, ask->server, 0, &first) < 0)
		return;
	answer->id = bps_client_id(engine->client, ask->server);
	answer->here = first.here;
	answer->there = first.there;
	answer->n_addrs = bps_client_told(engine->client, ask->server, &addrs);
	memcpy(answer->addrs, addrs, answer->n_addrs * sizeof(*addrs));
}

void bps_engine_ask(struct bps_engine *engine, uint32_t server,
                    struct bps_engine_answer *ret_answer)
{
	struct ask ask = { server, ret_answer };

	bps_engine_call(engine, do_ask, &ask);
}

static void do_drop(struct bps_engine *engine, void *arg)
{
	bps_client_drop(engine->client, *(const uint32_t *)arg, 0);
}

/*
 * What a server says of itself, as far as it is of the kind of address at which it was
 * found. It may be behind something that translates addresses: if it does not know the
 * one at which it was found, it is nowhere else.
 */
static int addrs_of(const struct bps_engine_answer *answer, struct bps_card_addr *ret)
{
	bool found = false;
	int n = 0;
	uint32_t i;

	for (i = 0; i < answer->n_addrs; i++) {
		const struct bps_addr *addr = &answer->addrs[i].addr;

		if (addr->sa.sa_family != answer->there.sa.sa_family)
			continue;
		ret[n++] = answer->addrs[i];
		found = found || bps_addr_equal(addr, &answer->there);
	}
	if (found)
		return n;
	ret[0] = (struct bps_card_addr){ answer->there, 0 };
	return 1;
}

/* The first connection's own; without a card where its address has none. */
static void describe_first(const struct bps_engine_answer *answer, struct bps_rail *ret)
{
	*ret = (struct bps_rail){ .from = answer->here, .to = answer->there };
	bps_addr_set_port(&ret->from, 0);
	if (bps_netif_name(&ret->from, ret->card) < 0)
		ret->card[0] = '\0';
}

void bps_engine_ways(struct bps_engine *engine, uint32_t server,
                     const struct bps_netif *cards, int n_cards,
                     struct bps_engine_ways *ret)
{
	struct bps_card_addr there[BPS_WIRE_MAX_ADDRS];
	struct bps_engine_answer answer;
	uint32_t n, i, k = 0;

	*ret = (struct bps_engine_ways){ .keeps_first = true };
	bps_engine_ask(engine, server, &answer);
	if (answer.there.bytes == 0)
		return;
	describe_first(&answer, &ret->first);
	n = bps_reach_rails(cards, n_cards, there, addrs_of(&answer, there), &answer.here,
	                    &answer.there, ret->others);
	for (i = 0; i < n; i++) {
		if (!bps_addr_equal(&ret->others[i].from, &ret->first.from) ||
		    !bps_addr_equal(&ret->others[i].to, &ret->first.to))
			ret->others[k++] = ret->others[i];
	}
	ret->keeps_first = k < n;
	ret->n_others = k;
}

void bps_engine_drop(struct bps_engine *engine, uint32_t server)
{
	bps_engine_call(engine, do_drop, &server);
}

struct
try {
	struct bps_engine_trial *trials;
	uint32_t n, n_open;
	uint64_t patience_ns;
};

static void do_try(struct bps_engine *engine, void *arg)
{
	const struct try *try = arg;
	uint32_t i;

	for (i = 0; i < try->n; i++) {
		struct bps_engine_trial *trial = &try->trials[i];
		int r = dial_rail(engine, trial->server, trial->name, &trial->rail,
		                  try->patience_ns, true);

		trial->reason.error = 0;
		if (r < 0)
			bps_reason_set(&trial->reason, r, "%s", strerror(-r));
		trial->connection =
			bps_client_n_connections(engine->client, trial->server) - 1;
	}
}

static void do_wait(struct bps_engine *engine, void *arg)
{
	struct try *try = arg;
	uint32_t i;

	try->n_open = 0;
	for (i = 0; i < try->n; i++) {
		const struct bps_engine_trial *trial = &try->trials[i];
		struct bps_connection look;

		if (trial->reason.error == 0 &&
		    bps_client_look(engine->client, trial->server, trial->connection,
		                    &look) == 0)
			try->n_open += look.status == -EINPROGRESS;
	}
}

/* The last ones first: those behind one that goes move up. */
static void do_settle(struct bps_engine *engine, void *arg)
{
	const struct try *try = arg;
	uint32_t i;

	for (i = try->n; i-- > 0;) {
		struct bps_engine_trial *trial = &try->trials[i];
		struct bps_connection look;

		if (trial->reason.error < 0 ||
		    bps_client_look(engine->client, trial->server, trial->connection,
		                    &look) < 0 ||
		    look.status == 0)
			continue;
		if (look.status == -EINPROGRESS)
			bps_reason_set(&trial->reason, look.up ? -EMSGSIZE : -ETIMEDOUT,
			               "%s", look.silence);
		else
			trial->reason = *look.reason;
		bps_client_drop(engine->client, trial->server, trial->connection);
	}
}

void bps_engine_try(struct bps_engine *engine, struct bps_engine_trial *trials,
                    uint32_t n, uint64_t patience_ns)
{
	struct try try = { .trials = trials, .n = n, .patience_ns = patience_ns };
	uint64_t until_ns = bps_now_ns() + patience_ns;

	bps_engine_call(engine, do_try, &try);
	bps_engine_call(engine, do_wait, &try);
	while (try.n_open > 0 && bps_now_ns() < until_ns) {
		usleep(1000);
		bps_engine_call(engine, do_wait, &try);
	}
	bps_engine_call(engine, do_settle, &try);
}

const char *bps_engine_trial_why(const struct bps_engine_trial *trial)
{
	if (trial->reason.error == -ECONNREFUSED)
		return "a firewall refuses it, or this address is also another "
		       "machine's: look there";
	if (trial->reason.error == -ECONNRESET)
		return "it was closed at once: see what that server says, or a firewall "
		       "on the way";
	return trial->reason.text;
}

/* -- what the cards carried -- */

struct cards {
	struct bps_netif list[BPS_NETIF_MAX];
	int n_list;
	struct bps_engine_card *ret;
	uint32_t n, max;
};

static void add_card(struct cards *cards, const struct bps_addr *here,
                     uint64_t sent_bytes, uint64_t received_bytes)
{
	const struct bps_netif *netif = bps_netif_find(cards->list, cards->n_list, here);
	const char *name = netif ? netif->name : "?";
	uint32_t i = 0;

	while (i < cards->n && strcmp(cards->ret[i].name, name) != 0)
		i++;
	if (i == cards->max)
		return;
	if (i == cards->n) {
		cards->ret[cards->n++] = (struct bps_engine_card){ .n_connections = 0 };
		snprintf(cards->ret[i].name, sizeof(cards->ret[i].name), "%s", name);
	}
	cards->ret[i].n_connections++;
	cards->ret[i].sent_bytes += sent_bytes;
	cards->ret[i].received_bytes += received_bytes;
}

static void add_peer(void *arg, const struct bps_conn *conn)
{
	struct bps_addr here, there;

	if (bps_conn_ends(conn, &here, &there) == 0)
		add_card(arg, &here, conn->n_sent_bytes, conn->n_received_bytes);
}

static void do_cards(struct bps_engine *engine, void *arg)
{
	struct cards *cards = arg;
	struct bps_connection look;
	uint32_t s, i;

	for (s = 0; s < engine->n_servers; s++) {
		for (i = 0; bps_client_look(engine->client, s, i, &look) == 0; i++) {
			if (look.here.bytes > 0)
				add_card(cards, &look.here, look.sent_bytes,
				         look.received_bytes);
		}
	}
	if (engine->server)
		bps_server_each(engine->server, engine->loop, add_peer, cards);
}

uint32_t bps_engine_cards(struct bps_engine *engine, struct bps_engine_card *ret,
                          uint32_t max)
{
	struct cards cards = { .ret = ret, .max = max };

	cards.n_list = bps_netif_list(cards.list, BPS_NETIF_MAX);
	bps_engine_call(engine, do_cards, &cards);
	return cards.n;
}
