/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of ranks, and which node and CPUs the engine has. */
#include "topology/placement.h"

#include <errno.h>
#include <stdlib.h>

#include "topology/placement-impl.h"

#define NONE BPS_MACHINE_NONE

/* What the kernel says of distances where it knows nothing more, there and back: of nodes
 * next to each other, and of others. */
#define NEAR_DISTANCE   22
#define REMOTE_DISTANCE 40

/* Shares that are closer than this are equal. */
#define EPSILON 1e-9

void bps_place_usable(const struct bps_machine *machine, uint32_t node,
                      struct bps_cpuset *ret)
{
	if (node == NONE) {
		*ret = machine->usable;
		return;
	}
	bps_machine_node_cpus(machine, node, false, ret);
	bps_cpuset_intersect(ret, &machine->usable);
}

uint32_t bps_place_distance(const struct bps_machine *machine,
                            const struct bps_machine_place *a,
                            const struct bps_machine_place *b)
{
	bool know = a->node != NONE && b->node != NONE;
	uint64_t both_ways;

	if (know && a->node == b->node)
		return 0;
	if (know && machine->distances) {
		both_ways =
			(uint64_t)
				machine->distances[a->node * machine->n_nodes + b->node] +
			machine->distances[b->node * machine->n_nodes + a->node];
		return both_ways < BPS_PLACE_FAR ? (uint32_t)both_ways
		                                 : BPS_PLACE_FAR - 1;
	}
	if (a->package == b->package && a->package != NONE)
		return NEAR_DISTANCE;
	return know ? REMOTE_DISTANCE : BPS_PLACE_FAR;
}

static uint32_t distance(const struct bps_machine *machine, uint32_t a, uint32_t b)
{
	const struct bps_machine_place at = { machine->nodes[a].package, a, NONE };
	const struct bps_machine_place to = { machine->nodes[b].package, b, NONE };

	return bps_place_distance(machine, &at, &to);
}

/* -- groups -- */

/* The node that has all CPUs; NONE: there are several with CPUs. */
static uint32_t only_node(const struct bps_machine *machine)
{
	uint32_t found = NONE;

	for (uint32_t i = 0; i < machine->n_nodes; i++) {
		if (machine->nodes[i].n_cpus == 0)
			continue;
		if (found != NONE)
			return NONE;
		found = i;
	}
	return found;
}

static uint32_t node_of(const struct bps_machine *machine, const struct bps_cpuset *rank)
{
	uint32_t found = NONE;

	for (uint32_t i = 0; i < machine->n_cpus; i++) {
		const struct bps_machine_cpu *cpu = &machine->cpus[i];

		if (!bps_cpuset_has(rank, cpu->number))
			continue;
		if (cpu->node == NONE || (found != NONE && cpu->node != found))
			return NONE;
		found = cpu->node;
	}
	return found;
}

static int make_groups(const struct bps_place_in *in, struct bps_placement *plan)
{
	uint32_t only = only_node(in->machine);

	plan->n_ranks = in->n_ranks;
	plan->groups = calloc(in->n_ranks, sizeof(*plan->groups));
	plan->group_of = calloc(in->n_ranks, sizeof(*plan->group_of));
	if (!plan->groups || !plan->group_of)
		return -ENOMEM;
	for (uint32_t r = 0; r < in->n_ranks; r++) {
		uint32_t node = only != NONE ? only : node_of(in->machine, &in->ranks[r]);
		uint32_t g = 0;

		while (g < plan->n_groups && plan->groups[g].node != node)
			g++;
		if (g == plan->n_groups)
			plan->groups[plan->n_groups++].node = node;
		plan->groups[g].n_ranks++;
		plan->group_of[r] = g;
	}
	return 0;
}

/* -- nodes -- */

/* Whether @a is a better node for the engine than @b, of which the cards say the same. */
static bool comes_first(const struct bps_placement *plan, uint32_t a, uint32_t b)
{
	for (uint32_t g = 0; g < plan->n_groups; g++)
		if (plan->groups[g].node == a || plan->groups[g].node == b)
			return plan->groups[g].node == a;
	return a < b;
}

/* The node that has most of the cards, by share; NONE: not known. */
static int node_of_cards(const struct bps_placement *plan, uint32_t *ret)
{
	const struct bps_machine *machine = plan->machine;
	double *shares = calloc((size_t)machine->n_nodes + 1, sizeof(*shares));

	*ret = NONE;
	if (!shares)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->n_rails; i++) {
		uint32_t node = machine->nics[plan->rails[i].nic].at.node;

		if (node != NONE)
			shares[node] += plan->rails[i].share;
	}
	for (uint32_t i = 0; i < machine->n_nodes; i++) {
		double more = shares[i] - (*ret == NONE ? 0 : shares[*ret]);

		if (more > EPSILON ||
		    (*ret != NONE && more > -EPSILON && comes_first(plan, i, *ret)))
			*ret = i;
	}
	free(shares);
	return 0;
}

/* The node closest to @to, maybe itself, on which our threads may run; or NONE. */
static uint32_t closest_usable(const struct bps_machine *machine, uint32_t to)
{
	uint32_t best = NONE, best_distance = BPS_PLACE_FAR;

	for (uint32_t i = 0; to != NONE && i < machine->n_nodes; i++) {
		struct bps_cpuset set;

		if (distance(machine, to, i) >= best_distance)
			continue;
		bps_place_usable(machine, i, &set);
		if (bps_cpuset_count(&set) == 0)
			continue;
		best = i;
		best_distance = distance(machine, to, i);
	}
	return best;
}

static uint32_t closest_group(const struct bps_placement *plan, uint32_t to)
{
	uint32_t best = 0, best_distance = BPS_PLACE_FAR;

	for (uint32_t g = 0; to != NONE && g < plan->n_groups; g++) {
		uint32_t node = plan->groups[g].node;

		if (node == NONE || distance(plan->machine, to, node) >= best_distance)
			continue;
		best = g;
		best_distance = distance(plan->machine, to, node);
	}
	return best;
}

static int choose_nodes(struct bps_placement *plan)
{
	uint32_t wanted;
	int r = node_of_cards(plan, &wanted);

	if (r)
		return r;
	if (wanted == NONE)
		wanted = plan->groups[0].node;
	plan->engine_node = closest_usable(plan->machine, wanted);
	plan->home = closest_group(plan, plan->engine_node);
	plan->wire_node = plan->groups[plan->home].node;
	if (plan->wire_node == NONE)
		plan->wire_node = plan->engine_node;
	return 0;
}

/* -- the engine's CPUs -- */

/* The one core that @rank is bound to, as one of its CPUs; NULL: it is not. */
static const struct bps_machine_cpu *core_of(const struct bps_machine *machine,
                                             const struct bps_cpuset *rank)
{
	const struct bps_machine_cpu *first = NULL;

	for (uint32_t i = 0; i < machine->n_cpus; i++) {
		const struct bps_machine_cpu *cpu = &machine->cpus[i];

		if (!bps_cpuset_has(rank, cpu->number))
			continue;
		if (first && (cpu->core == NONE || cpu->core != first->core))
			return NULL;
		first = cpu;
	}
	return first;
}

/* The CPUs that ranks have for themselves, and the cores that those are part of. */
static void find_taken(const struct bps_place_in *in, struct bps_cpuset *ret_cpus,
                       struct bps_cpuset *ret_cores)
{
	const struct bps_machine *machine = in->machine;

	*ret_cpus = *ret_cores = (struct bps_cpuset){ 0 };
	for (uint32_t r = 0; r < in->n_ranks; r++) {
		const struct bps_machine_cpu *core = core_of(machine, &in->ranks[r]);

		for (uint32_t i = 0; core && i < machine->n_cpus; i++) {
			const struct bps_machine_cpu *cpu = &machine->cpus[i];

			if (bps_cpuset_has(&in->ranks[r], cpu->number))
				bps_cpuset_add(ret_cpus, cpu->number);
			if (cpu == core || (cpu->core == core->core && cpu->core != NONE))
				bps_cpuset_add(ret_cores, cpu->number);
		}
	}
}

static bool take_out(struct bps_cpuset *set, const struct bps_cpuset *out)
{
	struct bps_cpuset rest = *set;

	for (size_t i = 0; i < sizeof(rest.bits) / sizeof(rest.bits[0]); i++)
		rest.bits[i] &= ~out->bits[i];
	if (bps_cpuset_count(&rest) == 0)
		return false;
	*set = rest;
	return true;
}

static void choose_cpus(const struct bps_place_in *in, struct bps_placement *plan)
{
	struct bps_cpuset cpus, cores;

	find_taken(in, &cpus, &cores);
	bps_place_usable(in->machine, plan->engine_node, &plan->engine_cpus);
	if (!take_out(&plan->engine_cpus, &cores))
		(void)take_out(&plan->engine_cpus, &cpus);
}

/* -- the whole -- */

static int make(const struct bps_place_in *in, struct bps_placement *plan)
{
	int r;

	if (in->n_ranks == 0 || bps_cpuset_count(&in->machine->usable) == 0)
		return -EINVAL;
	r = make_groups(in, plan);
	if (!r)
		r = bps_place_rails(in, plan);
	if (!r)
		r = bps_place_gpus(plan);
	if (!r)
		r = choose_nodes(plan);
	if (!r)
		choose_cpus(in, plan);
	return r;
}

int bps_place(const struct bps_place_in *in, const struct bps_placement **ret)
{
	struct bps_placement *plan = calloc(1, sizeof(*plan));
	int r;

	*ret = NULL;
	if (!plan)
		return -ENOMEM;
	plan->machine = in->machine;
	r = make(in, plan);
	if (r)
		bps_place_free(plan);
	else
		*ret = plan;
	return r;
}

void bps_place_free(const struct bps_placement *placement)
{
	struct bps_placement *owned = (struct bps_placement *)placement;

	if (!owned)
		return;
	free(owned->groups);
	free(owned->group_of);
	free(owned->rails);
	free(owned->gpu_groups);
	free(owned->gpu_group_of);
	free(owned);
}
