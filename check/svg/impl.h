/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of check/svg/svg.h. */
#pragma once

#include "check/svg/cell.h"
#include "check/svg/svg.h"

/* One kind of box while its cells are made. */
struct bps_drawing {
	struct bps_sheet *sheet;
	const struct bps_picture_box *box;
	const struct bps_machine *machine;
	const struct bps_placement *placement; /* NULL: not known */
	const struct bps_cell *network;        /* NULL: there is none */
	const struct bps_cell *memory;         /* what links of nodes lead to; NULL too */
	/* Owned: */
	uint64_t *crossings; /* [from * n_nodes + to] of BPS_DRAWING_BYTES; NULL: none */
	double *nic_m;       /* [n_nics]: M that it sends, 0 where it is not used */
	double *bridge_m;    /* [n_bridges]: the same of all cards below it */
};

/* For bytes that cross; the more the exacter. */
#define BPS_DRAWING_BYTES (UINT64_C(1) << 30)

/**
 * bps_picture_add_box() - the cells of a kind of box, below @parent.
 * @network: what its links lead to; NULL: there are none
 * Return: 0, -ENOMEM
 */
int bps_picture_add_box(struct bps_sheet *sheet, struct bps_cell *parent,
                        const struct bps_picture_box *box,
                        const struct bps_cell *network);

/** bps_picture_names() - of boxes of a kind; never empty. */
const char *bps_picture_names(const struct bps_picture_box *box);

/** bps_drawing_add_devices() - what is at one place: bridges with what is below them,
 * then GPUs and network cards. */
void bps_drawing_add_devices(const struct bps_drawing *drawing, struct bps_cell *parent,
                             const struct bps_machine_place *at);

/** bps_drawing_same_place() - whether two things are at the very same one. */
bool bps_drawing_same_place(const struct bps_machine_place *a,
                            const struct bps_machine_place *b);
