/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/client-impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/server.h"

/* From the loss of another process of the job to the end of the groups that need it. */
#define GRACE_NS (4 * BPS_NS_PER_S)

/* Ticks that lie further apart: this process did not run meanwhile. */
#define STOPPED_NS (2 * BPS_NS_PER_S)

void bps_reason_set(struct bps_reason *reason, int error, const char *format, ...)
{
	va_list args;

	reason->error = error;
	va_start(args, format);
	vsnprintf(reason->text, sizeof(reason->text), format, args);
	va_end(args);
}

const char *bps_coll_name(uint32_t coll)
{
	return coll == BPS_BCAST ? "MPI_Bcast" : "MPI_Allreduce";
}

uint64_t bps_client_now(struct bps_client *client)
{
	if (client->config.clock)
		client->now_ns = client->config.clock(client->config.clock_owner);
	return client->now_ns;
}

/* -- ops -- */

/* Forget @op everywhere; its slots stay taken until their answers came. */
static void op_forget(struct bps_client *client, struct bps_op *op)
{
	struct bps_group *group = op->group;
	uint32_t s;

	for (s = 0; s < group->n_servers; s++)
		bps_rails_forget(client->rails[group->servers[s]], op, &op->lanes[s]);
	free(op->lanes);
	op->lanes = NULL;
	bps_list_remove(&op->link);
}

static void op_finish(struct bps_client *client, struct bps_op *op,
                      const struct bps_reason *reason)
{
	op_forget(client, op);
	op->events->finished(op, reason);
}

void bps_op_landed(struct bps_client *client, struct bps_op *op, uint64_t position)
{
	op->n_landed++;
	op->events->landed(op, position);
	if (op->n_landed == op->cut.n_parts)
		op_finish(client, op, NULL);
}

/* "ranks 2-3 on h1, ranks 6-7 on h3", as @uplink was last told of @op. */
static void list_missing(const struct bps_uplink *uplink, const struct bps_op *op,
                         char *buf, size_t bytes)
{
	const struct bps_group *group = op->group;
	size_t used = 0;
	uint32_t i;

	buf[0] = '\0';
	if (uplink->missing_group != group->id || uplink->missing_op != op->number)
		return;
	for (i = 0; i < uplink->n_missing && used + 100 < bytes; i++) {
		char member[80];

		snprintf(member, sizeof(member), "member %u", uplink->missing[i]);
		if (group->describe && uplink->missing[i] < group->n_members)
			group->describe(group, uplink->missing[i], member,
			                sizeof(member));
		used += (size_t)snprintf(buf + used, bytes - used, "%s%s", i ? ", " : "",
		                         member);
	}
	if (i < uplink->n_missing)
		snprintf(buf + used, bytes - used, " and %u more", uplink->n_missing - i);
}

void bps_op_late(const struct bps_uplink *uplink, struct bps_op *op)
{
	const struct bps_client *client = uplink->client;
	char missing[256];

	if (uplink->n_missing == 0 ||
	    client->now_ns - op->warned_ns < client->config.timeout_ns)
		return;
	op->warned_ns = client->now_ns;
	list_missing(uplink, op, missing, sizeof(missing));
	bps_warn("%s number %llu of %s has waited %llu s for %s; going on waiting",
	         bps_coll_name(op->coll), (unsigned long long)op->number, op->group->name,
	         (unsigned long long)((client->now_ns - op->started_ns) / BPS_NS_PER_S),
	         missing);
}

/* -- groups that fail -- */

struct bps_group *bps_client_group(struct bps_client *client, uint64_t id)
{
	struct bps_group *group;

	BPS_LIST_FOREACH(group, &client->groups, link)
	{
		if (group->id == id)
			return group;
	}
	return NULL;
}

void bps_group_break(struct bps_client *client, struct bps_group *group,
                     const struct bps_reason *reason, const char *text)
{
	uint32_t s;

	if (group->broken.error == 0) {
		group->broken = *reason;
		for (s = 0; s < group->n_servers; s++)
			bps_uplink_cancel(client->rails[group->servers[s]]->uplinks[0],
			                  group->id, text);
	}
	while (!bps_list_empty(&group->ops))
		op_finish(client, BPS_CONTAINER_OF(group->ops.next, struct bps_op, link),
		          &group->broken);
}

/*
 * The group's end with all that is known: why, and what it means for the oldest op.
 * @uplink: who was last told of the members that are missing, or NULL.
 */
static void group_fail(struct bps_client *client, struct bps_group *group,
                       const struct bps_reason *why, const struct bps_uplink *uplink)
{
	struct bps_reason reason = *why;
	char text[320], missing[128] = "";
	const struct bps_op *op;

	snprintf(text, sizeof(text), "rank %u gave up: %.280s", client->config.peer,
	         why->text);
	if (bps_list_empty(&group->ops)) {
		bps_reason_set(&reason, why->error,
		               "%.400s; operation number %llu of %s cannot begin",
		               why->text, (unsigned long long)group->next_op,
		               group->name);
	} else {
		op = BPS_CONTAINER_OF(group->ops.next, struct bps_op, link);
		if (uplink)
			list_missing(uplink, op, missing, sizeof(missing));
		bps_reason_set(&reason, why->error,
		               "%.280s; %s number %llu of %s cannot end: %u of %u parts "
		               "are done%s%s",
		               why->text, bps_coll_name(op->coll),
		               (unsigned long long)op->number, group->name,
		               (unsigned)op->n_landed, op->cut.n_parts,
		               missing[0] ? "; still missing: " : "", missing);
	}
	bps_group_break(client, group, &reason, text);
}

static bool group_uses(const struct bps_group *group, uint32_t server)
{
	uint32_t s;

	for (s = 0; s < group->n_servers; s++) {
		if (group->servers[s] == server)
			return true;
	}
	return false;
}

static bool group_has_leader(const struct bps_group *group, uint32_t world_rank)
{
	uint32_t m;

	for (m = 0; group->leaders && m < group->n_members; m++) {
		if (group->leaders[m] == world_rank)
			return true;
	}
	return false;
}

/* A group's owner may leave it, or others, when its ops finish: start over after each. */
static void break_users(struct bps_client *client, const struct bps_uplink *uplink)
{
	struct bps_group *group;

again:
	BPS_LIST_FOREACH(group, &client->groups, link)
	{
		if (group->broken.error == 0 &&
		    group_uses(group, uplink->rails->server)) {
			group_fail(client, group, &uplink->reason, uplink);
			goto again;
		}
	}
}

static void break_lost(struct bps_client *client, const struct bps_lost *lost)
{
	struct bps_group *group;

	if (lost->uplink) {
		break_users(client, lost->uplink);
		return;
	}
again:
	BPS_LIST_FOREACH(group, &client->groups, link)
	{
		if (group->broken.error == 0 && group_has_leader(group, lost->peer)) {
			group_fail(client, group, &lost->reason, NULL);
			goto again;
		}
	}
}

/* @uplink: of a server that is lost; NULL: the leader @peer is. */
static struct bps_lost *find_lost(const struct bps_client *client,
                                  const struct bps_uplink *uplink, uint32_t peer)
{
	struct bps_lost *lost;

	BPS_LIST_FOREACH(lost, &client->lost, link)
	{
		if (lost->uplink == uplink && (uplink || lost->peer == peer))
			return lost;
	}
	return NULL;
}

static int add_lost(struct bps_client *client, const struct bps_uplink *uplink,
                    uint32_t peer, const struct bps_reason *reason)
{
	struct bps_lost *lost;

	if (find_lost(client, uplink, peer))
		return 0;
	lost = calloc(1, sizeof(*lost));
	if (!lost)
		return -ENOMEM;
	lost->uplink = uplink;
	lost->peer = peer;
	lost->at_ns = bps_client_now(client);
	lost->reason = *reason;
	bps_list_push_back(&client->lost, &lost->link);
	return 0;
}

void bps_client_server_died(struct bps_client *client, const struct bps_uplink *uplink,
                            bool was_open)
{
	bool waits = was_open && uplink->rails->carried;

	if (!waits || add_lost(client, uplink, 0, &uplink->reason) < 0)
		break_users(client, uplink);
}

int bps_client_leader_lost(struct bps_client *client, uint32_t peer,
                           const struct bps_reason *reason)
{
	if (peer >= client->config.n_peers)
		return -EBADMSG;
	return add_lost(client, NULL, peer, reason);
}

/* What happened before this group had an op: it finds out now. */
static void check_group(struct bps_client *client, struct bps_group *group)
{
	const struct bps_lost *lost;
	uint32_t s;

	for (s = 0; s < group->n_servers && group->broken.error == 0; s++) {
		const struct bps_uplink *uplink =
			bps_rails_worst(client->rails[group->servers[s]]);

		if (uplink->state != BPS_UPLINK_DEAD)
			continue;
		lost = find_lost(client, uplink, 0);
		if (!lost || lost->over)
			group_fail(client, group, &uplink->reason, NULL);
	}
	BPS_LIST_FOREACH(lost, &client->lost, link)
	{
		if (lost->over && !lost->uplink && group->broken.error == 0 &&
		    group_has_leader(group, lost->peer))
			group_fail(client, group, &lost->reason, NULL);
	}
}

/* -- the client's life -- */

int bps_client_new(const struct bps_client_config *config, struct bps_client **ret_client)
{
	struct bps_client *client;

	if (config->slot_bytes < BPS_CUT_MIN_PARTITION || config->n_slots == 0 ||
	    config->n_slots > BPS_WIRE_MAX_SLOTS - BPS_SPARE_SLOTS)
		return -EINVAL;
	client = calloc(1, sizeof(*client));
	if (!client)
		return -ENOMEM;
	client->config = *config;
	snprintf(client->host, sizeof(client->host), "%s", config->host);
	client->config.host = client->host;
	bps_list_init(&client->groups);
	bps_list_init(&client->lost);
	*ret_client = client;
	return 0;
}

void bps_client_close(struct bps_client *client)
{
	uint32_t i;

	while (!bps_list_empty(&client->groups))
		bps_group_leave(client, BPS_CONTAINER_OF(client->groups.next,
		                                         struct bps_group, link));
	for (i = 0; i < client->n_rails; i++) {
		if (client->rails[i])
			bps_rails_keep(client->rails[i], 0);
	}
}

bool bps_client_closed(const struct bps_client *client)
{
	uint32_t i;

	for (i = 0; i < client->n_rails; i++) {
		if (client->rails[i] && !bps_rails_closed(client->rails[i]))
			return false;
	}
	return true;
}

void bps_client_free(struct bps_client *client)
{
	struct bps_list *link;
	uint32_t i;

	if (!client)
		return;
	for (i = 0; i < client->n_rails; i++)
		bps_rails_free(client->rails[i]);
	while ((link = bps_list_pop_front(&client->lost)))
		free(BPS_CONTAINER_OF(link, struct bps_lost, link));
	free(client->rails);
	free(client);
}

static struct bps_rails *find_rails(const struct bps_client *client, uint32_t server)
{
	return server < client->n_rails ? client->rails[server] : NULL;
}

/* What there is of server number @server, new where nothing is. */
static int get_rails(struct bps_client *client, uint32_t server)
{
	struct bps_rails **rails;

	if (find_rails(client, server))
		return 0;
	if (server >= client->n_rails) {
		rails = reallocarray(client->rails, (size_t)server + 1, sizeof(*rails));
		if (!rails)
			return -ENOMEM;
		memset(rails + client->n_rails, 0,
		       ((size_t)server + 1 - client->n_rails) * sizeof(*rails));
		client->rails = rails;
		client->n_rails = server + 1;
	}
	return bps_rails_new(client, server, &client->rails[server]);
}

int bps_client_attach(struct bps_client *client, uint32_t server, struct bps_conn *conn,
                      const char *name, uint32_t fill_bytes)
{
	int r = server == UINT32_MAX ? -EINVAL : get_rails(client, server);

	if (r < 0) {
		bps_conn_close(conn);
		return r;
	}
	return bps_rails_add(client->rails[server], conn, name, fill_bytes);
}

void bps_client_carried(struct bps_client *client, uint32_t server)
{
	struct bps_rails *rails = find_rails(client, server);

	if (rails)
		rails->carried = true;
}

void bps_client_keep(struct bps_client *client, uint32_t server, uint32_t n)
{
	struct bps_rails *rails = find_rails(client, server);

	if (rails)
		bps_rails_keep(rails, n);
}

void bps_client_drop(struct bps_client *client, uint32_t server, uint32_t i)
{
	struct bps_rails *rails = find_rails(client, server);

	if (rails && i < rails->n)
		bps_rails_drop(rails, i);
}

uint32_t bps_client_n_connections(const struct bps_client *client, uint32_t server)
{
	const struct bps_rails *rails = find_rails(client, server);

	return rails ? rails->n : 0;
}

static int uplink_status(const struct bps_uplink *uplink)
{
	switch (uplink->state) {
	case BPS_UPLINK_GREETING:
		return -EINPROGRESS;
	case BPS_UPLINK_OPEN:
		return 0;
	case BPS_UPLINK_DEAD:
		break;
	}
	return uplink->reason.error;
}

int bps_client_status(const struct bps_client *client, uint32_t server,
                      const struct bps_reason **ret_reason)
{
	const struct bps_rails *rails = find_rails(client, server);
	const struct bps_uplink *uplink = rails ? bps_rails_worst(rails) : NULL;

	if (!uplink)
		return -ENOENT;
	if (ret_reason)
		*ret_reason = &uplink->reason;
	return uplink_status(uplink);
}

int bps_client_look(const struct bps_client *client, uint32_t server, uint32_t i,
                    struct bps_connection *ret)
{
	const struct bps_rails *rails = find_rails(client, server);
	const struct bps_uplink *uplink;

	if (!rails || i >= rails->n)
		return -ENOENT;
	uplink = rails->uplinks[i];
	*ret = (struct bps_connection){
		.status = uplink_status(uplink),
		.up = uplink->up,
		.reason = &uplink->reason,
	};
	if (!uplink->conn)
		return 0;
	if (ret->status == -EINPROGRESS)
		ret->silence = bps_uplink_silence(uplink);
	ret->sent_bytes = uplink->conn->n_sent_bytes;
	ret->received_bytes = uplink->conn->n_received_bytes;
	if (bps_conn_ends(uplink->conn, &ret->here, &ret->there) < 0)
		ret->here.bytes = ret->there.bytes = 0;
	return 0;
}

uint32_t bps_client_told(const struct bps_client *client, uint32_t server,
                         const struct bps_card_addr **ret_addrs)
{
	const struct bps_rails *rails = find_rails(client, server);

	*ret_addrs = rails ? rails->addrs : NULL;
	return rails ? rails->n_addrs : 0;
}

uint64_t bps_client_id(const struct bps_client *client, uint32_t server)
{
	const struct bps_rails *rails = find_rails(client, server);

	return rails ? rails->id : 0;
}

void bps_client_load(const struct bps_client *client, uint32_t server,
                     struct bps_load *ret_load)
{
	const struct bps_rails *rails = find_rails(client, server);

	*ret_load = (struct bps_load){ 0 };
	if (rails)
		bps_rails_load(rails, ret_load);
}

/* -- what a group's owner does -- */

int bps_group_join(struct bps_client *client, struct bps_group *group)
{
	uint32_t s;

	if (group->n_servers == 0 || group->member >= group->n_members ||
	    bps_client_group(client, group->id))
		return -EINVAL;
	for (s = 0; s < group->n_servers; s++) {
		if (bps_client_status(client, group->servers[s], NULL) == -ENOENT)
			return -EINVAL;
	}
	bps_list_init(&group->ops);
	group->next_op = 0;
	group->broken = (struct bps_reason){ 0 };
	bps_list_push_back(&client->groups, &group->link);
	return 0;
}

void bps_group_leave(struct bps_client *client, struct bps_group *group)
{
	const struct bps_reason reason = { -ECANCELED, "the communicator was left" };

	if (!bps_list_empty(&group->ops))
		group_fail(client, group, &reason, NULL);
	bps_list_remove(&group->link);
}

int bps_op_start(struct bps_client *client, struct bps_group *group, struct bps_op *op,
                 uint64_t now_ns)
{
	uint32_t s, i;

	client->now_ns = now_ns;
	check_group(client, group);
	if (group->broken.error != 0)
		return group->broken.error;
	op->lanes = calloc(group->n_servers, sizeof(*op->lanes));
	if (!op->lanes)
		return -ENOMEM;
	op->group = group;
	op->number = group->next_op++;
	op->n_ready = op->n_landed = 0;
	op->started_ns = op->warned_ns = now_ns;
	bps_list_push_back(&group->ops, &op->link);
	for (s = 0; s < group->n_servers; s++) {
		op->lanes[s].op = op;
		op->lanes[s].server = s;
		op->lanes[s].position = op->cut.n_parts; /* unless it has a slice */
		bps_list_init(&op->lanes[s].link);
	}
	for (i = 0; i < op->cut.n_slices; i++) {
		s = op->cut.slices[i].server;
		op->lanes[s].slice = i;
		bps_rails_push(client->rails[group->servers[s]], &op->lanes[s]);
	}
	return 0;
}

void bps_op_ready(struct bps_client *client, struct bps_op *op, uint64_t n_ready)
{
	const struct bps_group *group = op->group;
	uint32_t s;

	op->n_ready = n_ready;
	/* In this member's order: others begin at other servers. */
	for (s = 0; s < group->n_servers; s++)
		bps_rails_pump(client->rails[group->servers[(s + group->member) %
		                                            group->n_servers]]);
}

void bps_client_tick(struct bps_client *client, uint64_t now_ns)
{
	bool stopped = now_ns - client->ticked_ns > STOPPED_NS;
	struct bps_lost *lost;
	uint32_t i, j;

	client->now_ns = client->ticked_ns = now_ns;
	for (i = 0; i < client->n_rails; i++) {
		for (j = 0; client->rails[i] && j < client->rails[i]->n; j++)
			bps_uplink_tick(client->rails[i]->uplinks[j], stopped);
	}
	BPS_LIST_FOREACH(lost, &client->lost, link)
	{
		if (lost->over || bps_client_now(client) - lost->at_ns < GRACE_NS)
			continue;
		lost->over = true;
		break_lost(client, lost);
	}
}

bool bps_client_busy(const struct bps_client *client)
{
	const struct bps_group *group;
	const struct bps_lost *lost;

	BPS_LIST_FOREACH(lost, &client->lost, link)
	{
		if (!lost->over)
			return true;
	}
	BPS_LIST_FOREACH(group, &client->groups, link)
	{
		if (!bps_list_empty(&group->ops))
			return true;
	}
	return false;
}
