/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/reducer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "engine/agree.h"
#include "engine/hash.h"
#include "engine/pool.h"
#include "engine/server.h"

/* Groups of a job that failed and are remembered; then the oldest is forgotten. */
#define MAX_FAILED_GROUPS 64

/* No padding: it is hashed as bytes. */
struct key_id {
	struct bps_job *job;
	uint64_t group, op;
	uint64_t part;
};

struct key {
	UT_hash_handle hh;
	struct key_id id;
	struct bps_wire_hdr sign; /* of the first arrival: what all must agree on */
	uint32_t n_arrived;
	struct bps_arrival *root;   /* broadcast: who has the data */
	struct bps_arrival *oldest; /* who came first; linked by next_come */
	struct bps_arrival **end;   /* where the next one is linked */
	struct bps_arrival
		*members[]; /* sign.n_members; NULL: not come yet, or ANSWERED */
};

static_assert(sizeof(struct key) <= BPS_KEY_BYTES(0), "a key is charged too little");

/* Of a broadcast's leaf, that has its data already. */
static struct bps_arrival answered;
#define ANSWERED (&answered)

/* A group that failed: its members get the text, whenever they come. */
struct failed_id {
	struct bps_job *job;
	uint64_t group;
};

struct failed {
	UT_hash_handle hh; /* in order of age */
	struct failed_id id;
	char text[];
};

struct bps_reducer {
	struct bps_server *server;
	struct key *keys;
	struct failed *failed;
};

/* -- answers -- */

static void give_back(struct bps_reducer *reducer, struct bps_arrival *arrival)
{
	bps_server_to_peer(reducer->server, arrival);
}

static void fail(struct bps_reducer *reducer, struct bps_arrival *arrival,
                 const char *text)
{
	arrival->failed = true;
	arrival->text = strdup(text);
	give_back(reducer, arrival);
}

static void answer(struct bps_reducer *reducer, struct bps_arrival *arrival,
                   const void *data, uint32_t bytes, struct bps_hold *hold)
{
	arrival->answer = data;
	arrival->answer_bytes = bytes;
	arrival->hold = hold;
	bps_hold_get(hold);
	give_back(reducer, arrival);
}

/* -- keys -- */

static struct key *key_find(struct bps_reducer *reducer,
                            const struct bps_arrival *arrival, struct key_id *ret_id)
{
	struct key *key;

	*ret_id = (struct key_id){
		.job = arrival->job,
		.group = arrival->hdr.group,
		.op = arrival->hdr.op,
		.part = arrival->hdr.part,
	};
	HASH_FIND(hh, reducer->keys, ret_id, sizeof(*ret_id), key);
	return key;
}

static struct key *key_new(struct bps_reducer *reducer, const struct bps_arrival *arrival,
                           const struct key_id *id)
{
	size_t members = arrival->hdr.n_members * sizeof(struct bps_arrival *);
	struct key *key = calloc(1, sizeof(*key) + members);

	if (!key)
		return NULL;
	key->id = *id;
	key->sign = arrival->hdr;
	key->end = &key->oldest;
	HASH_ADD(hh, reducer->keys, id, sizeof(key->id), key);
	if (!key->hh.tbl) {
		free(key);
		return NULL;
	}
	return key;
}

static void key_free(struct bps_reducer *reducer, struct key *key)
{
	HASH_DEL(reducer->keys, key);
	free(key);
}

/* The end of @key before all have come: who is there gets the text. */
static void key_fail(struct bps_reducer *reducer, struct key *key, const char *text)
{
	struct bps_arrival *root = key->root;
	uint32_t m;

	for (m = 0; m < key->sign.n_members; m++) {
		struct bps_arrival *arrival = key->members[m];

		if (arrival && arrival != root && arrival != ANSWERED)
			fail(reducer, arrival, text);
	}
	if (root) {
		root->failed = true;
		root->text = strdup(text);
		bps_hold_put(&root->own);
	}
	key_free(reducer, key);
}

/* -- groups that fail -- */

static struct failed *failed_find(struct bps_reducer *reducer, struct bps_job *job,
                                  uint64_t group)
{
	const struct failed_id id = { .job = job, .group = group };
	struct failed *failed;

	HASH_FIND(hh, reducer->failed, &id, sizeof(id), failed);
	return failed;
}

static void failed_free(struct bps_reducer *reducer, struct failed *failed)
{
	HASH_DEL(reducer->failed, failed);
	free(failed);
}

/* Forget the oldest of @job's, where there are too many; all, where @max is 0. */
static void failed_trim(struct bps_reducer *reducer, struct bps_job *job, uint32_t max)
{
	struct failed *failed, *following;
	uint32_t n = 0;

	HASH_ITER(hh, reducer->failed, failed, following)
	n += failed->id.job == job;
	HASH_ITER(hh, reducer->failed, failed, following)
	{
		if (failed->id.job != job || n <= max)
			continue;
		failed_free(reducer, failed);
		n--;
	}
}

static void failed_add(struct bps_reducer *reducer, struct bps_job *job, uint64_t group,
                       const char *text)
{
	size_t bytes = strlen(text) + 1;
	struct failed *failed = calloc(1, sizeof(*failed) + bytes);

	if (!failed)
		return; /* who comes later waits, with a warning, until its peer leaves */
	failed->id = (struct failed_id){ .job = job, .group = group };
	memcpy(failed->text, text, bytes);
	failed_trim(reducer, job, MAX_FAILED_GROUPS - 1);
	HASH_ADD(hh, reducer->failed, id, sizeof(failed->id), failed);
	if (!failed->hh.tbl)
		free(failed);
}

static void group_fail(struct bps_reducer *reducer, struct bps_job *job, uint64_t group,
                       const char *text)
{
	struct key *key, *following;

	if (failed_find(reducer, job, group))
		return;
	failed_add(reducer, job, group, text);
	HASH_ITER(hh, reducer->keys, key, following)
	{
		if (key->id.job == job && key->id.group == group)
			key_fail(reducer, key, text);
	}
}

/* -- summing -- */

static int sum(const struct bps_reducer *reducer, const struct key *key,
               const struct bps_buf *buf)
{
	const struct bps_wire_hdr *sign = &key->sign;
	bps_reduce_fn *reduce =
		bps_server_kernel(reducer->server, sign->dtype, sign->redop);
	const void **sources = malloc(sign->n_members * sizeof(*sources));
	uint32_t m;

	if (!sources)
		return -ENOMEM;
	for (m = 0; m < sign->n_members; m++)
		sources[m] = key->members[m]->data;
	reduce(buf->data, sources, sign->n_members,
	       sign->payload_bytes / bps_dtype_bytes(sign->dtype));
	free(sources);
	return 0;
}

/*
 * Answered in the order in which they came: members visit the servers in turns, so that
 * each of them hears from one server at a time, and none from all at once.
 */
static void answer_all(struct bps_reducer *reducer, struct key *key, struct bps_buf *buf)
{
	uint64_t bytes = bps_total_bytes(key->sign.dtype, key->sign.payload_bytes);
	struct bps_arrival *arrival, *following;

	for (arrival = key->oldest; arrival; arrival = following) {
		following = arrival->next_come;
		answer(reducer, arrival, buf->data, (uint32_t)bytes, &buf->hold);
	}
	key_free(reducer, key);
}

static void complete_allreduce(struct bps_reducer *reducer, struct key *key)
{
	struct bps_buf *buf = bps_pool_get(bps_job_pool(key->id.job));

	if (buf && sum(reducer, key, buf) == 0)
		answer_all(reducer, key, buf);
	else
		group_fail(reducer, key->id.job, key->id.group,
		           "the server has no memory for the sum");
	if (buf)
		bps_hold_put(&buf->hold);
}

static void take_allreduce(struct bps_reducer *reducer, struct key *key,
                           struct bps_arrival *arrival)
{
	arrival->next_come = NULL;
	*key->end = arrival;
	key->end = &arrival->next_come;
	if (key->n_arrived == key->sign.n_members)
		complete_allreduce(reducer, key);
}

/* -- broadcasts -- */

/* Nobody needs the root's data any more: answer the root, which frees its slot. */
static void root_release(struct bps_hold *hold)
{
	struct bps_arrival *root = BPS_CONTAINER_OF(hold, struct bps_arrival, own);

	root->answer = NULL;
	root->answer_bytes = 0;
	root->hold = NULL;
	bps_server_to_peer(root->peer->server, root);
}

/* Answer the leaves that are there, once the root is. */
static void answer_leaves(struct bps_reducer *reducer, struct key *key)
{
	struct bps_arrival *root = key->root;
	uint32_t m;

	for (m = 0; root && m < key->sign.n_members; m++) {
		struct bps_arrival *leaf = key->members[m];

		if (!leaf || leaf == root || leaf == ANSWERED)
			continue;
		key->members[m] = ANSWERED;
		answer(reducer, leaf, root->data, root->hdr.payload_bytes, &root->own);
	}
}

static void take_bcast(struct bps_reducer *reducer, struct key *key,
                       struct bps_arrival *arrival)
{
	if (arrival->hdr.member == key->sign.root) {
		key->root = arrival;
		arrival->own.refs = 1;
		arrival->own.release = root_release;
	}
	answer_leaves(reducer, key);
	if (key->n_arrived == key->sign.n_members) {
		bps_hold_put(&key->root->own);
		key_free(reducer, key);
	}
}

/* -- arrivals -- */

/* Why @arrival cannot be taken into @key; false: it can. */
static bool does_not_fit(const struct key *key, const struct bps_arrival *arrival,
                         char *text, size_t bytes)
{
	if (bps_push_disagrees(&key->sign, &arrival->hdr, text, bytes))
		return true;
	if (!key->members[arrival->hdr.member])
		return false;
	snprintf(text, bytes, "rank %u sent the same part twice", arrival->hdr.peer);
	return true;
}

/* Why @arrival is refused, before there is a question of a key. NULL: it is not. */
static const char *refusal(struct bps_reducer *reducer, const struct bps_arrival *arrival)
{
	const struct bps_wire_hdr *hdr = &arrival->hdr;
	const struct failed *failed = failed_find(reducer, arrival->job, hdr->group);

	if (failed)
		return failed->text;
	return bps_push_absurd(
		hdr, bps_server_kernel(reducer->server, hdr->dtype, hdr->redop) != NULL);
}

static void take_push(struct bps_reducer *reducer, struct bps_arrival *arrival)
{
	const char *why = refusal(reducer, arrival);
	struct key_id id;
	struct key *key;
	char text[256];

	if (why) {
		fail(reducer, arrival, why);
		return;
	}
	key = key_find(reducer, arrival, &id);
	if (!key)
		key = key_new(reducer, arrival, &id);
	if (!key) {
		fail(reducer, arrival, "the server has no memory for another key");
		return;
	}
	if (does_not_fit(key, arrival, text, sizeof(text))) {
		group_fail(reducer, arrival->job, arrival->hdr.group, text);
		fail(reducer, arrival, text);
		return;
	}
	key->members[arrival->hdr.member] = arrival;
	key->n_arrived++;
	if (key->sign.coll == BPS_BCAST)
		take_bcast(reducer, key, arrival);
	else
		take_allreduce(reducer, key, arrival);
}

/* Who is missing: members as little-endian u16, as many as fit a control payload. */
static void take_ping(struct bps_reducer *reducer, struct bps_arrival *arrival)
{
	struct key_id id;
	struct key *key = key_find(reducer, arrival, &id);
	uint8_t *list = key ? malloc(BPS_WIRE_CTL_PAYLOAD) : NULL;
	size_t m, n = 0;

	for (m = 0; list && m < key->sign.n_members; m++) {
		if (key->members[m])
			continue;
		if (2 * n + 2 > BPS_WIRE_CTL_PAYLOAD)
			break;
		list[2 * n] = (uint8_t)m;
		list[2 * n + 1] = (uint8_t)(m >> 8);
		n++;
	}
	arrival->text = (char *)list;
	arrival->answer = list;
	arrival->answer_bytes = (uint32_t)(2 * n);
	give_back(reducer, arrival);
}

static void take_cancel(struct bps_reducer *reducer, struct bps_arrival *cancel)
{
	group_fail(reducer, cancel->job, cancel->hdr.group, cancel->text);
	free(cancel->text);
	free(cancel);
}

static void take_purge(struct bps_reducer *reducer, struct bps_arrival *purge)
{
	struct key *key, *following;

	HASH_ITER(hh, reducer->keys, key, following)
	{
		if (key->id.job == purge->job)
			key_fail(reducer, key, "the job is over");
	}
	failed_trim(reducer, purge->job, 0);
	bps_job_put(reducer->server, purge->job);
	free(purge);
}

void bps_reducer_take(struct bps_reducer *reducer, struct bps_arrival *arrival)
{
	switch (arrival->kind) {
	case BPS_ARRIVAL_PUSH:
		take_push(reducer, arrival);
		break;
	case BPS_ARRIVAL_PING:
		take_ping(reducer, arrival);
		break;
	case BPS_ARRIVAL_CANCEL:
		take_cancel(reducer, arrival);
		break;
	case BPS_ARRIVAL_PURGE:
		take_purge(reducer, arrival);
		break;
	case BPS_ARRIVAL_LOST:
		break; /* never comes here */
	}
}

/* -- life -- */

int bps_reducer_new(struct bps_server *server, struct bps_reducer **ret_reducer)
{
	struct bps_reducer *reducer = calloc(1, sizeof(*reducer));

	if (!reducer)
		return -ENOMEM;
	reducer->server = server;
	*ret_reducer = reducer;
	return 0;
}

void bps_reducer_free(struct bps_reducer *reducer)
{
	struct failed *failed, *next_failed;
	struct key *key, *next_key;

	if (!reducer)
		return;
	HASH_ITER(hh, reducer->keys, key, next_key)
	key_free(reducer, key);
	HASH_ITER(hh, reducer->failed, failed, next_failed)
	failed_free(reducer, failed);
	free(reducer);
}

uint32_t bps_reducer_of(const struct bps_wire_hdr *hdr, uint32_t n)
{
	uint64_t mix = hdr->group * 0x9e3779b97f4a7c15u + hdr->op;

	/* Parts of an op go to reducers in turn, so that each op is spread evenly. */
	return n <= 1 ? 0 : (uint32_t)((mix % n + hdr->part) % n);
}

uint32_t bps_reducer_n_keys(const struct bps_reducer *reducer)
{
	return HASH_COUNT(reducer->keys);
}
