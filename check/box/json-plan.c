/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a box as JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "check/box/impl.h"

#define UNIT 1000000000 /* an allreduce, to see what crosses for each of its bytes */

static void print_groups(const struct bps_placement *placement)
{
	fputs("\"groups\": [", stdout);
	for (uint32_t i = 0; i < placement->n_groups; i++) {
		fputs(i ? ", {" : "{", stdout);
		bps_json_number("node", placement->groups[i].node);
		printf(", \"n_ranks\": %u}", placement->groups[i].n_ranks);
	}
	printf("],\n    \"home\": %u, ", placement->home);
	bps_json_number("wire_node", placement->wire_node);
}

static void print_cards(const struct bps_placement *placement,
                        const struct bps_box_plan *plan)
{
	bool any = false;

	fputs(",\n    \"rails\": [", stdout);
	for (uint32_t i = 0; i < placement->n_rails; i++)
		printf("%s{\"nic\": %u, \"share\": %.9g}", i ? ", " : "",
		       placement->rails[i].nic, placement->rails[i].share);
	fputs("],\n    \"left_out\": [", stdout);
	for (uint32_t i = 0; i < placement->machine->n_nics; i++) {
		if (plan->nics[i] == BPS_BOX_USED)
			continue;
		printf("%s{\"nic\": %u, \"why\": \"%s\"}", any ? ", " : "", i,
		       bps_box_use_text(plan->nics[i]));
		any = true;
	}
	putchar(']');
}

static void print_threads(const struct bps_box_plan *plan)
{
	const struct bps_place_server *server = &plan->server;

	fputs(",\n    \"engine\": {", stdout);
	bps_json_number("node", plan->engine_node);
	fputs(", ", stdout);
	bps_json_set("cpus", &plan->engine_cpus);
	fputs("},\n    \"server\": [", stdout);
	for (uint32_t i = 0; i < server->n_threads; i++) {
		fputs(i ? ",\n      {" : "\n      {", stdout);
		bps_json_number("node", server->node[i]);
		fputs(", ", stdout);
		bps_json_set("cpus", &server->cpus[i]);
		putchar('}');
	}
	putchar(']');
}

static void print_gpus(const struct bps_placement *placement)
{
	fputs(",\n    \"gpu_groups\": [", stdout);
	for (uint32_t i = 0; i < placement->n_gpu_groups; i++) {
		const struct bps_place_gpus *group = &placement->gpu_groups[i];
		bool any = false;

		fputs(i ? ",\n      {\"gpus\": [" : "\n      {\"gpus\": [", stdout);
		for (uint32_t j = 0; j < placement->machine->n_gpus; j++) {
			if (placement->gpu_group_of[j] != i)
				continue;
			printf("%s%u", any ? ", " : "", j);
			any = true;
		}
		fputs("], ", stdout);
		bps_json_number("node", group->node);
		fputs(", ", stdout);
		bps_json_number("bridge", group->bridge);
		fputs(", ", stdout);
		bps_json_number("nic", group->nic);
		putchar('}');
	}
	putchar(']');
}

/* Rows: from; columns: to. @matrix: room for it */
static void print_crossings(const char *name, const struct bps_placement *placement,
                            bool alone, uint64_t *matrix)
{
	size_t n = placement->machine->n_nodes;

	bps_place_crossings(placement, UNIT, alone, matrix);
	printf("\"%s\": [", name);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			printf("%s%.9g%s", j ? ", " : (i ? ", [" : "["),
			       (double)matrix[i * n + j] / UNIT, j + 1 < n ? "" : "]");
	putchar(']');
}

void bps_json_plan(const struct bps_machine *machine, const struct bps_box_plan *plan)
{
	const struct bps_placement *placement = plan ? plan->placement : NULL;
	size_t n = machine->n_nodes;
	uint64_t *matrix = placement ? calloc(n * n + 1, sizeof(*matrix)) : NULL;

	if (!matrix) {
		fputs(",\n  \"plan\": null", stdout);
		return;
	}
	fputs(",\n  \"plan\": {\n    ", stdout);
	print_groups(placement);
	print_cards(placement, plan);
	print_threads(plan);
	print_gpus(placement);
	fputs(",\n    \"crossings\": {", stdout);
	print_crossings("alone", placement, true, matrix);
	fputs(", ", stdout);
	print_crossings("boxes", placement, false, matrix);
	fputs("}\n  }", stdout);
	free(matrix);
}
