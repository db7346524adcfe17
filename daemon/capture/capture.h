/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One capture: plans and attaches the probes of its targets, opens the window, drains the rings
 * while it is open, and makes a trace from the records. Each capture runs in a thread of its own,
 * with its own programs, rings and window, so that captures never exclude one another. The
 * functions here are called in the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/capture/budget/forecast.h"
#include "daemon/capture/prepare.h"
#include "daemon/discovery/target.h"
#include "daemon/export/exporter.h"
#include "daemon/export/modules.h"
#include "daemon/export/summary/advice.h"
#include "daemon/export/summary/request_list.h"
#include "daemon/export/summary/summary.h"
#include "daemon/plan/detail.h"
#include "daemon/timeline/filter.h"
#include "daemon/timeline/startup_track.h"
#include "include/record_types.h"
#include "lib/base/histogram.h"
#include "lib/base/loop.h"

#define CAPTURE_WARNINGS_MAX 64
/* Total size of the recordings that are being made or wait to be sent. */
#define CAPTURE_RECORDING_BYTES (512ull << 20)

struct capture;

/* What all captures share. */
struct capture_shared;
/* cache: the directory of cached data (-1: none), borrowed. */
int capture_shared_new(struct loop *loop, struct proxy *proxy, int cache, const char *hostname,
		       struct capture_shared **ret);
/* No capture may be left. */
struct capture_shared *capture_shared_free(struct capture_shared *shared);
/* How a process started; false: unknown. Called in the captures' threads. */
typedef bool (*capture_startup_fn)(const struct target *target, struct startup_track *ret,
				   void *data);
void capture_shared_set_startup(struct capture_shared *shared, capture_startup_fn startup,
				void *data);

/* A kind of probes that the kernel refuses, or that was shed because the budget was exceeded. */
struct capture_shed {
	enum probe_kind kind;
	bool refused;    /* by the kernel; .overhead is then 0 */
	uint64_t at_ns;  /* since the window began */
	double overhead; /* of all probes at that time, in percent */
};

struct capture_request {
	uint32_t client; /* the broker's id of the client */
	const struct target *targets[RECORD_MAX_TARGETS];
	unsigned n_targets;
	/* The first ones were asked for; 0: all. The others work for these. */
	unsigned n_asked;
	/* Targets beyond RECORD_MAX_TARGETS, which the result reports. */
	unsigned n_left_out;
	/* A target that has ended, or cannot be captured, is left out with a warning instead of
	 * failing the capture. */
	bool skip_ended;
	uint64_t duration_ns;
	uint64_t start_unix_ns; /* 0: at once */
	struct detail detail;
	/* Percent of the targets' CPU time that the probes may cost; 0: no limit. */
	double max_overhead;
	/* What the configuration did not grant, for the result's warnings; "": nothing. */
	char limits[256];
	bool record;                  /* keep the raw records for a replay */
	struct request_filter filter; /* its strings are copied */
	/* Which requests the result lists one by one. */
	struct request_list_options requests;
	struct export_extras extras; /* of the trace */
	/* Nothing is attached, and there is no result besides the plan. */
	bool plan_only;
	/* Called in the loop's thread before done(), once it is known what will be attached. May be
	 * NULL. */
	void (*planned)(struct capture *capture, const struct capture_plan *plan, void *data);
	/* Called once in the loop's thread, when the result is available; the capture frees itself
	 * some time later. */
	void (*done)(struct capture *capture, void *data);
	void *data;
};

struct capture_progress {
	uint64_t elapsed_ns; /* of the window */
	uint64_t records;
	uint64_t dropped;
	uint64_t requests;    /* that have finished and pass the filter */
	uint64_t duration_ns; /* as requested */
	/* The cost of the probes in percent of the targets' CPU time, by forecast. */
	double overhead;
};

struct capture_result {
	/* 0, or why there is no result: -EACCES, -ESRCH, -EBUSY, -ECANCELED … */
	int error;
	char text[256]; /* the remedy for the error */
	struct exported trace;
	struct exported others[EXPORTS_MAX]; /* in the order of the request's extras */
	unsigned n_others;
	struct summary summary;
	struct advice advice;
	struct startups startups; /* how the processes started */
	/* Of XLA, if they are written where they can be read. */
	struct modules modules;
	struct request_filter filter; /* as requested */
	struct request_list requests;
	uint64_t window_ns;
	uint64_t records;
	uint64_t dropped; /* records lost, for any cause */
	struct capture_shed shed[KIND_COUNT];
	unsigned n_shed;
	double max_overhead;
	bool ops_at_entry;
	struct capture_plan plan;
	/* The cost of the hits in percent of the targets' CPU time, by forecast. */
	double overhead;
	/* A target ended, or the window was closed, early. */
	bool cut;
	char *warnings[CAPTURE_WARNINGS_MAX];
	unsigned n_warnings;
	/* A bit for each warning that only puts .shed or .ops_at_entry into words. */
	uint64_t restating;
	/* If requested; not finished yet. NULL: none, and a warning gives the reason. */
	struct journal *recording;
};

/* Starts a capture. The targets are copied. -ENOMEM, -EAGAIN; -EBUSY: too many at once. */
int capture_start(struct capture_shared *shared, const struct capture_request *request,
		  struct capture **ret);
/* Whether a process was named in the request. */
bool capture_asks_for(const struct capture *c, pid_t pid);
/* What it was started with, and its copies of the targets. */
const struct capture_request *capture_get_request(const struct capture *c);
/* Whether the target works for one that was asked for, and was not asked for itself. If all were
 * (skip_ended), none works for others. */
bool capture_request_has_parent(const struct capture_request *request, const struct target *target);
/* A process that became a target within the window, or has mapped more files, joins the capture if
 * there is room. The target is copied. */
void capture_join(struct capture *c, const struct target *target);
/* The result is no longer wanted: the capture ends soon, and done() sees -ECANCELED. */
void capture_cancel(struct capture *c);
/* Closes the window now and delivers what was captured so far. */
void capture_stop(struct capture *c);
void capture_get_progress(struct capture *c, struct capture_progress *ret);
/* Requests of a process that have finished in the window, which began at *ret_since_ns. False: the
 * process is not captured. */
bool capture_get_live(struct capture *c, pid_t pid, struct histogram *ret, uint64_t *ret_since_ns);
/* The processes that were named or chosen when the capture was requested. Returns their number, at
 * most max. */
unsigned capture_get_pids(const struct capture *c, pid_t *ret, unsigned max);
/* To be called in done() only; anything moved out of it must be zeroed. */
struct capture_result *capture_get_result(struct capture *c);
/* Captures that are not freed yet. */
unsigned capture_count(const struct capture_shared *shared);
