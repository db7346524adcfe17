/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/stages.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "daemon/correlate/runtime/labels.h"
#include "lib/base/macro.h"

/* Length of a pack's word for stages. */
#define WORD_MAX 32

static uint32_t other(struct correlator *c, const char *word, const char *what)
{
	char name[WORD_MAX + 16];

	snprintf(name, sizeof(name), "%.*s::%s", WORD_MAX, word, what);
	return correlator_name(c, name);
}

/* "Iterator::Root::Map": each iterator with those that it is part of, the outermost first. In
 * another release the text may be something else, which does not begin with the pack's word. */
static uint32_t name_of(struct correlator *c, const char *word, const struct record_text *r)
{
	size_t size = MIN(r->size, (uint32_t)RECORD_TEXT_SIZE);
	char name[RECORD_TEXT_SIZE + WORD_MAX + sizeof("::...")];

	/* Of a long name only the end was sent. */
	if (r->size <= RECORD_TEXT_SIZE &&
	    (size < strlen(word) || memcmp(r->text, word, strlen(word))))
		return other(c, word, "unknown");
	for (size_t i = 0; i < size; i++)
		if (!isprint((unsigned char)r->text[i]))
			return other(c, word, "unknown");
	if (!labels_have_room(c))
		return other(c, word, "other");
	snprintf(name, sizeof(name), "%.*s%s%.*s", WORD_MAX, r->size > RECORD_TEXT_SIZE ? word : "",
		 r->size > RECORD_TEXT_SIZE ? "::..." : "", (int)size, r->text);
	return labels_add_name(c, name, NULL);
}

void stages_open(struct correlator *c, const struct entry *e)
{
	const struct record_text *text = entry_text(e);
	struct frame *f;

	if (!text)
		return;
	nesting_return(c, entry_state(c, e), e->record->stack);
	f = nesting_push(c, e, SPAN_ITERATOR);
	if (f)
		nesting_span(c, f)->name = name_of(c, e->pack->stage_word ?: "", text);
}

void stages_close(struct correlator *c, const struct entry *e)
{
	struct thread_state *s = entry_state(c, e);
	uint32_t at = frames_find(&s->frames, WORK_STAGE, e->record->tag);

	if (at != FRAME_NONE)
		nesting_end(c, s, at, e->record->head.time);
	else
		nesting_pass(c, e); /* it began before the window */
}
