/* SPDX-License-Identifier: Apache-2.0 */
/* A request as the daemon sends it: names of its parts, and what its references refer to. The
 * message is untrusted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/proto/phase.h"
#include "proto/control.pb-c.h"

/* The names of a phase; those of "unknown" for an unknown phase. */
const struct phase_text *request_phase(unsigned phase);
/* "running", "runnable", "throttled", "blocked", "waiting" or "unknown". */
const char *request_activity_key(unsigned activity);

/* The time in a phase, in nanoseconds. */
uint64_t request_phase_ns(const Tfprofd__Request *request, unsigned phase);
uint64_t request_latency_ns(const Tfprofd__Request *request);
/* Whether its times are exact, rather than bounds. */
bool request_is_whole(const Tfprofd__Request *request);

/* The thread or name with this reference; NULL: none. */
const Tfprofd__RequestThread *request_thread(const Tfprofd__Request *request, uint32_t reference);
const char *request_name(const Tfprofd__Request *request, uint32_t reference);

/* What a thread did for the request, or what the request waited for. */
struct request_activity {
	unsigned phase, activity;
	uint32_t thread, name, by; /* references */
};

/* "blocked in futex, woken by holder/12", "waiting for a CPU while hog/77 ran" …; malloc'ed, NULL:
 * no memory. */
char *request_describe(const Tfprofd__Request *request, const struct request_activity *activity);
/* "worker/12", "" for no thread; malloc'ed, NULL: no memory. */
char *request_thread_text(const Tfprofd__Request *request, uint32_t reference);
