/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A doubly linked list whose links lie inside its elements. The head is a link too: an
 * empty list points at itself, and so does an element that is in no list (after
 * bps_list_init() or bps_list_remove()), so that removing twice does nothing.
 *
 * A list owns nothing and has no lock: it belongs to the thread of the struct that holds
 * its head.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct bps_list {
	struct bps_list *next;
	struct bps_list *prev;
};

/* The struct of type @type whose member @member is at @ptr. */
#define BPS_CONTAINER_OF(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Walk over all elements; @pos is a (type *). The element itself must not be removed. */
#define BPS_LIST_FOREACH(pos, head, member)                                  \
	for (pos = BPS_CONTAINER_OF((head)->next, __typeof__(*pos), member); \
	     &pos->member != (head);                                         \
	     pos = BPS_CONTAINER_OF(pos->member.next, __typeof__(*pos), member))

/* The same; the body may remove and free @pos (not @following, a (type *) too). */
#define BPS_LIST_FOREACH_SAFE(pos, following, head, member)                           \
	for (pos = BPS_CONTAINER_OF((head)->next, __typeof__(*pos), member),          \
	    following = BPS_CONTAINER_OF(pos->member.next, __typeof__(*pos), member); \
	     &pos->member != (head); pos = following,                                 \
	    following = BPS_CONTAINER_OF(pos->member.next, __typeof__(*pos), member))

/** bps_list_init() - make @list an empty list, or a link that is in none. */
static inline void bps_list_init(struct bps_list *list)
{
	list->next = list;
	list->prev = list;
}

/** bps_list_empty() - whether the list has no element (the link is in no list). */
static inline bool bps_list_empty(const struct bps_list *list)
{
	return list->next == list;
}

/** bps_list_insert_before() - put @link, which is in no list, in front of @at. */
static inline void bps_list_insert_before(struct bps_list *at, struct bps_list *link)
{
	link->prev = at->prev;
	link->next = at;
	at->prev->next = link;
	at->prev = link;
}

/** bps_list_push_back() - add @link, which is in no list, as the last element. */
static inline void bps_list_push_back(struct bps_list *head, struct bps_list *link)
{
	bps_list_insert_before(head, link);
}

/** bps_list_push_front() - add @link, which is in no list, as the first element. */
static inline void bps_list_push_front(struct bps_list *head, struct bps_list *link)
{
	bps_list_insert_before(head->next, link);
}

/** bps_list_remove() - take @link out of the list it is in, if any. */
static inline void bps_list_remove(struct bps_list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	bps_list_init(link);
}

/** bps_list_first() - the first link, NULL where the list is empty. */
static inline struct bps_list *bps_list_first(const struct bps_list *head)
{
	return bps_list_empty(head) ? NULL : head->next;
}

/** bps_list_pop_front() - remove and return the first link, NULL where there is none. */
static inline struct bps_list *bps_list_pop_front(struct bps_list *head)
{
	struct bps_list *first = bps_list_first(head);

	if (first)
		bps_list_remove(first);
	return first;
}

/** bps_list_splice_back() - move all elements of @from to the end of @to. */
static inline void bps_list_splice_back(struct bps_list *to, struct bps_list *from)
{
	if (bps_list_empty(from))
		return;
	from->next->prev = to->prev;
	from->prev->next = to;
	to->prev->next = from->next;
	to->prev = from->prev;
	bps_list_init(from);
}
