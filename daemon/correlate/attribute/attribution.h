/* SPDX-License-Identifier: Apache-2.0 */
/* Which request a run is of. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "include/record_types.h"
#include "lib/base/map.h"

struct correlator;
struct entry;

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
	/* Of a thread and the port of a peer: the request that it has read from there, and that
	 * waits for a run; NO_REQUEST: ambiguous. Above it, index + 1 of the other one that waits
	 * then, 0: of several. */
	struct map of_peer;
	/* By process: a thread had several requests at a time, or answered one that another thread
	 * had read. */
	bool divided[RECORD_MAX_TARGETS];
};

/* A thread entered an outermost run, the span with this index; is_known: hand_overs.c attributes
 * it. */
void attribution_on_run(struct correlator *c, uint32_t thread, uint64_t span, bool is_known);
/* A run within the function that is entered is for the request of the connection with that peer. */
void attribution_point(struct correlator *c, const struct entry *e);
/* A thread entered such a run (probe_row.of_peer); NO_SPAN: it is an inner one. */
void attribution_on_run_of_peer(struct correlator *c, const struct entry *e, uint64_t span);
/* A thread left an outermost run that began before the window. */
void attribution_on_truncated_run(struct correlator *c, uint32_t thread, uint64_t span);
/* A thread left an outermost run that it was in when the run was first seen. Since then it has
 * begun no other work. */
void attribution_on_found_run(struct correlator *c, uint32_t thread, uint64_t span);
void attribution_on_wake(struct correlator *c, uint32_t thread, uint32_t waker, uint64_t time);
/* A thread read the last byte of a request. */
void attribution_on_read(struct correlator *c, uint32_t thread, uint32_t request);
/* A thread wrote the first byte of its answer. */
void attribution_on_answer(struct correlator *c, uint32_t thread, uint32_t request);
/* No thread works for the request any more. */
void attribution_on_end(struct correlator *c, uint32_t request);
/* A thread read the first byte of a request. */
void attribution_on_begin(struct correlator *c, uint32_t thread, uint32_t request);
/* The only request that the thread has read and not answered; NO_REQUEST. */
uint32_t attribution_of_thread(struct correlator *c, uint32_t thread);
/* The window has closed: whether the process has a thread for each request, as far as was seen; and
 * the thread has answered none since that time that it did not read. */
bool attribution_is_undivided(const struct correlator *c, uint32_t process, uint32_t thread,
			      uint64_t since);
/* The same, and the thread read and answered this request. It was the thread's only open one. */
bool attribution_is_of(const struct correlator *c, uint32_t request, uint32_t process,
		       uint32_t thread, uint64_t since);
/* The window has closed: drops what is ambiguous. */
void attribution_close(struct correlator *c);
struct thread_habits attribution_habits(const struct correlator *c, uint32_t thread);
void attribution_done(struct attributions *a);
