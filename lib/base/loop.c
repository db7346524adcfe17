/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/loop.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/eventfd.h>

#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/base/macro.h"

#define NO_SLOT SIZE_MAX

struct loop_source {
	struct loop *loop;
	int fd; /* -1: freed while a batch of events was processed */
	uint32_t events;
	loop_source_fn callback;
	void *data;
	struct loop_source *next_freed;
};

struct loop_timer {
	struct loop *loop;
	loop_fn callback;
	void *data;
	uint64_t at_ns;
	/* Timers of the same instant fire in the order in which they were set. */
	uint64_t order;
	size_t slot; /* in the heap, or NO_SLOT */
};

struct posted {
	loop_fn callback;
	void *data;
	struct posted *next;
};

struct loop {
	int epoll_fd;
	int post_fd;
	bool running;
	int code;
	bool in_batch;
	/* Sources that events of the batch may still point to. */
	struct loop_source *freed;

	/* A binary heap; it always has room for every timer, so that setting one cannot fail. */
	struct loop_timer **heap;
	size_t n_heap, n_timers, heap_size;
	uint64_t order;
	uint64_t round_ns; /* when due timers were last looked for */

	pthread_mutex_t post_lock;
	struct posted *post_first, **post_last;
};

uint64_t loop_now(void)
{
	return clock_now(CLOCK_MONOTONIC);
}

int loop_new(struct loop **ret)
{
	_cleanup_close_ int epoll_fd = -1, post_fd = -1;
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
	struct loop *loop;

	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		return -errno;
	post_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (post_fd < 0)
		return -errno;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, post_fd, &event) < 0)
		return -errno;
	loop = calloc(1, sizeof(*loop));
	if (!loop)
		return -ENOMEM;
	loop->epoll_fd = TAKE_FD(epoll_fd);
	loop->post_fd = TAKE_FD(post_fd);
	loop->post_last = &loop->post_first;
	pthread_mutex_init(&loop->post_lock, NULL);
	*ret = loop;
	return 0;
}

struct loop *loop_free(struct loop *loop)
{
	if (!loop)
		return NULL;
	while (loop->post_first) {
		struct posted *posted = loop->post_first;

		loop->post_first = posted->next;
		free(posted);
	}
	close(loop->epoll_fd);
	close(loop->post_fd);
	pthread_mutex_destroy(&loop->post_lock);
	free(loop->heap);
	free(loop);
	return NULL;
}

int loop_source_new(struct loop *loop, int fd, uint32_t events, loop_source_fn callback, void *data,
		    struct loop_source **ret)
{
	struct loop_source *source = calloc(1, sizeof(*source));
	struct epoll_event event = { .events = events, .data.ptr = source };

	if (!source)
		return -ENOMEM;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		free(source);
		return -errno;
	}
	source->loop = loop;
	source->fd = fd;
	source->events = events;
	source->callback = callback;
	source->data = data;
	*ret = source;
	return 0;
}

int loop_source_set(struct loop_source *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	if (source->events == events)
		return 0;
	if (epoll_ctl(source->loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event) < 0)
		return -errno;
	source->events = events;
	return 0;
}

struct loop_source *loop_source_free(struct loop_source *source)
{
	if (!source)
		return NULL;
	epoll_ctl(source->loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	if (source->loop->in_batch) {
		source->fd = -1;
		source->next_freed = source->loop->freed;
		source->loop->freed = source;
	} else {
		free(source);
	}
	return NULL;
}

static bool timer_before(const struct loop_timer *a, const struct loop_timer *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void heap_put(struct loop *loop, size_t slot, struct loop_timer *timer)
{
	loop->heap[slot] = timer;
	timer->slot = slot;
}

/* Moves the timer from a free slot to where it belongs. */
static void heap_sift(struct loop *loop, size_t slot, struct loop_timer *timer)
{
	while (slot > 0 && timer_before(timer, loop->heap[(slot - 1) / 2])) {
		heap_put(loop, slot, loop->heap[(slot - 1) / 2]);
		slot = (slot - 1) / 2;
	}
	for (;;) {
		size_t child = 2 * slot + 1;

		if (child + 1 < loop->n_heap &&
		    timer_before(loop->heap[child + 1], loop->heap[child]))
			child++;
		if (child >= loop->n_heap || !timer_before(loop->heap[child], timer))
			break;
		heap_put(loop, slot, loop->heap[child]);
		slot = child;
	}
	heap_put(loop, slot, timer);
}

static void heap_remove(struct loop *loop, struct loop_timer *timer)
{
	size_t slot = timer->slot;
	struct loop_timer *last = loop->heap[--loop->n_heap];

	timer->slot = NO_SLOT;
	if (last != timer)
		heap_sift(loop, slot, last);
}

int loop_timer_new(struct loop *loop, loop_fn callback, void *data, struct loop_timer **ret)
{
	struct loop_timer *timer;

	if (array_reserve(&loop->heap, loop->n_timers, &loop->heap_size, sizeof(loop->heap[0]), 1) <
	    0)
		return -ENOMEM;
	timer = calloc(1, sizeof(*timer));
	if (!timer)
		return -ENOMEM;
	timer->loop = loop;
	timer->callback = callback;
	timer->data = data;
	timer->at_ns = LOOP_NEVER;
	timer->slot = NO_SLOT;
	loop->n_timers++;
	*ret = timer;
	return 0;
}

void loop_timer_set(struct loop_timer *timer, uint64_t at_ns)
{
	struct loop *loop = timer->loop;

	if (timer->slot != NO_SLOT)
		heap_remove(loop, timer);
	/* Not before timers that are already due: one that is set to the past must not keep them
	 * waiting. */
	timer->at_ns = MAX(at_ns, loop->round_ns);
	timer->order = loop->order++;
	if (at_ns != LOOP_NEVER)
		heap_sift(loop, loop->n_heap++, timer);
}

uint64_t loop_timer_at(const struct loop_timer *timer)
{
	return timer->at_ns;
}

struct loop_timer *loop_timer_free(struct loop_timer *timer)
{
	if (!timer)
		return NULL;
	if (timer->slot != NO_SLOT)
		heap_remove(timer->loop, timer);
	timer->loop->n_timers--;
	free(timer);
	return NULL;
}

int loop_post(struct loop *loop, loop_fn callback, void *data)
{
	struct posted *posted = calloc(1, sizeof(*posted));
	bool first;

	if (!posted)
		return -ENOMEM;
	posted->callback = callback;
	posted->data = data;
	pthread_mutex_lock(&loop->post_lock);
	first = !loop->post_first;
	*loop->post_last = posted;
	loop->post_last = &posted->next;
	/* Fails only if the counter is about to overflow, in which case the loop is awake
	 * anyway. */
	if (first)
		eventfd_write(loop->post_fd, 1);
	pthread_mutex_unlock(&loop->post_lock);
	return 0;
}

void loop_post_surely(struct loop *loop, loop_fn callback, void *data)
{
	while (loop_post(loop, callback, data) < 0)
		poll(NULL, 0, 100);
}

static void run_posted(struct loop *loop)
{
	struct posted **end;
	eventfd_t count;

	pthread_mutex_lock(&loop->post_lock);
	eventfd_read(loop->post_fd, &count);
	/* What is posted from now on waits for the next round. */
	end = loop->post_last;
	while (loop->post_first && loop->running) {
		struct posted *posted = loop->post_first;
		bool last = &posted->next == end;

		loop->post_first = posted->next;
		if (!posted->next)
			loop->post_last = &loop->post_first;
		pthread_mutex_unlock(&loop->post_lock);
		posted->callback(posted->data);
		free(posted);
		pthread_mutex_lock(&loop->post_lock);
		if (last)
			break;
	}
	if (loop->post_first)
		eventfd_write(loop->post_fd, 1);
	pthread_mutex_unlock(&loop->post_lock);
}

static void run_timers(struct loop *loop)
{
	uint64_t last;

	if (!loop->n_heap)
		return;
	loop->round_ns = loop_now();
	/* A timer that is set to fire at once while timers fire waits for the next round. */
	last = loop->order;
	while (loop->running && loop->n_heap && loop->heap[0]->at_ns <= loop->round_ns &&
	       loop->heap[0]->order < last) {
		struct loop_timer *timer = loop->heap[0];

		heap_remove(loop, timer);
		timer->at_ns = LOOP_NEVER;
		timer->callback(timer->data);
	}
}

static int wait_ms(const struct loop *loop)
{
	uint64_t now, ms;

	if (!loop->n_heap)
		return -1;
	now = loop_now();
	if (loop->heap[0]->at_ns <= now)
		return 0;
	ms = (loop->heap[0]->at_ns - now - 1) / 1000000 + 1;
	return (int)MIN(ms, (uint64_t)INT_MAX);
}

static void run_batch(struct loop *loop, const struct epoll_event *events, int n)
{
	bool posted = false;

	for (int i = 0; i < n; i++)
		posted |= !events[i].data.ptr;
	if (posted)
		run_posted(loop);
	for (int i = 0; i < n && loop->running; i++) {
		struct loop_source *source = events[i].data.ptr;

		if (source && source->fd >= 0)
			source->callback(source->fd, events[i].events, source->data);
	}
}

int loop_run(struct loop *loop)
{
	struct epoll_event events[64];

	loop->running = true;
	while (loop->running) {
		int n = epoll_wait(loop->epoll_fd, events, ARRAY_SIZE(events), wait_ms(loop));

		if (n < 0 && errno != EINTR)
			return -errno;
		loop->in_batch = true;
		run_batch(loop, events, n);
		if (loop->running)
			run_timers(loop);
		loop->in_batch = false;
		while (loop->freed) {
			struct loop_source *source = loop->freed;

			loop->freed = source->next_freed;
			free(source);
		}
	}
	return loop->code;
}

void loop_exit(struct loop *loop, int code)
{
	loop->running = false;
	loop->code = code;
}
