/* SPDX-License-Identifier: BSD-3-Clause */
#include "check/box/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/hostlist.h"
#include "transport/netif.h"
#include "transport/reach.h"

#define SERVERS_MAX 64 /* the ways to more are not looked at */

/* What a job on this box would find; empty for a box from a file. */
struct outlook {
	struct bps_netif list[BPS_NETIF_MAX];
	int n_list;
	bool is_narrow; /* BPSMPI_INTERFACE is set */
	struct bps_addr chosen[BPS_NETIF_MAX];
	int n_chosen;
	bool reaches[BPS_NETIF_MAX]; /* a server; all do where none is known */
};

const char *bps_box_use_text(enum bps_box_use use)
{
	static const char *const texts[BPS_BOX_N_USES] = {
		[BPS_BOX_USED] = "used",
		[BPS_BOX_DOWN] = "down",
		[BPS_BOX_VIRTUAL] = "virtual",
		[BPS_BOX_NO_ADDRESS] = "no address",
		[BPS_BOX_INNER] = "of containers",
		[BPS_BOX_UNNAMED] = "not in BPSMPI_INTERFACE",
		[BPS_BOX_APART] = "no way to the servers",
		[BPS_BOX_SLOW] = "less than a fifth of the fastest",
		[BPS_BOX_SPARE] = "eight others are used",
		[BPS_BOX_ALONE] = "all ranks are on this box",
	};

	return texts[use];
}

/* An address of each; 0: one of them is not known, so what follows is not either. */
static int find_servers(const struct bps_box_network *network, struct bps_addr *ret)
{
	char why[256];
	int n = 0;

	for (uint32_t i = 0; i < network->n_hosts && n < SERVERS_MAX; i++) {
		const struct bps_host *host = &network->hosts[i];

		if (bps_addr_resolve(host->name, host->port, &ret[n], 1, why,
		                     sizeof(why)) < 1)
			return 0;
		n++;
	}
	return n;
}

static void find_reach(const struct bps_box_network *network, struct outlook *outlook)
{
	static struct bps_addr there[SERVERS_MAX];
	int n = find_servers(network, there);

	if (n > 0)
		bps_reach_list(outlook->list, outlook->n_list, there, n,
		               outlook->reaches);
	for (int i = 0; n == 0 && i < outlook->n_list; i++)
		outlook->reaches[i] = true;
}

static void look_out(const struct bps_box_network *network, struct outlook *outlook)
{
	char why[256];

	*outlook = (struct outlook){ .is_narrow = network->interface[0] != '\0' };
	outlook->n_list = bps_netif_list(outlook->list, BPS_NETIF_MAX);
	if (outlook->n_list < 0)
		outlook->n_list = 0;
	if (outlook->is_narrow)
		outlook->n_chosen = bps_netif_match(outlook->list, outlook->n_list,
		                                    network->interface, outlook->chosen,
		                                    BPS_NETIF_MAX, why, sizeof(why));
	find_reach(network, outlook);
}

static bool is_chosen(const struct outlook *outlook, const struct bps_addr *addr)
{
	for (int i = 0; i < outlook->n_chosen; i++)
		if (bps_addr_equal(&outlook->chosen[i], addr))
			return true;
	return false;
}

static enum bps_box_use use_of(const struct outlook *outlook,
                               const struct bps_machine_nic *nic)
{
	bool there = false, up = false, chosen = false, inner = false, reaches = false;

	for (int i = 0; i < outlook->n_list; i++) {
		const struct bps_netif *netif = &outlook->list[i];

		if (strcmp(netif->name, nic->name) != 0)
			continue;
		there = true;
		up |= netif->usable;
		inner |= netif->inner;
		reaches |= outlook->reaches[i];
		chosen |= is_chosen(outlook, &netif->addr);
	}
	if (nic->link == BPS_MACHINE_LINK_DOWN || (there && !up))
		return BPS_BOX_DOWN;
	if (!there)
		return BPS_BOX_NO_ADDRESS;
	if (outlook->is_narrow && !chosen)
		return BPS_BOX_UNNAMED;
	if (inner && !outlook->is_narrow)
		return BPS_BOX_INNER;
	return reaches ? BPS_BOX_USED : BPS_BOX_APART;
}

void bps_box_uses(const struct bps_machine *machine,
                  const struct bps_box_network *network, enum bps_box_use *ret)
{
	static struct outlook outlook;

	look_out(network, &outlook);
	for (uint32_t i = 0; i < machine->n_nics; i++)
		ret[i] = use_of(&outlook, &machine->nics[i]);
}

/* By the variables of this process. The doctor says what is wrong with them; here they
 * count as far as they can. */
static void find_uses(const struct bps_machine *machine, enum bps_box_use *ret,
                      struct bps_cpuset *ret_own, bool *ret_is_own)
{
	static struct bps_config config;
	struct bps_box_network network = { .interface = config.interface };
	struct bps_hostlist list = { 0 };
	int log_fd = bps_log_set_fd(-1);
	char why[256];

	(void)bps_config_parse(&config, environ);
	*ret_is_own = config.cpus[0] != '\0' &&
	              bps_cpuset_usable("BPSMPI_CPUS", config.cpus, ret_own) == 0;
	(void)bps_log_set_fd(log_fd);
	if (config.servers[0] &&
	    bps_hostlist_parse("BPSMPI_SERVERS", config.servers, BPS_SERVER_PORT, &list,
	                       why, sizeof(why)) == 0) {
		network.hosts = list.hosts;
		network.n_hosts = list.n_hosts;
	}
	bps_box_uses(machine, &network, ret);
	bps_hostlist_deinit(&list);
}

/* Of a box from a file. */
static void guess_uses(const struct bps_machine *machine, enum bps_box_use *ret)
{
	for (uint32_t i = 0; i < machine->n_nics; i++) {
		const struct bps_machine_nic *nic = &machine->nics[i];

		if (nic->link == BPS_MACHINE_LINK_DOWN)
			ret[i] = BPS_BOX_DOWN;
		else
			ret[i] = nic->is_virtual ? BPS_BOX_VIRTUAL : BPS_BOX_USED;
	}
}

/* What could be used and is not: why. */
static void find_left_out(const struct bps_placement *placement, enum bps_box_use *uses)
{
	const struct bps_machine *machine = placement->machine;
	double fastest = 0;

	for (uint32_t i = 0; i < machine->n_nics; i++) {
		if (uses[i] == BPS_BOX_USED && machine->nics[i].bytes_per_s > fastest)
			fastest = machine->nics[i].bytes_per_s;
		if (uses[i] == BPS_BOX_USED)
			uses[i] = BPS_BOX_SPARE;
	}
	for (uint32_t i = 0; i < machine->n_nics; i++)
		if (uses[i] == BPS_BOX_SPARE && machine->nics[i].bytes_per_s > 0 &&
		    machine->nics[i].bytes_per_s < BPS_PLACE_LEAST_NIC * fastest)
			uses[i] = BPS_BOX_SLOW;
	for (uint32_t i = 0; i < placement->n_rails; i++)
		uses[placement->rails[i].nic] = BPS_BOX_USED;
}

/* Room for one rank a node. */
static uint32_t make_ranks(const struct bps_machine *machine, struct bps_cpuset *ret)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < machine->n_nodes; i++) {
		bps_machine_node_cpus(machine, i, true, &ret[n]);
		n += bps_cpuset_count(&ret[n]) > 0;
	}
	if (n == 0)
		ret[n++] = machine->usable;
	return n;
}

static int place(const struct bps_machine *machine, const struct bps_place_in *in,
                 const struct bps_cpuset *own, struct bps_box_plan *ret)
{
	int r = bps_place(in, &ret->placement);

	if (!r) {
		find_left_out(ret->placement, ret->nics);
		ret->engine_cpus = own ? *own : ret->placement->engine_cpus;
		ret->engine_node = own ? BPS_MACHINE_NONE : ret->placement->engine_node;
		r = bps_place_server(machine, in->nics, in->n_nics, 0, &ret->server);
	}
	return r == -EINVAL ? 0 : r; /* no CPU is usable */
}

int bps_box_place(const struct bps_machine *machine, const struct bps_cpuset *ranks,
                  uint32_t n_ranks, const enum bps_box_use *uses,
                  const struct bps_cpuset *own, struct bps_box_plan *ret)
{
	struct bps_cpuset *made = calloc((size_t)machine->n_nodes + 1, sizeof(*made));
	uint32_t *nics = calloc((size_t)machine->n_nics + 1, sizeof(*nics));
	struct bps_place_in in = { .machine = &ret->machine, .nics = nics };
	int r = -ENOMEM;

	*ret = (struct bps_box_plan){
		.machine = *machine,
		.nics = calloc((size_t)machine->n_nics + 1, sizeof(*ret->nics)),
	};
	if (ranks)
		bps_cpuset_intersect(&ret->machine.usable, &ranks[0]);
	if (made && nics && ret->nics) {
		in.ranks = ranks ? ranks : made;
		in.n_ranks = ranks ? n_ranks : make_ranks(machine, made);
		for (uint32_t i = 0; i < machine->n_nics; i++) {
			ret->nics[i] = uses[i];
			if (uses[i] == BPS_BOX_USED)
				nics[in.n_nics++] = i;
		}
		r = place(machine, &in, own, ret);
	}
	free(made);
	free(nics);
	return r;
}

int bps_box_plan(const struct bps_machine *machine, bool live, struct bps_box_plan *ret)
{
	enum bps_box_use *uses = calloc((size_t)machine->n_nics + 1, sizeof(*uses));
	struct bps_cpuset own;
	bool is_own = false;
	int r;

	*ret = (struct bps_box_plan){ 0 };
	if (!uses)
		return -ENOMEM;
	if (live)
		find_uses(machine, uses, &own, &is_own);
	else
		guess_uses(machine, uses);
	r = bps_box_place(machine, NULL, 0, uses, is_own ? &own : NULL, ret);
	free(uses);
	return r;
}

void bps_box_plan_deinit(struct bps_box_plan *plan)
{
	bps_place_free(plan->placement);
	bps_place_server_deinit(&plan->server);
	free(plan->nics);
	*plan = (struct bps_box_plan){ 0 };
}
