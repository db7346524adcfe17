/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a correlation and its parts; used within this folder only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/correlate/correlate.h"
#include "daemon/correlate/http/requests.h"
#include "daemon/correlate/losses.h"
#include "daemon/correlate/runtime/frames.h"
#include "daemon/correlate/sched/cpus.h"
#include "daemon/timeline/names.h"

#define NO_SPAN UINT64_MAX
#define BATCH_NONE UINT32_MAX
#define NOTHING_ASKED UINT64_MAX

/* What a server calls a thread's work, nested; deeper ones are not shown. */
#define LABELS_MAX 16

struct labels {
	uint32_t depth;
	uint64_t spans[LABELS_MAX]; /* indices, outermost first; NO_SPAN: no room */
};

/* What is known of a thread while the records are read. */
struct thread_state {
	struct frames frames;
	bool seen_running; /* its place on or off the CPU is known */
	bool on_cpu;
	uint64_t cpu_since;
	uint16_t cpu;
	int32_t waker;       /* of the time on the CPU that comes or is */
	int32_t blocked_in;  /* the system call that it waits in, -1: not known */
	uint64_t off_span;   /* the open off-CPU span, NO_SPAN: none */
	uint64_t left_ns;    /* when it last left a CPU, 0: never in the window */
	uint64_t run_closed; /* a run ended here: earlier ones cannot have been cut */
	bool handled;        /* a handler began or ended here: likewise */
	struct labels labels;
	uint64_t allocating,
		allocating_ns; /* bytes that it asks an allocator for, NOTHING_ASKED; when */
};

/* An object that came before its target's layout was known. */
struct waiting_object {
	struct waiting_object *next;
	struct record_object object;
};

enum batch_progress {
	BATCH_OPEN, /* tasks are added to it */
	BATCH_BEGUN,
};

/* Beside a batch of the timeline, which has its times at the end only. */
struct batch_state {
	uint64_t span; /* index, NO_SPAN: its processing was not seen */
	enum batch_progress progress;
};

struct batch_list {
	struct map at; /* address and target: the batch that lives there now, BATCH_NONE: none any
			  more */
	struct batch_state *states;
	uint64_t size, states_size, tasks_size;
};

/* Of a process: executors that runs started, their pieces, and those pieces whose run is known. */
struct links {
	uint64_t n_starts, n_pieces, n_linked;
};

struct correlator {
	struct correlate_target targets[RECORD_MAX_TARGETS];
	unsigned n_targets;
	uint64_t start_ns, end_ns;
	uint64_t now;      /* time of the record at hand */
	bool ops_at_entry; /* the process at hand has no end marks of operations */
	bool idle_between; /* the thread may have been without work since its last record */
	uint64_t shed_ns[KIND_COUNT];  /* UINT64_MAX: not shed */
	bool gone[RECORD_MAX_TARGETS]; /* the process became another program: what still comes is
					  not of the target */
	bool shed[KIND_COUNT];         /* it has come into effect */
	struct links links[RECORD_MAX_TARGETS];
	struct record_layout layouts[RECORD_MAX_TARGETS][RECORD_LAYOUTS]; /* of zeros: not known */
	struct waiting_object *waiting, **waiting_tail;
	unsigned n_waiting;
	struct timeline *t;
	struct names names;
	struct requests *requests;
	struct losses losses;
	struct map thread_of_tid, run_of_call, run_of_step, text_of_hash;
	uint64_t text_seed; /* of these hashes */
	struct map blocks;  /* bytes of what an allocator gave out, by address and target */
	struct batch_list batches;
	struct thread_state *states; /* beside t->threads */
	struct cpus cpus;
	uint32_t threads_size;
	uint64_t spans_size, slices_size, texts_size, handlers_size, memory_size;
	uint64_t next_context;
	uint32_t n_label_names;
	uint32_t unknown_name, preempted_name, runnable_name;
	struct request_filter filter;
	uint64_t n_finished;                /* requests that pass it */
	correlator_finished_fn on_finished; /* NULL: nobody wants to know */
	void *on_finished_data;
	int error; /* the first one; everything after it is void */
};

void correlator_finished(struct correlator *c, uint32_t process, uint64_t latency_ns);

/* A key for an address or a number of one target: user addresses have 47 bits, and the target keeps
 * equal ones of two processes apart. */
static inline uint64_t target_key(uint64_t value, uint8_t target)
{
	return (value & 0x00ffffffffffffffULL) | (uint64_t)target << 56;
}

/* What all parts use. Failure is kept in .error. */
void *correlator_grow(struct correlator *c, void *array, uint64_t *size, uint64_t need,
		      size_t element);
/* Keeps the first error; r: 0 or -errno. */
void correlator_fail(struct correlator *c, int r);
/* Sets the value of a key; without memory the correlator fails. */
void correlator_put(struct correlator *c, struct map *map, uint64_t key, uint64_t value);
/* The index of a new span, NO_SPAN: no room. */
uint64_t correlator_add_span(struct correlator *c, uint32_t thread, enum span_kind kind,
			     uint64_t start);
uint32_t correlator_name(struct correlator *c, const char *text);
/* The index of the thread with this id, made when it is new. */
uint32_t correlator_thread(struct correlator *c, uint32_t tid);
/* The index of a text of the timeline, TEXT_NONE: no room. size: bytes, without a NUL among them.
 */
uint32_t correlator_text(struct correlator *c, const char *text, size_t size);
