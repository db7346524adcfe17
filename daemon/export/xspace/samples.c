/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/samples.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"

/* Readers take no event of a line from 0xdeadbeef on for an operation. */
#define SAMPLES_LINE (0xdeadbeefll + 310)
/* Readers take an event whose name has "test" or "train" in it, and no colon, for a step. */
#define NAME_FORM "sample: %s"
#define NAME_SIZE 1024
/* Of the text of a stack; the outermost frames of a longer one are left out. */
#define STACK_TEXT 2048
#define CALLED_BY " < "
#define LEFT_OUT CALLED_BY "..."

/* What the open plane has of each function and stack; 0: nothing yet. */
struct texts {
	uint32_t *functions, *stacks;
};

/* "innermost < its caller < …". */
static void describe(const struct stacks *s, const struct stack *stack,
		     char text[static STACK_TEXT])
{
	size_t length = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < stack->n; i++) {
		const char *name = stack_function_at(s, stack, i)->name;
		size_t size = strlen(name);

		/* There is always room for what the next one may leave. */
		if (length + strlen(CALLED_BY) + size + sizeof(LEFT_OUT) > STACK_TEXT) {
			strcpy(text + length, LEFT_OUT);
			return;
		}
		length += (size_t)snprintf(text + length, STACK_TEXT - length, "%s%s",
					   i ? CALLED_BY : "", name);
	}
}

static int write_sample(struct writer *w, const struct stack_sample *sample, struct texts *texts)
{
	const struct timeline *t = w->timeline;
	const struct stack *stack = &t->stacks.stacks[sample->stack];
	uint32_t function = t->stacks.frames[t->stacks.lists[stack->first]].function;
	char text[STACK_TEXT], name[NAME_SIZE];
	struct stats *stats = writer_stats(w);

	if (!texts->functions[function]) {
		snprintf(name, sizeof(name), NAME_FORM, t->stacks.functions[function].name);
		(void)xspace_event_name(w->xspace, name, NULL, &texts->functions[function]);
	}
	if (!texts->stacks[sample->stack])
		describe(&t->stacks, stack, text);
	stats_add(w, stats, STAT_STACK, XSPACE_STRING,
		  writer_string(w, &texts->stacks[sample->stack], text));
	stats_add_thread(w, stats, STAT_THREAD, sample->thread);
	if (sample->op != STACK_NONE)
		stats_add_text(w, stats, STAT_TF_OP, writer_shown(w, sample->op).name);
	if (sample->request)
		stats_add_int(w, stats, STAT_REQUEST, sample->request);
	return writer_event(w, texts->functions[function], sample->at_ns, sample->at_ns, stats);
}

int samples_write(struct writer *w)
{
	const struct stacks *s = &w->timeline->stacks;
	_cleanup_free_ uint32_t *ids = calloc(s->n_functions + s->n_stacks + 1, sizeof(ids[0]));
	struct texts texts = { .functions = ids, .stacks = ids + s->n_functions };
	int r;

	if (!ids)
		return -ENOMEM;
	if (!s->n_samples)
		return 0;
	r = writer_line_begin(
		w, &(struct xspace_line){ .id = SAMPLES_LINE, .name = "sampled functions" });
	for (size_t i = 0; i < s->n_samples && r >= 0; i++)
		r = write_sample(w, &s->samples[i], &texts);
	return r < 0 ? r : xspace_line_end(w->xspace);
}
