/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/sched/samples.h"

#include <errno.h>
#include <string.h>

#include "daemon/correlate/correlator.h"
#include "daemon/correlate/sched/scripts.h"
#include "lib/base/escape.h"
#include "lib/base/macro.h"

/* In the kernel, in a function whose name was not sent. */
#define UNNAMED "kernel"

/* In place of functions that called the others. */
#define CUT "[truncated]"

/* Whether the record has the frames that it states. */
static bool is_whole(const struct record_stack *r)
{
	return r->n_user <= RECORD_USER_FRAMES && r->n_kernel <= RECORD_KERNEL_FRAMES &&
	       SCRIPT_FRAMES(r->script) <= RECORD_SCRIPT_FRAMES &&
	       sizeof(*r) + (r->n_user + r->n_kernel + scripts_words(r)) * sizeof(uint64_t) <=
		       r->head.size8 * sizeof(uint64_t);
}

/* The frames of the kernel, which the thread entered last, and then its own. */
static int list_frames(struct stacks *s, const struct record_stack *r, uint32_t *ret,
		       uint32_t *ret_n)
{
	const __u64 *frames = (const void *)(r + 1);
	int error = 0;

	for (unsigned i = 0; i < r->n_kernel && error >= 0; i++)
		error = stacks_frame(s, STACK_KERNEL, frames[r->n_user + i], &ret[i]);
	*ret_n = r->n_kernel;
	return error < 0 ? error : scripts_list(s, r, ret, ret_n);
}

void samples_on_stack(struct correlator *c, const struct record_stack *r)
{
	uint32_t frames[RECORD_KERNEL_FRAMES + SCRIPTS_LISTED_MAX], thread, n = 0;
	struct stacks *s = &c->t->stacks;
	int error;

	if (!is_whole(r) || r->head.target >= c->t->n_processes ||
	    !(r->n_user + r->n_kernel + SCRIPT_FRAMES(r->script)))
		return;
	thread = thread_table_get(c, r->head.tid);
	if (c->error)
		return;
	if (c->t->threads[thread].process == UINT32_MAX)
		c->t->threads[thread].process = r->head.target;
	threads_on_seen(c, thread, r->head.time);
	scripts_count(c, r);
	error = list_frames(s, r, frames, &n);
	if (error >= 0)
		error = stacks_add(s, r->head.time, thread, frames, n);
	if (error == -E2BIG)
		s->n_left_out++;
	else
		correlator_fail(c, error);
}

void samples_on_kernel_name(struct correlator *c, const struct record_kernel_name *r)
{
	char name[RECORD_KERNEL_NAME_SIZE + 1] = "";
	uint32_t function;

	memcpy(name, r->name, sizeof(r->name));
	escape_overwrite(name);
	correlator_fail(c, stacks_function(&c->t->stacks, name, STACK_KERNEL_FILE, &function));
	if (!c->error)
		correlator_put(c, &c->samples.kernel_names, r->number, function);
}

void samples_finish(struct correlator *c)
{
	struct stacks *s = &c->t->stacks;
	uint32_t unnamed = STACK_NONE, cut = STACK_NONE;

	for (size_t i = 0; i < s->n_frames && !c->error; i++) {
		const uint64_t *named;

		if (s->frames[i].process != STACK_KERNEL) {
			if (s->frames[i].process == STACK_SCRIPT ||
			    s->frames[i].address != RECORD_FRAME_CUT)
				continue;
			if (cut == STACK_NONE)
				correlator_fail(c, stacks_function(s, CUT, "", &cut));
			s->frames[i].function = cut;
			continue;
		}
		named = map_get(&c->samples.kernel_names, s->frames[i].address);
		if (!named && unnamed == STACK_NONE)
			correlator_fail(c,
					stacks_function(s, UNNAMED, STACK_KERNEL_FILE, &unnamed));
		s->frames[i].function = named ? (uint32_t)*named : unnamed;
	}
	scripts_finish(c);
}

void samples_done(struct samples *samples)
{
	map_done(&samples->kernel_names);
}
