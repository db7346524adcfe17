/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flight recorder: a capture without an end that keeps only the last moments, from which
 * snapshots are made after the fact. It runs in a thread of its own, attaches when there is a
 * target, and makes each snapshot in yet another thread while it continues. The functions here are
 * called in the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/capture/capture.h"
#include "daemon/capture/recording.h"
#include "daemon/recorder/triggers.h"

struct recorder;

struct recorder_options {
	struct loop *loop;
	struct proxy *proxy;
	int cache; /* borrowed, like the next */
	const char *hostname;
	/* BROKER_DAEMON: it outlives the client that started it. */
	uint32_t client;
	struct detail detail;
	double max_overhead; /* percent of the targets' CPU time; 0: no limit */
	uint64_t last_ns;
	/* Of records, and of what they refer to; a snapshot in progress may use as much again. */
	uint64_t bytes;
	struct triggers *triggers; /* borrowed; NULL: none */
	/* Called in the loop's thread once it has ended, after recorder_end(). */
	void (*ended)(struct recorder *recorder, void *data);
	void *data;
};

/* -ENOMEM, -EAGAIN. */
int recorder_new(const struct recorder_options *options, struct recorder **ret);
/* Detaches, lets snapshots finish, calls ended() and frees itself. */
void recorder_end(struct recorder *r);
/* A process is a target, or has mapped more files: it is recorded from now on. The target is
 * copied. */
void recorder_join(struct recorder *r, const struct target *target);

struct recorder_status {
	bool attached;
	unsigned n_targets; /* that are recorded */
	/* For which there was no room, or which could not be recorded. */
	unsigned n_left_out;
	/* Of what is kept, CLOCK_MONOTONIC; 0: nothing is. */
	uint64_t oldest_ns;
	uint64_t bytes;
	uint64_t records, dropped;
	double overhead; /* percent of the targets' CPU time, since it attached */
	unsigned n_shed;
	enum probe_kind shed[KIND_COUNT];
	unsigned sampled_kinds; /* a bit each */
};

void recorder_get_status(struct recorder *r, struct recorder_status *ret);
/* As capture_get_live(). */
bool recorder_get_live(struct recorder *r, pid_t pid, struct histogram *ret,
		       uint64_t *ret_since_ns);
const struct recorder_options *recorder_get_options(const struct recorder *r);

/* A snapshot that becomes a recording, not a trace. */
struct snapshot_keeping {
	struct recording_note note;
	/*
	 * Called in the snapshot's thread with the whole recording. capture: the broker's id of the
	 * recorder's session, or SESSION_NO_ID. Returns 0, or -errno with the reason in the
	 * result's text. NULL: a trace is wanted.
	 */
	int (*keep)(struct capture_result *result, uint32_t capture, void *data);
};

struct snapshot_request {
	/* All of a recording is one trace, so each of its processes must belong to this user. */
	struct authority_peer who;
	uint64_t last_ns;             /* before now; 0: everything */
	struct request_filter filter; /* its strings are copied */
	/* Which requests the result lists one by one. */
	struct request_list_options requests;
	struct export_extras extras; /* of the trace */
	struct snapshot_keeping keeping;
	/* Called once, in the loop's thread; anything moved out of the result must be zeroed. */
	void (*done)(struct capture_result *result, void *data);
	void *data;
};

/* -EBUSY: too many at a time; -ENOMEM. The result may be -ENODATA (nothing was recorded yet) or
 * -EACCES. */
int recorder_snapshot(struct recorder *r, const struct snapshot_request *request);
