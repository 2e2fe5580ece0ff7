/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define TICK_NS BPS_NS_PER_S

static uint32_t n_wrong;

void bps_sim_wrong(const char *format, ...)
{
	va_list args;

	n_wrong++;
	va_start(args, format);
	fprintf(stderr, "# wrong: ");
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

uint32_t bps_sim_failures(void)
{
	uint32_t n = n_wrong;

	n_wrong = 0;
	return n;
}

static uint64_t below(struct bps_sim_job *job, uint64_t n)
{
	return bps_prng_below(&job->prng, n);
}

static uint64_t soon(struct bps_sim_job *job)
{
	return bps_sim_now(job->sim) + below(job, job->config.gap_ns + 1);
}

/* -- what a share does for its client -- */

static bool is_leaf(const struct bps_sim_share *share)
{
	return share->op.coll == BPS_BCAST && share->seat->group.member != share->op.root;
}

static bool is_root(const struct bps_sim_share *share)
{
	return share->op.coll == BPS_BCAST && share->seat->group.member == share->op.root;
}

static uint64_t offset_of(const struct bps_sim_share *share, uint64_t position)
{
	uint32_t start =
		share->op.coll == BPS_BCAST ? share->op.root : share->seat->group.member;
	uint64_t offset;
	uint32_t bytes;

	bps_cut_part(&share->op.cut,
	             bps_cut_visit(&share->op.cut, start, (uint32_t)position), &offset,
	             &bytes);
	return offset;
}

static const void *on_source(struct bps_op *op, uint64_t position)
{
	const struct bps_sim_share *share = op->owner;

	if (position >= share->n_ready)
		bps_sim_wrong("a part was taken that is not ready");
	if (is_leaf(share))
		return NULL;
	return share->input ? share->input + offset_of(share, position) : (uint8_t *)op;
}

static void *on_place(struct bps_op *op, uint64_t position, uint32_t *ret_region,
                      uint64_t *ret_offset)
{
	struct bps_sim_share *share = op->owner;

	if (is_root(share))
		return NULL;
	*ret_region = share->call->number;
	*ret_offset = offset_of(share, position);
	return share->output ? share->output + bps_total_bytes(op->dtype, *ret_offset)
	                     : (uint8_t *)op;
}

static void seat_next(void *arg);

static void on_landed(struct bps_op *op, uint64_t position)
{
	struct bps_sim_share *share = op->owner;
	struct bps_sim_job *job = share->call->group->job;

	if (share->over || position >= share->n_ready || share->landed[position])
		bps_sim_wrong("a part landed that could not");
	share->landed[position] = 1;
	share->n_landed++;
	while (share->n_in_order < op->cut.n_parts && share->landed[share->n_in_order])
		share->n_in_order++;
	if (job->config.ring > 0)
		bps_sim_at(job->sim, share->seat->member->node, bps_sim_now(job->sim),
		           seat_next, share->seat);
}

static void share_over(struct bps_sim_share *share, const struct bps_reason *reason)
{
	struct bps_sim_seat *seat = share->seat;
	struct bps_sim_job *job = seat->of->job;

	if (share->over)
		bps_sim_wrong("an op finished twice");
	share->over = true;
	if (seat->member->crashed)
		return;
	share->end_ns = job->end_ns = bps_sim_now(job->sim);
	if (reason) {
		share->reason = *reason;
		job->n_failed++;
		bps_sim_trace(job->sim, "call %u of %s failed at member %u: %s",
		              share->call->number, seat->of->name, seat->member->number,
		              reason->text);
		if (reason->error == 0 || reason->text[0] == '\0')
			bps_sim_wrong("an error without a reason");
		if (!job->config.may_fail)
			bps_sim_wrong("call %u of %s failed: %s", share->call->number,
			              seat->of->name, reason->text);
	}
	seat->n_over++;
	bps_sim_at(job->sim, seat->member->node, soon(job), seat_next, seat);
}

static void on_finished(struct bps_op *op, const struct bps_reason *reason)
{
	struct bps_sim_share *share = op->owner;
	const struct bps_sim_call *call = share->call;

	if (!reason && share->n_landed != op->cut.n_parts)
		bps_sim_wrong("an op finished without some of its parts");
	if (!reason && share->output && !is_root(share) &&
	    memcmp(share->output, call->expected,
	           bps_total_bytes(op->dtype, op->cut.op_bytes)) != 0)
		bps_sim_wrong("call %u of %s: member %u has another answer", call->number,
		              call->group->name, share->seat->member->number);
	share_over(share, reason);
}

const struct bps_op_events bps_sim_op_events = {
	.source = on_source,
	.place = on_place,
	.landed = on_landed,
	.finished = on_finished,
};

/* -- a member's calls -- */

/* How far the stage lets a share of its seat go on. */
static uint64_t ring_room(const struct bps_sim_share *share)
{
	const struct bps_sim_seat *seat = share->seat;
	uint32_t ring = seat->of->job->config.ring, place = seat->group.member, i;
	uint64_t room = ring;

	if (ring == 0)
		return UINT64_MAX;
	for (i = 0; i < share->call->number; i++) {
		const struct bps_sim_share *older = &seat->of->calls[i].shares[place];
		uint64_t held = older->op.cut.n_parts - older->n_in_order;

		if (!older->over)
			room = room > held ? room - held : 0;
	}
	return room + share->n_in_order;
}

/* Some more of its parts are ready. */
static void share_more(void *arg)
{
	struct bps_sim_share *share = arg;
	struct bps_sim_job *job = share->call->group->job;
	uint64_t end = ring_room(share);

	if (end > share->op.cut.n_parts)
		end = share->op.cut.n_parts;
	if (share->over || share->n_ready >= end)
		return;
	share->n_ready += 1 + below(job, end - share->n_ready);
	bps_op_ready(share->seat->member->client, &share->op, share->n_ready);
	bps_sim_at(job->sim, share->seat->member->node, soon(job), share_more, share);
}

/* With a stage: an older call's progress makes room for younger ones. */
static void seat_more(struct bps_sim_seat *seat)
{
	uint32_t i;

	for (i = 0; i < seat->n_started; i++) {
		struct bps_sim_share *share =
			&seat->of->calls[i].shares[seat->group.member];

		if (!share->over)
			share_more(share);
	}
}

static void share_start(void *arg)
{
	struct bps_sim_share *share = arg;
	struct bps_sim_seat *seat = share->seat;
	struct bps_sim_job *job = seat->of->job;
	struct bps_sim_member *member = seat->member;
	int r;

	if (member->closing) {
		share_over(share, &(struct bps_reason){ -ECANCELED, "left before" });
		return;
	}
	share->started = true;
	share->start_ns = bps_sim_now(job->sim);
	if (job->start_ns == 0)
		job->start_ns = share->start_ns;
	r = bps_op_start(member->client, &seat->group, &share->op, share->start_ns);
	if (r < 0 && r != seat->group.broken.error)
		bps_sim_wrong("an op could not start without a reason");
	if (r < 0)
		share_over(share, &seat->group.broken);
	else
		share_more(share);
}

static void member_check(struct bps_sim_member *member);

/* The next call of this group, if it is its time. */
static void seat_next(void *arg)
{
	struct bps_sim_seat *seat = arg;
	struct bps_sim_job *job = seat->of->job;
	struct bps_sim_share *share;

	if (job->config.ring > 0)
		seat_more(seat);
	if (seat->n_started == job->config.n_calls) {
		member_check(seat->member);
		return;
	}
	if (seat->n_started - seat->n_over >= job->config.max_in_flight)
		return;
	share = &seat->of->calls[seat->n_started].shares[seat->group.member];
	if (bps_sim_now(job->sim) < seat->not_before_ns)
		return;
	if (share->delay_ns > 0) { /* once; nothing overtakes it */
		seat->not_before_ns = bps_sim_now(job->sim) + share->delay_ns;
		share->delay_ns = 0;
		bps_sim_at(job->sim, seat->member->node, seat->not_before_ns, seat_next,
		           seat);
		return;
	}
	seat->n_started++;
	share_start(share);
	bps_sim_at(job->sim, seat->member->node, soon(job), seat_next, seat);
}

/* -- members -- */

static bool calls_over(const struct bps_sim_member *member)
{
	const struct bps_sim_job *job = member->job;
	uint32_t g, m;

	for (g = 0; g < job->config.n_groups; g++) {
		for (m = 0; m < job->groups[g].n_members; m++) {
			const struct bps_sim_seat *seat = &job->groups[g].seats[m];

			if (seat->member == member && seat->n_over < job->config.n_calls)
				return false;
		}
	}
	return true;
}

static void member_closed(void *arg)
{
	struct bps_sim_member *member = arg;
	struct bps_sim_job *job = member->job;

	if (member->closed)
		return;
	if (!bps_client_closed(member->client)) {
		bps_sim_at(job->sim, member->node, bps_sim_now(job->sim) + BPS_NS_PER_MS,
		           member_closed, member);
		return;
	}
	member->closed = true;
	job->n_closed++;
}

static void member_close(void *arg)
{
	struct bps_sim_member *member = arg;

	if (member->closing || !member->client)
		return;
	member->closing = true;
	bps_client_close(member->client);
	bps_sim_at(member->job->sim, member->node, soon(member->job), member_closed,
	           member);
}

static void member_check(struct bps_sim_member *member)
{
	if (!member->closing && !member->job->open_end && calls_over(member))
		bps_sim_at(member->job->sim, member->node, soon(member->job),
		           member_close, member);
}

static void member_tick(void *arg)
{
	struct bps_sim_member *member = arg;
	struct bps_sim *sim = member->job->sim;

	if (member->closing)
		return;
	bps_client_tick(member->client, bps_sim_now(sim));
	bps_sim_at(sim, member->node, bps_sim_now(sim) + TICK_NS, member_tick, member);
}

static void member_attach(struct bps_sim_member *member)
{
	struct bps_sim_job *job = member->job;
	uint32_t n = job->config.n_connections > 0 ? job->config.n_connections : 1, i;

	for (i = 0; i < job->config.n_servers * n; i++) {
		uint32_t s = i % job->config.n_servers;
		struct bps_sim_server *server = job->servers[s];
		struct bps_conn *conn = bps_sim_connect(member->node, server->node,
		                                        bps_sim_server_accept, server);

		if (bps_client_attach(member->client, s, conn, server->name, 0) < 0)
			abort();
		if (!job->config.servers)
			bps_client_carried(member->client, s);
	}
}

static void member_start(void *arg)
{
	struct bps_sim_member *member = arg;
	struct bps_sim_job *job = member->job;
	struct bps_client_config config = {
		.peer = member->first_rank,
		.n_peers = job->n_ranks,
		.host = "h",
		.slot_bytes = job->config.slot_bytes,
		.n_slots = job->config.n_slots,
		.timeout_ns = job->config.timeout_ns,
	};
	uint32_t g, m;

	memcpy(config.job, job->id, sizeof(config.job));
	if (bps_client_new(&config, &member->client) < 0)
		abort();
	member_attach(member);
	for (g = 0; g < job->config.n_groups; g++) {
		for (m = 0; m < job->groups[g].n_members; m++) {
			struct bps_sim_seat *seat = &job->groups[g].seats[m];

			if (seat->member != member)
				continue;
			if (bps_group_join(member->client, &seat->group) < 0)
				abort();
			bps_sim_at(job->sim, member->node, soon(job), seat_next, seat);
		}
	}
	member_tick(member);
}

/* -- the job -- */

void bps_sim_job_start(struct bps_sim_job *job)
{
	uint32_t i;

	for (i = 0; i < job->config.n_members; i++)
		bps_sim_at(job->sim, job->members[i].node, soon(job), member_start,
		           &job->members[i]);
}

void bps_sim_job_close(struct bps_sim_job *job)
{
	uint32_t i;

	for (i = 0; i < job->config.n_members; i++)
		bps_sim_at(job->sim, job->members[i].node, soon(job), member_close,
		           &job->members[i]);
}

void bps_sim_job_crash(struct bps_sim_job *job, uint32_t member)
{
	job->members[member].crashed = true;
	if (!job->members[member].closed)
		job->n_closed++;
	bps_sim_crash(job->members[member].node);
}

bool bps_sim_job_done(const struct bps_sim_job *job)
{
	uint32_t i;

	if (!job->open_end)
		return job->n_closed == job->config.n_members;
	for (i = 0; i < job->config.n_members; i++) {
		if (!job->members[i].crashed && !calls_over(&job->members[i]))
			return false;
	}
	return true;
}

struct bps_sim_share *bps_sim_job_share(struct bps_sim_job *job, uint32_t group,
                                        uint32_t call, uint32_t member)
{
	return &job->groups[group].calls[call].shares[member];
}
