/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "interpose/servers.h"
#include "topology/placement.h"

/* What bps_place() is asked; the arrays are owned. */
struct question {
	uint32_t *ranks; /* of the world, those of this box */
	struct bps_cpuset *cpus;
	uint32_t *nics;
	struct bps_place_in in;
};

void bps_nodes_announce(struct bps_job *job)
{
	struct bps_box_rank *mine = &job->page->ranks[job->rank];

	mine->node = BPS_NUMA_NONE;
	if (bps_cpuset_allowed(&mine->cpus) < 0)
		memset(&mine->cpus, 0, sizeof(mine->cpus));
}

uint32_t bps_nodes_of(const struct bps_job *job, uint32_t world_rank)
{
	return job->page->ranks[world_rank].node;
}

/* -- the plan of the box -- */

static void take_ranks(const struct bps_job *job, struct question *question)
{
	uint32_t r, n = 0;

	for (r = 0; r < job->size; r++) {
		if (job->boxes.box_of[r] != job->box)
			continue;
		question->ranks[n] = r;
		question->cpus[n++] = job->page->ranks[r].cpus;
	}
	question->in.ranks = question->cpus;
	question->in.n_ranks = n;
}

/* Those that the connections to the servers use, each once. */
static void take_nics(const struct bps_job *job, struct question *question)
{
	char names[BPS_SERVERS_MAX_CARDS][IF_NAMESIZE];
	uint32_t n = bps_servers_cards(job, names), i, k = 0;

	for (i = 0; i < n; i++) {
		uint32_t nic = bps_machine_nic_named(question->in.machine, names[i]);

		if (nic != BPS_MACHINE_NONE)
			question->nics[k++] = nic;
	}
	question->in.nics = question->nics;
	question->in.n_nics = k;
}

static int ask(const struct bps_job *job, struct question *question,
               const struct bps_placement **ret)
{
	question->ranks = calloc(job->size, sizeof(*question->ranks));
	question->cpus = calloc(job->size, sizeof(*question->cpus));
	question->nics = calloc(BPS_SERVERS_MAX_CARDS, sizeof(*question->nics));
	if (!question->ranks || !question->cpus || !question->nics)
		return -ENOMEM;
	take_ranks(job, question);
	if (job->engine)
		take_nics(job, question);
	return bps_place(&question->in, ret);
}

static uint32_t number_of(const struct bps_machine *machine, uint32_t node)
{
	return node == BPS_MACHINE_NONE ? BPS_NUMA_NONE : machine->nodes[node].number;
}

static void tell(const struct bps_job *job, const struct bps_placement *plan)
{
	char cpus[128];

	bps_cpuset_format(&plan->engine_cpus, cpus, sizeof(cpus));
	bps_debug("%u ranks in %u group%s by memory node; the engine's CPUs are %s",
	          plan->n_ranks, plan->n_groups, plan->n_groups == 1 ? "" : "s",
	          job->config.cpus[0] ? job->config.cpus : cpus);
}

static void apply(struct bps_job *job, const struct question *question,
                  const struct bps_placement *plan)
{
	const struct bps_machine *machine = plan->machine;
	struct bps_box_page *page = job->page;
	uint32_t i;

	for (i = 0; i < plan->n_ranks; i++)
		page->ranks[question->ranks[i]].node =
			number_of(machine, plan->groups[plan->group_of[i]].node);
	page->home_node = number_of(machine, plan->groups[plan->home].node);
	page->wire_node = number_of(machine, plan->wire_node);
	if (job->engine && !job->config.cpus[0])
		bps_engine_bind(job->engine, &plan->engine_cpus);
	tell(job, plan);
}

void bps_nodes_place(struct bps_job *job)
{
	const struct bps_placement *plan = NULL;
	struct question question = { 0 };
	int r;

	job->page->home_node = BPS_NUMA_NONE;
	job->page->wire_node = BPS_NUMA_NONE;
	if (!job->config.numa)
		return;
	r = bps_machine_look(NULL, &question.in.machine);
	if (r == 0)
		r = ask(job, &question, &plan);
	if (r == 0)
		apply(job, &question, plan);
	else
		bps_debug("this box counts as one memory node: %s", strerrordesc_np(-r));
	bps_place_free(plan);
	bps_machine_free(question.in.machine);
	free(question.ranks);
	free(question.cpus);
	free(question.nics);
}

/* -- the levels of a communicator -- */

struct levels {
	struct bps_levels pub; /* the first */
	uint32_t n_groups;
	uint32_t *nodes, *group_of;
	uint32_t words[];
};

static void add_rank(struct levels *levels, uint32_t index, uint32_t node)
{
	uint32_t g = 0;

	while (g < levels->n_groups && levels->nodes[g] != node)
		g++;
	if (g == levels->n_groups)
		levels->nodes[levels->n_groups++] = node;
	levels->group_of[index] = g;
}

/* The group on the node that the box's plan has for this, or else the first. */
static uint32_t find_home(const struct levels *levels, const struct bps_box_page *page)
{
	uint32_t g, home = 0;

	for (g = levels->n_groups; g-- > 0;) {
		if (levels->nodes[g] == page->home_node)
			home = g;
	}
	return home;
}

int bps_nodes_levels(const struct bps_job *job, const uint32_t *world_ranks, uint32_t n,
                     bool alone, struct bps_levels **ret)
{
	const struct bps_box_page *page = job->page;
	struct levels *levels = calloc(1, sizeof(*levels) + 2 * n * sizeof(uint32_t));
	uint32_t i, wire = alone ? BPS_NUMA_NONE : page->wire_node;

	*ret = NULL;
	if (!levels)
		return -ENOMEM;
	levels->nodes = levels->words;
	levels->group_of = levels->words + n;
	for (i = 0; i < n; i++)
		add_rank(levels, i, bps_nodes_of(job, world_ranks[i]));
	if (levels->n_groups == 1 &&
	    (wire == BPS_NUMA_NONE || wire == levels->nodes[0])) {
		free(levels);
		return 0;
	}
	levels->pub = (struct bps_levels){
		.n_groups = levels->n_groups,
		.group_of = levels->group_of,
		.nodes = levels->nodes,
		.home = find_home(levels, page),
		.wire_node = wire,
	};
	*ret = &levels->pub;
	return 0;
}
