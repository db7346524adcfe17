/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of an export share: the open plane's names, the stats of an event, and the order
 * of events on a line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/export/xspace/export.h"
#include "daemon/export/xspace/xspace.h"
#include "daemon/timeline/timeline.h"

enum plane_id { PLANE_HOST = 1, PLANE_SCHED, PLANE_ENVIRONMENT, PLANE_METADATA, PLANE_DEVICE };

/* Types of contexts, which tie events of several threads together; the numbers are the readers'. */
enum context_type {
	CONTEXT_EXECUTOR = 2, /* a run and its pieces */
	CONTEXT_BATCH = 4,    /* the tasks of a batch and its processing */
};

enum stat {
	STAT_ID,
	STAT_ROOT,
	STAT_PRODUCER_TYPE,
	STAT_PRODUCER,
	STAT_CONSUMER_TYPE,
	STAT_CONSUMER,
	STAT_FLOW,
	STAT_STEP,
	STAT_STAGE_ID,
	STAT_STAGE_NAME,
	STAT_STAGE_CATEGORY,
	STAT_MODEL,
	STAT_TRUNCATED,
	STAT_END,
	STAT_WAKER,
	STAT_REASON,
	STAT_ON_CPU,
	STAT_CGROUP,
	STAT_QUOTA,
	STAT_THREAD,
	STAT_TID,
	STAT_PID,
	STAT_REQUEST,
	STAT_REQUEST_ID,
	STAT_ATTRIBUTION,
	STAT_SENT_BY,
	STAT_CALLS,
	STAT_SENT,
	STAT_RUNS,
	STAT_PROTOCOL,
	STAT_METHOD,
	STAT_PATH,
	STAT_STATUS,
	STAT_GRPC_STATUS,
	STAT_BYTES_IN,
	STAT_BYTES_OUT,
	STAT_CONNECTION,
	STAT_STREAM,
	STAT_LOCAL_PORT,
	STAT_PEER_PORT,
	STAT_ARRIVAL,
	STAT_SEEN,
	STAT_INCOMPLETE,
	STAT_ARGUMENTS,
	STAT_REQUESTS,
	STAT_TASKS,
	STAT_THREADS,
	STAT_TASK_SIZE,
	STAT_BATCH_SIZE,
	STAT_PADDED_SIZE,
	STAT_PADDING,
	STAT_ALLOCATOR,
	STAT_IN_USE,
	STAT_PEAK,
	STAT_REQUESTED,
	STAT_ALLOCATION,
	STAT_ADDRESS,
	STAT_TF_OP,
	STAT_BYTES,
	STAT_START_TIME,
	STAT_STOP_TIME,
	STAT_DEVICE_TYPE,
	STAT_CATEGORY,
	STAT_PROGRAM,
	STAT_SYMBOL,
	STAT_STACK,
	STAT_COUNT,
};

/* The event names that one entry of the timeline's names can stand for. */
enum form {
	FORM_PLAIN,
	FORM_END_NOT_SEEN, /* its end was not seen: a stat of the name, since there are many events
			    */
	FORM_BLOCKED,
	FORM_RUNNABLE,
	FORM_THROTTLED,
	FORM_RUNNING,   /* on a request's critical path */
	FORM_EXECUTING, /* the same, if it is unknown whether the thread ran */
	FORM_COUNT,
};

/* Ids of the open plane, 0: none was needed yet. */
struct plane_ids {
	uint32_t stats[STAT_COUNT];
	uint32_t phases[PHASE_COUNT];
	uint32_t *forms;          /* by name and enum form */
	uint32_t *reasons;        /* by name, as a string */
	uint32_t *threads;        /* by thread, its name as an event */
	uint32_t *thread_strings; /* by thread, "name/tid" */
};

/* The stats of one event as they are collected. */
struct stats {
	struct xspace_stat list[XSPACE_EVENT_STATS_MAX];
	unsigned int n;
};

/* How many of those that are counted were captured only in part. */
struct partial {
	uint64_t n, all, n_start, n_end; /* n_start: the beginning is missing; n_end: the end is */
};

struct writer {
	const struct timeline *timeline;
	unsigned int level;
	struct export_extras extras;
	struct xspace *xspace;
	struct plane_ids ids;
	char **shown;       /* op_names_make() */
	uint32_t *order;    /* display id of a thread's line */
	bool *has_requests; /* by process: it has requests with known times */
	bool *serves; /* by process: some of its requests are for its models, or marked by itself */
	struct partial requests, runs; /* runs: of processes whose requests are not seen */
	uint64_t *tasks;               /* indices of batch tasks, by request and time */
	bool *path_models;             /* by text: a path that stands for a model's name */
	uint32_t n_path_models;
	uint64_t flow_salt;                  /* keeps the arrows of several hosts' captures apart */
	char line[64];                       /* the open one's name, cut off */
	uint64_t last_offset, last_duration; /* on it */
	uint64_t n_disordered;
	char disordered[64];    /* the line of the first of them */
	uint64_t disordered_ns; /* and when that began, in the window */
	struct stats stats;     /* of the event at hand */
};

/* Prepares for a timeline, which must outlive w. -ENOMEM; call writer_done() also after a failure.
 */
int writer_init(struct writer *w, const struct timeline *t, const struct export_options *options);
void writer_done(struct writer *w);

/* Counts one; returns whether it was captured only in part. */
bool counted_in_part(struct partial *p, bool no_start, bool no_end);

/* Whether the level shows a span. */
bool writer_shows(const struct writer *w, const struct span *s);
/* Whether a request has a place on a line. */
bool writer_shows_request(const struct request *q);

/* For the next event: no stats. A variable of the caller's would be cleared for each of millions of
 * events, which takes longer than to write one. */
static inline struct stats *writer_stats(struct writer *w)
{
	w->stats.n = 0;
	return &w->stats;
}

int writer_plane_begin(struct writer *w, enum plane_id id, const char *name);
/* timestamp_ns need not be given. */
int writer_line_begin(struct writer *w, const struct xspace_line *line);

/*
 * Adds an event to the open line, as far as it is within the window (ns), unless it comes before
 * its predecessor: such lines break the readers' nesting. Errors are those of the xspace.
 */
int writer_event(struct writer *w, uint32_t name, uint64_t start_ns, uint64_t end_ns,
		 const struct stats *stats);

/*
 * The following functions leave errors to the xspace, which keeps the first one and returns it from
 * every later call. writer_form() is the event name of an entry of the timeline's names in a form;
 * a form without an entry accepts TEXT_NONE. writer_title() writes "name/tid", as the runtime's own
 * profiler names the line of a thread.
 */
uint32_t writer_string(struct writer *w, uint32_t *cache, const char *text);
uint32_t writer_form(struct writer *w, uint32_t name, enum form form);
/* An entry of the timeline's names as it is shown, wherever readers look for an operation. */
struct span_name writer_shown(const struct writer *w, uint32_t name);
const char *writer_title(const struct thread *thread, char *buffer, size_t size);
/* "name/tid", or "[pid] process name/tid" where there are several processes. */
const char *writer_long_title(const struct writer *w, const struct thread *thread, char *buffer,
			      size_t size);

void stats_add(struct writer *w, struct stats *stats, enum stat stat, enum xspace_value type,
	       uint64_t value);
void stats_add_int(struct writer *w, struct stats *stats, enum stat stat, int64_t value);
void stats_add_text(struct writer *w, struct stats *stats, enum stat stat, const char *text);
/* Adds nothing for a thread that is not in the timeline. */
void stats_add_thread(struct writer *w, struct stats *stats, enum stat stat, int64_t thread);
/* The cgroup and its quota; adds nothing for NULL. */
void stats_add_quota(struct writer *w, struct stats *stats, const struct quota *quota);
/* stat is STAT_PRODUCER or STAT_CONSUMER; adds nothing for context 0. */
void stats_add_context(struct writer *w, struct stats *stats, enum context_type type,
		       enum stat stat, uint64_t context);
/* truncated_start, truncated_end: it goes on beyond that edge of the window; adds nothing for
 * neither. */
void stats_add_truncated(struct writer *w, struct stats *stats, bool truncated_start,
			 bool truncated_end);
/* An end of the arrow from a request (index) to its runs. */
void stats_add_arrow(struct writer *w, struct stats *stats, uint32_t request, bool out);
/* The same, from a request's call to the request that it is elsewhere: index of the hop. */
void stats_add_hop_arrow(struct writer *w, struct stats *stats, uint32_t hop, bool out);
