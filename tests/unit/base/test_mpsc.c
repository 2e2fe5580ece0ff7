/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/base/unit.h"

#include "base/event.h"
#include "base/list.h"
#include "base/mpsc.h"
#include "base/thread.h"

#define N_PRODUCERS 4
#define N_ITEMS     20000 /* of each */

struct item {
	struct bps_mpsc_node node;
	uint32_t producer;
	uint32_t number;
};

struct shared {
	struct bps_mpsc queue;
	struct bps_event event;
	uint32_t n_started;
	struct item items[N_PRODUCERS][N_ITEMS];
};

static struct shared shared;

static void items_come_oldest_first(void **state)
{
	struct bps_mpsc_node nodes[3], *node;
	struct bps_mpsc queue;

	bps_mpsc_init(&queue);
	assert_null(bps_mpsc_pop_all(&queue));
	assert_true(bps_mpsc_push(&queue, &nodes[0]));
	assert_false(bps_mpsc_push(&queue, &nodes[1]));
	assert_false(bps_mpsc_push(&queue, &nodes[2]));
	assert_false(bps_mpsc_empty(&queue));
	node = bps_mpsc_pop_all(&queue);
	for (int i = 0; i < 3; i++, node = node->next)
		assert_ptr_equal(node, &nodes[i]);
	assert_null(node);
	assert_true(bps_mpsc_empty(&queue));
	assert_true(bps_mpsc_push(&queue, &nodes[0]));
}

static void *produce(void *arg)
{
	uint32_t producer = bps_fetch_add(&shared.n_started, 1);

	for (uint32_t i = 0; i < N_ITEMS; i++) {
		struct item *item = &shared.items[producer][i];

		item->producer = producer;
		item->number = i;
		if (bps_mpsc_push(&shared.queue, &item->node))
			bps_event_notify(&shared.event);
	}
	return NULL;
}

/* Sleeps until there is something: woken by nothing but the push that found it empty. */
static struct bps_mpsc_node *pop_or_sleep(void)
{
	struct bps_mpsc_node *node = bps_mpsc_pop_all(&shared.queue);

	while (!node) {
		uint32_t seq = bps_event_prepare(&shared.event);

		node = bps_mpsc_pop_all(&shared.queue);
		if (node)
			bps_event_cancel(&shared.event);
		else
			assert_int_equal(
				bps_event_wait(&shared.event, seq, UINT64_C(20000000000)),
				0);
	}
	return node;
}

static void many_push_one_takes_all_in_order(void **state)
{
	uint32_t next[N_PRODUCERS] = { 0 };
	pthread_t threads[N_PRODUCERS];
	uint32_t n_seen = 0;

	for (int i = 0; i < N_PRODUCERS; i++)
		assert_int_equal(
			bps_thread_start("produce", produce, NULL, -1, &threads[i]), 0);
	while (n_seen < N_PRODUCERS * N_ITEMS) {
		struct bps_mpsc_node *node = pop_or_sleep();

		for (; node; node = node->next, n_seen++) {
			struct item *item = BPS_CONTAINER_OF(node, struct item, node);

			assert_true(item->producer < N_PRODUCERS);
			assert_int_equal(item->number, next[item->producer]++);
		}
	}
	for (int i = 0; i < N_PRODUCERS; i++)
		bps_thread_join(threads[i]);
	assert_null(bps_mpsc_pop_all(&shared.queue));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_come_oldest_first),
		cmocka_unit_test(many_push_one_takes_all_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
