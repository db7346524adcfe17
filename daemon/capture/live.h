/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a capture's processes as they finish: how many, and how long they took. May be
 * queried from any thread. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "include/record_types.h"
#include "lib/base/histogram.h"

struct live {
	pthread_mutex_t lock;
	uint64_t since_ns; /* CLOCK_MONOTONIC, 0: not yet */
	unsigned n;        /* processes, by the numbers of their targets */
	pid_t pids[RECORD_MAX_TARGETS];
	struct histogram latencies[RECORD_MAX_TARGETS];
};

void live_init(struct live *live);
void live_done(struct live *live);
/* Begins, or begins again, at that time. */
void live_begin(struct live *live, uint64_t now);
void live_set_target(struct live *live, unsigned target, pid_t pid);
void live_add(struct live *live, unsigned target, uint64_t latency_ns);
/* Returns whether the process is among them; if so, adds its requests to *ret and sets
 * *ret_since_ns. */
bool live_get(struct live *live, pid_t pid, struct histogram *ret, uint64_t *ret_since_ns);
