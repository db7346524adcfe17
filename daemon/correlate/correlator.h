/* The state of a correlation and its parts; used within this folder only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/correlate/correlate.h"
#include "daemon/correlate/frames.h"
#include "daemon/correlate/names.h"
#include "daemon/correlate/requests.h"

#define NO_SPAN UINT64_MAX

/* What is known of a thread while the records are read. */
struct thread_state {
	struct frames frames;
	bool seen_running; /* its place on or off the CPU is known */
	bool on_cpu;
	uint64_t cpu_since;
	uint16_t cpu;
	int32_t waker;	    /* of the time on the CPU that comes or is */
	int32_t blocked_in; /* the system call that it waits in, -1: not known */
	uint64_t off_span;  /* the open off-CPU span, NO_SPAN: none */
	uint64_t left_ns;   /* when it last left a CPU, 0: never in the window */
	uint64_t run_closed; /* a run ended here: earlier ones cannot have been cut */
};

/* An object that came before its target's layout was known. */
struct waiting_object {
	struct waiting_object *next;
	struct record_object object;
};


/* Of a process: executors that runs started, their pieces, and those pieces whose run is known. */
struct links {
	uint64_t n_starts, n_pieces, n_linked;
};

struct correlator {
	struct correlate_target targets[RECORD_MAX_TARGETS];
	unsigned n_targets;
	uint64_t start_ns, end_ns;
	uint64_t now;	   /* time of the record at hand */
	bool ops_at_entry; /* the process at hand has no end marks of operations */
	bool idle_between; /* the thread may have been without work since its last record */
	uint64_t shed_ns[KIND_COUNT]; /* UINT64_MAX: not shed */
	bool gone[RECORD_MAX_TARGETS]; /* the process became another program: what still comes is not of the target */
	bool shed[KIND_COUNT];	      /* it has come into effect */
	struct links links[RECORD_MAX_TARGETS];
	struct record_layout layouts[RECORD_MAX_TARGETS]; /* of zeros: not known */
	struct waiting_object *waiting, **waiting_tail;
	unsigned n_waiting;
	struct timeline *t;
	struct names names;
	struct requests *requests;
	struct map thread_of_tid, run_of_call, run_of_step;
	struct thread_state *states; /* beside t->threads */
	uint32_t threads_size;
	uint64_t spans_size, slices_size;
	uint64_t next_context;
	uint32_t unknown_name, preempted_name, runnable_name;
	int error; /* the first one; everything after it is void */
};

/* A key for an address or a number of one target: user addresses have 47 bits, and the target keeps equal ones of two processes apart. */
static inline uint64_t target_key(uint64_t value, uint8_t target)
{
	return (value & 0x00ffffffffffffffULL) | (uint64_t)target << 56;
}

/* correlate.c: what all parts use. Failure is kept in .error. */
void *correlator_grow(struct correlator *c, void *array, uint64_t *size, uint64_t need, size_t element);
/* The index of a new span, NO_SPAN: no room. */
uint64_t correlator_add_span(struct correlator *c, uint32_t thread, enum span_kind kind, uint64_t start);
uint32_t correlator_name(struct correlator *c, const char *text);
/* The index of the thread with this id, made when it is new. */
uint32_t correlator_thread(struct correlator *c, uint32_t tid);

/* work.c: runs, executors and operations, by the frames that threads are inside of. */
void work_on_probe(struct correlator *c, const struct record *record);
/* Notes when the thread did the first thing after it entered its top frame. */
void work_note_next(struct correlator *c, const struct record *record);
/* The window has closed: ends the frames that are left. */
void work_close(struct correlator *c, struct thread_state *s);
/* A process became another program: whatever its threads were inside of has ended. */
void work_end_process(struct correlator *c, uint32_t process, uint64_t time);
/* The probes of a kind went at that time. */
void work_shed(struct correlator *c, enum probe_kind kind, uint64_t time);
bool work_has_op(const struct thread_state *s);

/* objects.c: the names of operations. */
void objects_on_name(struct correlator *c, const struct record_name *record);
void objects_on_object(struct correlator *c, const struct record_object *record);

/* threads.c: when threads ran, why they left, who woke them; their names. */
void threads_on_switch(struct correlator *c, const struct record_switch *record);
void threads_on_wake(struct correlator *c, const struct record_wake *record);
void threads_on_thread(struct correlator *c, const struct record_thread *record);
void threads_on_foreign(struct correlator *c, const struct record_thread *record);
void threads_add_slice(struct correlator *c, uint32_t thread, uint64_t end, uint32_t reason);
/* The scheduler's records end at that time. */
void threads_shed(struct correlator *c, uint64_t time);
void threads_end_off_span(struct correlator *c, struct thread_state *s, uint64_t time);
