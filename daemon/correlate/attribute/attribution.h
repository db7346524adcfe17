/* SPDX-License-Identifier: Apache-2.0 */
/* Which request a run is of. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct correlator;

/* How a thread treats the answers to requests that another thread has read. */
struct thread_habits {
	bool is_worker;     /* it has done runs */
	bool writes_others; /* it has begun answers that no run of its own led to */
	uint32_t
		n_answered; /* answers that it began, each as the only one after a run of its own */
};

/* Zeros at first. */
struct attributions {
	/* Beside the timeline's threads. */
	struct thread_requests *threads;
	struct thread_habits *habits;
	uint64_t threads_size, habits_size;
};

/* A thread entered an outermost run, the span with this index. */
void attribution_on_run(struct correlator *c, uint32_t thread, uint64_t span);
/* A thread left an outermost run that began before the window. */
void attribution_on_truncated_run(struct correlator *c, uint32_t thread, uint64_t span);
void attribution_on_wake(struct correlator *c, uint32_t thread, uint32_t waker, uint64_t time);
/* A thread read the last byte of a request. */
void attribution_on_read(struct correlator *c, uint32_t thread, uint32_t request);
/* A thread wrote the first byte of its answer. */
void attribution_on_answer(struct correlator *c, uint32_t thread, uint32_t request);
/* No thread works for the request any more. */
void attribution_on_end(struct correlator *c, uint32_t request);
/* The window has closed: drops what is ambiguous. */
void attribution_close(struct correlator *c);
struct thread_habits attribution_habits(const struct correlator *c, uint32_t thread);
void attribution_done(struct attributions *a);
