/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop of one thread: file descriptors (epoll), timers and results of other threads. Only
 * loop_post() and loop_post_surely() may be called from another thread. Any function here may be
 * called from any callback of the loop, also to free the source or timer that is being called, or
 * one whose event is already waiting: a freed source or timer is not called again.
 */
#pragma once

#include <stdint.h>
#include <sys/epoll.h>

struct loop;
struct loop_source;
struct loop_timer;

/* A time that never comes. */
#define LOOP_NEVER UINT64_MAX

/* events: what epoll reported (EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR…). */
typedef void (*loop_source_fn)(int fd, uint32_t events, void *data);
typedef void (*loop_fn)(void *data);

/* -ENOMEM, or the error of epoll_create1, eventfd or epoll_ctl. */
int loop_new(struct loop **ret);
/* Sources and timers must be freed before. Posted functions that have not run yet are dropped. */
struct loop *loop_free(struct loop *loop);

/*
 * Runs until loop_exit() and returns its code, or -errno if epoll fails. Each round runs, in this
 * order, what was posted, the descriptors that are ready (level triggered), and the timers that are
 * due.
 */
int loop_run(struct loop *loop);
/*
 * Makes loop_run() return code (>= 0) when the calling callback has returned; the rest of the round
 * is skipped.
 */
void loop_exit(struct loop *loop, int code);

/* CLOCK_MONOTONIC in ns: the clock of every timer. */
uint64_t loop_now(void);

/*
 * Calls callback whenever fd has one of events (0: only EPOLLHUP and EPOLLERR, which are always
 * reported). The caller still owns the descriptor, and frees the source before closing it. -ENOMEM,
 * or an error of epoll_ctl (-EEXIST, -EPERM…).
 */
int loop_source_new(struct loop *loop, int fd, uint32_t events, loop_source_fn callback, void *data,
		    struct loop_source **ret);
/* Waits for other events from now on; costs nothing if they are the same. */
int loop_source_set(struct loop_source *source, uint32_t events);
struct loop_source *loop_source_free(struct loop_source *source);

/* A timer, not set yet. It fires once each time it is set, and may be set again at any time.
 * -ENOMEM. */
int loop_timer_new(struct loop *loop, loop_fn callback, void *data, struct loop_timer **ret);
/*
 * Sets the timer to fire at at_ns of loop_now(), never earlier; cannot fail. LOOP_NEVER stops it. A
 * timer that is already set is moved.
 */
void loop_timer_set(struct loop_timer *timer, uint64_t at_ns);
/* When the timer will fire; LOOP_NEVER if it is not set. */
uint64_t loop_timer_at(const struct loop_timer *timer);
struct loop_timer *loop_timer_free(struct loop_timer *timer);

/*
 * From any thread: makes callback(data) run in the loop's thread, soon, in the order of posting.
 * The posting threads must end before loop_free(). -ENOMEM.
 */
int loop_post(struct loop *loop, loop_fn callback, void *data);
/* The same for what must happen: waits until there is memory. */
void loop_post_surely(struct loop *loop, loop_fn callback, void *data);
