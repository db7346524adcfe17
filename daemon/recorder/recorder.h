/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flight recorder: a capture without an end that keeps the last moments only, out of which
 * snapshots are made after the fact. It runs in a thread of its own, attaches when there is a
 * target, and makes each snapshot in yet another thread, while it goes on. The functions here are
 * called in the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/capture/capture.h"

struct recorder;

struct recorder_options {
	struct loop *loop;
	struct proxy *proxy;
	struct plan_cache *plans; /* borrowed, as the following */
	int cache;
	const char *hostname;
	uint32_t client; /* the broker's number of who wants it, or BROKER_DAEMON */
	struct detail detail;
	double max_overhead; /* percent of the targets' CPU time; 0: no limit */
	uint64_t last_ns;
	uint64_t bytes; /* of records, and of what they refer to; a snapshot that is being made may
			   hold as much again */
	/* It has ended, in the loop's thread, after recorder_end(). */
	void (*ended)(struct recorder *recorder, void *data);
	void *data;
};

/* -ENOMEM, -EAGAIN. */
int recorder_new(const struct recorder_options *options, struct recorder **ret);
/* Detaches, lets snapshots finish, calls ended() and frees itself. */
void recorder_end(struct recorder *r);
/* A process is a target, or has mapped more files: it is recorded from now on. It is copied. */
void recorder_join(struct recorder *r, const struct target *target);

struct recorder_status {
	bool attached;
	unsigned n_targets;  /* that are recorded */
	unsigned n_left_out; /* for whom there was no room, or who could not be */
	uint64_t oldest_ns;  /* of what is kept, CLOCK_MONOTONIC; 0: nothing is */
	uint64_t bytes;
	uint64_t records, dropped;
	double overhead; /* percent of the targets' CPU time, since it attached */
	unsigned n_shed;
	enum probe_kind shed[KIND_COUNT];
};

void recorder_get_status(struct recorder *r, struct recorder_status *ret);
/* As capture_get_live(). */
bool recorder_get_live(struct recorder *r, pid_t pid, struct histogram *ret,
		       uint64_t *ret_since_ns);
const struct recorder_options *recorder_get_options(const struct recorder *r);
struct snapshot_request {
	uid_t uid; /* who asks: all of a recording is one trace, so that each of its processes has
		      to be this user's; 0: whosoever's */
	uint64_t last_ns;                     /* before now; 0: all that there is */
	struct request_filter filter;         /* its texts are copied */
	struct request_list_options requests; /* which requests the result tells one by one */
	struct export_extras extras;          /* of the trace */
	/* Called once, in the loop's thread; what is taken out of the result must be zeroed. */
	void (*done)(struct capture_result *result, void *data);
	void *data;
};

/* -EBUSY: too many at a time; -ENOMEM. The result may be -ENODATA (nothing was recorded yet) or
 * -EACCES. */
int recorder_snapshot(struct recorder *r, const struct snapshot_request *request);
