/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/switches.h"

#include "daemon/correlate/runtime/nesting.h"

static void set(struct run_switch *s, int state, uint64_t time)
{
	*s = (struct run_switch){ .state = state, .changed_ns = time, .seen_ns = time };
}

uint32_t switches_frame(const struct frames *frames)
{
	for (uint32_t i = frames_count(frames); i > 0; i--)
		if (frames_at(frames, i - 1)->row->verb == VERB_SWITCH)
			return i - 1;
	return FRAME_NONE;
}

/* Nothing is known any more. A run that is on is truncated. */
static void forget(struct correlator *c, struct thread_state *s, uint64_t time)
{
	uint32_t at = switches_frame(&s->frames);

	if (at != FRAME_NONE)
		nesting_truncate(c, &s->frames, at, time);
	set(&s->run_switch, SWITCH_UNKNOWN, time);
}

enum switch_change switches_change(struct correlator *c, const struct entry *e, uint64_t *ret_since)
{
	struct thread_state *state = entry_state(c, e);
	struct run_switch *s = &state->run_switch;
	uint64_t time = e->record->head.time;
	bool is_on = !(e->record->value & 1);
	int before;

	c->switches.seen[e->record->head.target] = true;
	if (losses_within(&c->losses, s->seen_ns, time))
		forget(c, state, s->seen_ns);
	before = s->state;
	*ret_since = s->changed_ns;
	s->seen_ns = time;
	if (!is_on) {
		set(s, SWITCH_OFF, time);
		return before == SWITCH_ON         ? SWITCH_ENDS
		       : before == SWITCH_FOUND_ON ? SWITCH_ENDS_FOUND
						   : SWITCH_REPEATS;
	}
	if (before == SWITCH_OFF || before == SWITCH_UNKNOWN)
		set(s, before == SWITCH_OFF ? SWITCH_ON : SWITCH_FOUND_ON, time);
	return before == SWITCH_OFF ? SWITCH_BEGINS : SWITCH_REPEATS;
}

void switches_interrupt(struct correlator *c, uint32_t thread)
{
	struct thread_state *s = thread_state(c, thread);

	if (s->run_switch.state == SWITCH_ON || s->run_switch.state == SWITCH_FOUND_ON)
		forget(c, s, c->now);
}

void switches_begin_thread(struct correlator *c, uint32_t tid)
{
	uint32_t thread = thread_table_find(c, tid), process;

	if (thread == THREAD_NONE)
		return;
	/* Another thread may have had this id. */
	switches_end_thread(c, tid);
	process = c->t->threads[thread].process;
	if (process < RECORD_MAX_TARGETS && c->switches.seen[process])
		set(&thread_state(c, thread)->run_switch, SWITCH_OFF, c->now);
}

void switches_end_thread(struct correlator *c, uint32_t tid)
{
	uint32_t thread = thread_table_find(c, tid);

	if (thread != THREAD_NONE)
		forget(c, thread_state(c, thread), c->now);
}
