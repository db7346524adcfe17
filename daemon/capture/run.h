/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture does in its thread: plans, attaches, keeps the window open and makes the result.
 * Part of capture.h. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "daemon/capture/capture.h"
#include "daemon/capture/correlation.h"
#include "daemon/capture/live.h"
#include "daemon/capture/prepare.h"
#include "daemon/capture/recording.h"
#include "daemon/capture/session.h"
#include "lib/base/clock_steps.h"
#include "lib/base/loop.h"

struct capture_shared {
	struct loop *loop;
	struct proxy *proxy;
	char hostname[256];
	int cache;
	unsigned n_captures;
	struct journal_budget recordings;
	capture_startup_fn startup; /* NULL: unknown */
	void *startup_data;
};

struct capture {
	struct capture_shared *shared;
	struct capture_request request;
	struct target targets[RECORD_MAX_TARGETS]; /* as requested */
	struct prepared prepared[RECORD_MAX_TARGETS];
	unsigned n_prepared;
	pthread_t thread;
	struct capture_result result;
	/* A bit for each target that ended before the window did. */
	unsigned ended;
	/* Targets that are to join. */
	pthread_mutex_t lock;
	struct target joining[RECORD_MAX_TARGETS];
	unsigned n_joining,
		/* Those that wait, and those for which there was no room. */
		n_refused;
	/* Written by one side, read by the other. */
	int cancelled, stopped;
	uint64_t window_start_ns, records, dropped, finished, overhead_ppm;
	char *path, *model; /* of the filter */
	struct live live;
	struct recording recording; /* its journal is the result's */
	struct correlation *correlation;
	struct clock_steps clock; /* since before the window */
};

/* *ret is the session, NULL if there is none; on failure too. On failure text holds the remedy,
 * unless the result has an error already. */
int capture_run(struct capture *c, struct session **ret, char *text, size_t size);
/* Sets this error as the result; text: its remedy, "": the error itself suffices. */
void capture_fail(struct capture *c, int error, const char *text);
/* Makes the loop's thread call back with the capture. */
void capture_post(struct capture *c, loop_fn callback);
