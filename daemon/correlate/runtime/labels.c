/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/correlate/runtime/labels.h"
#include "lib/base/macro.h"

/* What comes beyond LABEL_NAMES_MAX. */
#define OTHER_NAMES "other spans"

uint32_t labels_add_name(struct correlator *c, const char *name, const char *shown)
{
	uint32_t index = 0;

	if (names_add(&c->names, name, shown, false, false, &index) < 0)
		c->error = -ENOMEM;
	c->n_label_names += index + 1 == c->names.n;
	return index;
}

/*
 * The text is "name", or "name#key=value,key=value#", as the runtime's own annotations have it.
 * Viewers show the name; what readers look at begins with a word of ours, so that no name of the
 * server's is taken for an operation, a step or a batch.
 */
static uint32_t name_of(struct correlator *c, const char *text, size_t size)
{
	char name[sizeof("span ") + RECORD_TEXT_SIZE], *shown = name + strlen("span ");

	if (c->n_label_names >= LABEL_NAMES_MAX)
		return correlator_name(c, OTHER_NAMES);
	snprintf(name, sizeof(name), "span %.*s", (int)size, text);
	for (char *p = shown; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';
	return labels_add_name(c, name, *shown ? shown : NULL);
}

void labels_open(struct correlator *c, const struct entry *e)
{
	const struct record_text *r = entry_text(e);
	struct labels *labels = &entry_state(c, e)->labels;
	size_t size, name_size, rest;
	const char *mark;
	struct span *span;
	uint64_t index;

	if (!r)
		return;
	size = strnlen(r->text, MIN(r->size, (uint32_t)RECORD_TEXT_SIZE));
	mark = memchr(r->text, '#', size);
	name_size = mark ? (size_t)(mark - r->text) : size;
	rest = size - name_size;
	labels->depth++;
	if (labels->depth > LABELS_MAX)
		return;
	index = correlator_add_span(c, e->thread, SPAN_LABEL, r->probe.head.time);
	labels->spans[labels->depth - 1] = index;
	if (index == NO_SPAN)
		return;
	/* What is between the marks, the second of which may have been cut off. */
	if (rest > 1) {
		uint32_t text = correlator_text(c, mark + 1, rest - 1 - (r->text[size - 1] == '#'));

		if (text != TEXT_NONE)
			c->t->spans[index].id = text;
	}
	span = &c->t->spans[index];
	span->name = name_of(c, r->text, name_size);
}

static void end_innermost(struct correlator *c, struct labels *labels, uint64_t time, bool cut)
{
	uint64_t index = --labels->depth < LABELS_MAX ? labels->spans[labels->depth] : NO_SPAN;

	if (index == NO_SPAN)
		return;
	c->t->spans[index].end_ns = time;
	if (cut)
		c->t->spans[index].flags |= SPAN_CUT_END;
}

void labels_close(struct correlator *c, const struct entry *e)
{
	struct labels *labels = &entry_state(c, e)->labels;

	/* What began before the window has no name. */
	if (labels->depth)
		end_innermost(c, labels, e->record->head.time, false);
}

void labels_cut(struct correlator *c, struct thread_state *s, uint64_t time)
{
	while (s->labels.depth)
		end_innermost(c, &s->labels, time, true);
}
