/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/attribute/streams.h"
#include "daemon/correlate/correlator.h"
#include "daemon/correlate/runtime/batches.h"
#include "daemon/correlate/runtime/handlers.h"
#include "daemon/correlate/runtime/labels.h"
#include "daemon/correlate/runtime/memory.h"
#include "daemon/correlate/runtime/work.h"
#include "lib/base/macro.h"

/* Added to the stack pointer at a mark: it stands for more than the function that it is in, which
 * may return before. */
#define MARK_STACK (1u << 24)
/* Likewise to that at a handler: its end is an entry that its caller makes, next to it on the
 * stack. More than arguments take there. */
#define HANDLER_STACK 1024

static struct span *span_of(struct correlator *c, const struct frame *f)
{
	return &c->t->spans[f->span];
}

/* Ends the top frame at that time, or at the latest that is known of it (0); cut: it goes on after
 * the window. */
static void frame_pop(struct correlator *c, struct thread_state *s, uint64_t end, bool cut)
{
	struct frame *f = frames_top(&s->frames);
	struct span *span = span_of(c, f);

	if (!end && c->ops_at_entry && frame_is_op(f)) {
		/* Where the next one starts; before a thread takes up other work it may have been
		 * idle, which was off a CPU. */
		end = c->idle_between && s->left_ns > span->start_ns ? s->left_ns : c->now;
		span->flags |= SPAN_END_BOUND;
	} else if (!end && f->last_ns <= span->start_ns) {
		/* Nothing was seen inside: it ended before the thread's next record, and this is
		 * only a bound. */
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

/* Pops the frames that must have returned, since this entry's stack pointer is at or above theirs.
 */
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

static struct frame *frame_push(struct correlator *c, uint32_t thread, enum span_kind kind,
				const struct record_probe *r, const struct probe_spec *spec)
{
	struct thread_state *s = &c->states[thread];
	struct frame *f;
	uint64_t index;

	if (s->frames.n == FRAMES_MAX) {
		c->t->n_spans_left_out++;
		return NULL;
	}
	index = correlator_add_span(c, thread, kind, r->head.time);
	if (index == NO_SPAN)
		return NULL;
	if (spec->event)
		c->t->spans[index].name = correlator_name(c, spec->event);
	frames_touch(s, r->head.time);
	f = frames_push(&s->frames);
	if (!f) {
		c->error = -ENOMEM;
		return NULL;
	}
	*f = (struct frame){ .span = index,
			     .stack = r->stack,
			     .tag = r->tag,
			     .role = spec->role,
			     .group = spec->group,
			     .last_ns = r->head.time };
	return f;
}

/* The run, or batch, that the thread is working for: its own, or that of the executor whose work it
 * does. */
static uint64_t run_of_thread(struct correlator *c, const struct thread_state *s)
{
	for (uint32_t i = s->frames.n; i > 0; i--) {
		const struct frame *f = &s->frames.frames[i - 1];

		if (f->role == ROLE_RUN_BEGIN || f->role == ROLE_BATCH_BEGIN)
			return f->span;
		if (f->role == ROLE_EXECUTOR_RUN && f->run != NO_SPAN)
			return f->run;
	}
	return NO_SPAN;
}

static uint64_t call_key(const struct record_probe2 *r)
{
	return target_key(r->value2, r->probe.head.target);
}

static uint64_t step_key(const struct record_probe *r)
{
	return target_key(r->value, r->head.target);
}

/* A call object's address comes back in later runs: the run of an executor is one that goes on. */
static bool run_has_ended(const struct correlator *c, uint64_t run)
{
	return run != NO_SPAN && c->t->spans[run].end_ns != c->t->spans[run].start_ns;
}

static bool is_working(const struct thread_state *s)
{
	for (uint32_t i = 0; i < s->frames.n; i++)
		if (s->frames.frames[i].role == ROLE_RUN_BEGIN ||
		    s->frames.frames[i].role == ROLE_EXECUTOR_RUN)
			return true;
	return false;
}

static void on_run_begin(struct correlator *c, uint32_t thread, const struct record_probe *r,
			 const struct probe_spec *spec)
{
	struct thread_state *s = &c->states[thread];
	struct frame *f;
	bool inner;

	frames_return(c, s, r->stack);
	/* A static probe is no function's entry: what it marks ends by its other mark, or where the
	 * thread's next one begins. */
	if (spec->usdt)
		while (frames_find_run(&s->frames, spec->group, r->stack) != FRAME_NONE)
			frame_pop(c, s, 0, false);
	inner = is_working(s);
	f = frame_push(c, thread, SPAN_RUN, r, spec);
	if (!f)
		return;
	if (spec->usdt) {
		f->stack += MARK_STACK;
		span_of(c, f)->flags |= SPAN_MARK;
	}
	if (inner)
		span_of(c, f)->flags |= SPAN_INNER;
	else
		attribution_on_run(c, thread, f->span);
	span_of(c, f)->context = c->next_context++;
	if (spec->value.argument)
		span_of(c, f)->id = (int64_t)r->value;
}

static void on_run_end(struct correlator *c, uint32_t thread, const struct record_probe *r,
		       const struct probe_spec *spec)
{
	struct thread_state *s = &c->states[thread];
	uint32_t at = frames_find_run(&s->frames, spec->group, r->stack);
	uint64_t span;

	if (at == FRAME_NONE) {
		const struct probe_spec *begin = NULL;
		const struct probe_pack *pack = c->targets[r->head.target].pack;
		uint64_t index;

		/* It began before the window, unless another one has ended here since, and then
		 * something was lost. */
		for (unsigned i = 0; i < pack->n_probes; i++)
			if (pack->probes[i].role == ROLE_RUN_BEGIN &&
			    pack->probes[i].group == spec->group)
				begin = &pack->probes[i];
		if (s->run_closed || s->frames.n || !begin)
			return;
		/* A function's end mark is not only its own: without anything seen of a run it says
		 * nothing. */
		if (!begin->value.argument)
			return;
		index = correlator_add_span(c, thread, SPAN_RUN, c->start_ns);
		if (index == NO_SPAN)
			return;
		c->t->spans[index].end_ns = r->head.time;
		c->t->spans[index].flags = SPAN_CUT_START;
		c->t->spans[index].context = c->next_context++;
		c->t->spans[index].name = correlator_name(c, begin->event);
		s->run_closed = r->head.time;
		attribution_on_cut_run(c, thread, index);
		return;
	}
	while (s->frames.n > at + 1)
		frame_pop(c, s, 0, false);
	span = frames_top(&s->frames)->span;
	frame_pop(c, s, r->head.time, false);
	s->run_closed = r->head.time;
	if (spec->usdt && !(c->t->spans[span].flags & SPAN_INNER))
		requests_note_finished(c, span);
}

static struct links *links_of(struct correlator *c, const struct record_probe2 *r)
{
	return &c->links[r->probe.head.target];
}

static void on_executor_start(struct correlator *c, uint32_t thread, const struct record_probe2 *r)
{
	struct thread_state *s = &c->states[thread];
	uint64_t run, *other;

	frames_return(c, s, r->probe.stack);
	frames_touch(s, r->probe.head.time);
	run = run_of_thread(c, s);
	if (r->value2)
		correlator_put(c, &c->run_of_call, call_key(r), run);
	if (run == NO_SPAN)
		return;
	links_of(c, r)->n_starts++;
	if (c->t->spans[run].id < 0) {
		c->t->spans[run].id = (int64_t)r->probe.value;
		c->t->spans[run].flags |= SPAN_ID_READ;
	}
	/* Step ids that several runs share name none of them. */
	other = map_get(&c->run_of_step, step_key(&r->probe));
	correlator_put(c, &c->run_of_step, step_key(&r->probe),
		       other && *other != run ? NO_SPAN : run);
}

/* Call and step must both agree: a wrong layout reads something else in either. */
static bool is_step_of(const struct correlator *c, uint64_t run, uint64_t step)
{
	return run == NO_SPAN || c->t->spans[run].id < 0 || c->t->spans[run].id == (int64_t)step;
}

static void on_executor_run(struct correlator *c, uint32_t thread, const struct record_probe2 *r,
			    const struct probe_spec *spec)
{
	struct thread_state *s = &c->states[thread];
	struct frame *f;
	uint64_t *run;

	c->idle_between = true;
	frames_return(c, s, r->probe.stack);
	/* An executor is entered from within another one only while that runs an operation. */
	f = frames_top(&s->frames);
	if (f && f->role == ROLE_EXECUTOR_RUN)
		frame_pop(c, s, 0, false);
	f = frame_push(c, thread, SPAN_EXECUTOR, &r->probe, spec);
	if (!f)
		return;
	run = r->value2 ? map_get(&c->run_of_call, call_key(r)) : NULL;
	f->run = run && !run_has_ended(c, *run) && is_step_of(c, *run, r->probe.value) ? *run
										       : NO_SPAN;
	span_of(c, f)->id = (int64_t)r->probe.value;
	span_of(c, f)->flags |= SPAN_ID_READ;
	links_of(c, r)->n_pieces++;
	if (f->run == NO_SPAN)
		return;
	links_of(c, r)->n_linked++;
	span_of(c, f)->context = c->t->spans[f->run].context;
}

static void on_done(struct correlator *c, uint32_t thread, const struct record_probe *r,
		    const struct probe_spec *spec)
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
	span_of(c, f)->flags |= SPAN_ID_READ;
	if (run && *run != NO_SPAN)
		span_of(c, f)->context = c->t->spans[*run].context;
}

static void on_op_begin(struct correlator *c, uint32_t thread, const struct record_probe *r,
			const struct probe_spec *spec)
{
	uint64_t object;
	uint32_t name;
	struct frame *f;

	frames_return(c, &c->states[thread], r->stack);
	f = frame_push(c, thread, SPAN_OP, r, spec);
	if (!f)
		return;
	/* Its name may come a little later than itself: the object stands in for it until all
	 * records are read. */
	object = target_key(r->value, r->head.target);
	name = names_of_object(&c->names, object, r->head.time);
	span_of(c, f)->name = name;
	if (name == NAME_NONE)
		span_of(c, f)->context = object;
	if (spec->role == ROLE_OP_ASYNC_BEGIN)
		span_of(c, f)->flags |= SPAN_ASYNC;
}

static void on_op_end(struct correlator *c, uint32_t thread, const struct record_probe *r)
{
	struct thread_state *s = &c->states[thread];
	uint32_t at = frames_find_op(&s->frames, r->tag);

	if (at == FRAME_NONE) {
		/* Of an asynchronous operation that was launched elsewhere, or one that began
		 * before the window. */
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

/* With ends marked this says nothing new; without, the last operation of the executor is over. */
static void on_executor_end(struct correlator *c, uint32_t thread, const struct record_probe *r)
{
	struct thread_state *s = &c->states[thread];
	uint32_t at = c->ops_at_entry ? frames_find_executor(&s->frames, r->tag) : FRAME_NONE;

	frames_return(c, s, r->stack);
	while (at != FRAME_NONE && s->frames.n > at + 1)
		frame_pop(c, s, 0, false);
	frames_touch(s, r->head.time);
}

static void on_schedule(struct correlator *c, uint32_t thread, const struct record_probe *r,
			const struct probe_spec *spec)
{
	struct thread_state *s = &c->states[thread];
	uint64_t index;

	frames_return(c, s, r->stack);
	frames_touch(s, r->head.time);
	index = correlator_add_span(c, thread, SPAN_SCHEDULE, r->head.time);
	if (index != NO_SPAN)
		c->t->spans[index].name = correlator_name(c, spec->event);
}

static uint64_t batch_key(const struct record_probe *r)
{
	return target_key(r->value, r->head.target);
}

/* What was inside the frame has ended, too. */
static void frames_end(struct correlator *c, struct thread_state *s, uint32_t at, uint64_t time)
{
	while (s->frames.n > at + 1)
		frame_pop(c, s, 0, false);
	frame_pop(c, s, time, false);
}

static void on_batch_add(struct correlator *c, uint32_t thread, const struct record_probe *r)
{
	struct thread_state *s = &c->states[thread];
	uint64_t run;

	frames_return(c, s, r->stack);
	frames_touch(s, r->head.time);
	run = run_of_thread(c, s);
	/* Before there is any run: a session that batches is called by the handler itself. */
	for (uint32_t i = s->frames.n; run == NO_SPAN && i > 0; i--)
		if (s->frames.frames[i - 1].role == ROLE_REQUEST_BEGIN)
			run = s->frames.frames[i - 1].span;
	batches_add(c, batch_key(r), r->head.time, run == NO_SPAN ? 0 : c->t->spans[run].context);
}

static void on_batch_begin(struct correlator *c, uint32_t thread, const struct record_probe *r,
			   const struct probe_spec *spec)
{
	struct frame *f;

	frames_return(c, &c->states[thread], r->stack);
	f = frame_push(c, thread, SPAN_BATCH, r, spec);
	if (!f)
		return;
	span_of(c, f)->context = c->next_context++;
	f->tag = (uint32_t)r->value;
	f->run = batches_begin(c, batch_key(r), f->span);
}

static void on_batch_size(struct correlator *c, uint32_t thread, const struct record_probe *r)
{
	struct thread_state *s = &c->states[thread];
	int32_t rows = (int32_t)r->value;

	frames_return(c, s, r->stack);
	frames_touch(s, r->head.time);
	for (uint32_t i = s->frames.n; rows > 0 && i > 0; i--) {
		if (s->frames.frames[i - 1].role != ROLE_BATCH_BEGIN)
			continue;
		batches_size(c, (uint32_t)s->frames.frames[i - 1].run, (uint64_t)rows);
		return;
	}
}

static void on_batch_padded(struct correlator *c, uint32_t thread, const struct record_probe2 *r)
{
	struct thread_state *s = &c->states[thread];

	frames_return(c, s, r->probe.stack);
	frames_touch(s, r->probe.head.time);
	batches_padded(c, batch_key(&r->probe), r->value2);
}

static void on_batch_end(struct correlator *c, uint32_t thread, const struct record_probe *r)
{
	struct thread_state *s = &c->states[thread];
	uint32_t at = frames_find_batch(&s->frames, (uint32_t)r->value),
		 batch = batches_end(c, batch_key(r));
	uint64_t index;

	if (at != FRAME_NONE) {
		frames_end(c, s, at, r->head.time);
		return;
	}
	frames_return(c, s, r->stack);
	frames_touch(s, r->head.time);
	if (batch == BATCH_NONE || s->frames.n)
		return;
	index = correlator_add_span(c, thread, SPAN_BATCH, c->start_ns);
	if (index == NO_SPAN)
		return;
	c->t->spans[index].end_ns = r->head.time;
	c->t->spans[index].flags = SPAN_CUT_START;
	c->t->spans[index].context = c->next_context++;
	c->t->spans[index].name = correlator_name(c, "ProcessBatch");
	batches_set_span(c, batch, index);
}

static void on_request_begin(struct correlator *c, uint32_t thread, const struct record_probe *r,
			     const struct probe_spec *spec)
{
	struct thread_state *s = &c->states[thread];
	uint32_t at;
	struct frame *f;

	/* Handlers are not called by one another: the last one's end was lost. */
	while ((at = frames_find_handler(&s->frames, spec->group, r->stack)) != FRAME_NONE)
		while (s->frames.n > at)
			frame_pop(c, s, 0, false);
	frames_return(c, s, r->stack);
	f = frame_push(c, thread, SPAN_HANDLER, r, spec);
	if (!f)
		return;
	f->stack += HANDLER_STACK;
	s->handled = true;
	span_of(c, f)->context = c->next_context++;
	if (r->head.kind == RECORD_TEXT)
		handlers_set_path(c, f->span, (const void *)r);
}

static void on_request_end(struct correlator *c, uint32_t thread, const struct record_probe *r,
			   const struct probe_spec *spec)
{
	struct thread_state *s = &c->states[thread];
	uint32_t at = frames_find_handler(&s->frames, spec->group, r->stack);
	uint64_t span;

	if (at != FRAME_NONE) {
		span = s->frames.frames[at].span;
		frames_end(c, s, at, r->head.time);
	} else {
		frames_return(c, s, r->stack);
		frames_touch(s, r->head.time);
		/* It began before the window, unless another one was seen here since. */
		if (s->handled || s->frames.n || !spec->event)
			return;
		span = correlator_add_span(c, thread, SPAN_HANDLER, c->start_ns);
		if (span == NO_SPAN)
			return;
		c->t->spans[span].end_ns = r->head.time;
		c->t->spans[span].flags = SPAN_CUT_START;
		c->t->spans[span].context = c->next_context++;
		c->t->spans[span].name = correlator_name(c, spec->event);
	}
	s->handled = true;
	if (r->head.kind == RECORD_TEXT)
		handlers_set_model(c, span, (const void *)r);
	requests_note_finished(c, span);
}

static void on_next_begin(struct correlator *c, uint32_t thread, const struct record_text *r,
			  const struct probe_spec *spec)
{
	struct frame *f;

	frames_return(c, &c->states[thread], r->probe.stack);
	f = frame_push(c, thread, SPAN_ITERATOR, &r->probe, spec);
	if (f)
		span_of(c, f)->name = labels_name_iterator(c, r);
}

static void on_next_end(struct correlator *c, uint32_t thread, const struct record_probe *r)
{
	struct thread_state *s = &c->states[thread];
	uint32_t at = frames_find_iterator(&s->frames, r->tag);

	if (at != FRAME_NONE) {
		frames_end(c, s, at, r->head.time);
		return;
	}
	/* It began before the window. */
	frames_return(c, s, r->stack);
	frames_touch(s, r->head.time);
}

void work_on_probe(struct correlator *c, const struct record *head)
{
	const struct record_probe *r = (const void *)head;
	const struct probe_pack *pack;
	const struct probe_spec *spec;
	uint32_t thread;

	if (head->target >= c->n_targets || c->gone[head->target])
		return;
	pack = c->targets[head->target].pack;
	if (head->site >= pack->n_probes)
		return;
	spec = &pack->probes[head->site];
	/* Only these probes send a second value. */
	if (spec->action == ACTION_READ && head->size8 * 8 < (int)sizeof(struct record_probe2))
		return;
	if (head->kind == RECORD_TEXT && spec->action != ACTION_TEXT &&
	    spec->action != ACTION_TEXT_END)
		return;
	if (c->shed[probe_kind_of_role(spec->role)])
		return;
	thread = correlator_thread(c, head->tid);
	if (c->error)
		return;
	c->t->threads[thread].process = head->target;
	c->idle_between = false;
	c->ops_at_entry = c->targets[head->target].ops_at_entry;
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
		names_free_object(&c->names, target_key(r->value, head->target), head->time);
		break;
	case ROLE_EXECUTOR_END:
		on_executor_end(c, thread, r);
		break;
	case ROLE_BATCH_ADD:
		on_batch_add(c, thread, r);
		break;
	case ROLE_BATCH_BEGIN:
		on_batch_begin(c, thread, r, spec);
		break;
	case ROLE_BATCH_SIZE:
		on_batch_size(c, thread, r);
		break;
	case ROLE_BATCH_PADDED:
		on_batch_padded(c, thread, (const void *)r);
		break;
	case ROLE_BATCH_END:
		on_batch_end(c, thread, r);
		break;
	case ROLE_REQUEST_BEGIN:
		on_request_begin(c, thread, r, spec);
		break;
	case ROLE_REQUEST_END:
		on_request_end(c, thread, r, spec);
		break;
	case ROLE_STREAM_BEGIN:
		streams_on_begin(c, (const void *)r);
		break;
	case ROLE_STREAM_OPERATIONS:
		streams_on_operations(c, thread, (const void *)r);
		break;
	case ROLE_LABEL_BEGIN:
		if (head->kind == RECORD_TEXT)
			labels_begin(c, thread, (const void *)r);
		break;
	case ROLE_LABEL_END:
		labels_end(c, thread, head->time);
		break;
	case ROLE_NEXT_BEGIN:
		if (head->kind == RECORD_TEXT)
			on_next_begin(c, thread, (const void *)r, spec);
		break;
	case ROLE_NEXT_END:
		on_next_end(c, thread, r);
		break;
	/* What else is shown is the same without them: they end, and lengthen, no frame. */
	case ROLE_ALLOCATE:
	case ROLE_ALLOCATED:
	case ROLE_FREE:
	case ROLE_CHUNK:
		memory_on_probe(c, thread, r, spec->role);
		break;
	default:
		frames_return(c, &c->states[thread], r->stack);
		frames_touch(&c->states[thread], head->time);
		break;
	}
}

/* Notes when the thread did the first thing after it entered its top frame. */
void work_note_next(struct correlator *c, const struct record *r)
{
	uint64_t *found = r->kind == RECORD_WAKE ? NULL : map_get(&c->thread_of_tid, r->tid);
	struct frame *f = found ? frames_top(&c->states[*found].frames) : NULL;

	if (f && !f->next_ns)
		f->next_ns = r->time;
}

void work_close(struct correlator *c, struct thread_state *s)
{
	while (s->frames.n) {
		const struct frame *f = frames_top(&s->frames);
		bool piece = f->role == ROLE_EXECUTOR_RUN || f->role == ROLE_DONE;
		/* Of an operation that another thread finishes only the launch is here; what its
		 * thread did next comes after that. */
		bool launch = f->role == ROLE_OP_ASYNC_BEGIN &&
			      (f->last_ns > span_of(c, f)->start_ns || f->next_ns);

		c->idle_between = true;
		if (launch)
			frame_pop(c, s, 0, false);
		else if (c->ops_at_entry && frame_is_op(f) && s->left_ns > span_of(c, f)->start_ns)
			frame_pop(c, s, 0, false);
		else if (piece && f->last_ns > span_of(c, f)->start_ns && f->last_ns < c->end_ns)
			frame_pop(c, s, 0, false);
		else
			frame_pop(c, s, c->end_ns, true);
	}
}

static void cut_frame(struct correlator *c, struct frames *frames, uint32_t at, uint64_t time)
{
	struct span *span = span_of(c, &frames->frames[at]);

	span->end_ns = time;
	span->flags |= SPAN_CUT_END;
	frames_remove(frames, at);
}

void work_end_process(struct correlator *c, uint32_t process, uint64_t time)
{
	for (uint32_t i = 0; i < c->t->n_threads; i++)
		while (c->t->threads[i].process == process && c->states[i].frames.n)
			cut_frame(c, &c->states[i].frames, c->states[i].frames.n - 1, time);
	for (uint32_t i = 0; i < c->t->n_threads; i++)
		if (c->t->threads[i].process == process)
			labels_close(c, &c->states[i], time);
}

void work_shed(struct correlator *c, enum probe_kind kind, uint64_t time)
{
	for (uint32_t i = 0; i < c->t->n_threads; i++) {
		struct frames *frames = &c->states[i].frames;

		if (kind == KIND_LABELS)
			labels_close(c, &c->states[i], time);
		for (uint32_t at = frames->n; at > 0; at--)
			if (probe_kind_of_role(frames->frames[at - 1].role) == kind)
				cut_frame(c, frames, at - 1, time);
	}
}
