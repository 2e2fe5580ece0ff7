/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures of what no job has run on yet: one box, and the boxes of a plan. */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "check/svg/svg.h"
#include "topology/bandwidth.h"

#define NAME_BYTES 48

struct name {
	char name[NAME_BYTES], rate[BPS_RATE_CHARS];
};

static const char about[] =
	"Shown with one rank on each memory node. Where more run, as much crosses.";

int bps_picture_alone(const struct bps_machine *machine,
                      const struct bps_placement *placement, const char *path)
{
	const struct bps_picture_box box = {
		.machine = machine,
		.placement = placement,
		.n_alike = 1,
		.wire = placement && placement->n_rails > 0 ? 1 : 0,
	};
	const char *const notes[] = {
		about,
		"The box is shown as one of several that sum together: it sends and receives "
		"1 M when there are as many summation servers as boxes, less than 2 M when "
		"there are fewer.",
	};
	const struct bps_picture picture = {
		.title = "A box, and the bytes of an allreduce",
		.boxes = &box,
		.n_boxes = 1,
		.notes = notes,
		.n_notes = box.wire > 0 ? 2 : 1,
	};

	return bps_picture_write(&picture, path);
}

/* Whether numbers @a and @b of the plan are alike. */
static bool alike(const struct bps_picture_plan *plan, uint32_t a, uint32_t b)
{
	return (a < plan->n_servers) == (b < plan->n_servers) &&
	       plan->bytes_per_s[a] == plan->bytes_per_s[b] &&
	       plan->shares[a] == plan->shares[b];
}

/* "h2-h5", or one of them. */
static void name_them(const struct bps_picture_plan *plan, uint32_t first, uint32_t n,
                      struct name *name)
{
	bool box = first >= plan->n_servers;
	uint32_t number = (box ? first - plan->n_servers : first) + 1;
	char c = box ? 'h' : 's';

	if (n > 1)
		(void)snprintf(name->name, sizeof(name->name), "%c%u-%c%u", c, number, c,
		               number + n - 1);
	else
		(void)snprintf(name->name, sizeof(name->name), "%c%u", c, number);
	if (plan->known)
		bps_rate_format(plan->bytes_per_s[first], name->rate);
}

/* Those that are alike and follow each other are one kind. */
static void fill(const struct bps_picture_plan *plan, struct name *names,
                 struct bps_picture_box *boxes, struct bps_picture_server *servers,
                 struct bps_picture *picture)
{
	const uint32_t n_nodes = plan->n_servers + plan->n_boxes;

	for (uint32_t first = 0, n; first < n_nodes; first += n) {
		struct name *name = &names[first];
		double share = plan->shares[first];

		for (n = 1; first + n < n_nodes && alike(plan, first, first + n);)
			n++;
		name_them(plan, first, n, name);
		if (first < plan->n_servers)
			servers[picture->n_servers++] = (struct bps_picture_server){
				.names = name->name,
				.n_alike = n,
				.share = share,
				.wire = bps_picture_server_wire(plan->n_boxes, share),
				.bytes_per_s = plan->known ? plan->bytes_per_s[first] : 0,
			};
		else
			boxes[picture->n_boxes++] = (struct bps_picture_box){
				.machine = plan->machine,
				.placement = plan->placement,
				.names = name->name,
				.differs = name->rate,
				.n_alike = n,
				.share = share,
				.wire = bps_picture_box_wire(plan->n_boxes, share),
			};
	}
}

int bps_picture_plan(const struct bps_picture_plan *plan, const char *path)
{
	const uint32_t n_nodes = plan->n_servers + plan->n_boxes;
	const char *const notes[] = { about };
	struct name *names = calloc(n_nodes, sizeof(*names));
	struct bps_picture_box *boxes = calloc(plan->n_boxes, sizeof(*boxes));
	struct bps_picture_server *servers =
		calloc(plan->n_servers + 1, sizeof(*servers));
	struct bps_picture picture = {
		.boxes = boxes, .servers = servers, .notes = notes, .n_notes = 1
	};
	int status = BPS_CHECK_CANNOT;
	char title[96];

	(void)snprintf(
		title, sizeof(title),
		"%u boxes and %u dedicated server%s, and the bytes of an allreduce",
		plan->n_boxes, plan->n_servers, plan->n_servers == 1 ? "" : "s");
	picture.title = title;
	if (names && boxes && servers) {
		fill(plan, names, boxes, servers, &picture);
		status = bps_picture_write(&picture, path);
	} else {
		bps_check_complain("--svg: out of memory");
	}
	free(names);
	free(boxes);
	free(servers);
	return status;
}
