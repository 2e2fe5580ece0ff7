/* SPDX-License-Identifier: BSD-3-Clause */
/* The congestion window: slow start, its exit by delay, cubic (RFC 9438) or Reno. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "tests/sim/net-impl.h"

#define INITIAL_PACKETS 10.0
#define CUBIC_C         0.4
#define CUBIC_BETA      0.7
#define RENO_BETA       0.5
/* Slow start ends where the round trip has grown by an eighth, within these. */
#define DELAY_MIN_NS  (4 * BPS_NS_PER_MS)
#define DELAY_MAX_NS  (16 * BPS_NS_PER_MS)
#define DELAY_SAMPLES 8u
#define DELAY_PACKETS 16.0

void bps_sim_cubic_start(struct bps_sim_cubic *cubic)
{
	memset(cubic, 0, sizeof(*cubic));
	cubic->window = INITIAL_PACKETS;
	cubic->threshold = INFINITY;
}

static void watch_delay(struct bps_sim_flow *flow, uint64_t rtt_ns)
{
	struct bps_sim_cubic *cubic = &flow->cubic;
	uint64_t more_ns = flow->min_rtt_ns / 8;

	if (rtt_ns == 0 || cubic->n_rtts >= DELAY_SAMPLES)
		return;
	if (cubic->n_rtts++ == 0 || rtt_ns < cubic->round_rtt_ns)
		cubic->round_rtt_ns = rtt_ns;
	if (more_ns < DELAY_MIN_NS)
		more_ns = DELAY_MIN_NS;
	if (more_ns > DELAY_MAX_NS)
		more_ns = DELAY_MAX_NS;
	if (cubic->n_rtts == DELAY_SAMPLES && cubic->window >= DELAY_PACKETS &&
	    cubic->round_rtt_ns > flow->min_rtt_ns + more_ns)
		cubic->threshold = cubic->window;
}

static void begin_epoch(struct bps_sim_cubic *cubic, uint64_t now_ns)
{
	cubic->epoch_ns = now_ns;
	cubic->reno = cubic->window;
	cubic->origin = cubic->window > cubic->peak ? cubic->window : cubic->peak;
	cubic->k_s = cbrt((cubic->origin - cubic->window) / CUBIC_C);
}

static void avoid(struct bps_sim_flow *flow, uint32_t n_packets)
{
	struct bps_sim_cubic *cubic = &flow->cubic;
	uint64_t now_ns = flow->end->sim->now_ns;
	double t, target;

	if (flow->end->sim->config.reno) {
		cubic->window += n_packets / cubic->window;
		return;
	}
	if (cubic->epoch_ns == 0)
		begin_epoch(cubic, now_ns);
	t = (double)(now_ns - cubic->epoch_ns + flow->min_rtt_ns) * 1e-9 - cubic->k_s;
	target = cubic->origin + CUBIC_C * t * t * t;
	cubic->reno += 3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA) * n_packets / cubic->reno;
	if (target < cubic->reno)
		target = cubic->reno;
	if (target > 1.5 * cubic->window)
		target = 1.5 * cubic->window;
	if (target > cubic->window)
		cubic->window += (target - cubic->window) / cubic->window * n_packets;
}

/* A window that was not used has not been tried. */
static bool is_used(const struct bps_sim_flow *flow)
{
	if (flow->cubic.window < flow->cubic.threshold)
		return flow->limited || flow->cubic.window < 2.0 * flow->max_out;
	return flow->limited;
}

void bps_sim_cubic_acked(struct bps_sim_flow *flow, uint32_t n_packets, uint64_t rtt_ns)
{
	struct bps_sim_cubic *cubic = &flow->cubic;

	if (cubic->window < cubic->threshold)
		watch_delay(flow, rtt_ns);
	if (flow->state != BPS_SIM_TCP_RECOVERY && is_used(flow)) {
		if (cubic->window < cubic->threshold)
			cubic->window = fmin(cubic->window + n_packets, cubic->threshold);
		else
			avoid(flow, n_packets);
	}
	if (flow->una >= cubic->round_end) {
		cubic->round_end = flow->next;
		cubic->n_rtts = 0;
		flow->limited = false;
		flow->max_out = 0;
	}
}

void bps_sim_cubic_lost(struct bps_sim_flow *flow)
{
	struct bps_sim_cubic *cubic = &flow->cubic;
	double beta = flow->end->sim->config.reno ? RENO_BETA : CUBIC_BETA;

	cubic->epoch_ns = 0;
	cubic->peak = cubic->window < cubic->peak ? cubic->window * (1 + beta) / 2
	                                          : cubic->window;
	cubic->threshold = fmax(cubic->window * beta, 2);
	cubic->window = cubic->threshold;
}
