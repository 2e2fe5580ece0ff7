/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/servers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpuset.h"
#include "base/log.h"
#include "engine/window.h"

int bps_servers_parse(const struct bps_config *config, struct bps_hostlist *ret)
{
	char why[512];
	int error = bps_hostlist_parse("BPSMPI_SERVERS", config->servers, BPS_SERVER_PORT,
	                               ret, why, sizeof(why));

	if (error < 0)
		bps_error("%s", why);
	return error;
}

/* As many dedicated servers as boxes carry all that the boxes can send. */
bool bps_servers_carried(const struct bps_job *job)
{
	return job->hosts.n_hosts < job->boxes.n_boxes;
}

static void name_dedicated(struct bps_job *job)
{
	uint32_t i;

	for (i = 0; i < job->hosts.n_hosts; i++)
		bps_host_format(&job->hosts.hosts[i], job->servers[i].name,
		                sizeof(job->servers[i].name));
}

/* One server a box, in the order of boxes. */
static void name_colocated(struct bps_job *job)
{
	uint32_t i;

	for (i = 0; i < job->boxes.n_boxes; i++) {
		const struct bps_rank_card *card = &job->cards[job->boxes.leader[i]];
		struct bps_job_server *server = &job->servers[job->hosts.n_hosts + i];
		char addr[BPS_ADDR_CHARS];

		bps_addr_format(&card->addr, addr, sizeof(addr));
		snprintf(server->name, sizeof(server->name), "of rank %u on %.40s (%s)",
		         job->boxes.leader[i], card->host, addr);
		server->addrs[0] = card->addr;
		server->n_addrs = 1;
		server->local = job->boxes.leader[i] == job->rank;
	}
}

int bps_servers_name(struct bps_job *job)
{
	bool carried = bps_servers_carried(job);
	uint32_t n_links = job->hosts.n_hosts + job->boxes.n_boxes;

	job->rates = (struct bps_rates){
		.boxes = calloc(job->boxes.n_boxes, sizeof(double)),
		.servers = calloc(job->hosts.n_hosts + 1, sizeof(double)),
		.said = calloc(n_links, sizeof(double)),
		.mine = calloc(n_links, sizeof(int64_t)),
		.all = calloc(n_links, sizeof(int64_t)),
	};
	job->n_connections = job->n_rails = 1; /* until rates are known */
	job->n_servers = job->hosts.n_hosts + (carried ? job->boxes.n_boxes : 0);
	job->servers = calloc(job->n_servers, sizeof(*job->servers));
	if (!job->servers || !job->rates.boxes || !job->rates.servers ||
	    !job->rates.said || !job->rates.mine || !job->rates.all)
		return -ENOMEM;
	name_dedicated(job);
	if (carried)
		name_colocated(job);
	return 0;
}

void bps_servers_free(struct bps_job *job)
{
	uint32_t i;

	for (i = 0; job->servers && i < job->n_servers; i++)
		free(job->servers[i].rails);
	free(job->servers);
	job->servers = NULL;
	free(job->rates.boxes);
	free(job->rates.servers);
	free(job->rates.said);
	free(job->rates.mine);
	free(job->rates.all);
	job->rates = (struct bps_rates){ 0 };
}

/* Only who connects to the dedicated servers asks for their addresses. */
static int resolve(struct bps_job *job, struct bps_reason *ret_reason)
{
	char why[256];
	uint32_t i;

	for (i = 0; i < job->hosts.n_hosts; i++) {
		struct bps_job_server *server = &job->servers[i];
		const struct bps_host *host = &job->hosts.hosts[i];

		server->n_addrs = bps_addr_resolve(host->name, host->port, server->addrs,
		                                   8, why, sizeof(why));
		if (server->n_addrs < 0) {
			snprintf(ret_reason->text, sizeof(ret_reason->text),
			         "BPSMPI_SERVERS: %.240s", why);
			return server->n_addrs;
		}
	}
	return 0;
}

/* -- the engine -- */

uint32_t bps_servers_slot_bytes(const struct bps_job *job)
{
	return bps_window_slot_bytes(&job->config, job->boxes.n_boxes);
}

uint32_t bps_servers_lanes(const struct bps_job *job)
{
	uint32_t n = job->n_connections * job->n_rails;

	return n < BPS_WIRE_MAX_CONNECTIONS ? n : BPS_WIRE_MAX_CONNECTIONS;
}

uint32_t bps_servers_window(const struct bps_job *job)
{
	return bps_window_slots(&job->config, job->boxes.n_boxes);
}

int bps_servers_engine(struct bps_job *job)
{
	const struct bps_config *c = &job->config;
	struct bps_engine_config config = {
		.client = {
			.peer = job->rank,
			.n_peers = job->size,
			.host = job->cards[job->rank].host,
			.slot_bytes = bps_servers_slot_bytes(job),
			.n_slots = bps_servers_window(job),
			.timeout_ns = (uint64_t)c->timeout_s * BPS_NS_PER_S,
		},
		.server_memory_bytes = c->server_memory_bytes,
		.retry_ns = (uint64_t)c->retry_s * BPS_NS_PER_S,
	};
	struct bps_cpuset cpus;

	if (job->engine)
		return 0;
	if (job->config.cpus[0]) {
		if (bps_cpuset_usable("BPSMPI_CPUS", job->config.cpus, &cpus) < 0)
			return -EINVAL;
		config.cpus = &cpus;
	}
	memcpy(config.client.job, job->id, sizeof(job->id));
	return bps_engine_start(&config, &job->engine);
}

/*
 * Where the others know this box, and on its other cards; of one kind of addresses, since
 * these tell cards apart.
 */
static int listening_addrs(const struct bps_job *job, struct bps_addr *ret)
{
	bool inside = bps_addr_is_loopback(&job->local);
	int n = 0, i;

	ret[n++] = job->local;
	for (i = 0; i < job->n_nics && !inside && n < BPS_ENGINE_MAX_ADDRS; i++) {
		const struct bps_addr *addr = &job->nics[i].addr;

		if (addr->sa.sa_family == job->local.sa.sa_family &&
		    !bps_addr_equal(addr, &job->local))
			ret[n++] = *addr;
	}
	for (i = 0; i < n; i++)
		bps_addr_set_port(&ret[i], (uint16_t)job->config.port);
	return n;
}

int bps_servers_listen(struct bps_job *job, struct bps_reason *ret_reason)
{
	struct bps_addr addrs[BPS_ENGINE_MAX_ADDRS];
	int error = bps_servers_nics(job, ret_reason);

	if (error == 0)
		error = bps_servers_engine(job);
	if (error < 0 || !bps_servers_carried(job))
		return error;
	if (job->local.bytes == 0)
		return -EADDRNOTAVAIL;
	return bps_engine_serve(job->engine, addrs, listening_addrs(job, addrs),
	                        &job->cards[job->rank].addr);
}

int bps_servers_greet(struct bps_job *job, uint32_t server, uint32_t n_connections,
                      struct bps_reason *ret_reason)
{
	struct bps_engine_server *servers = calloc(job->n_servers, sizeof(*servers));
	uint32_t i;
	int error;

	if (!servers)
		return -ENOMEM;
	for (i = 0; i < job->n_servers; i++)
		servers[i] = (struct bps_engine_server){
			.name = job->servers[i].name,
			.addrs = job->servers[i].addrs,
			.n_addrs = job->servers[i].n_addrs,
			.source = bps_servers_source(job, &job->servers[i]),
			.rails = job->servers[i].rails,
			.n_rails = job->servers[i].n_rails,
			.carried = i >= job->hosts.n_hosts && !job->servers[i].local,
			.local = job->servers[i].local,
			.n_connections = server == BPS_SERVERS_ALL || server == i
			                         ? n_connections
			                         : 1,
		};
	error = bps_engine_connect(job->engine, servers, job->n_servers, ret_reason);
	free(servers);
	return error;
}

int bps_servers_greet_all(struct bps_job *job, struct bps_reason *ret_reason)
{
	int r = bps_servers_greet(job, BPS_SERVERS_ALL, job->n_connections, ret_reason);

	if (r == 0 || job->config.connections > 0)
		return r;
	return bps_servers_greet(job, BPS_SERVERS_ALL, 1, ret_reason);
}

int bps_servers_connect(struct bps_job *job, struct bps_reason *ret_reason)
{
	uint32_t i;
	int error;

	ret_reason->text[0] = '\0';
	if (job->connected)
		return 0;
	for (i = 0; i < job->n_servers; i++)
		job->servers[i].n_rails = 0;
	error = bps_servers_engine(job);
	if (error == 0)
		error = bps_servers_nics(job, ret_reason);
	if (error == 0)
		error = resolve(job, ret_reason);
	if (error == 0)
		error = bps_servers_greet(job, BPS_SERVERS_ALL, 1, ret_reason);
	if (error == 0)
		error = bps_servers_know(job, ret_reason);
	if (error == 0)
		error = bps_servers_rails(job);
	if (error == 0)
		error = bps_servers_greet_all(job, ret_reason);
	job->connected = error == 0;
	return error;
}
