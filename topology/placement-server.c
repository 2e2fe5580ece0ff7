/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the threads of a summation server run. */
#include <errno.h>
#include <stdlib.h>

#include "topology/placement-impl.h"

#define NONE BPS_MACHINE_NONE

/* What a node has of the server; the last one of all, index n_nodes, stands for NONE: it
 * has all usable CPUs, and is used where no node has any. */
struct desk {
	uint32_t node;
	struct bps_cpuset cpus;
	uint32_t n_cpus;
	double weight; /* of its cards */
	uint32_t n_threads;
};

struct office {
	const struct bps_machine *machine;
	struct desk *desks; /* [n_nodes + 1] */
	uint32_t n_desks;
};

static int open_office(const struct bps_machine *machine, struct office *ret)
{
	*ret = (struct office){ .machine = machine, .n_desks = machine->n_nodes + 1 };
	ret->desks = calloc(ret->n_desks, sizeof(*ret->desks));
	if (!ret->desks)
		return -ENOMEM;
	for (uint32_t i = 0; i < ret->n_desks; i++) {
		struct desk *desk = &ret->desks[i];

		desk->node = i < machine->n_nodes ? i : NONE;
		bps_place_usable(machine, desk->node, &desk->cpus);
		desk->n_cpus = bps_cpuset_count(&desk->cpus);
	}
	return 0;
}

/* A card that is near no usable CPU: each node has its part of it. */
static void weigh_everywhere(struct office *office, double speed)
{
	uint32_t n_cpus = 0;

	for (uint32_t i = 0; i + 1 < office->n_desks; i++)
		n_cpus += office->desks[i].n_cpus;
	if (n_cpus == 0)
		office->desks[office->n_desks - 1].weight += speed;
	for (uint32_t i = 0; n_cpus > 0 && i + 1 < office->n_desks; i++)
		office->desks[i].weight += speed * office->desks[i].n_cpus / n_cpus;
}

static int weigh(struct office *office, const uint32_t *nics, uint32_t n_nics)
{
	double *speeds = calloc((size_t)n_nics + 1, sizeof(*speeds));
	int r = speeds ? bps_place_speeds(office->machine, nics, n_nics, NULL, 0, speeds)
	               : -ENOMEM;

	for (uint32_t i = 0; i < n_nics && !r; i++) {
		uint32_t node = office->machine->nics[nics[i]].at.node;

		if (node != NONE && office->desks[node].n_cpus > 0)
			office->desks[node].weight += speeds[i];
		else
			weigh_everywhere(office, speeds[i]);
	}
	if (n_nics == 0 && !r)
		weigh_everywhere(office, 1);
	free(speeds);
	return r;
}

static uint32_t count_threads(const struct office *office)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < office->n_desks; i++)
		if (office->desks[i].weight > 0)
			n += office->desks[i].n_cpus;
	if (n > office->machine->cpu_quota)
		n = office->machine->cpu_quota;
	return n > 0 ? n : 1;
}

/* Who is furthest behind its weight; of all that have fewer than @each threads a CPU. */
static struct desk *next_desk(const struct office *office, uint32_t each)
{
	struct desk *best = NULL;

	for (uint32_t i = 0; i < office->n_desks; i++) {
		struct desk *desk = &office->desks[i];

		if (desk->weight <= 0 || desk->n_threads >= (uint64_t)each * desk->n_cpus)
			continue;
		if (!best || desk->weight * (best->n_threads + 1.0) >
		                     best->weight * (desk->n_threads + 1.0))
			best = desk;
	}
	return best;
}

static void seat(struct office *office, struct bps_place_server *ret)
{
	uint32_t each = 1;

	for (uint32_t i = 0; i < ret->n_threads; i++) {
		struct desk *desk = next_desk(office, each);

		while (!desk)
			desk = next_desk(office, ++each);
		desk->n_threads++;
		ret->node[i] = desk->node;
		ret->cpus[i] = desk->cpus;
	}
}

static int place(struct office *office, const uint32_t *nics, uint32_t n_nics,
                 struct bps_place_server *ret)
{
	int r = weigh(office, nics, n_nics);

	if (r)
		return r;
	if (ret->n_threads == 0)
		ret->n_threads = count_threads(office);
	ret->node = calloc(ret->n_threads, sizeof(*ret->node));
	ret->cpus = calloc(ret->n_threads, sizeof(*ret->cpus));
	if (!ret->node || !ret->cpus)
		return -ENOMEM;
	seat(office, ret);
	return 0;
}

int bps_place_server(const struct bps_machine *machine, const uint32_t *nics,
                     uint32_t n_nics, uint32_t n_threads, struct bps_place_server *ret)
{
	struct office office;
	int r;

	*ret = (struct bps_place_server){ .n_threads = n_threads };
	if (bps_cpuset_count(&machine->usable) == 0) {
		bps_place_server_deinit(ret);
		return -EINVAL;
	}
	r = open_office(machine, &office);
	if (!r)
		r = place(&office, nics, n_nics, ret);
	if (r)
		bps_place_server_deinit(ret);
	free(office.desks);
	return r;
}

void bps_place_server_deinit(struct bps_place_server *server)
{
	free(server->node);
	free(server->cpus);
	*server = (struct bps_place_server){ 0 };
}
