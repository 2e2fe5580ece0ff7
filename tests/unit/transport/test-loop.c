/* SPDX-License-Identifier: BSD-3-Clause */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/loop.h"

static char order[64]; /* what ran, in order */

static void note(char what)
{
	size_t n = strlen(order);

	if (n + 1 < sizeof(order)) {
		order[n] = what;
		order[n + 1] = '\0';
	}
}

static int setup(void **state)
{
	struct bps_loop *loop;

	order[0] = '\0';
	assert_int_equal(bps_loop_new(&loop), 0);
	*state = loop;
	return 0;
}

static int teardown(void **state)
{
	assert_true(bps_loop_idle(*state));
	bps_loop_free(*state);
	return 0;
}

struct named_timer {
	struct bps_timer timer;
	char name;
	struct bps_timer *cancel; /* in its callback */
	struct bps_loop *again;
};

static void on_timer(struct bps_timer *timer)
{
	struct named_timer *named = BPS_CONTAINER_OF(timer, struct named_timer, timer);

	note(named->name);
	assert_int_equal(timer->at_ns, 0);
	if (named->cancel)
		bps_timer_cancel(named->cancel);
	if (named->again)
		bps_timer_set(named->again, timer, 1);
}

static void test_timer_order(void **state)
{
	struct bps_loop *loop = *state;
	struct named_timer a = { { .fn = on_timer }, 'a', NULL, NULL };
	struct named_timer b = { { .fn = on_timer }, 'b', NULL, NULL };
	struct named_timer c = { { .fn = on_timer }, 'c', NULL, NULL };
	uint64_t now_ns = bps_now_ns();

	bps_timer_set(loop, &b.timer, now_ns + 4 * BPS_NS_PER_MS);
	bps_timer_set(loop, &c.timer, now_ns + 6 * BPS_NS_PER_MS);
	bps_timer_set(loop, &a.timer, now_ns + 2 * BPS_NS_PER_MS);
	assert_false(bps_loop_idle(loop));
	while (!bps_loop_idle(loop))
		assert_int_equal(bps_loop_turn(loop, UINT64_MAX), 0);
	assert_string_equal(order, "abc");
	assert_true(bps_loop_now(loop) >= now_ns + 6 * BPS_NS_PER_MS);
	assert_true(bps_loop_now(loop) < now_ns + 500 * BPS_NS_PER_MS);
}

static void test_timer_changes(void **state)
{
	struct bps_loop *loop = *state;
	struct named_timer a = { { .fn = on_timer }, 'a', NULL, NULL };
	struct named_timer b = { { .fn = on_timer }, 'b', NULL, NULL };

	/* Never set, twice canceled; moved; canceled by one that is due with it. */
	bps_timer_cancel(&a.timer);
	bps_timer_cancel(&a.timer);
	bps_timer_set(loop, &a.timer, UINT64_MAX);
	bps_timer_set(loop, &a.timer, 1);
	bps_timer_set(loop, &b.timer, 2);
	a.cancel = &b.timer;
	assert_int_equal(bps_loop_turn(loop, 0), 0);
	assert_string_equal(order, "a");
}

static void test_timer_again(void **state)
{
	struct bps_loop *loop = *state;
	struct named_timer a = { { .fn = on_timer }, 'a', NULL, loop };

	/* Sets itself into the past: once a turn, not for ever. */
	bps_timer_set(loop, &a.timer, 1);
	assert_int_equal(bps_loop_turn(loop, UINT64_MAX), 0);
	assert_string_equal(order, "a");
	assert_int_equal(bps_loop_turn(loop, UINT64_MAX), 0);
	assert_string_equal(order, "aa");
	bps_timer_cancel(&a.timer);
}

static void test_timeout(void **state)
{
	uint64_t start_ns = bps_now_ns(), took_ns;

	assert_int_equal(bps_loop_turn(*state, 20 * BPS_NS_PER_MS), 0);
	took_ns = bps_now_ns() - start_ns;
	assert_true(took_ns >= 20 * BPS_NS_PER_MS && took_ns < 500 * BPS_NS_PER_MS);
}

struct named_defer {
	struct bps_defer defer;
	char name;
	struct bps_loop *again;
	struct bps_defer *cancel;
};

static void on_defer(struct bps_defer *defer)
{
	struct named_defer *named = BPS_CONTAINER_OF(defer, struct named_defer, defer);

	note(named->name);
	if (named->again)
		bps_defer_add(named->again, defer);
	if (named->cancel)
		bps_defer_cancel(named->cancel);
}

static void test_defer(void **state)
{
	struct bps_loop *loop = *state;
	struct named_defer a = { { .fn = on_defer }, 'a', loop, NULL };
	struct named_defer b = { { .fn = on_defer }, 'b', NULL, NULL };
	struct named_defer c = { { .fn = on_defer }, 'c', NULL, NULL };

	bps_defer_cancel(&c.defer);
	bps_defer_add(loop, &a.defer);
	bps_defer_add(loop, &b.defer);
	bps_defer_add(loop, &a.defer);
	bps_defer_add(loop, &c.defer);
	b.cancel = &c.defer;
	/* What is added meanwhile waits for the next turn, which does not sleep. */
	assert_int_equal(bps_loop_turn(loop, UINT64_MAX), 0);
	assert_string_equal(order, "ab");
	a.again = NULL;
	assert_int_equal(bps_loop_turn(loop, UINT64_MAX), 0);
	assert_string_equal(order, "aba");
}

struct pipe_watch {
	struct bps_watch watch;
	int other_fd;
	char name;
	bool keep; /* stay ready: read nothing */
	struct pipe_watch *remove;
	uint32_t events;
};

static void on_pipe(struct bps_watch *watch, uint32_t events)
{
	struct pipe_watch *self = BPS_CONTAINER_OF(watch, struct pipe_watch, watch);
	char buf[16];

	note(self->name);
	self->events = events;
	if (self->remove)
		bps_watch_remove(&self->remove->watch);
	if (self->keep || !watch->loop)
		return;
	while (read(watch->fd, buf, sizeof(buf)) > 0)
		;
	bps_watch_clear(watch, BPS_READABLE);
}

static void pipe_open(struct bps_loop *loop, struct pipe_watch *self, char name)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	memset(self, 0, sizeof(*self));
	self->name = name;
	self->watch.fd = fds[0];
	self->watch.fn = on_pipe;
	self->other_fd = fds[1];
	assert_int_equal(bps_watch_add(loop, &self->watch, BPS_READABLE), 0);
}

static void pipe_close(struct pipe_watch *self)
{
	bps_watch_remove(&self->watch);
	bps_watch_remove(&self->watch);
	close(self->watch.fd);
	if (self->other_fd >= 0)
		close(self->other_fd);
}

static void poke(const struct pipe_watch *self)
{
	assert_int_equal(write(self->other_fd, "x", 1), 1);
}

static void test_watch_level(void **state)
{
	struct bps_loop *loop = *state;
	struct pipe_watch a;

	pipe_open(loop, &a, 'a');
	assert_int_equal(bps_loop_turn(loop, 0), 0);
	assert_string_equal(order, "");
	poke(&a);
	a.keep = true;
	/* Called again and again, without a sleep, until it says that it is empty. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(bps_loop_turn(loop, UINT64_MAX), 0);
	assert_string_equal(order, "aaa");
	a.keep = false;
	assert_int_equal(bps_loop_turn(loop, UINT64_MAX), 0);
	assert_int_equal(bps_loop_turn(loop, 0), 0);
	assert_string_equal(order, "aaaa");
	poke(&a);
	assert_int_equal(bps_loop_turn(loop, UINT64_MAX), 0);
	assert_string_equal(order, "aaaaa");
	pipe_close(&a);
}

static void test_watch_want(void **state)
{
	struct bps_loop *loop = *state;
	struct pipe_watch a;

	pipe_open(loop, &a, 'a');
	bps_watch_want(&a.watch, 0);
	poke(&a);
	assert_int_equal(bps_loop_turn(loop, 0), 0);
	assert_string_equal(order, "");
	/* The edge was kept. */
	bps_watch_want(&a.watch, BPS_READABLE);
	assert_int_equal(bps_loop_turn(loop, 0), 0);
	assert_string_equal(order, "a");
	assert_int_equal(a.events, BPS_READABLE);
	bps_watch_want(&a.watch, BPS_READABLE | BPS_WRITABLE);
	assert_int_equal(bps_loop_turn(loop, 0), 0);
	assert_int_equal(a.events, BPS_WRITABLE);
	pipe_close(&a);
}

static void test_watch_hang_up(void **state)
{
	struct bps_loop *loop = *state;
	struct pipe_watch a;

	pipe_open(loop, &a, 'a');
	bps_watch_want(&a.watch, BPS_READABLE | BPS_HUNG_UP);
	close(a.other_fd);
	a.other_fd = -1;
	assert_int_equal(bps_loop_turn(loop, 0), 0);
	assert_int_equal(a.events, BPS_READABLE | BPS_HUNG_UP);
	pipe_close(&a);
}

static void test_watch_remove_other(void **state)
{
	struct bps_loop *loop = *state;
	struct pipe_watch a, b;

	pipe_open(loop, &a, 'a');
	pipe_open(loop, &b, 'b');
	poke(&a);
	poke(&b);
	a.remove = &b;
	b.remove = &a;
	/* Whichever is first, the other one is not called. */
	assert_int_equal(bps_loop_turn(loop, 0), 0);
	assert_int_equal(bps_loop_turn(loop, 0), 0);
	assert_int_equal(strlen(order), 1);
	pipe_close(&a);
	pipe_close(&b);
}

static void test_watch_remove_itself(void **state)
{
	struct bps_loop *loop = *state;
	struct pipe_watch a;

	pipe_open(loop, &a, 'a');
	poke(&a);
	a.remove = &a;
	assert_int_equal(bps_loop_turn(loop, 0), 0);
	assert_int_equal(bps_loop_turn(loop, 0), 0);
	assert_string_equal(order, "a");
	/* And once more in the same place. */
	assert_int_equal(bps_watch_add(loop, &a.watch, BPS_READABLE), 0);
	assert_int_equal(bps_loop_turn(loop, 0), 0);
	assert_string_equal(order, "aa");
	pipe_close(&a);
}

static void test_watch_bad(void **state)
{
	struct bps_watch watch = { .fd = -1 };

	assert_int_equal(bps_watch_add(*state, &watch, BPS_READABLE), -EBADF);
	bps_watch_remove(&watch);
}

/* More watches than one epoll_wait() reports: each has its turn. */
static void test_watch_many(void **state)
{
	enum { N = 300 };
	static struct pipe_watch all[N];
	int n = 0;

	for (int i = 0; i < N; i++) {
		pipe_open(*state, &all[i], 'x');
		poke(&all[i]);
	}
	for (int turn = 0; turn < 20; turn++) {
		order[0] = '\0';
		assert_int_equal(bps_loop_turn(*state, 0), 0);
	}
	for (int i = 0; i < N; i++) {
		n += all[i].events == BPS_READABLE;
		pipe_close(&all[i]);
	}
	assert_int_equal(n, N);
}

struct letter {
	struct bps_mail mail;
	uint32_t sender, number;
};

enum { N_SENDERS = 3, N_LETTERS = 20000 };

struct sender {
	pthread_t thread;
	struct bps_loop *loop;
	struct letter letters[N_LETTERS];
};

static uint32_t next_number[N_SENDERS];
static uint32_t n_letters;
static struct sender senders[N_SENDERS];

static void on_mail(struct bps_mail *mail)
{
	struct letter *letter = BPS_CONTAINER_OF(mail, struct letter, mail);

	assert_int_equal(letter->number, next_number[letter->sender]++);
	n_letters++;
}

static void *post_all(void *arg)
{
	struct sender *sender = arg;

	for (uint32_t i = 0; i < N_LETTERS; i++) {
		struct letter *letter = &sender->letters[i];

		letter->mail.fn = on_mail;
		letter->sender = (uint32_t)(sender - senders);
		letter->number = i;
		bps_loop_post(sender->loop, &letter->mail);
		/* Now and then let the loop fall asleep. */
		if (i % 1000 == 0)
			usleep(300);
	}
	return NULL;
}

/* No letter is lost and no wake-up: a lost one would sleep for the whole timeout. */
static void test_mail_threads(void **state)
{
	uint64_t start_ns = bps_now_ns();

	for (int i = 0; i < N_SENDERS; i++) {
		senders[i].loop = *state;
		assert_int_equal(
			pthread_create(&senders[i].thread, NULL, post_all, &senders[i]),
			0);
	}
	while (n_letters < N_SENDERS * N_LETTERS)
		assert_int_equal(bps_loop_turn(*state, 20 * BPS_NS_PER_S), 0);
	for (int i = 0; i < N_SENDERS; i++)
		pthread_join(senders[i].thread, NULL);
	assert_true(bps_now_ns() - start_ns < 15 * BPS_NS_PER_S);
}

static void *stop_soon(void *arg)
{
	usleep(20000);
	bps_loop_stop(arg);
	return NULL;
}

static void test_stop(void **state)
{
	struct bps_loop *loop = *state;
	pthread_t thread;

	/* Before: it returns at once. From another thread: it wakes up. */
	bps_loop_stop(loop);
	assert_int_equal(bps_loop_run(loop), 0);
	assert_int_equal(pthread_create(&thread, NULL, stop_soon, loop), 0);
	assert_int_equal(bps_loop_run(loop), 0);
	pthread_join(thread, NULL);
}

static void test_wake(void **state)
{
	struct bps_loop *loop = *state;
	uint64_t start_ns = bps_now_ns(), one = 1;

	/* Any number of wake-ups before the sleep, one turn; then it sleeps again. */
	bps_loop_wake(loop);
	bps_loop_wake(loop);
	assert_int_equal(bps_loop_turn(loop, 10 * BPS_NS_PER_S), 0);
	assert_true(bps_now_ns() - start_ns < 5 * BPS_NS_PER_S);
	start_ns = bps_now_ns();
	assert_int_equal(bps_loop_turn(loop, 10 * BPS_NS_PER_MS), 0);
	assert_true(bps_now_ns() - start_ns >= 10 * BPS_NS_PER_MS);
	/* As another process does it, and after that a wake-up of our own still works. */
	for (int i = 0; i < 3; i++) {
		start_ns = bps_now_ns();
		assert_int_equal(write(bps_loop_wake_fd(loop), &one, 8), 8);
		assert_int_equal(bps_loop_turn(loop, 10 * BPS_NS_PER_S), 0);
		bps_loop_wake(loop);
		assert_int_equal(bps_loop_turn(loop, 10 * BPS_NS_PER_S), 0);
		assert_true(bps_now_ns() - start_ns < 5 * BPS_NS_PER_S);
	}
	/* A malicious or wild writer fills the counter. */
	one = UINT64_MAX - 1;
	assert_int_equal(write(bps_loop_wake_fd(loop), &one, 8), 8);
	bps_loop_wake(loop);
	assert_int_equal(bps_loop_turn(loop, 10 * BPS_NS_PER_S), 0);
}

static void test_cloexec(void **state)
{
	assert_true(fcntl(bps_loop_wake_fd(*state), F_GETFD) & FD_CLOEXEC);
}

#define LOOP_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOOP_TEST(test_timer_order),
		LOOP_TEST(test_timer_changes),
		LOOP_TEST(test_timer_again),
		LOOP_TEST(test_timeout),
		LOOP_TEST(test_defer),
		LOOP_TEST(test_watch_level),
		LOOP_TEST(test_watch_want),
		LOOP_TEST(test_watch_hang_up),
		LOOP_TEST(test_watch_remove_other),
		LOOP_TEST(test_watch_remove_itself),
		LOOP_TEST(test_watch_bad),
		LOOP_TEST(test_watch_many),
		LOOP_TEST(test_mail_threads),
		LOOP_TEST(test_stop),
		LOOP_TEST(test_wake),
		LOOP_TEST(test_cloexec),
	};

	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
