/*
 * What a capture saw, in the terms of its users: spans of work on threads, threads on CPUs, and what is not known. Made by
 * correlate, read by export and by the summary; plain memory, no descriptor, no clock. All times are nanoseconds of
 * CLOCK_MONOTONIC; the window says where Unix time stood.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum span_kind {
	SPAN_RUN,      /* one run of a graph or of a function: a request's work, as its caller waits for it */
	SPAN_EXECUTOR, /* a piece of a run on one thread */
	SPAN_DONE,     /* the callback that ends a run's executor */
	SPAN_OP,       /* one execution of one operation */
	SPAN_SCHEDULE, /* the hand-over of ready operations to other threads */
	SPAN_BLOCKED,  /* the thread was off CPU, waiting for something */
	SPAN_RUNNABLE, /* the thread was off CPU, waiting for a CPU: woken or preempted */
	SPAN_KIND_COUNT,
};

enum span_flag {
	SPAN_CUT_START = 1 << 0, /* began before the window: start_ns is a bound */
	SPAN_CUT_END = 1 << 1,   /* ended after the window: end_ns is a bound */
	SPAN_CHEAP = 1 << 2,     /* an operation that the runtime's own profiler shows only at level 3 */
	SPAN_IN_OP = 1 << 3,     /* off CPU while an operation ran on the thread */
	SPAN_END_BOUND = 1 << 5, /* its end was not seen: end_ns is the last, or the next, that was seen of its thread */
	SPAN_INNER = 1 << 6,     /* a run within another run of its thread */
	SPAN_ID_READ = 1 << 7,   /* its id was read at a place that is known of some releases only */
	SPAN_ASYNC = 1 << 4,     /* an operation that may finish on another thread: the span is its launch */
};

/* Its duration is a bound. */
#define SPAN_NOT_WHOLE (SPAN_CUT_START | SPAN_CUT_END | SPAN_END_BOUND)

/* 56 bytes; a capture has millions. */
struct span {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t context;  /* SPAN_RUN makes it, SPAN_EXECUTOR and SPAN_DONE use it; unique in a timeline; 0: not known */
	int64_t id;        /* step id of a run and its pieces, -1: not known; for off-CPU spans the waker's thread index or -1 */
	uint64_t self_ns;  /* duration less that of the operations nested in it */
	uint32_t thread;   /* index into threads */
	uint32_t name;     /* index into names */
	uint8_t kind;      /* enum span_kind */
	uint8_t flags;     /* enum span_flag */
	uint16_t depth;    /* spans on the same thread that enclose it */
	uint32_t reserved;
};

/* A name that many spans share. */
struct span_name {
	char *name;    /* as the runtime's own profiler names the event: "scope/op:Type", "SessionRun", … */
	char *display; /* a short form ("Type"), or NULL */
	bool lost;     /* the name could not be read; name then says so */
};

struct thread {
	uint32_t tid;
	uint32_t process; /* index into processes */
	char name[16];
};

struct process {
	uint32_t pid;
	char name[16];
	bool ended; /* within the window */
};

/* A thread's time on a CPU. */
struct cpu_slice {
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t thread;
	uint16_t cpu;
	uint16_t reserved;
	uint32_t reason; /* why it left: index into names */
	int32_t waker;   /* thread index of who woke it before the slice, -1: not woken, or by someone outside */
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
	struct thread *threads;
	uint32_t n_threads;
	struct process *processes;
	uint32_t n_processes;
	struct span_name *names;
	uint32_t n_names;
	struct gap gaps[TIMELINE_GAPS_MAX];
	uint32_t n_gaps;
	bool ops_at_entry; /* operations end where the next one starts, or their executor leaves */
	char **warnings; /* one sentence each: loss, missing symbols, cut targets */
	uint32_t n_warnings;

	uint64_t n_runs, n_runs_cut, n_ops, n_lost_names;
	uint64_t n_spans_left_out; /* for lack of room */
	uint64_t running_ns, runnable_ns, blocked_ns; /* of the threads, while inside a run or an executor */
};

/* Puts spans and slices in order, and computes depths, self times and sums. -ENOMEM. */
int timeline_finish(struct timeline *t);
/* Adds a sentence to the warnings; the text is copied. -ENOMEM. */
__attribute__((format(printf, 2, 3))) int timeline_warn(struct timeline *t, const char *format, ...);
struct timeline *timeline_free(struct timeline *t);
