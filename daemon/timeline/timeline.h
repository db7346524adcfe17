/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a capture saw, in the terms of its users: spans of work on threads, threads on CPUs, and
 * what is not known. Made by correlate, read by export and by the summary; plain memory, no
 * descriptor, no clock. All times are nanoseconds of CLOCK_MONOTONIC; the window says where Unix
 * time stood.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum span_kind {
	SPAN_RUN, /* one run of a graph or of a function: a request's work, as its caller waits for
		     it */
	SPAN_EXECUTOR, /* a piece of a run on one thread */
	SPAN_DONE,     /* the callback that ends a run's executor */
	SPAN_OP,       /* one execution of one operation */
	SPAN_SCHEDULE, /* the hand-over of ready operations to other threads */
	SPAN_BATCH,    /* the processing of a batch on the batch thread; id: index into batches */
	SPAN_HANDLER,  /* a server's own handler of a request; id: index into handlers, -1: nothing
			  is known of it */
	SPAN_BLOCKED,  /* the thread was off CPU, waiting for something */
	SPAN_RUNNABLE, /* the thread was off CPU, waiting for a CPU: woken or preempted */
	SPAN_LABEL, /* what the server itself calls the thread's work; id: index into texts of its
		       arguments, -1: none */
	SPAN_ITERATOR, /* an iterator of a pipeline makes its next element */
	SPAN_KIND_COUNT,
};

enum span_flag {
	SPAN_CUT_START = 1 << 0, /* began before the window: start_ns is a bound */
	SPAN_CUT_END = 1 << 1,   /* ended after the window: end_ns is a bound */
	SPAN_CHEAP =
		1 << 2, /* an operation that the runtime's own profiler shows only at level 3 */
	SPAN_INFERRED = 1 << 3,  /* of a run: whose request it works for is inferred */
	SPAN_END_BOUND = 1 << 5, /* its end was not seen: end_ns is the last, or the next, that was
				    seen of its thread */
	SPAN_INNER = 1 << 6,     /* a run within another run, or within a piece of one */
	SPAN_ID_READ = 1 << 7, /* its id was read at a place that is known of some releases only */
	SPAN_ASYNC =
		1 << 4, /* an operation that may finish on another thread: the span is its launch */
	SPAN_MARK = SPAN_ASYNC, /* of a run: it is none, but what the server itself marked as its
				   work for a request */
};

/* Its duration is a bound. */
#define SPAN_NOT_WHOLE (SPAN_CUT_START | SPAN_CUT_END | SPAN_END_BOUND)

/* 56 bytes; a capture has millions. */
struct span {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t context; /* SPAN_RUN, SPAN_BATCH and SPAN_HANDLER make it, SPAN_EXECUTOR and
			     SPAN_DONE use it; unique in a timeline; 0: not known */
	/* Step id of a run and its pieces; thread index of who woke a blocked thread, or had, for
	 * the longest, the CPU that a runnable one waited for; -1: not known. */
	int64_t id;
	uint64_t self_ns; /* duration less that of the operations nested in it */
	uint32_t thread;  /* index into threads */
	uint32_t name;    /* index into names */
	uint8_t kind;     /* enum span_kind */
	uint8_t flags;    /* enum span_flag */
	uint16_t depth;   /* spans on the same thread that enclose it */
	uint32_t request; /* that a run is of: index into requests + 1; 0: not known, or another
			     kind of span */
};

/* A name that many spans share. */
struct span_name {
	char *name; /* as the runtime's own profiler names the event: "scope/op:Type", "SessionRun",
		       … */
	char *display; /* a short form ("Type"), or NULL */
	bool lost;     /* the name could not be read; name then says so */
};

struct thread {
	uint32_t tid;
	uint32_t process; /* index into processes; that of one that is not captured is 0 */
	char name[16];
	bool foreign; /* of a process that is not captured: it only had a CPU that others waited for
		       */
};

struct process {
	uint32_t pid;
	char name[16];
	bool ended; /* within the window */
};

/* Where a request's time went. Every moment of it is in one of these. */
enum phase {
	PHASE_READ,    /* from its first byte's reading to its last one's */
	PHASE_DECODE,  /* from then on until its first run begins, on the thread that runs it */
	PHASE_QUEUE,   /* nobody works for it: its bytes wait to be read, or it waits to be taken up
			  by a thread */
	PHASE_BATCH,   /* it waits in a batch that is not being processed yet */
	PHASE_RUNNING, /* execution, on a CPU */
	PHASE_RUNNABLE, /* execution: the thread that it waits for waits for a CPU */
	PHASE_BLOCKED,  /* execution: the thread that it waits for waits for something else */
	PHASE_EXECUTE,  /* execution, where it was not captured whether its threads ran */
	PHASE_ENCODE,   /* from the end of its last run until its first byte is sent */
	PHASE_WRITE,    /* from then on until the last byte is sent */
	PHASE_UNKNOWN,
	PHASE_COUNT,
};

/* What the thread on a request's critical path did. */
enum activity {
	ACTIVITY_UNKNOWN,
	ACTIVITY_RUNNING,
	ACTIVITY_RUNNABLE, /* waited for a CPU */
	ACTIVITY_BLOCKED,
	ACTIVITY_WAITING, /* no thread worked for the request: it waited to be read, to be taken up,
			     or for its batch */
};

/* How it is known whose work a run is. */
enum attribution {
	ATTRIBUTION_NONE,     /* it is not: no run is shown for the request */
	ATTRIBUTION_EXACT,    /* by an object's identity, or by nesting on one thread */
	ATTRIBUTION_INFERRED, /* by a wake-up */
};

enum protocol {
	PROTOCOL_UNKNOWN,
	PROTOCOL_HTTP1,
	PROTOCOL_HTTP2,
	PROTOCOL_MARK,    /* marked by the server itself (include/tfprof.h) */
	PROTOCOL_HANDLER, /* a handler of the server's that is known by name */
};

enum request_flag {
	REQUEST_CUT_START = 1 << 0, /* it began before the window: start_ns is a bound, and so are
				       its latency and its first phase */
	REQUEST_CUT_END = 1 << 1,   /* it ended after the window: the same of end_ns */
	REQUEST_LOST =
		1 << 2, /* records were lost while it lived: what is shown may not be all of it */
	REQUEST_RESET = 1 << 3,      /* the client, or the server, broke it off */
	REQUEST_NO_ARRIVAL = 1 << 4, /* when its first byte could be read is not known: it begins
					where that was read */
	REQUEST_FILTERED = 1 << 5,   /* the capture was asked to leave it out */
};

/* It is not counted in percentiles. */
#define REQUEST_NOT_WHOLE                                                                          \
	(REQUEST_CUT_START | REQUEST_CUT_END | REQUEST_LOST | REQUEST_RESET | REQUEST_FILTERED)

#define THREAD_NONE UINT32_MAX
#define TEXT_NONE UINT32_MAX

/* A request, from its first byte to the answer's last. Times that are not known are 0. */
struct request {
	uint64_t start_ns;       /* its first byte could be read, or was */
	uint64_t read_start_ns;  /* the call that read its first byte was entered */
	uint64_t read_end_ns;    /* its last byte was read */
	uint64_t write_start_ns; /* the call that sent its answer's first byte was entered */
	uint64_t end_ns;         /* the call that sent the last one returned */
	uint64_t connection; /* a number of its own for each connection in the capture; 0: not at a
				socket */
	uint64_t id;         /* PROTOCOL_MARK: as the server gave it */
	uint64_t bytes_in, bytes_out;
	uint64_t phases[PHASE_COUNT]; /* their sum is end_ns - start_ns */
	uint64_t first_segment,
		n_segments; /* index into segments: its critical path, without gap or overlap */
	uint32_t process;   /* index */
	uint32_t read_thread, write_thread,
		run_thread; /* indices; THREAD_NONE. The last byte was read, the first one sent; its
			       first run */
	uint32_t stream; /* HTTP/2; HTTP/1: which request of the connection since the window opened,
			    from 1 */
	uint32_t n_runs;
	uint32_t method, path, model, version; /* index into texts, TEXT_NONE */
	int32_t status;                        /* HTTP's, -1: not known */
	int32_t grpc_status;                   /* -1 */
	uint32_t lane;
	uint16_t local_port, peer_port; /* 0: none */
	uint8_t protocol;               /* enum protocol */
	uint8_t attribution;            /* enum attribution */
	uint8_t flags;                  /* enum request_flag */
	uint8_t reserved;
};

/* A piece of a request's critical path. */
struct segment {
	uint64_t start_ns, end_ns;
	uint32_t thread; /* that the request waited for, or that worked for it; THREAD_NONE */
	uint32_t name;   /* index into names: the op, or what it was blocked in; TEXT_NONE */
	int32_t by; /* thread index of who woke it, or (ACTIVITY_RUNNABLE) who had the CPU; -1: not
		       known */
	uint8_t phase, activity;
	uint16_t reserved;
};

/* A batch of several requests' work. */
struct batch {
	uint64_t start_ns, end_ns; /* its processing */
	uint32_t thread;
	uint32_t flags;               /* enum span_flag */
	uint64_t first_task, n_tasks; /* index into batch_tasks */
	uint64_t size, padded;        /* rows before and after padding; 0: not known */
};

struct batch_task {
	uint64_t queued_ns;
	uint32_t batch;   /* index; UINT32_MAX: it was not processed within the window */
	uint32_t request; /* index + 1 of the request whose work it is; 0: not known */
	uint64_t run; /* span context of the run, or of the handler, that added it; 0: not known */
};

/* What a server's handler was called with: indices into texts, TEXT_NONE. */
struct handler {
	uint32_t path;
	uint32_t model;
};

/* Who gave memory out. */
enum allocator {
	ALLOCATOR_CPU, /* what CPU allocators have from malloc(), regions of the other one among it
			*/
	ALLOCATOR_BFC, /* pieces of regions: GPUs' memory, and oneDNN's from 256 KiB on */
	ALLOCATOR_COUNT,
};

/* Memory that an allocator gave out, or took back. */
struct memory_event {
	uint64_t at_ns;
	uint64_t address; /* not 0; alone in its process while it is given out */
	uint64_t bytes;
	uint64_t op; /* index into names: the operation that the thread was in; TEXT_NONE: none, and
			of what is taken back */
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
	int32_t waker; /* thread index of who woke it before the slice, -1: not woken, or by someone
			  outside */
};

/* From that time on something was not captured any more. */
struct gap {
	uint64_t start_ns;
	char *text;
};

#define TIMELINE_GAPS_MAX 8

struct timeline {
	/* The window, as it really was. */
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t start_unix_ns;

	struct span *spans; /* sorted by (thread, start, longer first) */
	uint64_t n_spans;
	struct cpu_slice *slices; /* sorted by (cpu, start) */
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
		n_runs_orphaned; /* outermost ones, by how they found their request */
	struct gap gaps[TIMELINE_GAPS_MAX];
	uint32_t n_gaps;
	bool ops_at_entry; /* operations end where the next one starts, or their executor leaves */
	char **warnings;   /* one sentence each: loss, missing symbols, cut targets */
	uint32_t n_warnings;

	uint64_t n_runs, n_runs_cut, n_ops, n_lost_names;
	uint64_t n_spans_left_out, n_memory_left_out; /* for lack of room */
	uint64_t n_unknown_freed; /* blocks of ALLOCATOR_CPU that were given out before the window:
				     how large they were is not known */
	uint64_t n_paths_cut; /* requests whose critical path has too many pieces: its beginning is
				 unknown */
	uint64_t running_ns, runnable_ns,
		blocked_ns; /* of the threads, while inside a run or an executor */
};

/* Puts spans and slices in order, and computes depths, self times and sums. -ENOMEM. */
int timeline_finish(struct timeline *t);
/*
 * Gives every request the lowest lane that is free when it starts, in order of start, and counts
 * the lanes; requests are in that order already. One that is filtered has none. -ENOMEM.
 */
int timeline_assign_lanes(struct timeline *t);
/* Adds a sentence to the warnings; the text is copied. -ENOMEM. */
__attribute__((format(printf, 2, 3))) int timeline_warn(struct timeline *t, const char *format,
							...);
struct timeline *timeline_free(struct timeline *t);
