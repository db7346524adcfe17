/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/switches.h"

#include "daemon/correlate/attribute/attribution.h"
#include "daemon/correlate/runtime/nesting.h"
#include "daemon/correlate/runtime/runs.h"

static void set(struct run_switch *s, int state, uint64_t time)
{
	*s = (struct run_switch){ .state = state, .changed_ns = time };
}

/* Neither begins nor ends anything. Its row's slack is about runs. */
static void pass(struct correlator *c, const struct entry *e)
{
	nesting_return(c, entry_state(c, e), e->record->stack);
	nesting_touch(entry_state(c, e), e->record->head.time);
}

/* A run whose beginning may be earlier than what was seen of it. */
static void add_found(struct correlator *c, const struct entry *e, uint64_t start_ns)
{
	uint64_t span;

	pass(c, e);
	span = nesting_add_begun(c, e, SPAN_RUN, e->row->event);
	if (span == NO_SPAN)
		return;
	c->t->spans[span].start_ns = start_ns;
	attribution_on_run(c, e->thread, span);
}

static void turn_on(struct correlator *c, const struct entry *e, struct run_switch *s)
{
	if (s->state == SWITCH_OFF) {
		runs_open(c, e);
		set(s, SWITCH_ON, e->record->head.time);
		return;
	}
	pass(c, e);
	if (s->state == SWITCH_UNKNOWN)
		set(s, SWITCH_FOUND_ON, e->record->head.time);
}

static void turn_off(struct correlator *c, const struct entry *e, struct run_switch *s)
{
	if (s->state == SWITCH_ON)
		runs_close(c, e);
	else if (s->state == SWITCH_FOUND_ON)
		add_found(c, e, s->changed_ns);
	else
		pass(c, e);
	set(s, SWITCH_OFF, e->record->head.time);
}

/* Records were lost, perhaps an end, or a beginning. */
static void lose(struct correlator *c, const struct entry *e, struct run_switch *s)
{
	struct thread_state *state = entry_state(c, e);
	uint32_t at = frames_find_above(&state->frames, e->pack, e->row, e->record->stack);

	if (s->state == SWITCH_ON && at != FRAME_NONE)
		nesting_truncate(c, &state->frames, at, s->seen_ns);
	set(s, SWITCH_UNKNOWN, 0);
}

void switches_on_entry(struct correlator *c, const struct entry *e)
{
	struct run_switch *s = &entry_state(c, e)->run_switch;

	if (s->state != SWITCH_UNKNOWN &&
	    losses_within(&c->losses, s->seen_ns, e->record->head.time))
		lose(c, e, s);
	if (e->record->value & 1)
		turn_off(c, e, s);
	else
		turn_on(c, e, s);
	s->seen_ns = e->record->head.time;
}

void switches_begin_thread(struct correlator *c, uint32_t tid)
{
	uint32_t thread = thread_table_find(c, tid);

	if (thread == THREAD_NONE)
		return;
	set(&thread_state(c, thread)->run_switch, SWITCH_OFF, c->now);
	thread_state(c, thread)->run_switch.seen_ns = c->now;
}

void switches_forget(struct correlator *c, uint32_t thread)
{
	set(&thread_state(c, thread)->run_switch, SWITCH_UNKNOWN, 0);
}
