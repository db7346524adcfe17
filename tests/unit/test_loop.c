/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/loop.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "lib/base/macro.h"
#include "tests/unit/check.h"

/* What callbacks did, in order, as letters. */
struct trace {
	struct loop *loop;
	char seen[64];
	int n;
	struct loop_source *sources[2];
	struct loop_timer *timers[3];
	int fds[2][2];
};

static void trace_add(struct trace *t, char c)
{
	if (t->n < (int)sizeof(t->seen) - 1)
		t->seen[t->n++] = c;
}

static void trace_start(struct trace *t)
{
	*t = (struct trace){ .fds = { { -1, -1 }, { -1, -1 } } };
	CHECK_EQ(loop_new(&t->loop), 0);
	CHECK_EQ(pipe(t->fds[0]), 0);
	CHECK_EQ(pipe(t->fds[1]), 0);
}

static void trace_end(struct trace *t)
{
	for (int i = 0; i < 2; i++)
		loop_source_free(t->sources[i]);
	for (int i = 0; i < 3; i++)
		loop_timer_free(t->timers[i]);
	loop_free(t->loop);
	for (int i = 0; i < 2; i++) {
		safe_close(t->fds[i][0]);
		safe_close(t->fds[i][1]);
	}
}

static void stop(void *data)
{
	struct trace *t = data;

	loop_exit(t->loop, 7);
}

static void note_p(void *data)
{
	trace_add(data, 'p');
}

static void read_one(int fd, uint32_t events, void *data)
{
	struct trace *t = data;
	char c;

	CHECK(events & EPOLLIN);
	CHECK_EQ(read(fd, &c, 1), 1);
	trace_add(t, c);
	if (c == 'z')
		loop_exit(t->loop, 3);
}

TEST(a_ready_descriptor_is_reported_until_it_is_read_and_exit_gives_the_code)
{
	struct trace t;

	trace_start(&t);
	CHECK_EQ(loop_source_new(t.loop, t.fds[0][0], EPOLLIN, read_one, &t, &t.sources[0]), 0);
	CHECK_EQ(write(t.fds[0][1], "abz", 3), 3);
	CHECK_EQ(loop_run(t.loop), 3);
	CHECK_STR(t.seen, "abz");
	trace_end(&t);
}

TEST(events_can_be_turned_off_and_on)
{
	struct trace t;

	trace_start(&t);
	CHECK_EQ(loop_source_new(t.loop, t.fds[0][0], 0, read_one, &t, &t.sources[0]), 0);
	CHECK_EQ(write(t.fds[0][1], "az", 2), 2);
	CHECK_EQ(loop_timer_new(t.loop, stop, &t, &t.timers[0]), 0);
	loop_timer_set(t.timers[0], 0);
	CHECK_EQ(loop_run(t.loop), 7);
	CHECK_STR(t.seen, "");
	CHECK_EQ(loop_source_set(t.sources[0], EPOLLIN), 0);
	CHECK_EQ(loop_run(t.loop), 3);
	CHECK_STR(t.seen, "az");
	trace_end(&t);
}

static void free_both(int fd, uint32_t events, void *data)
{
	struct trace *t = data;

	trace_add(t, 'f');
	for (int i = 0; i < 2; i++)
		t->sources[i] = loop_source_free(t->sources[i]);
	loop_timer_set(t->timers[0], 0);
}

TEST(a_source_freed_by_another_in_the_same_batch_is_not_called)
{
	struct trace t;

	trace_start(&t);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(
			loop_source_new(t.loop, t.fds[i][0], EPOLLIN, free_both, &t, &t.sources[i]),
			0);
		CHECK_EQ(write(t.fds[i][1], "x", 1), 1);
	}
	CHECK_EQ(loop_timer_new(t.loop, stop, &t, &t.timers[0]), 0);
	CHECK_EQ(loop_run(t.loop), 7);
	CHECK_STR(t.seen, "f");
	trace_end(&t);
}

TEST(a_descriptor_that_epoll_refuses_is_an_error)
{
	struct trace t;

	trace_start(&t);
	CHECK_EQ(loop_source_new(t.loop, -1, EPOLLIN, read_one, &t, &t.sources[0]), -EBADF);
	CHECK(!t.sources[0]);
	trace_end(&t);
}

static void note_0(void *data)
{
	trace_add(data, '0');
}

static void note_1(void *data)
{
	trace_add(data, '1');
}

TEST(timers_fire_in_the_order_of_their_times_and_once)
{
	uint64_t now = loop_now();
	struct trace t;

	trace_start(&t);
	CHECK_EQ(loop_timer_new(t.loop, note_0, &t, &t.timers[0]), 0);
	CHECK_EQ(loop_timer_new(t.loop, note_1, &t, &t.timers[1]), 0);
	CHECK_EQ(loop_timer_new(t.loop, stop, &t, &t.timers[2]), 0);
	loop_timer_set(t.timers[2], now + 3000000);
	loop_timer_set(t.timers[0], now + 2000000);
	loop_timer_set(t.timers[1], now + 1000000);
	CHECK_EQ(loop_run(t.loop), 7);
	CHECK_STR(t.seen, "10");
	CHECK(loop_now() >= now + 3000000);
	CHECK(loop_timer_at(t.timers[0]) == LOOP_NEVER);
	trace_end(&t);
}

TEST(a_stopped_timer_does_not_fire_and_a_moved_one_fires_at_its_new_time)
{
	uint64_t now = loop_now();
	struct trace t;

	trace_start(&t);
	CHECK_EQ(loop_timer_new(t.loop, note_0, &t, &t.timers[0]), 0);
	CHECK_EQ(loop_timer_new(t.loop, note_1, &t, &t.timers[1]), 0);
	CHECK_EQ(loop_timer_new(t.loop, stop, &t, &t.timers[2]), 0);
	loop_timer_set(t.timers[0], now);
	loop_timer_set(t.timers[1], now + 3600000000000);
	loop_timer_set(t.timers[2], now + 1000000);
	loop_timer_set(t.timers[0], LOOP_NEVER);
	loop_timer_set(t.timers[1], now);
	CHECK_EQ(loop_run(t.loop), 7);
	CHECK_STR(t.seen, "1");
	trace_end(&t);
}

static void free_timers(void *data)
{
	struct trace *t = data;

	trace_add(t, 'f');
	for (int i = 0; i < 2; i++)
		t->timers[i] = loop_timer_free(t->timers[i]);
}

TEST(a_timer_can_free_itself_and_another_that_is_due)
{
	struct trace t;

	trace_start(&t);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(loop_timer_new(t.loop, free_timers, &t, &t.timers[i]), 0);
		loop_timer_set(t.timers[i], 1);
	}
	CHECK_EQ(loop_timer_new(t.loop, stop, &t, &t.timers[2]), 0);
	loop_timer_set(t.timers[2], 2);
	CHECK_EQ(loop_run(t.loop), 7);
	CHECK_STR(t.seen, "f");
	trace_end(&t);
}

static void set_to_past(void *data)
{
	struct trace *t = data;

	trace_add(t, '0');
	loop_timer_set(t->timers[0], 0);
}

TEST(a_timer_that_sets_itself_to_the_past_starves_no_other)
{
	struct trace t;

	trace_start(&t);
	CHECK_EQ(loop_timer_new(t.loop, set_to_past, &t, &t.timers[0]), 0);
	CHECK_EQ(loop_timer_new(t.loop, note_1, &t, &t.timers[1]), 0);
	CHECK_EQ(loop_source_new(t.loop, t.fds[0][0], EPOLLIN, read_one, &t, &t.sources[0]), 0);
	loop_timer_set(t.timers[0], 0);
	loop_timer_set(t.timers[1], loop_now());
	CHECK_EQ(write(t.fds[0][1], "z", 1), 1);
	CHECK_EQ(loop_run(t.loop), 3);
	CHECK_EQ(loop_timer_new(t.loop, stop, &t, &t.timers[2]), 0);
	loop_timer_set(t.timers[2], loop_now());
	CHECK_EQ(loop_run(t.loop), 7);
	CHECK(strchr(t.seen, '1') != NULL);
	trace_end(&t);
}

static int order_last;
static int order_wrong;

struct numbered {
	int number;
	struct loop_timer *timer;
};

static void note_number(void *data)
{
	struct numbered *n = data;

	order_wrong += n->number < order_last;
	order_last = n->number;
}

TEST(a_thousand_timers_set_and_moved_at_random_fire_in_order)
{
	static struct numbered numbered[1000];
	uint64_t now = loop_now();
	uint32_t random = 1;
	struct trace t;

	trace_start(&t);
	for (size_t i = 0; i < ARRAY_SIZE(numbered); i++)
		CHECK_EQ(loop_timer_new(t.loop, note_number, &numbered[i], &numbered[i].timer), 0);
	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < ARRAY_SIZE(numbered); i++) {
			random = random * 1664525 + 1013904223;
			numbered[i].number = (int)(random >> 8);
			loop_timer_set(numbered[i].timer, now + 1000000 + (random >> 8));
		}
	CHECK_EQ(loop_timer_new(t.loop, stop, &t, &t.timers[2]), 0);
	loop_timer_set(t.timers[2], now + 18000000);
	order_last = order_wrong = 0;
	CHECK_EQ(loop_run(t.loop), 7);
	CHECK_EQ(order_wrong, 0);
	CHECK(order_last > 0);
	for (size_t i = 0; i < ARRAY_SIZE(numbered); i++) {
		CHECK(loop_timer_at(numbered[i].timer) == LOOP_NEVER);
		loop_timer_free(numbered[i].timer);
	}
	trace_end(&t);
}

static void post_again(void *data)
{
	struct trace *t = data;

	trace_add(t, 'a');
	CHECK_EQ(loop_post(t->loop, note_p, t), 0);
	CHECK_EQ(loop_post(t->loop, stop, t), 0);
}

TEST(posted_functions_run_in_order_and_may_post)
{
	struct trace t;

	trace_start(&t);
	CHECK_EQ(loop_post(t.loop, note_p, &t), 0);
	CHECK_EQ(loop_post(t.loop, post_again, &t), 0);
	CHECK_EQ(loop_post(t.loop, note_0, &t), 0);
	CHECK_EQ(loop_run(t.loop), 7);
	CHECK_STR(t.seen, "pa0p");
	trace_end(&t);
}

TEST(functions_posted_after_an_exit_run_in_the_next_run_or_are_dropped)
{
	struct trace t;

	trace_start(&t);
	CHECK_EQ(loop_post(t.loop, stop, &t), 0);
	CHECK_EQ(loop_post(t.loop, note_p, &t), 0);
	CHECK_EQ(loop_post(t.loop, stop, &t), 0);
	CHECK_EQ(loop_post(t.loop, note_0, &t), 0);
	CHECK_EQ(loop_run(t.loop), 7);
	CHECK_STR(t.seen, "");
	CHECK_EQ(loop_run(t.loop), 7);
	CHECK_STR(t.seen, "p");
	trace_end(&t);
}

#define POSTS 20000
static int posts_seen;

static void count_post(void *data)
{
	struct trace *t = data;

	if (++posts_seen == 2 * POSTS)
		loop_exit(t->loop, 5);
}

static void *post_many(void *data)
{
	struct trace *t = data;

	for (int i = 0; i < POSTS; i++)
		CHECK_EQ(loop_post(t->loop, count_post, t), 0);
	return NULL;
}

TEST(nothing_that_two_threads_post_is_lost)
{
	pthread_t threads[2];
	struct trace t;

	trace_start(&t);
	posts_seen = 0;
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, post_many, &t), 0);
	CHECK_EQ(loop_run(t.loop), 5);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(posts_seen, 2 * POSTS);
	trace_end(&t);
}

CHECK_MAIN()
