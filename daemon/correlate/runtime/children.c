/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/children.h"

#include <stdlib.h>

#include "daemon/correlate/runtime/nesting.h"
#include "daemon/correlate/runtime/runs.h"
#include "daemon/correlate/runtime/switches.h"

/* A server has one for each instance of a model. */
#define CHILDREN_MAX 4096

struct child {
	uint64_t span; /* what it was handed last; NO_SPAN: unknown */
	uint64_t handed_ns;
	uint32_t n_waiting; /* that it was handed, and has not taken up */
};

/* pid: as the parent has it, the target with that number. 0: of no child. */
static uint64_t key_of(uint32_t pid, unsigned parent)
{
	return pid ? target_key(pid, (uint8_t)parent) : 0;
}

static struct child *find(const struct correlator *c, uint64_t key)
{
	const uint64_t *found = key ? map_get(&c->children.at, key) : NULL;

	return found ? &c->children.list[*found] : NULL;
}

static struct child *find_or_add(struct correlator *c, uint64_t key)
{
	struct children *s = &c->children;
	struct child *child = find(c, key), *list;

	if (child || !key || s->n == CHILDREN_MAX)
		return child;
	list = correlator_grow(c, s->list, &s->size, s->n, sizeof(list[0]));
	if (!list)
		return NULL;
	s->list = list;
	list[s->n] = (struct child){ .span = NO_SPAN };
	correlator_put(c, &s->at, key, s->n);
	return &list[s->n++];
}

/* The number of the target that is this process now; -1: none. One that has become a target again
 * has another number. */
static int number_of(const struct correlator *c, uint32_t pid)
{
	const struct correlate_target *t;
	int found = -1;

	for (unsigned i = 0; (t = targets_get(&c->targets, i)); i++)
		if (t->pid == pid && targets_current(&c->targets, i))
			found = (int)i;
	return found;
}

/* Whether a target is a child with that pid of the target with that number. */
static bool is_seen(const struct correlator *c, uint32_t pid, unsigned parent)
{
	uint32_t of = targets_get(&c->targets, parent)->pid;
	const struct correlate_target *t;

	for (unsigned i = 0; (t = targets_get(&c->targets, i)); i++)
		if (t->own_pid == pid && t->parent == of && targets_current(&c->targets, i))
			return true;
	return false;
}

void children_enqueue(struct correlator *c, const struct entry *e)
{
	uint32_t pid = (uint32_t)entry_values(e)->value2;
	unsigned parent = e->record->head.target;
	struct child *child;
	bool is_first;

	nesting_pass(c, e);
	/* What it does before it is a target is not seen. */
	child = is_seen(c, pid, parent) ? find_or_add(c, key_of(pid, parent)) : NULL;
	if (!child)
		return;
	/* Its parent may no longer wait for what it has not taken up: until it has, nothing is
	 * certain. */
	is_first = !child->n_waiting;
	/* It may have taken up what was lost. */
	if (losses_within(&c->losses, child->handed_ns, c->now))
		child->n_waiting = 0;
	child->span = is_first ? runs_of_thread(c, entry_state(c, e)) : NO_SPAN;
	child->handed_ns = c->now;
	child->n_waiting++;
}

/* The child that the entry's process is, of a parent that is a target; NULL: of none. */
static struct child *child_of(struct correlator *c, const struct entry *e)
{
	const struct correlate_target *own = targets_get(&c->targets, e->record->head.target);
	int parent = own->parent ? number_of(c, own->parent) : -1;

	return parent < 0 ? NULL : find(c, key_of(own->own_pid, (unsigned)parent));
}

/* What it takes up; NO_SPAN: unknown. With a loss in between it may be something else. */
static uint64_t take(const struct correlator *c, struct child *child)
{
	uint64_t span = child->span;

	if (child->n_waiting)
		child->n_waiting--;
	child->span = NO_SPAN;
	if (span == NO_SPAN || runs_has_ended(c, span) ||
	    losses_within(&c->losses, c->t->spans[span].start_ns, c->now))
		return NO_SPAN;
	return span;
}

void children_open(struct correlator *c, const struct entry *e)
{
	struct child *child = child_of(c, e);
	uint64_t span = child ? take(c, child) : NO_SPAN;
	struct frame *f;

	/* A block around several is none of one of them. */
	switches_interrupt(c, e->thread);
	nesting_return(c, entry_state(c, e), e->record->stack);
	f = nesting_push(c, e, SPAN_EXECUTOR);
	if (!f)
		return;
	c->children.n_taken += child != NULL;
	c->children.n_unknown += child && span == NO_SPAN;
	nesting_span(c, f)->flags |= SPAN_CHILD;
	if (span == NO_SPAN)
		return;
	f->run = span;
	nesting_span(c, f)->context = c->t->spans[span].context;
	c->t->spans[span].flags |= SPAN_CHILD;
}

void children_close(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	uint32_t at = frames_find(&s->frames, WORK_CHILD, e->record->tag);

	if (at == FRAME_NONE)
		nesting_pass(c, e);
	else
		nesting_end(c, s, at, e->record->head.time);
}

void children_finish(struct correlator *c)
{
	const struct children *s = &c->children;

	if (s->n_unknown)
		correlator_fail(
			c,
			timeline_warn(
				c->t,
				"%llu of %llu times it is unknown what a child process worked for: its server had handed more to it than it had taken up, or records were lost.",
				(unsigned long long)s->n_unknown, (unsigned long long)s->n_taken));
}

void children_done(struct children *s)
{
	map_done(&s->at);
	free(s->list);
}
