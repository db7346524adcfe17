/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/attribute/answers.h"

#include <stdlib.h>

#include "daemon/correlate/correlator.h"
#include "daemon/correlate/runtime/nesting.h"

struct thread_answer {
	uint64_t asked;  /* key of the answer that its next run is to make; 0: none */
	uint64_t passes; /* key of the answer that it passes; 0: none */
	uint32_t stack;  /* within the function that was entered there */
};

/* NULL: no memory. */
static struct thread_answer *thread_get(struct correlator *c, uint32_t thread)
{
	struct answers *a = &c->answers;

	return correlator_element(c, &a->threads, &a->threads_size, thread, sizeof(*a->threads));
}

void answers_enqueue(struct correlator *c, const struct entry *e)
{
	struct thread_answer *t = thread_get(c, e->thread);

	nesting_pass(c, e);
	if (!t)
		return;
	t->asked = entry_key(e);
	/* The answer that had its address before is gone. */
	if (map_get(&c->answers.run_of, t->asked))
		correlator_put(c, &c->answers.run_of, t->asked, NO_SPAN);
}

void answers_dequeue(struct correlator *c, const struct entry *e)
{
	struct thread_answer *t = thread_get(c, e->thread);

	nesting_pass(c, e);
	if (!t)
		return;
	t->passes = entry_key(e);
	t->stack = e->record->stack;
}

void answers_on_entry(struct correlator *c, uint32_t thread, uint32_t stack)
{
	struct answers *a = &c->answers;

	if (thread < a->threads_size && stack_at_or_above(stack, a->threads[thread].stack))
		a->threads[thread].passes = 0;
}

void answers_on_run(struct correlator *c, uint32_t thread, uint64_t span)
{
	struct thread_answer *t = thread_get(c, thread);

	if (t && t->asked)
		correlator_put(c, &c->answers.run_of, t->asked, span);
	if (t)
		t->asked = 0;
}

uint64_t answers_passed(struct correlator *c, uint32_t thread)
{
	struct thread_answer *t = thread_get(c, thread);
	uint64_t answer = t ? t->passes : 0;

	if (t)
		t->passes = 0;
	return answer;
}

uint64_t answers_take_run(struct correlator *c, uint64_t answer)
{
	const uint64_t *found = map_get(&c->answers.run_of, answer);
	uint64_t run = found ? *found : NO_SPAN;

	/* Its other messages are of the same run, and another answer may have its address soon. */
	if (run != NO_SPAN)
		correlator_put(c, &c->answers.run_of, answer, NO_SPAN);
	return run;
}

void answers_done(struct answers *a)
{
	free(a->threads);
	map_done(&a->run_of);
}
