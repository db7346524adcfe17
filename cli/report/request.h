/* SPDX-License-Identifier: Apache-2.0 */
/* A request as the daemon tells of it: names for its parts, and what it refers to. The messages are
 * not trusted to be whole. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/proto/phase.h"
#include "proto/control.pb-c.h"

/* Its names; of a phase that is not known, those of "unknown". */
const struct phase_text *request_phase(unsigned phase);
/* "running", "runnable", "blocked", "waiting" or "unknown". */
const char *request_activity_key(unsigned activity);

/* The nanoseconds that it spent in a phase. */
uint64_t request_phase_ns(const Tfprofd__Request *request, unsigned phase);
uint64_t request_latency_ns(const Tfprofd__Request *request);
/* Whether its times are its own, and not bounds. */
bool request_is_whole(const Tfprofd__Request *request);

/* What a reference to the request's threads or names stands for; NULL: nothing. */
const Tfprofd__RequestThread *request_thread(const Tfprofd__Request *request, uint32_t reference);
const char *request_name(const Tfprofd__Request *request, uint32_t reference);

/* What a thread, or nobody, did for the request. */
struct request_activity {
	unsigned phase, activity;
	uint32_t thread, name, by; /* references */
};

/* "blocked in futex, woken by holder/12", "waiting for a CPU while hog/77 ran" …; malloc'ed, NULL:
 * no memory. */
char *request_describe(const Tfprofd__Request *request, const struct request_activity *activity);
/* "worker/12", "" when it is none; malloc'ed, NULL: no memory. */
char *request_thread_text(const Tfprofd__Request *request, uint32_t reference);
