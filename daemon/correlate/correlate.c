#include "daemon/correlate/correlate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/frames.h"
#include "daemon/correlate/layout.h"
#include "daemon/correlate/names.h"
#include "lib/base/macro.h"
#include "lib/proc/syscall_name.h"

#define NO_SPAN UINT64_MAX
/* 56 bytes each: below 1 GiB. */
#define SPANS_MAX (16u << 20)
/* task_struct.__state: an uninterruptible sleep, which disks and page faults are. */
#define TASK_UNINTERRUPTIBLE 2

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
	uint64_t run_closed; /* a run ended here: earlier ones cannot have been cut */
};

/* An object that came before its target's layout was known. */
struct waiting_object {
	struct waiting_object *next;
	struct record_object object;
};

#define WAITING_MAX 4096
#define TARGETS_MAX RECORD_MAX_TARGETS

struct correlator {
	struct correlate_target targets[TARGETS_MAX];
	unsigned n_targets;
	uint64_t start_ns, end_ns;
	struct record_layout layouts[TARGETS_MAX]; /* of zeros: not known */
	struct waiting_object *waiting, **waiting_tail;
	unsigned n_waiting;
	struct timeline *t;
	struct names names;
	struct map thread_of_tid, run_of_call, run_of_step;
	struct thread_state *states; /* beside t->threads */
	uint32_t threads_size;
	uint64_t spans_size, slices_size;
	uint64_t next_context;
	uint32_t unknown_name, preempted_name, runnable_name;
	int error; /* the first one; everything after it is void */
};

static void *grow(struct correlator *c, void *array, uint64_t *size, uint64_t need, size_t element)
{
	uint64_t bigger = *size ? *size * 2 : 1024;
	void *p;

	if (need < *size)
		return array;
	p = realloc(array, bigger * element);
	if (!p) {
		c->error = -ENOMEM;
		return NULL;
	}
	*size = bigger;
	return p;
}

static uint64_t span_add(struct correlator *c, uint32_t thread, enum span_kind kind, uint64_t start)
{
	struct span *spans;

	if (c->t->n_spans >= SPANS_MAX) {
		c->t->n_spans_left_out++;
		return NO_SPAN;
	}
	spans = grow(c, c->t->spans, &c->spans_size, c->t->n_spans, sizeof(spans[0]));

	if (!spans)
		return NO_SPAN;
	c->t->spans = spans;
	spans[c->t->n_spans] = (struct span){ .start_ns = start, .end_ns = start, .thread = thread, .kind = (uint8_t)kind,
					      .name = c->unknown_name, .id = -1 };
	return c->t->n_spans++;
}

static uint32_t name_of(struct correlator *c, const char *text)
{
	uint32_t name = 0;

	if (names_add(&c->names, text, NULL, false, false, &name) < 0)
		c->error = -ENOMEM;
	return name;
}

/* Processes are the targets, in their order. */
static uint32_t thread_get(struct correlator *c, uint32_t tid)
{
	uint64_t *found = map_get(&c->thread_of_tid, tid), size = c->threads_size;
	struct thread *threads;
	struct thread_state *states;

	if (found)
		return (uint32_t)*found;
	if (c->t->n_threads == c->threads_size) {
		uint64_t states_size = size;

		threads = grow(c, c->t->threads, &size, c->t->n_threads, sizeof(threads[0]));
		if (threads)
			c->t->threads = threads;
		states = grow(c, c->states, &states_size, c->t->n_threads, sizeof(states[0]));
		if (states)
			c->states = states;
		if (!threads || !states)
			return 0;
		c->threads_size = (uint32_t)size;
	}
	if (map_put(&c->thread_of_tid, tid, c->t->n_threads) < 0) {
		c->error = -ENOMEM;
		return 0;
	}
	c->t->threads[c->t->n_threads] = (struct thread){ .tid = tid, .process = UINT32_MAX };
	c->states[c->t->n_threads] = (struct thread_state){ .waker = -1, .blocked_in = -1, .off_span = NO_SPAN };
	return c->t->n_threads++;
}

static struct span *span_of(struct correlator *c, const struct frame *f)
{
	return &c->t->spans[f->span];
}

/* Ends the top frame at the latest that is known of it, or at that time. */
static void frame_pop(struct correlator *c, struct thread_state *s, uint64_t end, bool cut)
{
	struct frame *f = frames_top(&s->frames);
	struct span *span = span_of(c, f);

	if (!end && f->last_ns <= span->start_ns) {
		/* Nothing was seen inside: it ended before the thread's next record, and this is only a bound. */
		end = f->next_ns;
		span->flags |= SPAN_END_BOUND;
	} else if (!end && f->role != ROLE_EXECUTOR_RUN && f->role != ROLE_DONE) {
		span->flags |= SPAN_END_BOUND; /* its own end mark is missing */
	}
	span->end_ns = end ?: MAX(f->last_ns, span->start_ns);
	if (cut)
		span->flags |= SPAN_CUT_END;
	end = span->end_ns;
	frames_pop(&s->frames);
	f = frames_top(&s->frames);
	if (f)
		f->last_ns = MAX(f->last_ns, end);
}

/* Pops the frames that must have returned, since this entry's stack pointer is at or above theirs. */
static void frames_return(struct correlator *c, struct thread_state *s, uint32_t stack)
{
	struct frame *f;

	while ((f = frames_top(&s->frames)) && stack_at_or_above(stack, f->stack))
		frame_pop(c, s, 0, false);
}

/* Something happened inside the top frame. */
static void frames_touch(struct thread_state *s, uint64_t time)
{
	struct frame *f = frames_top(&s->frames);

	if (f)
		f->last_ns = time;
}

static struct frame *frame_push(struct correlator *c, uint32_t thread, enum span_kind kind, const struct record_probe *r,
				const struct probe_spec *spec)
{
	struct thread_state *s = &c->states[thread];
	uint64_t index = span_add(c, thread, kind, r->head.time);
	struct frame *f;

	if (index == NO_SPAN)
		return NULL;
	if (spec->event)
		c->t->spans[index].name = name_of(c, spec->event);
	frames_touch(s, r->head.time);
	f = frames_push(&s->frames);
	if (!f) {
		c->error = -ENOMEM;
		return NULL;
	}
	*f = (struct frame){ .span = index, .stack = r->stack, .tag = r->tag, .role = spec->role, .group = spec->group,
			     .last_ns = r->head.time };
	return f;
}

static bool frames_have_op(const struct thread_state *s)
{
	for (uint32_t i = 0; i < s->frames.n; i++)
		if (s->frames.frames[i].role == ROLE_OP_BEGIN || s->frames.frames[i].role == ROLE_OP_ASYNC_BEGIN)
			return true;
	return false;
}

/* The run that the thread is working for: its own, or that of the executor whose work it does. */
static uint64_t run_of_thread(struct correlator *c, const struct thread_state *s)
{
	for (uint32_t i = s->frames.n; i > 0; i--) {
		const struct frame *f = &s->frames.frames[i - 1];

		if (f->role == ROLE_RUN_BEGIN)
			return f->span;
		if (f->role == ROLE_EXECUTOR_RUN && f->run != NO_SPAN)
			return f->run;
	}
	return NO_SPAN;
}

static uint64_t call_key(const struct record_probe2 *r)
{
	/* User addresses have 47 bits; the target keeps equal addresses of two processes apart. */
	return r->value2 ^ (uint64_t)r->probe.head.target << 56;
}

static uint64_t step_key(const struct record_probe *r)
{
	return (r->value & 0x00ffffffffffffffULL) | (uint64_t)r->head.target << 56;
}

static void put(struct correlator *c, struct map *map, uint64_t key, uint64_t value)
{
	if (map_put(map, key, value) < 0)
		c->error = -ENOMEM;
}

/* A call object's address comes back in later runs: the run of an executor is one that goes on. */
static bool run_has_ended(const struct correlator *c, uint64_t run)
{
	return run != NO_SPAN && c->t->spans[run].end_ns != c->t->spans[run].start_ns;
}

static void on_run_begin(struct correlator *c, uint32_t thread, const struct record_probe *r, const struct probe_spec *spec)
{
	struct frame *f;

	frames_return(c, &c->states[thread], r->stack);
	f = frame_push(c, thread, SPAN_RUN, r, spec);
	if (!f)
		return;
	span_of(c, f)->context = c->next_context++;
	if (spec->value.argument)
		span_of(c, f)->id = (int64_t)r->value;
}

static void on_run_end(struct correlator *c, uint32_t thread, const struct record_probe *r, const struct probe_spec *spec)
{
	struct thread_state *s = &c->states[thread];
	uint32_t at = frames_find_run(&s->frames, spec->group, r->stack);

	if (at == FRAME_NONE) {
		const struct probe_spec *begin = NULL;
		const struct probe_pack *pack = c->targets[r->head.target].pack;
		uint64_t index;

		/* It began before the window, unless another one has ended here since, and then something was lost. */
		for (unsigned i = 0; i < pack->n_probes; i++)
			if (pack->probes[i].role == ROLE_RUN_BEGIN && pack->probes[i].group == spec->group)
				begin = &pack->probes[i];
		if (s->run_closed || s->frames.n || !begin)
			return;
		/* A function's end mark is not only its own: without anything seen of a run it says nothing. */
		if (!begin->value.argument)
			return;
		index = span_add(c, thread, SPAN_RUN, c->start_ns);
		if (index == NO_SPAN)
			return;
		c->t->spans[index].end_ns = r->head.time;
		c->t->spans[index].flags = SPAN_CUT_START;
		c->t->spans[index].context = c->next_context++;
		c->t->spans[index].name = name_of(c, begin->event);
		s->run_closed = r->head.time;
		return;
	}
	while (s->frames.n > at + 1)
		frame_pop(c, s, 0, false);
	frame_pop(c, s, r->head.time, false);
	s->run_closed = r->head.time;
}

static void on_executor_start(struct correlator *c, uint32_t thread, const struct record_probe2 *r)
{
	struct thread_state *s = &c->states[thread];
	uint64_t run, *other;

	frames_return(c, s, r->probe.stack);
	frames_touch(s, r->probe.head.time);
	run = run_of_thread(c, s);
	if (r->value2)
		put(c, &c->run_of_call, call_key(r), run);
	if (run == NO_SPAN)
		return;
	if (c->t->spans[run].id < 0)
		c->t->spans[run].id = (int64_t)r->probe.value;
	/* Step ids that several runs share name none of them. */
	other = map_get(&c->run_of_step, step_key(&r->probe));
	put(c, &c->run_of_step, step_key(&r->probe), other && *other != run ? NO_SPAN : run);
}

static void on_executor_run(struct correlator *c, uint32_t thread, const struct record_probe2 *r, const struct probe_spec *spec)
{
	struct thread_state *s = &c->states[thread];
	struct frame *f;
	uint64_t *run;

	frames_return(c, s, r->probe.stack);
	/* An executor is entered from within another one only while that runs an operation. */
	f = frames_top(&s->frames);
	if (f && f->role == ROLE_EXECUTOR_RUN)
		frame_pop(c, s, 0, false);
	f = frame_push(c, thread, SPAN_EXECUTOR, &r->probe, spec);
	if (!f)
		return;
	run = r->value2 ? map_get(&c->run_of_call, call_key(r)) : NULL;
	f->run = run && !run_has_ended(c, *run) ? *run : NO_SPAN;
	span_of(c, f)->id = (int64_t)r->probe.value;
	if (f->run != NO_SPAN)
		span_of(c, f)->context = c->t->spans[f->run].context;
}

static void on_done(struct correlator *c, uint32_t thread, const struct record_probe *r, const struct probe_spec *spec)
{
	uint64_t *run = map_get(&c->run_of_step, step_key(r));
	struct thread_state *s = &c->states[thread];
	struct frame *f;

	frames_return(c, s, r->stack);
	f = frames_top(&s->frames);
	if (f && f->role == ROLE_EXECUTOR_RUN)
		frame_pop(c, s, 0, false);
	f = frame_push(c, thread, SPAN_DONE, r, spec);
	if (!f)
		return;
	span_of(c, f)->id = (int64_t)r->value;
	if (run && *run != NO_SPAN)
		span_of(c, f)->context = c->t->spans[*run].context;
}

static void on_op_begin(struct correlator *c, uint32_t thread, const struct record_probe *r, const struct probe_spec *spec)
{
	struct frame *f;

	frames_return(c, &c->states[thread], r->stack);
	f = frame_push(c, thread, SPAN_OP, r, spec);
	if (!f)
		return;
	/* Its name may come a little later than itself: the object stands in for it until all records are read. */
	span_of(c, f)->context = (r->value & 0x00ffffffffffffffULL) | (uint64_t)r->head.target << 56;
	if (spec->role == ROLE_OP_ASYNC_BEGIN)
		span_of(c, f)->flags |= SPAN_ASYNC;
}

static void on_op_end(struct correlator *c, uint32_t thread, const struct record_probe *r)
{
	struct thread_state *s = &c->states[thread];
	uint32_t at = frames_find_op(&s->frames, r->tag);

	if (at == FRAME_NONE) {
		/* Of an asynchronous operation that was launched elsewhere, or one that began before the window. */
		frames_return(c, s, r->stack);
		frames_touch(s, r->head.time);
		return;
	}
	while (s->frames.n > at + 1)
		frame_pop(c, s, 0, false);
	if (frames_top(&s->frames)->role == ROLE_OP_ASYNC_BEGIN)
		frames_touch(s, r->head.time); /* finished within its launch, which goes on */
	else
		frame_pop(c, s, r->head.time, false);
}

static void on_schedule(struct correlator *c, uint32_t thread, const struct record_probe *r, const struct probe_spec *spec)
{
	struct thread_state *s = &c->states[thread];
	uint64_t index;

	frames_return(c, s, r->stack);
	frames_touch(s, r->head.time);
	index = span_add(c, thread, SPAN_SCHEDULE, r->head.time);
	if (index != NO_SPAN)
		c->t->spans[index].name = name_of(c, spec->event);
}

static void on_probe(struct correlator *c, const struct record *head)
{
	const struct record_probe *r = (const void *)head;
	const struct probe_pack *pack;
	const struct probe_spec *spec;
	uint32_t thread;

	if (head->target >= c->n_targets)
		return;
	pack = c->targets[head->target].pack;
	if (head->site >= pack->n_probes)
		return;
	spec = &pack->probes[head->site];
	/* Only these probes send a second value. */
	if (spec->action == ACTION_READ && head->size8 * 8 < (int)sizeof(struct record_probe2))
		return;
	thread = thread_get(c, head->tid);
	if (c->error)
		return;
	c->t->threads[thread].process = head->target;
	switch (spec->role) {
	case ROLE_RUN_BEGIN:
		on_run_begin(c, thread, r, spec);
		break;
	case ROLE_RUN_END:
		on_run_end(c, thread, r, spec);
		break;
	case ROLE_EXECUTOR_START:
		on_executor_start(c, thread, (const void *)r);
		break;
	case ROLE_EXECUTOR_RUN:
		on_executor_run(c, thread, (const void *)r, spec);
		break;
	case ROLE_DONE:
		on_done(c, thread, r, spec);
		break;
	case ROLE_OP_BEGIN:
	case ROLE_OP_ASYNC_BEGIN:
		on_op_begin(c, thread, r, spec);
		break;
	case ROLE_OP_END:
		on_op_end(c, thread, r);
		break;
	case ROLE_SCHEDULE:
		on_schedule(c, thread, r, spec);
		break;
	case ROLE_OBJECT_FREE:
		names_free_object(&c->names, (r->value & 0x00ffffffffffffffULL) | (uint64_t)head->target << 56, head->time);
		break;
	case ROLE_EXECUTOR_END:
	case ROLE_NONE:
		frames_return(c, &c->states[thread], r->stack);
		frames_touch(&c->states[thread], head->time);
		break;
	}
}

static bool is_cheap(const struct probe_pack *pack, const char *type)
{
	for (const char *const *t = pack->cheap_types; t && *t; t++)
		if (!strcmp(*t, type))
			return true;
	return false;
}

static void add_object(struct correlator *c, uint64_t time, uint8_t target, uint64_t object, const char *name, uint32_t name_size, const char *type,
		       uint32_t type_size, bool whole)
{
	const struct probe_pack *pack = c->targets[target].pack;
	char text[RECORD_NAME_SIZE + RECORD_TYPE_SIZE + 8], type_text[RECORD_TYPE_SIZE + 1];
	uint32_t index;

	if (!pack->is_name(name, name_size) || !pack->is_type(type, type_size) || type_size >= sizeof(type_text))
		return;
	snprintf(type_text, sizeof(type_text), "%.*s", (int)type_size, type);
	snprintf(text, sizeof(text), "%.*s%s:%s", (int)name_size, name, whole ? "" : "...", type_text);
	if (names_add(&c->names, text, type_text, false, is_cheap(pack, type_text), &index) < 0 ||
	    names_set_object(&c->names, (object & 0x00ffffffffffffffULL) | (uint64_t)target << 56, index, time) < 0)
		c->error = -ENOMEM;
}

static void on_name(struct correlator *c, const struct record_name *r)
{
	if (r->head.target < c->n_targets)
		add_object(c, r->head.time, r->head.target, r->object, r->name, MIN(r->name_size, (uint32_t)RECORD_NAME_SIZE), r->type,
			   MIN(r->type_size, (uint32_t)RECORD_TYPE_SIZE), r->name_size <= RECORD_NAME_SIZE);
}

static void name_object(struct correlator *c, const struct record_object *r)
{
	const struct record_layout *layout = &c->layouts[r->head.target];
	uint32_t name_size = 0, type_size = 0;
	const char *name = object_view(r, layout->name_offset, &name_size), *type = object_view(r, layout->type_offset, &type_size);

	if (name && type)
		add_object(c, r->head.time, r->head.target, r->object, name, name_size, type, type_size, name_size < RECORD_CANDIDATE_SIZE);
}

static void on_object(struct correlator *c, const struct record_object *r)
{
	struct waiting_object *w;

	if (r->head.target >= c->n_targets)
		return;
	if (c->layouts[r->head.target].type_offset) {
		name_object(c, r);
		return;
	}
	/* Its operations are shown without a name, and counted, when it never gets one. */
	if (c->n_waiting == WAITING_MAX)
		return;
	w = malloc(sizeof(*w));
	if (!w) {
		c->error = -ENOMEM;
		return;
	}
	*w = (struct waiting_object){ .object = *r };
	*c->waiting_tail = w;
	c->waiting_tail = &w->next;
	c->n_waiting++;
}

int correlator_set_layout(struct correlator *c, unsigned target, const struct record_layout *layout)
{
	struct waiting_object **at = &c->waiting, *w;

	c->layouts[target] = *layout;
	while ((w = *at)) {
		if (w->object.head.target != target) {
			at = &w->next;
			continue;
		}
		name_object(c, &w->object);
		*at = w->next;
		c->n_waiting--;
		free(w);
	}
	c->waiting_tail = at;
	return c->error;
}

static void slice_add(struct correlator *c, uint32_t thread, uint64_t end, uint32_t reason)
{
	struct cpu_slice *slices = grow(c, c->t->slices, &c->slices_size, c->t->n_slices, sizeof(slices[0]));
	const struct thread_state *s = &c->states[thread];

	if (!slices)
		return;
	c->t->slices = slices;
	slices[c->t->n_slices++] = (struct cpu_slice){ .start_ns = s->cpu_since, .end_ns = end, .thread = thread, .cpu = s->cpu,
						       .reason = reason, .waker = s->waker };
}

static void off_span_end(struct correlator *c, struct thread_state *s, uint64_t time)
{
	if (s->off_span != NO_SPAN)
		c->t->spans[s->off_span].end_ns = time;
	s->off_span = NO_SPAN;
}

static void off_span_begin(struct correlator *c, uint32_t thread, enum span_kind kind, uint64_t time, uint32_t name)
{
	struct thread_state *s = &c->states[thread];
	uint64_t index = span_add(c, thread, kind, time);

	if (index == NO_SPAN)
		return;
	c->t->spans[index].name = name;
	if (frames_have_op(s))
		c->t->spans[index].flags |= SPAN_IN_OP;
	s->off_span = index;
}

/* The first that is seen of a thread says where it was since the window opened. */
static void thread_was(struct correlator *c, uint32_t thread, bool on_cpu, uint16_t cpu)
{
	struct thread_state *s = &c->states[thread];

	if (s->seen_running)
		return;
	s->seen_running = true;
	s->on_cpu = on_cpu;
	s->cpu = cpu;
	s->cpu_since = c->start_ns;
	if (on_cpu)
		return;
	off_span_begin(c, thread, SPAN_BLOCKED, c->start_ns, c->unknown_name);
	if (s->off_span != NO_SPAN)
		c->t->spans[s->off_span].flags |= SPAN_CUT_START;
}

static uint32_t reason_of(struct correlator *c, const struct record_switch *r)
{
	const char *call = syscall_name(r->syscall);

	if (r->flags & SWITCH_PREEMPTED)
		return c->preempted_name;
	if (call)
		return name_of(c, call);
	return name_of(c, r->syscall < 0 && r->state & TASK_UNINTERRUPTIBLE ? "page_fault" : "sleep");
}

static void on_switch(struct correlator *c, const struct record_switch *r)
{
	uint64_t now = r->head.time;
	uint32_t thread;

	if (r->flags & SWITCH_OUT) {
		uint32_t reason = reason_of(c, r);
		bool preempted = r->flags & SWITCH_PREEMPTED;

		thread = thread_get(c, r->head.tid);
		if (c->error)
			return;
		thread_was(c, thread, true, r->cpu);
		if (c->states[thread].on_cpu)
			slice_add(c, thread, now, reason);
		off_span_end(c, &c->states[thread], now);
		c->states[thread].on_cpu = false;
		c->states[thread].waker = -1;
		c->states[thread].blocked_in = r->syscall;
		off_span_begin(c, thread, preempted ? SPAN_RUNNABLE : SPAN_BLOCKED, now, preempted ? c->preempted_name : reason);
	}
	if (r->flags & SWITCH_IN) {
		thread = thread_get(c, r->next_tid);
		if (c->error)
			return;
		thread_was(c, thread, false, r->cpu);
		off_span_end(c, &c->states[thread], now);
		c->states[thread].on_cpu = true;
		c->states[thread].cpu = r->cpu;
		c->states[thread].cpu_since = now;
	}
}

static void on_wake(struct correlator *c, const struct record_wake *r)
{
	uint32_t thread = thread_get(c, r->head.tid);
	int32_t waker = -1;
	struct thread_state *s;
	uint64_t *found;

	if (c->error)
		return;
	found = r->waker_tid ? map_get(&c->thread_of_tid, r->waker_tid) : NULL;
	if (found && syscall_wakes(r->waker_syscall, c->states[thread].blocked_in)) {
		struct frame *f = frames_top(&c->states[*found].frames);

		waker = (int32_t)*found;
		/* The callback that ends a run is little else than waking its caller. */
		if (f && f->role == ROLE_DONE)
			f->last_ns = r->head.time;
	}
	thread_was(c, thread, false, 0);
	s = &c->states[thread];
	if (s->on_cpu || s->off_span == NO_SPAN || c->t->spans[s->off_span].kind != SPAN_BLOCKED)
		return;
	s->waker = waker;
	c->t->spans[s->off_span].id = waker;
	off_span_end(c, s, r->head.time);
	off_span_begin(c, thread, SPAN_RUNNABLE, r->head.time, c->runnable_name);
}

static void on_thread(struct correlator *c, const struct record_thread *r)
{
	uint32_t thread;

	for (unsigned i = 0; i < c->n_targets; i++) {
		if (c->targets[i].pid != r->pid)
			continue;
		thread = thread_get(c, r->head.tid);
		if (c->error)
			return;
		c->t->threads[thread].process = i;
		memcpy(c->t->threads[thread].name, r->comm, sizeof(r->comm));
		c->t->threads[thread].name[sizeof(r->comm) - 1] = 0;
		/* The thread group's first thread goes last. */
		if ((r->head.kind == RECORD_EXIT && r->head.tid == r->pid) || r->head.kind == RECORD_EXEC)
			c->t->processes[i].ended = true;
	}
}

static void on_record(struct correlator *c, const struct record *r)
{
	switch (r->kind) {
	case RECORD_PROBE:
		on_probe(c, r);
		break;
	case RECORD_NAME:
		on_name(c, (const void *)r);
		break;
	case RECORD_OBJECT:
		on_object(c, (const void *)r);
		break;
	case RECORD_SWITCH:
		on_switch(c, (const void *)r);
		break;
	case RECORD_WAKE:
		on_wake(c, (const void *)r);
		break;
	default:
		on_thread(c, (const void *)r);
		break;
	}
}

/* Notes when the thread did the first thing after it entered its top frame. */
static void frames_note_next(struct correlator *c, const struct record *r)
{
	uint64_t *found = r->kind == RECORD_WAKE ? NULL : map_get(&c->thread_of_tid, r->tid);
	struct frame *f = found ? frames_top(&c->states[*found].frames) : NULL;

	if (f && !f->next_ns)
		f->next_ns = r->time;
}

static void close_window(struct correlator *c)
{
	uint64_t end = c->end_ns;

	for (uint32_t i = 0; i < c->t->n_threads; i++) {
		struct thread_state *s = &c->states[i];
		bool open = false;

		/* What encloses something that goes on goes on, too. */
		for (uint32_t f = 0; f < s->frames.n; f++)
			open |= s->frames.frames[f].role != ROLE_EXECUTOR_RUN && s->frames.frames[f].role != ROLE_DONE;
		while (s->frames.n) {
			const struct frame *f = frames_top(&s->frames);
			bool piece = f->role == ROLE_EXECUTOR_RUN || f->role == ROLE_DONE;

			if (piece && (!open || f == &s->frames.frames[s->frames.n - 1]) && f->last_ns > span_of(c, f)->start_ns &&
			    f->last_ns < end)
				frame_pop(c, s, 0, false);
			else
				frame_pop(c, s, end, true);
		}
		if (s->off_span != NO_SPAN)
			c->t->spans[s->off_span].flags |= SPAN_CUT_END;
		off_span_end(c, s, end);
		if (s->seen_running && s->on_cpu)
			slice_add(c, i, end, c->unknown_name);
	}
}

static void name_ops(struct correlator *c)
{
	uint32_t lost = 0;

	if (names_add(&c->names, "operation whose name could not be read", NULL, true, false, &lost) < 0) {
		c->error = -ENOMEM;
		return;
	}
	for (uint64_t i = 0; i < c->t->n_spans; i++) {
		struct span *s = &c->t->spans[i];

		if (s->kind != SPAN_OP)
			continue;
		s->name = names_of_object(&c->names, s->context, s->start_ns);
		s->context = 0;
		c->t->n_ops++;
		if (s->name == NAME_NONE) {
			s->name = lost;
			c->t->n_lost_names++;
		} else if (c->names.cheap[s->name]) {
			s->flags |= SPAN_CHEAP;
		}
	}
}

static int make_processes(struct correlator *c)
{
	c->t->n_processes = c->n_targets;
	c->t->processes = calloc(MAX(c->n_targets, 1u), sizeof(c->t->processes[0]));
	if (!c->t->processes)
		return -ENOMEM;
	for (unsigned i = 0; i < c->n_targets; i++) {
		c->t->processes[i].pid = c->targets[i].pid;
		memcpy(c->t->processes[i].name, c->targets[i].name, sizeof(c->t->processes[i].name));
	}
	return 0;
}

int correlator_new(const struct correlate_target *targets, unsigned n_targets, uint64_t start_ns, struct correlator **ret)
{
	struct correlator *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	memcpy(c->targets, targets, n_targets * sizeof(targets[0]));
	c->n_targets = n_targets;
	c->start_ns = start_ns;
	c->next_context = 1;
	c->waiting_tail = &c->waiting;
	c->t = calloc(1, sizeof(*c->t));
	if (!c->t || make_processes(c) < 0) {
		correlator_free(c);
		return -ENOMEM;
	}
	c->unknown_name = name_of(c, "unknown");
	c->preempted_name = name_of(c, "preempted");
	c->runnable_name = name_of(c, "runqueue");
	*ret = c;
	return 0;
}

struct correlator *correlator_free(struct correlator *c)
{
	if (!c)
		return NULL;
	for (uint32_t i = 0; c->t && i < c->t->n_threads; i++)
		frames_done(&c->states[i].frames);
	for (struct waiting_object *w = c->waiting, *next; w; w = next) {
		next = w->next;
		free(w);
	}
	free(c->states);
	map_done(&c->thread_of_tid);
	map_done(&c->run_of_call);
	map_done(&c->run_of_step);
	names_done(&c->names);
	timeline_free(c->t);
	free(c);
	return NULL;
}

int correlator_feed(struct correlator *c, const struct record *record)
{
	if (!c->error) {
		frames_note_next(c, record);
		on_record(c, record);
	}
	return c->error;
}

int correlator_finish(struct correlator *c, uint64_t end_ns, uint64_t start_unix_ns, struct timeline **ret)
{
	struct timeline *t = c->t;

	c->end_ns = end_ns;
	t->start_ns = c->start_ns;
	t->end_ns = end_ns;
	t->start_unix_ns = start_unix_ns;
	if (!c->error)
		close_window(c);
	if (!c->error)
		name_ops(c);
	for (uint32_t i = 0; i < t->n_threads; i++)
		if (t->threads[i].process == UINT32_MAX)
			t->threads[i].process = 0;
	if (!c->error)
		c->error = timeline_finish(t);
	if (c->error)
		return c->error;
	for (uint32_t i = 0; i < t->n_threads; i++)
		frames_done(&c->states[i].frames);
	/* The names go over to the timeline; the rest of their table is only for finding them. */
	t->names = TAKE_PTR(c->names.names);
	t->n_names = c->names.n;
	c->names.n = 0;
	*ret = TAKE_PTR(c->t);
	return 0;
}
