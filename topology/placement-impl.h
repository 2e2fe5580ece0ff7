/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the plan of a box share; for placement*.c alone. */
#pragma once

#include "topology/placement.h"

/* Of two places of which nothing is known. */
#define BPS_PLACE_FAR UINT32_MAX

/** bps_place_usable() - the CPUs of @node, NONE: of all, on which our threads may run. */
void bps_place_usable(const struct bps_machine *machine, uint32_t node,
                      struct bps_cpuset *ret);

/** bps_place_distance() - there and back, 0 for the same node; or BPS_PLACE_FAR. */
uint32_t bps_place_distance(const struct bps_machine *machine,
                            const struct bps_machine_place *a,
                            const struct bps_machine_place *b);

/**
 * bps_place_speeds() - how fast each of @n_nics cards is, relative to the others.
 * @measured: [n_nics] or NULL, as in struct bps_place_in
 * @least: of the fastest known one: what is slower has 0
 * @ret_speeds: [n_nics]
 *
 * Return: 0; -EINVAL: a card that there is not, or one that is named twice; -ENOMEM.
 */
int bps_place_speeds(const struct bps_machine *machine, const uint32_t *nics,
                     uint32_t n_nics, const double *measured, double least,
                     double *ret_speeds);

/** bps_place_rails() - which cards carry how much. Return: as bps_place(). */
int bps_place_rails(const struct bps_place_in *in, struct bps_placement *plan);

/** bps_place_gpus() - the groups of GPUs; the rails are there. Return: 0 or -ENOMEM. */
int bps_place_gpus(struct bps_placement *plan);
