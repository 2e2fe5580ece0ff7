/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/base/unit.h"

#include "base/list.h"

struct item {
	int number;
	struct bps_list link;
};

/* The numbers as one decimal number, read forward; checks the links backward. */
static int digits(struct bps_list *head)
{
	struct item *item;
	int value = 0;

	BPS_LIST_FOREACH(item, head, link)
	{
		value = 10 * value + item->number;
		assert_ptr_equal(item->link.next->prev, &item->link);
		assert_ptr_equal(item->link.prev->next, &item->link);
	}
	return value;
}

static void pushes_keep_their_order(void **state)
{
	struct item a = { .number = 1 }, b = { .number = 2 }, c = { .number = 3 };
	struct item d = { .number = 4 };
	struct bps_list head;

	bps_list_init(&head);
	assert_true(bps_list_empty(&head));
	assert_null(bps_list_first(&head));
	assert_null(bps_list_pop_front(&head));
	bps_list_push_back(&head, &b.link);
	bps_list_push_back(&head, &c.link);
	bps_list_push_front(&head, &a.link);
	bps_list_insert_before(&c.link, &d.link);
	assert_int_equal(digits(&head), 1243);
	assert_ptr_equal(BPS_CONTAINER_OF(bps_list_first(&head), struct item, link), &a);
}

static void removing_twice_is_no_harm(void **state)
{
	struct item a = { .number = 1 }, b = { .number = 2 };
	struct bps_list head;

	bps_list_init(&head);
	bps_list_push_back(&head, &a.link);
	bps_list_push_back(&head, &b.link);
	bps_list_remove(&a.link);
	bps_list_remove(&a.link);
	assert_int_equal(digits(&head), 2);
	assert_ptr_equal(bps_list_pop_front(&head), &b.link);
	assert_true(bps_list_empty(&head));
}

static void the_safe_walk_may_remove(void **state)
{
	struct item items[6];
	struct item *item, *following;
	struct bps_list head;

	bps_list_init(&head);
	for (int i = 0; i < 6; i++) {
		items[i].number = i + 1;
		bps_list_push_back(&head, &items[i].link);
	}
	BPS_LIST_FOREACH_SAFE(item, following, &head, link)
	{
		if (item->number % 2 == 0) {
			bps_list_remove(&item->link);
			memset(item, 0xff, sizeof(*item));
		}
	}
	assert_int_equal(digits(&head), 135);
}

static void splicing_moves_everything(void **state)
{
	struct item a = { .number = 1 }, b = { .number = 2 }, c = { .number = 3 };
	struct bps_list one, other;

	bps_list_init(&one);
	bps_list_init(&other);
	bps_list_splice_back(&one, &other);
	assert_true(bps_list_empty(&one));
	bps_list_push_back(&one, &a.link);
	bps_list_push_back(&other, &b.link);
	bps_list_push_back(&other, &c.link);
	bps_list_splice_back(&one, &other);
	assert_int_equal(digits(&one), 123);
	assert_true(bps_list_empty(&other));
	bps_list_splice_back(&other, &one);
	assert_int_equal(digits(&other), 123);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pushes_keep_their_order),
		cmocka_unit_test(removing_twice_is_no_harm),
		cmocka_unit_test(the_safe_walk_may_remove),
		cmocka_unit_test(splicing_moves_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
