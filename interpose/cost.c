/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A prediction is sure when the library takes so many times as long at the very least. */
#define SURE 1.25
/* The other way must be faster by this to be taken. */
#define MARGIN 1.03
/* A pair that took long enough speaks for itself when the other way took so many times as
 * long, and against the present way when that took so many times as long. */
#define CLEARLY_SLOWER 1.25
#define CLEARLY_FASTER 2.0
/* What shorter pairs show may be an accident: a busy core, another process's turn. */
#define ENOUGH_NS 20e6
#define MIN_PAIRS 3
/* Calls between series at least, and how often that is doubled. */
#define MIN_REST      64
#define MAX_REST      1e9
#define MAX_DOUBLINGS 3
/* What it costs to agree, or about that. */
#define AGREE_NS 50e3
/* Calls of other sizes until a series takes the size that comes. */
#define PATIENCE 32

uint64_t bps_cost_least_bytes(const struct bps_config *config, bool one_box)
{
	bool set = config->source[BPS_CONFIG_ROW_threshold_bytes] != BPS_CONFIG_DEFAULT;

	if (config->mode == BPS_MODE_AUTO && one_box && !set)
		return BPS_COST_ONE_BOX_BYTES;
	return config->threshold_bytes;
}

static int class_of(uint64_t bytes)
{
	int class = 63 - __builtin_clzll(bytes | 1);

	return class < BPS_COST_CLASSES ? class : BPS_COST_CLASSES - 1;
}

struct bps_cost_class *bps_cost_class(struct bps_cost *cost, uint32_t row, uint64_t bytes)
{
	return &cost->classes[row][class_of(bytes)];
}

static enum bps_cost_way other(enum bps_cost_way way)
{
	return way == BPS_COST_OWN ? BPS_COST_NATIVE : BPS_COST_OWN;
}

/*
 * The calls until the next series of @n_pairs, that takes no more than its share of their
 * time: a call more than its pairs goes the slower way.
 */
static uint64_t rest(double fast_ns, double slow_ns, uint32_t n_pairs, uint32_t doublings)
{
	double extra_ns =
		(n_pairs + 1) * (slow_ns - fast_ns) + (2 * n_pairs + 1) * AGREE_NS;
	double calls = extra_ns / (fast_ns > 1 ? fast_ns : 1) / BPS_COST_SHARE;

	if (calls < MIN_REST)
		calls = MIN_REST;
	calls *= 1u << (doublings < MAX_DOUBLINGS ? doublings : MAX_DOUBLINGS);
	return calls < MAX_REST ? (uint64_t)calls : (uint64_t)MAX_REST;
}

/* The latency counts most at the lower end of a class: what holds there holds in all. */
void bps_cost_predict(struct bps_cost *cost, enum bps_coll coll,
                      const struct bps_cost_model *model)
{
	int i;

	for (i = 0; i < BPS_COST_CLASSES; i++) {
		struct bps_cost_class *class = &cost->classes[coll][i];
		double bytes = (double)(UINT64_C(1) << i);
		double own_s = model->own_latency_s + bytes * model->own_s_per_byte;
		double native_s = bytes * model->native_s_per_byte_least;

		if (!(own_s > 0 && native_s >= SURE * own_s))
			continue;
		class->way = BPS_COST_OWN;
		class->rest = rest(own_s * 1e9, native_s * 1e9, MIN_PAIRS, 0);
	}
}

static bool is_near(const struct bps_cost_class *class, uint64_t bytes)
{
	uint64_t off = bytes > class->bytes ? bytes - class->bytes : class->bytes - bytes;

	return off <= class->bytes / 16;
}

bool bps_cost_asks(const struct bps_cost_class *class, uint64_t bytes)
{
	return class->trying && class->step >= 2 && is_near(class, bytes);
}

static int by_time(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return (left > right) - (left < right);
}

static int64_t median(const int64_t *times, uint32_t n)
{
	int64_t sorted[BPS_COST_MAX_PAIRS];

	memcpy(sorted, times, n * sizeof(*times));
	qsort(sorted, n, sizeof(*sorted), by_time);
	return sorted[n / 2];
}

/* Whether the first pair says it all. */
static bool is_clear(double now_ns, double then_ns)
{
	return then_ns >= CLEARLY_SLOWER * now_ns || now_ns >= CLEARLY_FASTER * then_ns;
}

/* Whether @n pairs are enough. */
static bool is_over(const struct bps_cost_class *class, uint32_t n)
{
	const int64_t *now = class->agreed_ns[class->way];
	const int64_t *then = class->agreed_ns[other(class->way)];
	double all_ns = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		all_ns += (double)now[i] + (double)then[i];
	if (all_ns < ENOUGH_NS)
		return n == BPS_COST_MAX_PAIRS;
	return n >= MIN_PAIRS || (n == 1 && is_clear((double)now[0], (double)then[0]));
}

static void decide(struct bps_cost_class *class, uint32_t n)
{
	double now_ns, then_ns;
	int way;

	for (way = 0; way < BPS_COST_N_WAYS; way++)
		class->learnt_ns[way] = median(class->agreed_ns[way], n);
	now_ns = (double)class->learnt_ns[class->way];
	then_ns = (double)class->learnt_ns[other(class->way)];
	class->trying = false;
	class->decided = true;
	class->confirmed++;
	if (then_ns * MARGIN < now_ns) {
		class->way = other(class->way);
		class->confirmed = 0;
	}
	class->rest = now_ns < then_ns ? rest(now_ns, then_ns, n, class->confirmed)
	                               : rest(then_ns, now_ns, n, class->confirmed);
}

bool bps_cost_agreed(struct bps_cost_class *class, int64_t ns)
{
	uint32_t trial = class->step - 1; /* 0 and 1 do not count */
	uint32_t n = (class->step - 2) / 2;

	if (trial < 2)
		return false;
	class->agreed_ns[trial % 2 ? BPS_COST_NATIVE : BPS_COST_OWN][trial / 2 - 1] = ns;
	if (trial % 2 == 0 || !is_over(class, n))
		return false;
	decide(class, n);
	return true;
}

enum bps_cost_way bps_cost_next(struct bps_cost_class *class, uint64_t bytes,
                                bool *ret_trial)
{
	bool misses = class->trying && !is_near(class, bytes);

	class->n_calls++;
	*ret_trial = false;
	if (!class->trying && class->rest > 0) {
		class->rest--;
		return class->way;
	}
	if (misses && ++class->missed < PATIENCE)
		return class->way;
	if (misses || !class->trying) {
		class->trying = true;
		class->step = 0;
		class->bytes = bytes;
	}
	class->missed = 0;
	*ret_trial = true;
	return class->step++ % 2 ? BPS_COST_NATIVE : BPS_COST_OWN;
}

/* -- the report -- */

/* Neighbouring classes of which the same is to be said. */
struct run {
	int first, last;
	double least, most; /* what the other way took, over this one; 0: not known */
	const char *what;
};

static const char *verdict(const struct bps_cost_class *class)
{
	if (!class->decided && class->way == BPS_COST_OWN)
		return "own, predicted";
	if (!class->decided)
		return "not tried to the end";
	return class->way == BPS_COST_OWN ? "own" : "native";
}

static double gain(const struct bps_cost_class *class)
{
	double now_ns = (double)class->learnt_ns[class->way];

	return now_ns > 0 ? (double)class->learnt_ns[other(class->way)] / now_ns : 0;
}

static size_t put_run(const struct run *run, char *text, size_t bytes)
{
	char first[24], last[24], gains[48] = "";

	bps_bytes_format(UINT64_C(1) << run->first, first, sizeof(first));
	bps_bytes_format(UINT64_C(1) << run->last, last, sizeof(last));
	if (run->most > 0 && run->most < run->least * 1.05)
		snprintf(gains, sizeof(gains), " (%.3gx)", run->most);
	else if (run->most > 0)
		snprintf(gains, sizeof(gains), " (%.3g-%.3gx)", run->least, run->most);
	return (size_t)snprintf(text, bytes, "%s%s%s %s%s", first,
	                        run->first < run->last ? "-" : "",
	                        run->first < run->last ? last : "", run->what, gains);
}

/* The run that begins at @first or behind it; false: there is none. */
static bool find_run(const struct bps_cost_class *classes, int first, struct run *ret_run)
{
	int i;

	*ret_run = (struct run){ 0 };
	for (i = first; i < BPS_COST_CLASSES; i++) {
		const struct bps_cost_class *class = &classes[i];
		double factor = gain(class);

		if (class->n_calls == 0)
			continue;
		if (!ret_run->what)
			*ret_run = (struct run){ i, i, factor, factor, verdict(class) };
		else if (strcmp(ret_run->what, verdict(class)) != 0)
			break;
		ret_run->last = i;
		ret_run->least = factor < ret_run->least ? factor : ret_run->least;
		ret_run->most = factor > ret_run->most ? factor : ret_run->most;
	}
	return ret_run->what != NULL;
}

bool bps_cost_format(const struct bps_cost *cost, uint32_t row, char *ret_text,
                     size_t text_bytes)
{
	const struct bps_cost_class *classes = cost->classes[row];
	size_t used = 0;
	struct run run = { .last = -1 };

	while (used < text_bytes && find_run(classes, run.last + 1, &run)) {
		if (used > 0)
			used += (size_t)snprintf(ret_text + used, text_bytes - used,
			                         ", ");
		if (used < text_bytes)
			used += put_run(&run, ret_text + used, text_bytes - used);
	}
	return used > 0;
}
