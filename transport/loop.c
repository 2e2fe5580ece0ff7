/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"

/* Events taken from the kernel in one turn; more of them come in the next. */
#define MAX_EVENTS 64

struct bps_loop {
	int epoll_fd;
	int wake_fd;
	uint32_t woken; /* 1: wake_fd was or will be written, see bps_loop_wake() */
	uint32_t stopped;
	uint64_t now_ns;
	uint32_t n_watches;
	struct bps_list ready;  /* watches with something to do */
	struct bps_list timers; /* earliest first */
	struct bps_list defers;
	struct bps_mpsc mail;
};

static bool is_linked(const struct bps_list *link)
{
	return link->next && !bps_list_empty(link);
}

static void unlink_if(struct bps_list *link)
{
	if (link->next)
		bps_list_remove(link);
}

int bps_loop_new(struct bps_loop **ret_loop)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct bps_loop *loop = calloc(1, sizeof(*loop));
	int r;

	if (!loop)
		return -ENOMEM;
	bps_list_init(&loop->ready);
	bps_list_init(&loop->timers);
	bps_list_init(&loop->defers);
	bps_mpsc_init(&loop->mail);
	loop->now_ns = bps_now_ns();
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->epoll_fd < 0 || loop->wake_fd < 0 ||
	    epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) < 0) {
		r = -errno;
		bps_loop_free(loop);
		return r;
	}
	*ret_loop = loop;
	return 0;
}

void bps_loop_free(struct bps_loop *loop)
{
	if (!loop)
		return;
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	if (loop->wake_fd >= 0)
		close(loop->wake_fd);
	free(loop);
}

bool bps_loop_idle(const struct bps_loop *loop)
{
	return !loop->n_watches && bps_list_empty(&loop->timers) &&
	       bps_list_empty(&loop->defers);
}

uint64_t bps_loop_now(const struct bps_loop *loop)
{
	return loop->now_ns;
}

int bps_loop_wake_fd(const struct bps_loop *loop)
{
	return loop->wake_fd;
}

/*
 * Writes the eventfd only when nobody else has or is about to. No wake-up is lost: the
 * loop sets woken back to 0 after its sleep and before it looks at the mail, by an
 * exchange. A caller that finds 1 has its exchange before that one, so the loop sees all
 * that the caller did (release here, acquire there) in the turn that follows; and whoever
 * found 0 writes, so that turn comes. The same holds for a signal handler that interrupts
 * this function: the write is still made when the handler returns.
 */
void bps_loop_wake(struct bps_loop *loop)
{
	static const uint64_t one = 1;
	int saved_errno = errno;
	ssize_t n;

	if (bps_exchange(&loop->woken, 1u) == 0) {
		/* EAGAIN: the counter is full, so the loop is awake already. */
		n = write(loop->wake_fd, &one, sizeof(one));
		(void)n;
	}
	errno = saved_errno;
}

static void take_wake_up(struct bps_loop *loop)
{
	uint64_t count;
	ssize_t n;

	n = read(loop->wake_fd, &count, sizeof(count));
	(void)n;
	/* Pairs with the exchange in bps_loop_wake(). */
	bps_exchange(&loop->woken, 0u);
}

void bps_loop_post(struct bps_loop *loop, struct bps_mail *mail)
{
	if (bps_mpsc_push(&loop->mail, &mail->node))
		bps_loop_wake(loop);
}

void bps_loop_stop(struct bps_loop *loop)
{
	/* Pairs with the exchange in bps_loop_run(). */
	bps_store_release(&loop->stopped, 1u);
	bps_loop_wake(loop);
}

/* Put the watch among the ready ones, or take it out, as its state says. */
static void watch_update(struct bps_watch *watch)
{
	bool ready = watch->ready & watch->wanted;

	if (ready && !is_linked(&watch->link))
		bps_list_push_back(&watch->loop->ready, &watch->link);
	else if (!ready)
		bps_list_remove(&watch->link);
}

/*
 * The kernel is asked for everything once, and wanted is a mask on this side: changing it
 * costs no system call.
 */
int bps_watch_add(struct bps_loop *loop, struct bps_watch *watch, uint32_t wanted)
{
	struct epoll_event event = {
		.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
		.data.ptr = watch,
	};

	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) < 0)
		return -errno;
	bps_list_init(&watch->link);
	watch->loop = loop;
	watch->wanted = wanted;
	watch->ready = 0;
	loop->n_watches++;
	return 0;
}

void bps_watch_want(struct bps_watch *watch, uint32_t wanted)
{
	watch->wanted = wanted;
	watch_update(watch);
}

void bps_watch_clear(struct bps_watch *watch, uint32_t events)
{
	watch->ready &= ~events;
	watch_update(watch);
}

void bps_watch_remove(struct bps_watch *watch)
{
	if (!watch->loop)
		return;
	epoll_ctl(watch->loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	bps_list_remove(&watch->link);
	watch->loop->n_watches--;
	watch->loop = NULL;
}

void bps_timer_set(struct bps_loop *loop, struct bps_timer *timer, uint64_t at_ns)
{
	struct bps_list *before;

	bps_timer_cancel(timer);
	timer->at_ns = at_ns ? at_ns : 1;
	/* From the end: most timers are set to a later time than the others. */
	for (before = loop->timers.prev; before != &loop->timers; before = before->prev) {
		if (BPS_CONTAINER_OF(before, struct bps_timer, link)->at_ns <= at_ns)
			break;
	}
	bps_list_insert_before(before->next, &timer->link);
}

void bps_timer_cancel(struct bps_timer *timer)
{
	unlink_if(&timer->link);
	timer->at_ns = 0;
}

void bps_defer_add(struct bps_loop *loop, struct bps_defer *defer)
{
	if (!is_linked(&defer->link)) {
		bps_list_init(&defer->link);
		bps_list_push_back(&loop->defers, &defer->link);
	}
}

void bps_defer_cancel(struct bps_defer *defer)
{
	unlink_if(&defer->link);
}

static uint32_t from_epoll(uint32_t events)
{
	uint32_t ready = 0;

	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		ready |= BPS_READABLE;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		ready |= BPS_WRITABLE;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		ready |= BPS_HUNG_UP;
	return ready;
}

/* How long epoll may sleep, in ms, rounded up so that a timer is due when it ends. */
static int sleep_ms(const struct bps_loop *loop, uint64_t timeout_ns)
{
	struct bps_list *first = bps_list_first(&loop->timers);
	uint64_t now_ns, ms;

	if (!timeout_ns || !bps_list_empty(&loop->ready) ||
	    !bps_list_empty(&loop->defers))
		return 0;
	if (first) {
		uint64_t at_ns = BPS_CONTAINER_OF(first, struct bps_timer, link)->at_ns;

		now_ns = bps_now_ns();
		if (at_ns <= now_ns)
			return 0;
		if (at_ns - now_ns < timeout_ns)
			timeout_ns = at_ns - now_ns;
	}
	if (timeout_ns == UINT64_MAX)
		return -1;
	ms = timeout_ns / BPS_NS_PER_MS + (timeout_ns % BPS_NS_PER_MS != 0);
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* No callback runs in here, so every watch that the kernel names is still one. */
static int poll_kernel(struct bps_loop *loop, uint64_t timeout_ns)
{
	struct epoll_event events[MAX_EVENTS];
	int n;

	n = epoll_wait(loop->epoll_fd, events, MAX_EVENTS, sleep_ms(loop, timeout_ns));
	if (n < 0 && errno != EINTR)
		return -errno;
	for (int i = 0; i < n; i++) {
		struct bps_watch *watch = events[i].data.ptr;

		if (!watch) {
			take_wake_up(loop);
			continue;
		}
		watch->ready |= from_epoll(events[i].events);
		watch_update(watch);
	}
	return 0;
}

/*
 * The stages. Each takes out what is there before it calls anybody, so that a turn ends
 * whatever the callbacks add.
 */
static void run_timers(struct bps_loop *loop)
{
	struct bps_list due, *link;

	bps_list_init(&due);
	while ((link = bps_list_first(&loop->timers)) &&
	       BPS_CONTAINER_OF(link, struct bps_timer, link)->at_ns <= loop->now_ns) {
		bps_list_remove(link);
		bps_list_push_back(&due, link);
	}
	while ((link = bps_list_pop_front(&due))) {
		struct bps_timer *timer = BPS_CONTAINER_OF(link, struct bps_timer, link);

		timer->at_ns = 0;
		timer->fn(timer);
	}
}

static void run_mail(struct bps_loop *loop)
{
	struct bps_mpsc_node *node, *next;

	for (node = bps_mpsc_pop_all(&loop->mail); node; node = next) {
		struct bps_mail *mail = BPS_CONTAINER_OF(node, struct bps_mail, node);

		next = node->next;
		mail->fn(mail);
	}
}

static void run_watches(struct bps_loop *loop)
{
	struct bps_list todo, *link;

	bps_list_init(&todo);
	bps_list_splice_back(&todo, &loop->ready);
	while ((link = bps_list_pop_front(&todo))) {
		struct bps_watch *watch = BPS_CONTAINER_OF(link, struct bps_watch, link);

		/* Ready until it says that it is not. */
		bps_list_push_back(&loop->ready, link);
		watch->fn(watch, watch->ready & watch->wanted);
	}
}

static void run_defers(struct bps_loop *loop)
{
	struct bps_list todo, *link;

	bps_list_init(&todo);
	bps_list_splice_back(&todo, &loop->defers);
	while ((link = bps_list_pop_front(&todo))) {
		struct bps_defer *defer = BPS_CONTAINER_OF(link, struct bps_defer, link);

		defer->fn(defer);
	}
}

int bps_loop_turn(struct bps_loop *loop, uint64_t timeout_ns)
{
	int r;

	r = poll_kernel(loop, timeout_ns);
	if (r < 0)
		return r;
	loop->now_ns = bps_now_ns();
	run_timers(loop);
	run_mail(loop);
	run_watches(loop);
	run_defers(loop);
	return 0;
}

int bps_loop_run(struct bps_loop *loop)
{
	int r = 0;

	/* Pairs with the store in bps_loop_stop(). */
	while (r == 0 && !bps_exchange(&loop->stopped, 0u))
		r = bps_loop_turn(loop, UINT64_MAX);
	return r;
}
