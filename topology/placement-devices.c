/* SPDX-License-Identifier: BSD-3-Clause */
/* Which network cards carry, and which of them each group of GPUs has. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "topology/placement-impl.h"

#define NONE         BPS_MACHINE_NONE
#define BRIDGES_DEEP 64 /* more levels of bridges are not looked at */

/* -- network cards -- */

static int check_nics(const struct bps_machine *machine, const uint32_t *nics,
                      uint32_t n_nics)
{
	bool *seen = calloc((size_t)machine->n_nics + 1, sizeof(*seen));
	int r = 0;

	if (!seen)
		return -ENOMEM;
	for (uint32_t i = 0; i < n_nics && !r; i++) {
		if (nics[i] >= machine->n_nics || seen[nics[i]])
			r = -EINVAL;
		else
			seen[nics[i]] = true;
	}
	free(seen);
	return r;
}

/* 0: not known. */
static double known_speed(double measured, const struct bps_machine_nic *nic)
{
	double speed = isfinite(measured) && measured > 0 ? measured : nic->bytes_per_s;

	return isfinite(speed) && speed > 0 ? speed : 0;
}

int bps_place_speeds(const struct bps_machine *machine, const uint32_t *nics,
                     uint32_t n_nics, const double *measured, double least,
                     double *ret_speeds)
{
	double fastest = 0, slowest = 0;
	int r = check_nics(machine, nics, n_nics);

	if (r)
		return r;
	for (uint32_t i = 0; i < n_nics; i++) {
		ret_speeds[i] =
			known_speed(measured ? measured[i] : 0, &machine->nics[nics[i]]);
		if (ret_speeds[i] > fastest)
			fastest = ret_speeds[i];
	}
	for (uint32_t i = 0; i < n_nics; i++)
		if (ret_speeds[i] > 0 && ret_speeds[i] >= least * fastest &&
		    (slowest == 0 || ret_speeds[i] < slowest))
			slowest = ret_speeds[i];
	for (uint32_t i = 0; i < n_nics; i++) {
		if (ret_speeds[i] == 0)
			ret_speeds[i] = slowest > 0 ? slowest : 1;
		else if (ret_speeds[i] < least * fastest)
			ret_speeds[i] = 0;
	}
	return 0;
}

static int by_share(const void *a, const void *b)
{
	const struct bps_place_rail *x = a, *y = b;

	if (x->share != y->share)
		return x->share < y->share ? 1 : -1;
	return (x->nic > y->nic) - (x->nic < y->nic);
}

/* Until they are all there, .share is the speed. */
static void divide(struct bps_placement *plan)
{
	double total = 0;

	qsort(plan->rails, plan->n_rails, sizeof(*plan->rails), by_share);
	if (plan->n_rails > BPS_PLACE_RAILS_MAX)
		plan->n_rails = BPS_PLACE_RAILS_MAX;
	for (uint32_t i = 0; i < plan->n_rails; i++)
		total += plan->rails[i].share;
	for (uint32_t i = 0; i < plan->n_rails; i++)
		plan->rails[i].share /= total;
}

int bps_place_rails(const struct bps_place_in *in, struct bps_placement *plan)
{
	double *speeds = calloc((size_t)in->n_nics + 1, sizeof(*speeds));
	int r;

	plan->rails = calloc((size_t)in->n_nics + 1, sizeof(*plan->rails));
	r = speeds && plan->rails
	            ? bps_place_speeds(in->machine, in->nics, in->n_nics,
	                               in->nic_bytes_per_s, BPS_PLACE_LEAST_NIC, speeds)
	            : -ENOMEM;
	for (uint32_t i = 0; i < in->n_nics && !r; i++)
		if (speeds[i] > 0)
			plan->rails[plan->n_rails++] =
				(struct bps_place_rail){ in->nics[i], speeds[i] };
	if (!r)
		divide(plan);
	free(speeds);
	return r;
}

/* -- GPUs -- */

/* How many bridges there are from the CPUs to @bridge. */
static uint32_t depth_of(const struct bps_machine *machine, uint32_t bridge)
{
	uint32_t depth = 0;

	for (; bridge != NONE && depth < BRIDGES_DEEP;
	     bridge = machine->bridges[bridge].at.bridge)
		depth++;
	return depth;
}

/* The depth of the deepest bridge above both; 0: there is none. */
static uint32_t common_depth(const struct bps_machine *machine, uint32_t a, uint32_t b)
{
	uint32_t depth_a = depth_of(machine, a), depth_b = depth_of(machine, b);

	while (a != b && depth_a > 0 && depth_b > 0) {
		uint32_t *deeper = depth_a >= depth_b ? &a : &b;

		*(deeper == &a ? &depth_a : &depth_b) -= 1;
		*deeper = machine->bridges[*deeper].at.bridge;
	}
	return a == b ? depth_a : 0;
}

/* Whether the way from @gpus to card @a is shorter than that to @b. */
static bool is_nearer(const struct bps_machine *machine,
                      const struct bps_machine_place *gpus, uint32_t a, uint32_t b)
{
	const struct bps_machine_place *x = &machine->nics[a].at;
	const struct bps_machine_place *y = &machine->nics[b].at;
	uint32_t depth_a = common_depth(machine, gpus->bridge, x->bridge);
	uint32_t depth_b = common_depth(machine, gpus->bridge, y->bridge);

	if (depth_a != depth_b)
		return depth_a > depth_b;
	return bps_place_distance(machine, gpus, x) <
	       bps_place_distance(machine, gpus, y);
}

/* Which rail's card is best for GPUs at @gpus; @n_gpu_groups: of each rail, so far. */
static uint32_t choose_rail(const struct bps_placement *plan,
                            const struct bps_machine_place *gpus,
                            const uint32_t *n_gpu_groups)
{
	const struct bps_place_rail *rails = plan->rails;
	uint32_t best = 0;

	for (uint32_t i = 1; i < plan->n_rails; i++)
		if (is_nearer(plan->machine, gpus, rails[i].nic, rails[best].nic) ||
		    (n_gpu_groups[i] < n_gpu_groups[best] &&
		     !is_nearer(plan->machine, gpus, rails[best].nic, rails[i].nic)))
			best = i;
	return best;
}

/* The nearest card, which has one group more then; NONE: there is no rail. */
static uint32_t take_nic(const struct bps_placement *plan,
                         const struct bps_machine_place *gpus, uint32_t *n_gpu_groups)
{
	uint32_t rail;

	if (plan->n_rails == 0)
		return NONE;
	rail = choose_rail(plan, gpus, n_gpu_groups);
	n_gpu_groups[rail]++;
	return plan->rails[rail].nic;
}

/* Where the group of a GPU is noted: by bridge, by node, by package, or the one of those
 * that are nowhere. */
static size_t key_of(const struct bps_machine *machine,
                     const struct bps_machine_place *at)
{
	size_t key = machine->n_bridges;

	if (at->bridge != NONE)
		return at->bridge;
	if (at->node != NONE)
		return key + at->node;
	key += machine->n_nodes;
	return key + (at->package != NONE ? at->package : machine->n_packages);
}

static void group_gpus(struct bps_placement *plan, uint32_t *known)
{
	uint32_t n_gpu_groups[BPS_PLACE_RAILS_MAX] = { 0 };

	for (uint32_t i = 0; i < plan->machine->n_gpus; i++) {
		const struct bps_machine_place *at = &plan->machine->gpus[i].at;
		uint32_t *group = &known[key_of(plan->machine, at)];

		if (*group == NONE) {
			*group = plan->n_gpu_groups++;
			plan->gpu_groups[*group] = (struct bps_place_gpus){
				.node = at->node,
				.bridge = at->bridge,
				.nic = take_nic(plan, at, n_gpu_groups),
			};
		}
		plan->gpu_group_of[i] = *group;
	}
}

int bps_place_gpus(struct bps_placement *plan)
{
	const struct bps_machine *machine = plan->machine;
	size_t n_gpus = (size_t)machine->n_gpus + 1; /* none is no error */
	size_t n_keys =
		(size_t)machine->n_bridges + machine->n_nodes + machine->n_packages + 1;
	uint32_t *known = malloc(n_keys * sizeof(*known));

	plan->gpu_groups = calloc(n_gpus, sizeof(*plan->gpu_groups));
	plan->gpu_group_of = calloc(n_gpus, sizeof(*plan->gpu_group_of));
	if (!known || !plan->gpu_groups || !plan->gpu_group_of) {
		free(known);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n_keys; i++)
		known[i] = NONE;
	group_gpus(plan, known);
	free(known);
	return 0;
}
