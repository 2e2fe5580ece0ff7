/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/shares.h"

#include <errno.h>
#include <float.h>

/*
 * Let t be the seconds a byte of the op, n the boxes, x and y the shares of a dedicated
 * server of bandwidth C and of the one in a box of bandwidth B.
 *
 * Allreduce. A dedicated server takes in x from each of n members and answers each:
 * n x <= t C. A box sends what its member pushes to others' servers, 1 - y, and what its
 * server answers to others' members, (n - 1) y; it receives as much:
 * 1 + (n - 2) y <= t B.
 *
 * Broadcast. A dedicated server takes in x once and answers the n - 1 that are not the
 * root: (n - 1) x <= t C. The box of the root sends 1 - y and (n - 1) y, as above. Any
 * other box receives everything once, for its server or for its member, so 1 <= t B, and
 * sends (n - 2) y, since its own member takes it inside the box: (n - 2) y <= t B.
 *
 * So a server can take at most t gain - loss, and every box wants 1 <= t B. The least t
 * is the one at which all that the servers can take adds up to 1, or the slowest box's 1
 * / B where that is more. No server's bound is negative there, since t B >= 1 for every
 * box: a box need never be dropped from the sum.
 */
struct bound {
	double gain;
	double loss;
	int turn; /* servers of a lower one are filled first; -1: there is no server */
};

/* Who is filled first: it costs nothing and spares the boxes' CPUs. */
enum { TURN_NONE = -1, TURN_DEDICATED, TURN_BOX, TURN_ROOT, N_TURNS };

#define NO_ROOT UINT32_MAX

/* What is left of the op and below this came from rounding. */
#define ROUNDING 1e-12

/* Where smaller shares, and all such together, are not worth their messages. */
#define SMALL_PART 256.0
#define SMALL_SUM  64.0

static bool is_bandwidth(double bytes_per_s)
{
	return bytes_per_s >= BPS_SHARES_MIN && bytes_per_s <= BPS_SHARES_MAX;
}

static bool has_server(const struct bps_shares_in *in, uint32_t box)
{
	return !in->colocated || in->colocated[box];
}

static bool is_sane(const struct bps_shares_in *in)
{
	bool any = in->n_servers > 0;

	if (in->n_boxes < 2)
		return false;
	for (uint32_t i = 0; i < in->n_servers; i++)
		if (!is_bandwidth(in->server_bytes_per_s[i]))
			return false;
	for (uint32_t i = 0; i < in->n_boxes; i++) {
		if (!is_bandwidth(in->box_bytes_per_s[i]))
			return false;
		any |= has_server(in, i);
	}
	return any;
}

static double slowest_box(const struct bps_shares_in *in)
{
	double slowest = in->box_bytes_per_s[0];

	for (uint32_t i = 1; i < in->n_boxes; i++)
		if (in->box_bytes_per_s[i] < slowest)
			slowest = in->box_bytes_per_s[i];
	return slowest;
}

static struct bound box_bound(const struct bps_shares_in *in, uint32_t root, uint32_t box)
{
	double others = (double)in->n_boxes - 2;
	struct bound bound = { .turn = box == root ? TURN_ROOT : TURN_BOX };

	if (!has_server(in, box))
		return (struct bound){ .turn = TURN_NONE };
	if (in->n_boxes == 2) {
		bound.loss = -1; /* the op as a whole makes no difference to the link */
		return bound;
	}
	bound.gain = in->box_bytes_per_s[box] / others;
	bound.loss = root == NO_ROOT || box == root ? 1 / others : 0;
	return bound;
}

static struct bound server_bound(const struct bps_shares_in *in, uint32_t root,
                                 uint32_t server)
{
	double answers = (double)in->n_boxes - (root == NO_ROOT ? 0 : 1);

	if (server >= in->n_servers)
		return box_bound(in, root, server - in->n_servers);
	return (struct bound){
		.gain = in->server_bytes_per_s[server] / answers,
		.turn = TURN_DEDICATED,
	};
}

static double least_time(const struct bps_shares_in *in, uint32_t root)
{
	double gain = 0, needed = 1, least = 1 / slowest_box(in);

	for (uint32_t i = 0; i < in->n_servers + in->n_boxes; i++) {
		struct bound bound = server_bound(in, root, i);

		gain += bound.gain;
		needed += bound.loss;
	}
	return needed > 0 && needed / gain > least ? needed / gain : least;
}

/* What the servers of @turn can take together. */
static double turn_most(const struct bps_shares_in *in, uint32_t root, double t, int turn)
{
	double most = 0;

	for (uint32_t i = 0; i < in->n_servers + in->n_boxes; i++) {
		struct bound bound = server_bound(in, root, i);

		if (bound.turn == turn)
			most += t * bound.gain - bound.loss;
	}
	return most;
}

/* How full each turn's servers are: its part of the op, of the most that they can take.
 */
static void fill_turns(const struct bps_shares_in *in, uint32_t root, double t,
                       double *ret_fill)
{
	double left = 1;

	for (int turn = 0; turn < N_TURNS; turn++) {
		double most = turn_most(in, root, t, turn);
		bool all = most + ROUNDING >= left;

		ret_fill[turn] = most <= 0 ? 0 : all ? left / most : 1;
		left = all ? 0 : left - most;
	}
}

static int solve(const struct bps_shares_in *in, uint32_t root, double *ret_shares,
                 double *ret_s_per_byte)
{
	double fill[N_TURNS], t;

	if (!is_sane(in))
		return -EINVAL;
	t = least_time(in, root);
	fill_turns(in, root, t, fill);
	for (uint32_t i = 0; i < in->n_servers + in->n_boxes; i++) {
		struct bound bound = server_bound(in, root, i);
		double most = t * bound.gain - bound.loss;

		ret_shares[i] = bound.turn == TURN_NONE || most <= 0
		                        ? 0
		                        : most * fill[bound.turn];
	}
	*ret_s_per_byte = t;
	return 0;
}

int bps_shares_allreduce(const struct bps_shares_in *in, double *ret_shares,
                         double *ret_s_per_byte)
{
	return solve(in, NO_ROOT, ret_shares, ret_s_per_byte);
}

int bps_shares_bcast(const struct bps_shares_in *in, uint32_t root, double *ret_shares,
                     double *ret_s_per_byte)
{
	if (root >= in->n_boxes)
		return -EINVAL;
	return solve(in, root, ret_shares, ret_s_per_byte);
}

double bps_ring_s_per_byte(const struct bps_shares_in *in)
{
	double n = (double)in->n_boxes;

	return 2 * (n - 1) / n / slowest_box(in);
}

/* Shares below this one are left out. */
static double least_share(const double *shares, uint32_t n)
{
	double largest = 0, sum = 0, small = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += shares[i];
		if (shares[i] > largest)
			largest = shares[i];
	}
	for (uint32_t i = 0; i < n; i++)
		if (shares[i] < largest / SMALL_PART)
			small += shares[i];
	return small * SMALL_SUM > sum ? 0 : largest / SMALL_PART;
}

/*
 * The weight is the way from one rounded running sum to the next: nothing is lost, and
 * the last running sum that grows is the whole, over itself.
 */
int bps_shares_weights(const double *shares, uint32_t n, uint32_t *ret_weights)
{
	double least, whole = 0, sum = 0;
	uint32_t given = 0;

	for (uint32_t i = 0; i < n; i++)
		if (!(shares[i] >= 0 && shares[i] <= 1))
			return -EINVAL;
	least = least_share(shares, n);
	for (uint32_t i = 0; i < n; i++)
		whole += shares[i] < least ? 0 : shares[i];
	if (!(whole >= DBL_MIN))
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t next;

		sum += shares[i] < least ? 0 : shares[i];
		next = (uint32_t)(sum / whole * BPS_SHARE_ONE + 0.5);
		ret_weights[i] = next - given;
		given = next;
	}
	return 0;
}
