/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One capture: plans and attaches the probes of its targets, opens the window, drains the rings
 * while it is open, and makes a trace of what was seen. Each runs in a thread of its own, with
 * programs, rings and window of its own, so that captures never exclude one another. The functions
 * here are called in the loop's thread.
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
/* Of all recordings that are made, or wait to be sent. */
#define CAPTURE_RECORDING_BYTES (512ull << 20)

struct capture;

/* What all captures share. */
struct capture_shared;
/* The plans and the directory (-1: none) of what is kept are borrowed. */
int capture_shared_new(struct loop *loop, struct proxy *proxy, struct plan_cache *plans, int cache,
		       const char *hostname, struct capture_shared **ret);
/* No capture may be left. */
struct capture_shared *capture_shared_free(struct capture_shared *shared);
/* How a process came to serve; false: it is not known. Called in the captures' threads. */
typedef bool (*capture_startup_fn)(const struct target *target, struct startup_track *ret,
				   void *data);
void capture_shared_set_startup(struct capture_shared *shared, capture_startup_fn startup,
				void *data);

/* A kind of probes that the kernel refuses, or that was disabled because the budget was passed. */
struct capture_shed {
	enum probe_kind kind;
	bool refused;    /* by the kernel; .overhead is 0 then */
	uint64_t at_ns;  /* since the window began */
	double overhead; /* percent, of all probes, then */
};

struct capture_request {
	uint32_t client; /* the broker's number of who asks */
	const struct target *targets[RECORD_MAX_TARGETS];
	unsigned n_targets;
	unsigned n_left_out; /* targets beyond RECORD_MAX_TARGETS: the result says so */
	bool skip_ended;     /* a target that has ended, or cannot be captured, is left out, with a
				warning, instead of failing the capture */
	uint64_t duration_ns;
	uint64_t start_unix_ns; /* 0: at once */
	struct detail detail;
	double max_overhead; /* percent of the targets' CPU time that the probes may cost; 0: no
				limit */
	bool record;         /* keep the raw records, for a replay */
	struct request_filter filter;         /* its texts are copied */
	struct request_list_options requests; /* which requests the result tells one by one */
	struct export_extras extras;          /* of the trace */
	bool plan_only; /* nothing is attached, and there is no result besides the plan */
	/* Called in the loop's thread before done(), when it is known what will be attached. May be
	 * NULL. */
	void (*planned)(struct capture *capture, const struct capture_plan *plan, void *data);
	/* Called once in the loop's thread, when the result is there; the capture frees itself some
	 * time after. */
	void (*done)(struct capture *capture, void *data);
	void *data;
};

struct capture_progress {
	uint64_t elapsed_ns; /* of the window */
	uint64_t records;
	uint64_t dropped;
	uint64_t requests;    /* that have finished and pass the filter */
	uint64_t duration_ns; /* as asked for */
	double overhead; /* percent of the targets' CPU time that the probes cost, by forecast */
};

struct capture_result {
	int error;      /* 0, or why there is no result: -EACCES, -ESRCH, -EBUSY, -ECANCELED … */
	char text[256]; /* what to do about the error */
	struct exported trace;
	struct summary summary;
	struct advice advice;
	struct startups startups;     /* how the processes came to serve */
	struct modules modules;       /* of XLA's, that it wrote where they can be read */
	struct request_filter filter; /* as asked for */
	struct request_list requests;
	uint64_t window_ns;
	uint64_t records;
	uint64_t dropped; /* records lost, all causes */
	struct capture_shed shed[KIND_COUNT];
	unsigned n_shed;
	double max_overhead;
	bool ops_at_entry;
	struct capture_plan plan;
	double overhead; /* percent of the targets' CPU time that the hits cost, by forecast */
	bool cut;        /* a target ended, or the window was ended, before its time */
	char *warnings[CAPTURE_WARNINGS_MAX];
	unsigned n_warnings;
	struct journal
		*recording; /* as asked for; not finished yet. NULL: none, and a warning says why */
};

/* Starts a capture. The targets are copied. -ENOMEM, -EAGAIN; -EBUSY: too many at once. */
int capture_start(struct capture_shared *shared, const struct capture_request *request,
		  struct capture **ret);
/* Whether a process was named when the capture was asked for. */
bool capture_asks_for(const struct capture *c, pid_t pid);
/* A process that came to be a target in the window, or has mapped more files, joins it, if there is
 * room. The target is copied. */
void capture_join(struct capture *c, const struct target *target);
/* Nobody wants the result any more: ends soon, and done() sees -ECANCELED. */
void capture_cancel(struct capture *c);
/* Closes the window now and delivers what was seen. */
void capture_stop(struct capture *c);
void capture_get_progress(struct capture *c, struct capture_progress *ret);
/* Of a process: requests that have finished in the window, which has begun at *ret_since_ns. False:
 * it is not captured. */
bool capture_get_live(struct capture *c, pid_t pid, struct histogram *ret, uint64_t *ret_since_ns);
/* The processes that were named, or chosen, when it was asked for: how many, at most max. */
unsigned capture_get_pids(const struct capture *c, pid_t *ret, unsigned max);
/* To be used in done() only; what is taken out of it must be zeroed. */
struct capture_result *capture_get_result(struct capture *c);
/* Captures that are not freed yet. */
unsigned capture_count(const struct capture_shared *shared);
