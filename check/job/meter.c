/* SPDX-License-Identifier: BSD-3-Clause */
#include "check/job/meter.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "transport/reach.h"

#define SLOT_BYTES  (256u << 10)
#define N_SLOTS     8u
#define TIMEOUT_NS  (10 * BPS_NS_PER_S)
#define CARRY_BYTES (UINT64_C(1) << 30) /* of memory, that a server in a box may use */
#define PATIENCE_NS BPS_NS_PER_S        /* with a card that may lead nowhere */

static int start_engine(const struct bps_meter_job *job, uint32_t peer,
                        struct bps_engine **ret)
{
	struct bps_engine_config config = {
		.client = {
			.peer = peer,
			.n_peers = job->n_peers,
			.host = "bpsmpi-check",
			.slot_bytes = SLOT_BYTES,
			.n_slots = N_SLOTS,
			.timeout_ns = TIMEOUT_NS,
		},
		.server_memory_bytes = CARRY_BYTES,
	};

	memcpy(config.client.job, job->id, sizeof(job->id));
	return bps_engine_start(&config, ret);
}

/* -- a server here -- */

int bps_meter_carry(const struct bps_meter_job *job, struct bps_engine **ret,
                    struct bps_addr *ret_addr)
{
	struct bps_addr addrs[BPS_ENGINE_MAX_ADDRS];
	int n = 0, r;

	*ret = NULL;
	*ret_addr = (struct bps_addr){ 0 };
	for (int i = 0; i < job->n_cards && n < BPS_ENGINE_MAX_ADDRS; i++)
		if (job->cards[i].addr.sa.sa_family == job->cards[0].addr.sa.sa_family)
			addrs[n++] = job->cards[i].addr;
	if (n == 0)
		return -EADDRNOTAVAIL;
	r = start_engine(job, 0, ret);
	if (!r)
		r = bps_engine_serve(*ret, addrs, n, ret_addr);
	if (!r)
		return 0;
	bps_engine_stop(*ret);
	*ret = NULL;
	*ret_addr = (struct bps_addr){ 0 };
	return r;
}

/* -- a server elsewhere -- */

/* One more connection on each other card that leads there; what does not come up is
 * done without. */
static void add_rails(const struct bps_meter_job *job, struct bps_meter *meter,
                      const char *name)
{
	struct bps_engine_trial trials[BPS_REACH_MAX_RAILS];
	struct bps_engine_ways ways;

	bps_engine_ways(meter->engine, 0, job->cards, job->n_cards, &ways);
	for (uint32_t i = 0; i < ways.n_others; i++)
		trials[i] =
			(struct bps_engine_trial){ .name = name, .rail = ways.others[i] };
	if (ways.n_others > 0)
		bps_engine_try(meter->engine, trials, ways.n_others, PATIENCE_NS);
}

int bps_meter_start(const struct bps_meter_job *job, struct bps_meter *meter,
                    uint32_t peer, const char *name, const struct bps_addr *addrs,
                    int n_addrs)
{
	const struct bps_engine_server server = {
		.name = name,
		.addrs = addrs,
		.n_addrs = n_addrs,
		.n_connections = 1,
	};
	int r = start_engine(job, peer, &meter->engine);

	if (r) {
		meter->engine = NULL;
		return r;
	}
	r = bps_engine_connect(meter->engine, &server, 1, &meter->reason);
	if (r)
		bps_meter_stop(meter);
	else
		add_rails(job, meter, name);
	return r;
}

void *bps_meter_run(void *arg)
{
	struct bps_meter *meter = arg;

	if (bps_engine_probe(meter->engine, 0, meter->least_ns, &meter->bytes_per_s,
	                     &meter->reason) < 0)
		meter->bytes_per_s = 0;
	return NULL;
}

void *bps_meter_keep(void *arg)
{
	struct bps_meter *meter = arg;

	do {
		bps_meter_run(meter);
	} while (meter->bytes_per_s > 0 && !bps_load_relaxed(&meter->enough));
	return NULL;
}

uint64_t bps_meter_bytes(const struct bps_meter *meter)
{
	struct bps_engine_card cards[BPS_NETIF_MAX];
	uint32_t n = bps_engine_cards(meter->engine, cards, BPS_NETIF_MAX);
	uint64_t in = 0, out = 0;

	for (uint32_t i = 0; i < n; i++) {
		in += cards[i].received_bytes;
		out += cards[i].sent_bytes;
	}
	return in < out ? in : out;
}

void bps_meter_stop(struct bps_meter *meter)
{
	bps_engine_stop(meter->engine);
	meter->engine = NULL;
}
