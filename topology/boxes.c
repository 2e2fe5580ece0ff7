/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/boxes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int bps_boxes_make(const uint32_t *root_of, uint32_t n_ranks, struct bps_boxes *ret)
{
	uint32_t r;

	*ret = (struct bps_boxes){ .n_ranks = n_ranks };
	ret->box_of = calloc(n_ranks, sizeof(*ret->box_of));
	ret->leader = calloc(n_ranks, sizeof(*ret->leader));
	if (!ret->box_of || !ret->leader) {
		bps_boxes_free(ret);
		return -ENOMEM;
	}
	for (r = 0; r < n_ranks; r++) {
		uint32_t root = root_of[r];

		if (root > r || root_of[root] != root) {
			bps_boxes_free(ret);
			return -EINVAL;
		}
		if (root == r) {
			ret->leader[ret->n_boxes] = r;
			ret->box_of[r] = ret->n_boxes++;
		} else {
			ret->box_of[r] = ret->box_of[root];
		}
	}
	return 0;
}

void bps_boxes_free(struct bps_boxes *boxes)
{
	free(boxes->box_of);
	free(boxes->leader);
	*boxes = (struct bps_boxes){ 0 };
}

static int members_allocate(uint32_t n_ranks, struct bps_members *ret)
{
	*ret = (struct bps_members){ .n_ranks = n_ranks };
	ret->member_of = calloc(n_ranks, sizeof(uint32_t));
	ret->index_of = calloc(n_ranks, sizeof(uint32_t));
	ret->leader = calloc(n_ranks, sizeof(uint32_t));
	ret->box = calloc(n_ranks, sizeof(uint32_t));
	ret->n_local = calloc(n_ranks, sizeof(uint32_t));
	if (ret->member_of && ret->index_of && ret->leader && ret->box && ret->n_local)
		return 0;
	bps_members_free(ret);
	return -ENOMEM;
}

int bps_members_make(const struct bps_boxes *boxes, const uint32_t *world_ranks,
                     uint32_t n_ranks, struct bps_members *ret)
{
	uint32_t *member_of_box;
	uint32_t r;
	int err;

	for (r = 0; r < n_ranks; r++) {
		if (world_ranks[r] >= boxes->n_ranks)
			return -EINVAL;
	}
	err = members_allocate(n_ranks, ret);
	if (err < 0)
		return err;
	member_of_box = calloc(boxes->n_boxes, sizeof(*member_of_box));
	if (!member_of_box) {
		bps_members_free(ret);
		return -ENOMEM;
	}
	for (r = 0; r < n_ranks; r++) {
		uint32_t box = boxes->box_of[world_ranks[r]];

		if (member_of_box[box] == 0) { /* not seen: members count from 1 here */
			ret->leader[ret->n_members] = r;
			ret->box[ret->n_members] = box;
			member_of_box[box] = ++ret->n_members;
		}
		ret->member_of[r] = member_of_box[box] - 1;
		ret->index_of[r] = ret->n_local[ret->member_of[r]]++;
	}
	free(member_of_box);
	return 0;
}

void bps_members_free(struct bps_members *members)
{
	free(members->member_of);
	free(members->index_of);
	free(members->leader);
	free(members->box);
	free(members->n_local);
	*members = (struct bps_members){ 0 };
}

char *bps_ranks_format(const uint32_t *ranks, uint32_t n, char *buf, size_t bytes)
{
	size_t used = 0;
	uint32_t i = 0;

	buf[0] = '\0';
	while (i < n && used + 32 < bytes) {
		uint32_t first = i;

		while (i + 1 < n && ranks[i + 1] == ranks[i] + 1)
			i++;
		used += (size_t)snprintf(buf + used, bytes - used, "%s%u",
		                         first ? "," : "", ranks[first]);
		if (i > first)
			used += (size_t)snprintf(buf + used, bytes - used, "-%u",
			                         ranks[i]);
		i++;
	}
	if (i < n)
		snprintf(buf + used, bytes - used, ",...");
	return buf;
}
