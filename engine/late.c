/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/late.h"

#include <stdio.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"

static void look(const struct bps_late *late)
{
	uint32_t r;

	for (r = 0; r < late->n_ranks; r++)
		late->seen[r] = late->moves(late->owner, r);
}

/* Of the ranks that have not moved since look(). */
static void warn(const struct bps_late *late, const struct bps_stage_wait *wait,
                 uint64_t waited_ns)
{
	char list[512] = "", name[64];
	size_t used = 0;
	bool first = true;
	uint32_t r;

	for (r = 0; r < late->n_ranks; r++) {
		if (late->moves(late->owner, r) != late->seen[r]) {
			if (first && r != late->rank)
				return;
			first = false;
			continue;
		}
		if (late->has_left(late->owner, r))
			continue;
		wait->describe(wait->owner, r, name, sizeof(name));
		if (used + sizeof(name) + 4 < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
			                         used ? ", " : "", name);
	}
	if (used)
		bps_warn("%s on %s has waited %llu s for %s; going on waiting",
		         late->call, late->comm,
		         (unsigned long long)(waited_ns / BPS_NS_PER_S), list);
}

void bps_late_wait(const struct bps_late *late, struct bps_event *event,
                   const struct bps_stage_wait *wait)
{
	uint64_t since_ns = bps_now_ns(), warned_ns = since_ns, now_ns;
	uint64_t nap_ns = wait->idle(wait->owner);
	bool looked = false;
	uint32_t seq;

	while (!late->has_work(late->owner)) {
		seq = bps_event_prepare(event);
		if (late->has_work(late->owner)) {
			bps_event_cancel(event);
			return;
		}
		bps_event_wait(event, seq, nap_ns);
		nap_ns = wait->idle(wait->owner);
		now_ns = bps_now_ns();
		bps_store_relaxed(late->turns, *late->turns + 1);
		if (!looked && now_ns - warned_ns >= wait->warn_ns / 2) {
			look(late);
			looked = true;
		} else if (now_ns - warned_ns >= wait->warn_ns) {
			warn(late, wait, now_ns - since_ns);
			warned_ns = now_ns;
			looked = false;
		}
	}
}
