/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connections to one server: one for each rail, or several, where the network gives a
 * single one less than the link can carry.
 */
#include "engine/client-impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/server.h"

int bps_rails_new(struct bps_client *client, uint32_t server,
                  struct bps_rails **ret_rails)
{
	struct bps_rails *rails = calloc(1, sizeof(*rails));

	if (!rails)
		return -ENOMEM;
	rails->client = client;
	rails->server = server;
	bps_list_init(&rails->lanes);
	*ret_rails = rails;
	return 0;
}

void bps_rails_free(struct bps_rails *rails)
{
	uint32_t i;

	if (!rails)
		return;
	for (i = 0; i < rails->n_all; i++)
		bps_uplink_free(rails->uplinks[i]);
	free(rails);
}

/* Behind those in use; one that was closed makes room at the end. */
int bps_rails_add(struct bps_rails *rails, struct bps_conn *conn, const char *name,
                  uint32_t fill_bytes)
{
	struct bps_uplink *uplink;
	int r;

	if (rails->n_all == BPS_WIRE_MAX_CONNECTIONS) {
		bps_conn_close(conn);
		return -ENOSPC;
	}
	r = bps_uplink_new(rails, rails->n_all, conn, name, fill_bytes, &uplink);
	if (r < 0)
		return r;
	rails->uplinks[rails->n_all++] = rails->uplinks[rails->n];
	rails->uplinks[rails->n++] = uplink;
	return 0;
}

void bps_rails_drop(struct bps_rails *rails, uint32_t i)
{
	struct bps_uplink *uplink = rails->uplinks[i];

	memmove(&rails->uplinks[i], &rails->uplinks[i + 1],
	        (--rails->n - i) * sizeof(rails->uplinks[0]));
	rails->uplinks[rails->n] = uplink;
	if (uplink->n_slots > 0)
		rails->window -= uplink->n_slots - BPS_SPARE_SLOTS;
	rails->n_unanswered -= uplink->n_unanswered;
	bps_uplink_close(uplink);
}

void bps_rails_keep(struct bps_rails *rails, uint32_t n)
{
	while (rails->n > n)
		bps_rails_drop(rails, rails->n - 1);
}

bool bps_rails_closed(const struct bps_rails *rails)
{
	uint32_t i;

	for (i = 0; i < rails->n_all; i++) {
		if (!bps_uplink_closed(rails->uplinks[i]))
			return false;
	}
	return true;
}

/* How bad a connection's state is. */
static int badness(const struct bps_uplink *uplink)
{
	return uplink->state == BPS_UPLINK_DEAD       ? 2
	       : uplink->state == BPS_UPLINK_GREETING ? 1
	                                              : 0;
}

struct bps_uplink *bps_rails_worst(const struct bps_rails *rails)
{
	struct bps_uplink *worst = rails->uplinks[0];
	uint32_t i;

	for (i = 1; i < rails->n; i++) {
		if (badness(rails->uplinks[i]) > badness(worst))
			worst = rails->uplinks[i];
	}
	return worst;
}

void bps_rails_load(const struct bps_rails *rails, struct bps_load *ret_load)
{
	struct bps_conn_counts counts;
	uint32_t i;

	*ret_load = (struct bps_load){ .full_ns = bps_rails_full_ns(rails) };
	for (i = 0; i < rails->n; i++) {
		if (!rails->uplinks[i]->conn)
			continue;
		bps_conn_count(rails->uplinks[i]->conn, &counts);
		ret_load->packets.n_sent += counts.n_sent;
		ret_load->packets.n_resent += counts.n_resent;
	}
}
