/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/base/unit.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/event.h"
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#define N_PARTIES 4
#define N_TURNS   3000 /* of each */

/* A wake-up that is lost shows as a sleep of this length. */
#define LOST_NS UINT64_C(20000000000)

/* Whose turn it is goes round the parties: each turn wakes all, one goes on. */
struct ring {
	struct bps_event event;
	uint32_t turn;
	uint32_t n_parties;
	uint32_t n_lost;
};

static void wait_for_turn(struct ring *ring, uint32_t party)
{
	/* Acquire: pairs with the release in take_turns(). */
	while (bps_load_acquire(&ring->turn) % ring->n_parties != party) {
		uint32_t seq = bps_event_prepare(&ring->event);

		if (bps_load_acquire(&ring->turn) % ring->n_parties == party)
			bps_event_cancel(&ring->event);
		else if (bps_event_wait(&ring->event, seq, LOST_NS))
			bps_add_relaxed(&ring->n_lost, 1);
	}
}

static void take_turns(struct ring *ring, uint32_t party)
{
	for (int i = 0; i < N_TURNS; i++) {
		wait_for_turn(ring, party);
		bps_store_release(&ring->turn, bps_load_relaxed(&ring->turn) + 1);
		bps_event_notify(&ring->event);
	}
}

struct party {
	struct ring *ring;
	uint32_t number;
};

static void *thread_party(void *arg)
{
	struct party *party = arg;

	take_turns(party->ring, party->number);
	return NULL;
}

static void no_wake_up_is_lost_between_threads(void **state)
{
	struct ring ring = { .n_parties = N_PARTIES };
	struct party parties[N_PARTIES];
	pthread_t threads[N_PARTIES];

	for (uint32_t i = 0; i < N_PARTIES; i++) {
		parties[i] = (struct party){ &ring, i };
		assert_int_equal(bps_thread_start("party", thread_party, &parties[i], -1,
		                                  &threads[i]),
		                 0);
	}
	for (uint32_t i = 0; i < N_PARTIES; i++)
		bps_thread_join(threads[i]);
	assert_int_equal(ring.turn, N_PARTIES * N_TURNS);
	assert_int_equal(ring.n_lost, 0);
	assert_int_equal(ring.event.waiters, 0);
}

static void no_wake_up_is_lost_between_processes(void **state)
{
	struct ring *ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t children[N_PARTIES - 1];
	int status;

	assert_true(ring != MAP_FAILED);
	bps_event_init(&ring->event);
	ring->n_parties = N_PARTIES;
	for (uint32_t i = 0; i < N_PARTIES - 1; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (children[i] == 0) {
			take_turns(ring, i);
			_exit(0);
		}
	}
	take_turns(ring, N_PARTIES - 1);
	for (uint32_t i = 0; i < N_PARTIES - 1; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(ring->turn, N_PARTIES * N_TURNS);
	assert_int_equal(ring->n_lost, 0);
	assert_int_equal(ring->event.waiters, 0);
	munmap(ring, 4096);
}

static void a_sleep_ends_at_its_limit(void **state)
{
	struct bps_event event;
	uint64_t start;
	uint32_t seq;

	bps_event_init(&event);
	seq = bps_event_prepare(&event);
	start = bps_now_ns();
	assert_int_equal(bps_event_wait(&event, seq, 20 * BPS_NS_PER_MS), -ETIMEDOUT);
	assert_true(bps_now_ns() - start >= 20 * BPS_NS_PER_MS);
	assert_int_equal(event.waiters, 0);
	seq = bps_event_prepare(&event);
	assert_int_equal(bps_event_wait(&event, seq, 0), -ETIMEDOUT);
}

static void a_notify_after_prepare_ends_the_sleep(void **state)
{
	struct bps_event event = { 0 };
	uint32_t seq = bps_event_prepare(&event);

	bps_event_notify(&event);
	assert_int_equal(bps_event_wait(&event, seq, BPS_FOREVER_NS), 0);
}

static void nobody_waits_nothing_changes(void **state)
{
	struct bps_event event = { 0 };

	bps_event_notify(&event);
	assert_int_equal(event.seq, 0);
	(void)bps_event_prepare(&event);
	assert_int_equal(event.waiters, 1);
	bps_event_cancel(&event);
	assert_int_equal(event.waiters, 0);
}

static void ignore(int number)
{
	(void)number;
}

static void a_signal_is_a_reason_to_look(void **state)
{
	struct sigaction action = { .sa_handler = ignore };
	struct bps_event event = { 0 };
	pid_t parent = getpid();
	uint32_t seq = bps_event_prepare(&event);
	pid_t child;

	sigaction(SIGUSR1, &action, NULL);
	child = fork();
	if (child == 0) {
		/* Again and again: the first may come before the sleep. */
		for (int i = 0; i < 1000 && getppid() == parent; i++) {
			kill(parent, SIGUSR1);
			usleep(10000);
		}
		_exit(0);
	}
	assert_int_equal(bps_event_wait(&event, seq, LOST_NS), 0);
	kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_wake_up_is_lost_between_threads),
		cmocka_unit_test(no_wake_up_is_lost_between_processes),
		cmocka_unit_test(a_sleep_ends_at_its_limit),
		cmocka_unit_test(a_notify_after_prepare_ends_the_sleep),
		cmocka_unit_test(nobody_waits_nothing_changes),
		cmocka_unit_test(a_signal_is_a_reason_to_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
