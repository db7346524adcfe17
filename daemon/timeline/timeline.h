/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a capture saw, in the terms of its users: spans of work on threads, threads on CPUs,
 * requests, and what is unknown. Made by correlate, read by export; plain memory, no descriptor, no
 * clock. All times are nanoseconds of CLOCK_MONOTONIC; start_unix_ns is the start of the window in
 * Unix time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/timeline/stacks.h"
#include "lib/proto/phase.h"

enum span_kind {
	SPAN_RUN,       /* one run of a graph or of a function: work for one request */
	SPAN_EXECUTOR,  /* a piece of a run on one thread */
	SPAN_DONE,      /* the callback that ends a run's executor */
	SPAN_OP,        /* one execution of one operation */
	SPAN_SCHEDULE,  /* the hand-over of ready operations to other threads */
	SPAN_BATCH,     /* the processing of a batch on the batch thread */
	SPAN_HANDLER,   /* a server's own handler of a request */
	SPAN_BLOCKED,   /* the thread was off CPU, waiting for something */
	SPAN_RUNNABLE,  /* the thread was off CPU, waiting for a CPU: woken or preempted */
	SPAN_THROTTLED, /* the thread was off CPU: its cgroup had used up its quota of CPU time */
	SPAN_LABEL,     /* what the server itself calls the thread's work */
	SPAN_ITERATOR,  /* an iterator of a pipeline produces its next element */
	SPAN_KIND_COUNT,
};

enum span_flag {
	SPAN_TRUNCATED_START = 1 << 0, /* it began before the window */
	SPAN_TRUNCATED_END = 1 << 1,   /* it ended after the window */
	SPAN_END_NOT_SEEN = 1 << 2, /* end_ns is the last, or the next, thing seen of its thread */
	SPAN_CHEAP =
		1 << 3, /* an operation that the runtime's own profiler shows only at level 3 */
	SPAN_ASYNC =
		1 << 4, /* an operation that may finish on another thread: this is its launch */
	SPAN_INFERRED = 1 << 5,  /* of a run: the request that it works for is inferred */
	SPAN_INNER = 1 << 6,     /* of a run: it is within another run, or within a piece of one */
	SPAN_STEP_READ = 1 << 7, /* its step was read at an offset known for some releases only */
	SPAN_MARK = 1 << 8, /* of a run: not a run, but what the server itself marked as its work
			       for a request */
	SPAN_END_INFERRED = 1 << 9, /* of an operation, with SPAN_END_NOT_SEEN: its run, which is
				       inferred, had ended then */
	SPAN_HANDED_OVER = 1 << 10, /* of a run: it returns when its work is queued, which a batch
				       does later */
	SPAN_CHILD = 1 << 11, /* of a piece: a child of the process does it, and then waits for the
				 thread that it works for; of a run or batch: it has such a piece */
};

/* Its duration is only a lower bound, or an upper bound. */
#define SPAN_NOT_WHOLE (SPAN_TRUNCATED_START | SPAN_TRUNCATED_END | SPAN_END_NOT_SEEN)

/* 56 bytes; a capture has millions. */
struct span {
	uint64_t start_ns;
	uint64_t end_ns;
	union {
		/* SPAN_RUN, SPAN_BATCH, SPAN_HANDLER: its identity, unique in a timeline.
		 * SPAN_EXECUTOR, SPAN_DONE: that of the run, or batch, of which it is a piece.
		 * 0: unknown. */
		uint64_t context;
		/* SPAN_OP, while records are read: the key of the object that will have its name;
		 * 0: it has its name. */
		uint64_t object;
	};
	/* -1: unknown, or none; also for the other kinds. */
	union {
		int64_t step; /* SPAN_RUN, SPAN_EXECUTOR, SPAN_DONE: the runtime's own number */
		int64_t request_id; /* SPAN_RUN with SPAN_MARK: the server's own number */
		int64_t batch;      /* SPAN_BATCH: index into batches */
		int64_t handler;    /* SPAN_HANDLER: index into handlers */
		int64_t arguments;  /* SPAN_LABEL: index into texts */
		int64_t waker;      /* SPAN_BLOCKED: index of the thread that woke it */
		int64_t cpu_user; /* SPAN_RUNNABLE: index of the thread that used, for the longest,
				     the CPU that it waited for */
		int64_t quota;    /* SPAN_THROTTLED: index into quotas */
	};
	uint64_t self_ns; /* duration less that of the operations nested in it */
	uint32_t thread;  /* index into threads */
	uint32_t name;    /* index into names */
	uint8_t kind;     /* enum span_kind */
	uint16_t flags;   /* enum span_flag */
	uint32_t request; /* of a run: index into requests + 1; 0: unknown, or another kind */
};

_Static_assert(sizeof(struct span) == 56, "a capture has millions");

/* A name that many spans share. */
struct span_name {
	char *name; /* as the runtime's own profiler names the event: "scope/op:Type", "SessionRun",
		       … */
	char *display; /* a short form ("Type"), or NULL */
	bool lost;     /* the name could not be read, which is what name then is */
};

#define TIMELINE_OTHER_USER "another user's process"

struct thread {
	uint32_t tid;     /* 0: the client may not know it, only that it is another user's */
	uint32_t process; /* index into processes; 0 for one that is not captured */
	char name[sizeof(TIMELINE_OTHER_USER) + 1];
	bool foreign; /* of a process that is not captured: it only used a CPU that others waited
			 for */
};

struct process {
	uint32_t pid;
	char name[16];
	bool ended;    /* within the window */
	bool is_child; /* it was not asked for: it works for another one */
};

/* What the thread on a request's critical path did. */
enum activity {
	ACTIVITY_UNKNOWN,
	ACTIVITY_RUNNING,
	ACTIVITY_RUNNABLE, /* waited for a CPU */
	ACTIVITY_BLOCKED,
	ACTIVITY_WAITING, /* no thread worked for the request: it waited to be read, to be taken up,
			     or for its batch */
	ACTIVITY_THROTTLED, /* its cgroup had used up its quota of CPU time */
};

/* How the request that a run works for is known. */
enum attribution {
	ATTRIBUTION_NONE,     /* it is unknown: no run is shown for the request */
	ATTRIBUTION_EXACT,    /* by an object's identity, or by nesting on one thread */
	ATTRIBUTION_INFERRED, /* by a wake-up */
};

enum protocol {
	PROTOCOL_UNKNOWN,
	PROTOCOL_HTTP1,
	PROTOCOL_HTTP2,
	PROTOCOL_MARK,    /* marked by the server itself (include/tfprof.h) */
	PROTOCOL_HANDLER, /* one of the server's handlers, whose name is known */
};

enum request_flag {
	REQUEST_TRUNCATED_START = 1 << 0, /* it began before the window: start_ns is an upper bound;
					     its latency and its first phase are lower bounds */
	REQUEST_TRUNCATED_END = 1 << 1,   /* it ended after the window: end_ns, its latency and its
					     last phase are lower bounds */
	REQUEST_LOST = 1 << 2,  /* records were lost while it was open: it may be incomplete */
	REQUEST_RESET = 1 << 3, /* the client, or the server, reset it */
	REQUEST_NO_ARRIVAL =
		1 << 4, /* when its first byte arrived is unknown: it begins where that was read */
	REQUEST_FILTERED = 1 << 5,   /* it does not pass the capture's filter */
	REQUEST_UNACCEPTED = 1 << 6, /* its first byte arrived before its connection was accepted */
	REQUEST_AT_LIBRARY = 1 << 7, /* its connection is encrypted: it was seen in gRPC's library,
					and begins and ends there */
	REQUEST_STREAMING = 1 << 8,  /* its runs made messages of its answer, between which others
					were read */
};

/* It is not counted in percentiles. */
#define REQUEST_NOT_WHOLE                                                                          \
	(REQUEST_TRUNCATED_START | REQUEST_TRUNCATED_END | REQUEST_LOST | REQUEST_RESET |          \
	 REQUEST_FILTERED)

#define THREAD_NONE UINT32_MAX
#define TEXT_NONE UINT32_MAX

/* A request, from its first byte to the last byte of its answer. Unknown times are 0. */
struct request {
	uint64_t start_ns;       /* its first byte arrived, or was read */
	uint64_t accepted_ns;    /* REQUEST_UNACCEPTED: when its connection was accepted */
	uint64_t read_start_ns;  /* the call that read its first byte was entered */
	uint64_t read_end_ns;    /* its last byte was read */
	uint64_t taken_ns;       /* REQUEST_AT_LIBRARY: the thread of its runs took it up */
	uint64_t write_start_ns; /* the call that sent its answer's first byte was entered */
	uint64_t held_ns;        /* the call that wrote the last one returned, and it was still in
				    the socket; 0: it was not */
	uint64_t end_ns;         /* that call returned, or it left the socket */
	uint64_t connection;     /* a number, unique in the capture; 0: not at a socket */
	uint64_t id;             /* PROTOCOL_MARK: as the server gave it */
	uint64_t bytes_in, bytes_out;
	uint64_t phases[PHASE_COUNT]; /* their sum is end_ns - start_ns */
	uint64_t first_segment,
		n_segments; /* index into segments: its critical path, without gap or overlap */
	uint32_t process;   /* index */
	uint32_t read_thread, write_thread,
		run_thread; /* indices, THREAD_NONE: of the thread that read its last byte, that
			       sent its first one, and of its first run */
	uint32_t stream; /* HTTP/2; HTTP/1: which request of the connection since the window opened,
			    from 1 */
	uint32_t n_runs;
	uint32_t first_call,
		n_calls; /* index into hops: requests of other processes that it sent */
	uint32_t hop;    /* index + 1: which of them it is itself; 0: its client is not
			    captured */
	uint32_t method, path, model, version; /* index into texts, TEXT_NONE */
	int32_t status;                        /* HTTP's, -1: unknown */
	int32_t grpc_status;                   /* -1 */
	uint32_t lane;
	uint16_t local_port, peer_port; /* 0: none */
	uint8_t protocol;               /* enum protocol */
	uint8_t attribution;            /* enum attribution */
	uint16_t flags;                 /* enum request_flag */
	uint8_t held_reason;            /* enum held_reason, if it has left */
	uint32_t held_bytes;            /* of the answer's end */
};

/* A request of one process that another process sent: both are captured. */
struct hop {
	uint64_t start_ns; /* the call that sent its first byte was entered */
	uint64_t end_ns;   /* the last byte of its answer was read; 0: it was not */
	uint32_t process;  /* that sent it: index */
	uint32_t caller;   /* the request of that process for which it was sent: index + 1; 0:
			      unknown */
	uint32_t callee;   /* the request that it is at the other process: index + 1 */
};

/* A piece of a request's critical path. */
struct segment {
	uint64_t start_ns, end_ns;
	uint32_t thread; /* that worked for the request, or that it waited for; THREAD_NONE */
	uint32_t name;   /* index into names: the op, what it was blocked in, or
			    (ACTIVITY_THROTTLED) the cgroup; TEXT_NONE */
	int32_t by; /* index of the thread that woke it, or (ACTIVITY_RUNNABLE) that used the CPU;
		       -1: unknown */
	uint8_t phase, activity;
	uint16_t reserved;
};

/* A batch of several requests' work. */
struct batch {
	uint64_t start_ns, end_ns; /* its processing */
	uint32_t thread;
	uint32_t flags;               /* enum span_flag */
	uint64_t first_task, n_tasks; /* index into batch_tasks */
	uint64_t size, padded;        /* rows before and after padding; 0: unknown */
};

struct batch_task {
	uint64_t queued_ns;
	uint32_t batch;   /* index; UINT32_MAX: it was not processed within the window */
	uint32_t request; /* index + 1 of the request that it is for; 0: unknown */
	uint64_t run; /* span context of the run, or of the handler, that added it; 0: unknown */
};

/* The arguments of a server's handler: indices into texts, TEXT_NONE. */
struct handler {
	uint32_t path;
	uint32_t model;
};

/* An allocator of memory. */
enum allocator {
	ALLOCATOR_CPU, /* what CPU allocators get from malloc(), including regions of the other
			  allocator */
	ALLOCATOR_BFC, /* pieces of regions: GPUs' memory, and oneDNN's from 256 KiB on */
	ALLOCATOR_COUNT,
};

/* Memory that an allocator gave out, or took back. */
struct memory_event {
	uint64_t at_ns;
	uint64_t address; /* not 0; unique in its process while the memory is allocated */
	uint64_t bytes;
	uint32_t op; /* index into names: the operation that asked for it; TEXT_NONE: none, or
			memory that is taken back */
	uint32_t thread;
	uint8_t allocator; /* enum allocator */
	bool freed;        /* taken back */
};

/* A thread's time on a CPU. */
struct cpu_slice {
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t thread;
	uint16_t cpu;
	uint16_t reserved;
	uint32_t reason; /* why it left: index into names */
	int32_t waker; /* index of the thread that woke it before the slice, -1: not woken, or by an
			  unknown thread */
};

/* How much CPU time the threads of a cgroup may use, all together, in each period. */
struct quota {
	uint64_t quota_ns, period_ns; /* 0: unknown */
	uint32_t name;                /* index into names: its path; TEXT_NONE */
};

#define TIMELINE_QUOTAS_MAX 64

/* The last two: threads, requests and curves are known all the same. */
enum gap_of {
	GAP_OF_OTHERS,
	GAP_OF_RUNS,
	GAP_OF_EXECUTORS,
	GAP_OF_OPS,
};

/* Time in which something was not recorded, to keep a budget or because the kernel refused it. */
struct gap {
	uint64_t start_ns;
	uint64_t end_ns; /* 0: it lasts until the window's end */
	char *text;
	enum gap_of of;
};

struct timeline {
	/* The actual window. */
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t start_unix_ns;

	struct span *spans; /* sorted by (thread, start, longer first) */
	uint8_t *kinds;     /* of each span; NULL: only the spans have them */
	uint64_t n_spans;
	struct cpu_slice *slices; /* sorted by (cpu, start, -end) */
	uint64_t n_slices;
	struct memory_event *memory; /* by time */
	uint64_t n_memory;
	struct thread *threads;
	uint32_t n_threads;
	struct process *processes;
	uint32_t n_processes;
	struct span_name *names;
	uint32_t n_names;
	struct request *requests; /* by start */
	uint32_t n_requests;
	struct segment *segments;
	uint64_t n_segments;
	struct hop *hops; /* by (caller, start); of each callee at most one */
	uint32_t n_hops;
	struct batch *batches; /* by start */
	uint32_t n_batches;
	struct batch_task *batch_tasks; /* by batch */
	uint64_t n_batch_tasks;
	struct handler *handlers; /* in no order */
	uint32_t n_handlers;
	char **texts; /* of requests: paths, methods, models; each once */
	uint32_t n_texts;
	uint32_t n_lanes; /* of requests: those of one lane do not overlap */
	uint64_t n_runs_exact, n_runs_inferred,
		n_runs_orphaned; /* outermost runs, by attribution */
	struct gap *gaps;        /* by start */
	uint32_t n_gaps;
	struct quota quotas[TIMELINE_QUOTAS_MAX]; /* of the cgroups that used them up */
	uint32_t n_quotas;
	struct stacks stacks;
	bool ops_at_entry; /* operations end where the next one starts, or where their executor ends
			    */
	char **warnings;   /* one sentence each: losses, missing symbols, truncated targets */
	uint32_t n_warnings;

	uint64_t n_runs, n_runs_truncated, n_ops, n_lost_names;
	uint64_t n_spans_left_out, n_memory_left_out; /* for lack of room */
	uint64_t n_unknown_freed;   /* freed blocks of ALLOCATOR_CPU that were allocated before the
				       window: their sizes are unknown */
	uint64_t n_paths_truncated; /* requests whose critical path has too many segments: its
				       beginning is unknown */
	uint64_t running_ns, runnable_ns, throttled_ns,
		blocked_ns; /* of the threads, while inside a run or an executor */
};

/* Puts spans and slices in order, and computes self times and sums. -ENOMEM. */
int timeline_finish(struct timeline *t);
/* The first span from that index on whose kind is in the set (bits 1 << enum span_kind); n_spans:
 * none. */
uint64_t timeline_next(const struct timeline *t, uint64_t from, unsigned kinds);
/* For each span whose kind is in the set, as index i. Most spans are operations: who wants others
 * does not read them. */
#define TIMELINE_EACH(t, i, kinds)                                                                 \
	for (uint64_t i = timeline_next(t, 0, kinds); i < (t)->n_spans;                            \
	     i = timeline_next(t, i + 1, kinds))
/*
 * Gives every request the lowest lane that is free when it starts, in order of start, and counts
 * the lanes; requests are in that order already. A filtered request has no lane. -ENOMEM.
 */
int timeline_assign_lanes(struct timeline *t);
/* Adds a sentence to the warnings; the text is copied. -ENOMEM. */
__attribute__((format(printf, 2, 3))) int timeline_warn(struct timeline *t, const char *format,
							...);
/* The process with that index; 0: there is none. */
static inline uint32_t timeline_pid(const struct timeline *t, uint32_t process)
{
	return process < t->n_processes ? t->processes[process].pid : 0;
}

/* The quota of the cgroup with this name (index into names), NULL: it has none. */
const struct quota *timeline_quota(const struct timeline *t, uint32_t name);
struct timeline *timeline_free(struct timeline *t);
