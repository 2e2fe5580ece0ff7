/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A picture (SVG) of boxes, of what is in them, of summation servers, and of the bytes
 * that one allreduce of M bytes moves over each link, in units of M. Boxes that are alike
 * are drawn once, and so are servers; whoever fills a picture folds them.
 *
 * All text may come from files and peers. Everything is borrowed during a call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "topology/machine.h"
#include "topology/placement.h"

/* More kinds of boxes, or of servers, are drawn as one. */
#define BPS_PICTURE_KINDS 16

/* A kind of box. */
struct bps_picture_box {
	const struct bps_machine *machine;
	/* Its ranks, and the cards that are used; NULL: not known, and not drawn. */
	const struct bps_placement *placement;
	const struct bps_cpuset *engine_cpus; /* NULL: the placement's */
	const char
		*names; /* of all boxes of this kind: "cpu[1-7]"; NULL: machine->host */
	const char *differs; /* "NIC eth0 at 1 Gbit/s"; NULL: nothing to say */
	uint32_t n_alike;    /* boxes of this kind, 1 or more */
	double share; /* of M, that a server in each such box sums; 0: there is none */
	double wire; /* of M, that it sends, and as much comes in; 0: nothing, it is alone
	              */
};

/* A kind of dedicated server. */
struct bps_picture_server {
	const char *names;  /* of all of this kind: "sum[1-2]" */
	uint32_t n_alike;   /* 1 or more */
	double share;       /* of M, that each such server sums; 0: none, or not known */
	double wire;        /* of M, that comes in, and as much it sends; 0: not known */
	double bytes_per_s; /* its link, one way; 0: not known */
};

struct bps_picture {
	const char *title;
	const struct bps_picture_box *boxes; /* [n_boxes], 1 or more */
	uint32_t n_boxes;
	const struct bps_picture_server *servers; /* [n_servers]; may be none */
	uint32_t n_servers;
	const char *const *notes; /* [n_notes]: sentences that stand below */
	uint32_t n_notes;
};

/**
 * bps_picture_box_wire() - what a box sends in an allreduce: its sum, but for the part
 * that its own server sums, and the answers of that server to the other boxes.
 * @n_boxes: of the job, 2 or more
 * @share: of M, that the server in this box sums
 */
double bps_picture_box_wire(uint32_t n_boxes, double share);

/** bps_picture_server_wire() - what a dedicated server sends: its share to each box. */
double bps_picture_server_wire(uint32_t n_boxes, double share);

/** bps_picture_print() - the SVG document. Return: 0, -ENOMEM; the caller looks for
 * errors of @out. */
int bps_picture_print(const struct bps_picture *picture, FILE *out);

/**
 * bps_picture_write() - the same as a file, which is whole or not there.
 * @path: a plain file, or none yet; one that is there is replaced
 *
 * Return: BPS_CHECK_FINE or, after a line on standard error, BPS_CHECK_CANNOT.
 */
int bps_picture_write(const struct bps_picture *picture, const char *path);

/**
 * bps_picture_alone() - write a picture of one box: of a job of several where its
 * placement names cards, else of a job of its own.
 * @placement: NULL: not known
 * Return: as bps_picture_write()
 */
int bps_picture_alone(const struct bps_machine *machine,
                      const struct bps_placement *placement, const char *path);

/* A job of boxes that look all the same but for their links. */
struct bps_picture_plan {
	const struct bps_machine *machine;
	const struct bps_placement *placement; /* NULL: not known */
	uint32_t n_boxes, n_servers;           /* 2 or more, 0 or more */
	/* [n_servers + n_boxes], numbered as in engine/shares.h: */
	const double *bytes_per_s; /* of their links, one way */
	const double *shares;      /* of an allreduce */
	bool known;                /* bytes_per_s is; else each is 1 */
};

/** bps_picture_plan() - write a picture of it. Return: as bps_picture_write(). */
int bps_picture_plan(const struct bps_picture_plan *plan, const char *path);
