/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that reads a request makes contexts, in which it or other threads work for that request,
 * and these make further ones. So the request of a context is the one that its maker had read since
 * it entered the context that it was in; or else the maker's own. Some loops read before they enter
 * the context (POINT): what was read counts as read in there.
 *
 * Where the thread reads in another context than those that lead to the work, the answer shows it
 * (writers.c).
 *
 * A context works for one request only if no two requests were read where it was made. A context
 * that outlives its request may serve others: where a run of a request's contexts begins after its
 * answer, none of their runs is attributed.
 */
#include "daemon/correlate/attribute/contexts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/attribute/claims.h"
#include "daemon/correlate/attribute/streams.h"
#include "daemon/correlate/attribute/writers.h"
#include "daemon/correlate/correlator.h"
#include "daemon/correlate/runtime/nesting.h"
#include "lib/base/macro.h"

/* 12 bytes each, 40 in the map, and 4 in writers.c. */
#define CONTEXTS_MAX (1u << 20)
/* Kept until the window closes: 60 MB. */
#define CONTEXT_RUNS_MAX (4u << 20)
#define ENTERED_MAX 16

/* A request: index + 1, or by the index + 1 of the object of its stream. Both 0: none. */
struct context {
	uint32_t request, stream;
	bool own_stream; /* the stream is not its maker's */
	bool several;    /* streams */
};

/* What a thread is in. */
struct entered {
	uint64_t key;
	uint32_t context; /* index + 1; 0: unknown */
	uint32_t request; /* that it has read in there, index + 1 */
	bool several;     /* it has read others, too */
	bool marked;      /* by the server */
	uint64_t since_ns;
};

struct thread_contexts {
	struct entered in[ENTERED_MAX];
	uint32_t n, n_deeper; /* those that in[] has no room for */
	/* Outside of all contexts: the last request that it has read, index + 1; whether it had
	 * read others before it made work, and not answered the last since; whether it has made
	 * work since. Work that it makes then may be that of a request that is not seen. */
	uint32_t request;
	bool several, made;
	/* Outside of all contexts, since it last entered one: the last request that it has read,
	 * index + 1; whether it has read others, too; whether the next context is for what it has
	 * read. */
	uint32_t read;
	bool read_several, read_for_next;
};

struct context_run {
	uint64_t span; /* index */
	struct context_work work;
};

/* NULL: no memory. */
static struct thread_contexts *thread_get(struct correlator *c, uint32_t thread)
{
	struct contexts *s = &c->contexts;

	return correlator_element(c, &s->threads, &s->threads_size, thread, sizeof(*s->threads));
}

static uint64_t key_of(const struct entry *e)
{
	return target_key(e->record->value, e->record->head.target);
}

/* Whether the record is of a context: what is equal for all of them is as before. */
static bool is_context(struct correlator *c, const struct entry *e)
{
	uint8_t target = e->record->head.target;
	uint64_t kind = e->row->usdt ? 0 : entry_values(e)->value2;

	if (e->row->usdt)
		return true;
	if (!e->record->value || !kind)
		return false;
	if (!c->contexts.kind[target])
		c->contexts.kind[target] = kind;
	c->contexts.unusable[target] |= c->contexts.kind[target] != kind;
	return c->contexts.kind[target] == kind;
}

static struct entered *innermost(struct thread_contexts *t)
{
	return t->n && !t->n_deeper ? &t->in[t->n - 1] : NULL;
}

/* For which request the thread works in there. */
static struct context work_of(const struct correlator *c, const struct entered *in)
{
	struct context known = {};

	if (in->several)
		return known;
	if (in->request)
		return (struct context){ .request = in->request };
	if (in->context)
		known = c->contexts.list[in->context - 1];
	return known.several ? (struct context){} : known;
}

/* The context at that address is this one from now on. Returns its number + 1; 0: it is not kept.
 */
static uint32_t put(struct correlator *c, uint64_t key, struct context context)
{
	struct contexts *s = &c->contexts;
	uint64_t *found = map_get(&s->at, key);
	struct context *list;

	if (found) {
		s->list[*found] = context;
		return (uint32_t)*found + 1;
	}
	/* Nothing is known of one that is not in the table. */
	if (s->n == CONTEXTS_MAX) {
		s->n_left_out++;
		return 0;
	}
	list = correlator_grow(c, s->list, &s->size, s->n, sizeof(list[0]));
	if (!list)
		return 0;
	s->list = list;
	list[s->n] = context;
	correlator_put(c, &s->at, key, s->n++);
	return s->n;
}

/* The same of an interpreter's; maker: the number + 1 of the context in which it was made. */
static uint32_t put_made(struct correlator *c, const struct entry *e, struct context context,
			 uint32_t maker, uint64_t time)
{
	uint32_t number = put(c, key_of(e), context);

	if (number && !e->row->usdt)
		writers_made(c, number - 1, maker, time);
	return number;
}

void contexts_enqueue(struct correlator *c, const struct entry *e)
{
	struct thread_contexts *t = thread_get(c, e->thread);
	struct context context = {};
	const struct entered *in;

	if (!t || !is_context(c, e))
		return;
	in = innermost(t);
	if (in) {
		context = work_of(c, in);
		context.own_stream = false;
	} else if (!t->n && e->row->usdt) {
		context.request = t->several || t->made ? 0 : t->request;
		t->made = true;
	}
	put_made(c, e, context, in ? in->context : 0, e->record->head.time);
}

void contexts_free(struct correlator *c, const struct entry *e)
{
	if (is_context(c, e))
		put_made(c, e, (struct context){}, 0, e->record->head.time);
}

void contexts_point(struct correlator *c, const struct entry *e)
{
	struct thread_contexts *t = thread_get(c, e->thread);

	if (t)
		t->read_for_next = !t->n;
}

static void forget_read(struct thread_contexts *t)
{
	t->read = 0;
	t->read_several = t->read_for_next = false;
}

/* Records were lost, or what runs on the thread was exchanged in between. */
static void misfit(struct correlator *c, struct thread_contexts *t, const struct entry *e)
{
	t->n = 0;
	forget_read(t);
	c->contexts.n_misfits[e->record->head.target]++;
}

void contexts_open(struct correlator *c, const struct entry *e)
{
	struct thread_contexts *t = thread_get(c, e->thread);
	struct entered *in;
	uint64_t *found;

	if (!t || !is_context(c, e))
		return;
	switches_interrupt(c, e->thread);
	if (t->n == ENTERED_MAX) {
		t->n_deeper++;
		return;
	}
	/* No context is entered twice: the end of the first time was not seen. */
	for (uint32_t i = 0; i < t->n; i++)
		if (t->in[i].key == key_of(e)) {
			misfit(c, t, e);
			break;
		}
	found = map_get(&c->contexts.at, key_of(e));
	in = &t->in[t->n++];
	*in = (struct entered){ .key = key_of(e),
				.context = found ? (uint32_t)*found + 1
						 : put_made(c, e, (struct context){}, 0, 0),
				.marked = e->row->usdt,
				.since_ns = e->record->head.time };
	if (t->n > 1)
		return;
	if (t->read_for_next) {
		in->request = t->read;
		in->several = t->read_several;
	}
	forget_read(t);
}

void contexts_close(struct correlator *c, const struct entry *e)
{
	struct thread_contexts *t = thread_get(c, e->thread);

	if (!t || !is_context(c, e))
		return;
	if (t->n_deeper) {
		t->n_deeper--;
		return;
	}
	/* What was entered before the window ends. What was read since was read in there. */
	if (!t->n) {
		forget_read(t);
		return;
	}
	if (t->in[t->n - 1].key == key_of(e)) {
		t->n--;
		return;
	}
	misfit(c, t, e);
}

void contexts_on_read(struct correlator *c, uint32_t thread, uint32_t request)
{
	struct thread_contexts *t = thread_get(c, thread);
	struct entered *in = t ? innermost(t) : NULL;

	if (t && !t->n) {
		t->read_several |= t->read && t->read != request + 1;
		t->read = request + 1;
		t->read_for_next = false;
	}
	if (in) {
		in->several |= in->request && in->request != request + 1;
		in->request = request + 1;
	} else if (t && t->request != request + 1) {
		t->several = t->request && (t->several || !t->made) &&
			     !requests_state(&c->requests, t->request - 1)->answering;
		t->request = request + 1;
		t->made = false;
	}
}

void contexts_on_stream(struct correlator *c, uint32_t thread, uint32_t object)
{
	struct thread_contexts *t = thread_get(c, thread);
	struct entered *in = t ? innermost(t) : NULL;
	struct context *context;

	if (!in || !in->context)
		return;
	context = &c->contexts.list[in->context - 1];
	context->several |= context->own_stream && context->stream != object + 1;
	context->own_stream = true;
	context->stream = object + 1;
}

struct context_work contexts_find(struct correlator *c, uint32_t thread)
{
	struct thread_contexts *t = thread_get(c, thread);
	const struct entered *in = t ? innermost(t) : NULL;
	struct context work = in ? work_of(c, in) : (struct context){};

	return (struct context_work){ .since_ns = t && t->n ? t->in[t->n - 1].since_ns : 0,
				      .request = work.request,
				      .stream = work.stream };
}

bool contexts_seen(const struct correlator *c, uint32_t process)
{
	return c->contexts.kind[process];
}

/* The context, number + 1, that the thread works in, if that is an interpreter's; 0: none. */
static uint32_t interpreters(struct correlator *c, uint32_t thread)
{
	struct thread_contexts *t = thread_get(c, thread);
	const struct entered *in = t ? innermost(t) : NULL;

	return in && !in->marked ? in->context : 0;
}

bool contexts_on_run(struct correlator *c, uint32_t thread, uint64_t span)
{
	struct context_work work = contexts_find(c, thread);
	uint32_t context = interpreters(c, thread);

	if (context && !work.request && !work.stream)
		writers_on_run(c, context - 1, work.since_ns, span);
	return contexts_add_run(c, work, span);
}

void contexts_on_answer(struct correlator *c, uint32_t thread, uint32_t request)
{
	uint32_t context = interpreters(c, thread);

	if (context)
		writers_on_answer(c, context - 1, request);
}

bool contexts_add_run(struct correlator *c, struct context_work work, uint64_t span)
{
	struct contexts *s = &c->contexts;
	struct context_run *runs;

	if ((!work.request && !work.stream) || s->n_runs >= CONTEXT_RUNS_MAX)
		return false;
	runs = correlator_grow(c, s->runs, &s->runs_size, s->n_runs, sizeof(runs[0]));
	if (!runs)
		return false;
	s->runs = runs;
	runs[s->n_runs++] = (struct context_run){ span, work };
	if (work.request)
		claims_stop_waiting(c, work.request - 1);
	return true;
}

void contexts_forget(struct correlator *c)
{
	struct contexts *s = &c->contexts;

	if (s->threads)
		memset(s->threads, 0, s->threads_size * sizeof(s->threads[0]));
	map_done(&s->at);
	s->at = (struct map){};
	s->n = 0;
	writers_forget(&c->writers);
}

void contexts_end_thread(struct correlator *c, uint32_t thread)
{
	if (thread < c->contexts.threads_size)
		c->contexts.threads[thread] = (struct thread_contexts){};
}

void contexts_end_process(struct correlator *c, uint32_t process)
{
	if (process < RECORD_MAX_TARGETS && c->contexts.kind[process])
		c->contexts.unusable[process] = true;
}

uint32_t contexts_request(const struct correlator *c, const struct context_work *work,
			  uint32_t process)
{
	if (process >= RECORD_MAX_TARGETS || c->contexts.unusable[process])
		return NO_REQUEST;
	if (work->request)
		return work->request - 1;
	return work->stream ? streams_request(c, work->stream - 1) : NO_REQUEST;
}

static uint32_t request_of(const struct correlator *c, const struct context_run *run)
{
	return contexts_request(c, &run->work,
				c->t->threads[c->t->spans[run->span].thread].process);
}

/* A server may serve the next request of a connection of HTTP/1 in a context of the one before. */
static bool may_be_of_next(const struct correlator *c, uint32_t request, uint64_t time)
{
	uint32_t next = requests_state(&c->requests, request)->next;
	const struct request *q;

	if (next == NO_REQUEST)
		return false;
	q = requests_get(&c->requests, next);
	return (q->read_start_ns ?: q->start_ns) <= time;
}

/* What was made while records were lost is unknown. A request may be cut off before its run. */
static bool is_claim(struct correlator *c, const struct context_run *run, uint32_t request)
{
	const struct request *q = requests_get(&c->requests, request);
	uint64_t start = c->t->spans[run->span].start_ns;

	return claims_can_be_of(c, run->span, request) && start <= q->end_ns &&
	       !may_be_of_next(c, request, start) &&
	       !losses_within(&c->losses, MIN(q->read_start_ns ?: q->start_ns, run->work.since_ns),
			      start);
}

static void warn(struct correlator *c)
{
	struct contexts *s = &c->contexts;
	int r = 0;

	for (unsigned i = 0; i < RECORD_MAX_TARGETS && r >= 0; i++) {
		if (s->n_misfits[i] && !losses_within(&c->losses, 0, UINT64_MAX))
			s->unusable[i] = true;
		if (s->unusable[i])
			r = timeline_warn(
				c->t,
				"Process %u: its contexts are not used to find the requests of runs: they are not entered and left in order.",
				c->t->processes[i].pid);
	}
	if (r >= 0 && s->n_left_out)
		r = timeline_warn(
			c->t,
			"%llu contexts were left out: a capture holds %u. Runs in them have a request by inference only.",
			(unsigned long long)s->n_left_out, CONTEXTS_MAX);
	if (r >= 0 && writers_left_out(&c->writers))
		r = timeline_warn(
			c->t,
			"%llu runs have a request by inference only: a capture holds %u runs, and as many contexts, of which only the answer shows it.",
			(unsigned long long)writers_left_out(&c->writers), WRITERS_RUNS_MAX);
	if (r < 0)
		c->error = -ENOMEM;
}

/* Claims of other kinds on requests whose runs are known are inferred, or by the writer of an
 * answer: what is known replaces them. */
static void remove_others(struct correlator *c, const bool *known)
{
	TIMELINE_EACH (c->t, i, 1 << SPAN_RUN) {
		const struct span *s = &c->t->spans[i];

		if (s->request && known[s->request - 1] &&
		    (s->flags & SPAN_INFERRED ||
		     requests_get(&c->requests, s->request - 1)->read_thread != s->thread))
			claims_remove(c, i);
	}
}

void contexts_note_work(struct correlator *c, uint32_t request, uint64_t time)
{
	if (time > requests_answered_ns(requests_get(&c->requests, request)))
		requests_state(&c->requests, request)->outlived = true;
}

/* Runs that have a request by the context in which it was answered. */
static void add_answered(struct correlator *c)
{
	struct answered_run run;
	uint32_t at = 0;

	while (writers_next(c, &at, &run))
		contexts_add_run(c,
				 (struct context_work){ .since_ns = run.since_ns,
							.request = run.request + 1 },
				 run.span);
}

void contexts_claim(struct correlator *c)
{
	struct contexts *s = &c->contexts;
	size_t n = (size_t)requests_count(&c->requests) + 1;
	_cleanup_free_ bool *known = calloc(n, sizeof(known[0]));

	warn(c);
	add_answered(c);
	if (!known)
		c->error = -ENOMEM;
	for (uint32_t i = 0; i < s->n_runs && !c->error; i++) {
		uint32_t request = request_of(c, &s->runs[i]);

		if (request == NO_REQUEST)
			continue;
		known[request] = true;
		contexts_note_work(c, request, c->t->spans[s->runs[i].span].start_ns);
	}
	if (s->n_runs && !c->error)
		remove_others(c, known);
	for (uint32_t i = 0; i < s->n_runs && !c->error; i++) {
		uint64_t span = s->runs[i].span;
		uint32_t request = request_of(c, &s->runs[i]);

		if (request == NO_REQUEST)
			continue;
		if (c->t->spans[span].request)
			claims_remove(c, span);
		if (requests_state(&c->requests, request)->outlived ||
		    !is_claim(c, &s->runs[i], request))
			continue;
		claims_add(c, span, request, false);
		claims_note_stream(c, request);
	}
}

void contexts_done(struct contexts *s)
{
	free(s->list);
	free(s->threads);
	free(s->runs);
	map_done(&s->at);
}
