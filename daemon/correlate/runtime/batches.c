/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/correlate/runtime/batches.h"
#include "daemon/correlate/runtime/nesting.h"
#include "daemon/correlate/runtime/runs.h"
#include "lib/base/macro.h"

/* Together below 200 MB. */
#define BATCHES_MAX (1u << 20)
#define TASKS_MAX (4u << 20)
/* Addresses of tasks; 64 bytes each. */
#define HANDED_MAX (1u << 20)

#define BATCH_NONE UINT32_MAX

/* In place of an address: the batch that a thread takes up tasks for. */
#define THREAD_KEY UINT64_C(0xff000000000000)

enum batch_progress {
	BATCH_OPEN, /* tasks are added to it */
	BATCH_BEGUN,
};

/* Beside a batch of the timeline, which has its times only at the end. */
struct batch_state {
	uint64_t span;      /* index, NO_SPAN: its processing was not seen */
	uint64_t queued_ns; /* when its last task was */
	enum batch_progress progress;
};

/* A task, until another one has its identity. */
struct handed_task {
	uint64_t queued_ns;
	uint64_t run; /* as in batch_task */
	bool taken;   /* by a thread, or it is gone */
};

static struct batch_state *state_of(struct correlator *c, uint32_t batch)
{
	return &c->batches.states[batch];
}

static uint64_t key_of(const struct entry *e)
{
	return e->record->value ? entry_key(e)
				: target_key(THREAD_KEY | e->thread, e->record->head.target);
}

/* The batch that lives at that address, BATCH_NONE. */
static uint32_t find(const struct correlator *c, uint64_t key)
{
	const uint64_t *found = map_get(&c->batches.at, key);

	return found ? (uint32_t)*found : BATCH_NONE;
}

static void set(struct correlator *c, uint64_t key, uint32_t batch)
{
	if (map_put(&c->batches.at, key, batch) < 0)
		c->error = -ENOMEM;
}

static uint32_t add(struct correlator *c, uint64_t key)
{
	struct timeline *t = c->t;
	struct batches *b = &c->batches;
	struct batch *batches;
	struct batch_state *states;

	if (t->n_batches == BATCHES_MAX)
		return BATCH_NONE;
	batches = correlator_grow(c, t->batches, &b->size, t->n_batches, sizeof(batches[0]));
	if (batches)
		t->batches = batches;
	states = correlator_grow(c, b->states, &b->states_size, t->n_batches, sizeof(states[0]));
	if (states)
		b->states = states;
	if (!batches || !states)
		return BATCH_NONE;
	t->batches[t->n_batches] = (struct batch){ .thread = THREAD_NONE };
	b->states[t->n_batches] = (struct batch_state){ .span = NO_SPAN };
	set(c, key, t->n_batches);
	return t->n_batches++;
}

/* The batch that is being filled at that address. After one has begun, it is another one, and it
 * may be after a loss. */
static uint32_t find_open(struct correlator *c, uint64_t key)
{
	uint32_t batch = find(c, key);

	if (batch == BATCH_NONE || state_of(c, batch)->progress != BATCH_OPEN ||
	    losses_within(&c->losses, state_of(c, batch)->queued_ns, c->now))
		batch = add(c, key);
	if (batch != BATCH_NONE)
		state_of(c, batch)->queued_ns = c->now;
	return batch;
}

static void add_task(struct correlator *c, uint64_t key, uint64_t time, uint64_t run)
{
	uint32_t batch = find_open(c, key);
	struct batch_task *tasks;

	if (batch == BATCH_NONE || c->t->n_batch_tasks == TASKS_MAX)
		return;
	tasks = correlator_grow(c, c->t->batch_tasks, &c->batches.tasks_size, c->t->n_batch_tasks,
				sizeof(tasks[0]));
	if (!tasks)
		return;
	c->t->batch_tasks = tasks;
	tasks[c->t->n_batch_tasks++] =
		(struct batch_task){ .queued_ns = time, .batch = batch, .run = run };
}

/* The task with that identity; NULL: none was handed over. */
static struct handed_task *find_handed(struct correlator *c, const struct entry *e)
{
	const uint64_t *found = map_get(&c->batches.handed_at, entry_key2(e));

	return found ? &c->batches.handed[*found] : NULL;
}

/* The same: a new one takes the place of one that was there. NULL: no room. */
static struct handed_task *hand_over(struct correlator *c, const struct entry *e)
{
	struct batches *b = &c->batches;
	struct handed_task *handed = find_handed(c, e);

	if (handed)
		return handed;
	if (!shares_take(&b->handed_shares, c, e->thread, HANDED_MAX)) {
		b->n_left_out++;
		return NULL;
	}
	handed = correlator_grow(c, b->handed, &b->handed_size, b->n_handed, sizeof(handed[0]));
	if (!handed)
		return NULL;
	b->handed = handed;
	correlator_put(c, &b->handed_at, entry_key2(e), b->n_handed);
	return &handed[b->n_handed++];
}

static uint32_t begin(struct correlator *c, uint64_t key, uint64_t span)
{
	uint32_t batch = find_open(c, key);

	if (batch != BATCH_NONE)
		*state_of(c, batch) = (struct batch_state){ .span = span, .progress = BATCH_BEGUN };
	return batch;
}

static void set_size(struct correlator *c, uint32_t batch, uint64_t rows)
{
	if (batch != BATCH_NONE && !c->t->batches[batch].size)
		c->t->batches[batch].size = rows;
}

static void set_padded(struct correlator *c, uint64_t key, uint64_t rows)
{
	uint32_t batch = find(c, key);

	/* Its begin was not seen: it began before the window, and has not ended yet. */
	if (batch == BATCH_NONE) {
		batch = add(c, key);
		if (batch != BATCH_NONE)
			state_of(c, batch)->progress = BATCH_BEGUN;
	}
	if (batch != BATCH_NONE && state_of(c, batch)->progress == BATCH_BEGUN && rows <= INT32_MAX)
		c->t->batches[batch].padded = rows;
}

static uint32_t end(struct correlator *c, uint64_t key)
{
	uint32_t batch = find(c, key);

	if (batch == BATCH_NONE)
		return BATCH_NONE;
	set(c, key, BATCH_NONE);
	return state_of(c, batch)->progress == BATCH_BEGUN && state_of(c, batch)->span == NO_SPAN
		       ? batch
		       : BATCH_NONE;
}

static void set_span(struct correlator *c, uint32_t batch, uint64_t span)
{
	state_of(c, batch)->span = span;
}

struct place {
	uint64_t start_ns;
	uint32_t batch;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->batch < y->batch ? -1 : x->batch > y->batch;
}

/* Sorts tasks by batch, stably. */
static int sort_tasks(struct timeline *t, const uint32_t *place_of)
{
	struct batch_task *sorted = malloc(MAX(t->n_batch_tasks, (uint64_t)1) * sizeof(sorted[0]));
	_cleanup_free_ uint64_t *at = calloc((size_t)t->n_batches + 2, sizeof(at[0]));

	if (!sorted || !at) {
		free(sorted);
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < t->n_batch_tasks; i++) {
		struct batch_task *task = &t->batch_tasks[i];

		task->batch = place_of[task->batch];
		at[MIN(task->batch, t->n_batches) + 1]++;
	}
	for (uint32_t i = 0; i <= t->n_batches; i++) {
		if (i < t->n_batches) {
			t->batches[i].first_task = at[i];
			t->batches[i].n_tasks = at[i + 1];
		}
		at[i + 1] += at[i];
	}
	for (uint64_t i = 0; i < t->n_batch_tasks; i++)
		sorted[at[MIN(t->batch_tasks[i].batch, t->n_batches)]++] = t->batch_tasks[i];
	free(t->batch_tasks);
	t->batch_tasks = sorted;
	return 0;
}

void batches_enqueue(struct correlator *c, const struct entry *e)
{
	struct handed_task *task;
	uint64_t run, context;

	nesting_pass(c, e);
	run = runs_of_thread(c, entry_state(c, e));
	context = run == NO_SPAN ? 0 : c->t->spans[run].context;
	if (!e->row->value2.argument) {
		add_task(c, key_of(e), e->record->head.time, context);
		return;
	}
	if (run != NO_SPAN)
		c->t->spans[run].flags |= SPAN_HANDED_OVER;
	task = hand_over(c, e);
	if (task)
		*task = (struct handed_task){ .queued_ns = e->record->head.time, .run = context };
}

void batches_dequeue(struct correlator *c, const struct entry *e)
{
	struct handed_task *task = find_handed(c, e);

	nesting_pass(c, e);
	/* It was handed over before the window, or is none, or may be another one. */
	if (!task || task->taken || losses_within(&c->losses, task->queued_ns, c->now))
		return;
	task->taken = true;
	add_task(c, key_of(e), task->queued_ns, task->run);
}

void batches_free(struct correlator *c, const struct entry *e)
{
	struct handed_task *task = find_handed(c, e);

	nesting_pass(c, e);
	if (task)
		task->taken = true;
}

void batches_open(struct correlator *c, const struct entry *e)
{
	struct frame *f;

	nesting_return(c, entry_state(c, e), e->record->stack);
	f = nesting_push(c, e, SPAN_BATCH);
	if (!f)
		return;
	nesting_span(c, f)->context = spans_make_context(c);
	f->tag = (uint32_t)e->record->value;
	f->batch = begin(c, key_of(e), f->span);
}

void batches_point(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	int32_t rows = (int32_t)e->record->value;

	nesting_pass(c, e);
	if (e->row->value2.argument) {
		set_padded(c, entry_key(e), entry_values(e)->value2);
		return;
	}
	for (uint32_t i = frames_count(&s->frames); rows > 0 && i > 0; i--) {
		if (!frame_is(frames_at(&s->frames, i - 1), WORK_BATCH))
			continue;
		set_size(c, frames_at(&s->frames, i - 1)->batch, (uint64_t)rows);
		return;
	}
}

/* The name of the pack's batches. */
static const char *name_of(const struct pack *pack)
{
	for (unsigned i = 0; i < pack->n_rows; i++)
		if (row_is(&pack->rows[i], VERB_OPEN, WORK_BATCH) && pack->rows[i].event)
			return pack->rows[i].event;
	return "batch";
}

void batches_close(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	uint32_t at = frames_find(&s->frames, WORK_BATCH, (uint32_t)e->record->value);
	uint32_t batch = end(c, key_of(e));
	uint64_t index;

	if (at != FRAME_NONE) {
		nesting_end(c, s, at, e->record->head.time);
		return;
	}
	nesting_pass(c, e);
	if (batch == BATCH_NONE || frames_count(&s->frames))
		return;
	index = nesting_add_begun(c, e, SPAN_BATCH, name_of(e->pack));
	if (index != NO_SPAN)
		set_span(c, batch, index);
}

static void warn_of_left_out(struct correlator *c)
{
	uint64_t n = c->batches.n_left_out;

	if (n &&
	    timeline_warn(
		    c->t,
		    "%llu tasks of batches were left out: a capture holds those at %u addresses. Their batches are not shown in their requests.",
		    (unsigned long long)n, HANDED_MAX) < 0)
		c->error = -ENOMEM;
}

int batches_finish(struct correlator *c)
{
	struct timeline *t = c->t;
	uint32_t n = t->n_batches, n_begun = 0;
	_cleanup_free_ struct place *places = calloc(MAX(n, 1u), sizeof(places[0]));
	_cleanup_free_ uint32_t *place_of = malloc(MAX(n, 1u) * sizeof(place_of[0]));
	struct batch *batches = calloc(MAX(n, 1u), sizeof(batches[0]));

	if (!places || !place_of || !batches) {
		free(batches);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++) {
		place_of[i] = UINT32_MAX;
		if (state_of(c, i)->span != NO_SPAN)
			places[n_begun++] =
				(struct place){ t->spans[state_of(c, i)->span].start_ns, i };
	}
	qsort(places, n_begun, sizeof(places[0]), compare_places);
	for (uint32_t i = 0; i < n_begun; i++) {
		struct span *span = &t->spans[state_of(c, places[i].batch)->span];

		place_of[places[i].batch] = i;
		batches[i] = t->batches[places[i].batch];
		batches[i].start_ns = span->start_ns;
		batches[i].end_ns = span->end_ns;
		batches[i].thread = span->thread;
		batches[i].flags = span->flags & SPAN_NOT_WHOLE;
		span->batch = i;
	}
	free(t->batches);
	t->batches = batches;
	t->n_batches = n_begun;
	warn_of_left_out(c);
	return sort_tasks(t, place_of);
}

void batches_done(struct batches *b)
{
	map_done(&b->at);
	map_done(&b->handed_at);
	free(b->states);
	free(b->handed);
}
