/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/correlate/runtime/labels.h"
#include "daemon/correlate/runtime/nesting.h"
#include "lib/base/macro.h"

/* Of labels and stages together. */
#define NAMES_MAX 4096
/* Names of labels beyond NAMES_MAX. */
#define OTHER_NAMES "other spans"

bool labels_have_room(const struct correlator *c)
{
	return c->label_names.n < NAMES_MAX;
}

uint32_t labels_add_name(struct correlator *c, const char *name, const char *shown)
{
	uint32_t index = 0, before = names_count(&c->names);

	if (names_add(&c->names, name, shown, false, false, &index) < 0)
		c->error = -ENOMEM;
	c->label_names.n += names_count(&c->names) - before;
	return index;
}

/*
 * The text is "name", or "name#key=value,key=value#", as the runtime's own annotations have it.
 * Viewers show the name; the event's name has a prefix, so that readers take no name of the
 * server's for an operation, a step or a batch.
 */
static uint32_t name_of(struct correlator *c, const char *text, size_t size)
{
	char name[sizeof("span ") + RECORD_TEXT_SIZE], *shown = name + strlen("span ");

	if (!labels_have_room(c))
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
	struct thread_labels *labels = &entry_state(c, e)->labels;
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
	index = spans_add(c, e->thread, SPAN_LABEL, r->probe.head.time);
	labels->spans[labels->depth - 1] = index;
	if (index == NO_SPAN)
		return;
	/* The text between the number signs, the second of which may be missing in a truncated
	 * text. */
	if (rest > 1) {
		uint32_t text = texts_add(c, mark + 1, rest - 1 - (r->text[size - 1] == '#'));

		if (text != TEXT_NONE)
			c->t->spans[index].arguments = text;
	}
	span = &c->t->spans[index];
	span->name = name_of(c, r->text, name_size);
}

static void end_innermost(struct correlator *c, struct thread_labels *labels, uint64_t time,
			  bool truncated)
{
	uint64_t index = --labels->depth < LABELS_MAX ? labels->spans[labels->depth] : NO_SPAN;

	if (index == NO_SPAN)
		return;
	c->t->spans[index].end_ns = time;
	if (truncated)
		c->t->spans[index].flags |= SPAN_TRUNCATED_END;
}

void labels_close(struct correlator *c, const struct entry *e)
{
	struct thread_labels *labels = &entry_state(c, e)->labels;

	/* A label that began before the window has no name. */
	if (labels->depth)
		end_innermost(c, labels, e->record->head.time, false);
}

void labels_truncate_thread(struct correlator *c, uint32_t thread, uint64_t time)
{
	struct thread_labels *labels = &thread_state(c, thread)->labels;

	while (labels->depth)
		end_innermost(c, labels, time, true);
}

void labels_truncate(struct correlator *c, uint64_t time)
{
	for (uint32_t i = 0; i < c->t->n_threads; i++)
		labels_truncate_thread(c, i, time);
}

void labels_truncate_process(struct correlator *c, uint32_t process, uint64_t time)
{
	for (uint32_t i = 0; i < c->t->n_threads; i++)
		if (c->t->threads[i].process == process)
			labels_truncate_thread(c, i, time);
}
