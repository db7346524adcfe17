/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/texts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/correlate/correlator.h"
#include "lib/base/hash.h"
#include "lib/base/macro.h"

/* A client can make up paths: those beyond this number are shown without their text. */
#define TEXTS_MAX 65536

uint32_t texts_add(struct correlator *c, const char *text, size_t size)
{
	struct texts *t = &c->texts;
	uint64_t key, *found;
	char **list, *copy;

	size = strnlen(text, size);
	if (!t->seed)
		t->seed = hash_seed();
	key = hash_text(t->seed, text, size) >> 1;
	/* Two texts of one hash take neighboring keys. */
	for (; (found = map_get(&t->by_hash, key)); key++)
		if (!strncmp(c->t->texts[*found], text, size) && !c->t->texts[*found][size])
			return (uint32_t)*found;
	if (c->t->n_texts == TEXTS_MAX)
		return TEXT_NONE;
	list = correlator_grow(c, c->t->texts, &t->size, c->t->n_texts, sizeof(list[0]));
	if (!list)
		return TEXT_NONE;
	c->t->texts = list;
	copy = strndup(text, size);
	if (!copy || map_put(&t->by_hash, key, c->t->n_texts) < 0) {
		free(copy);
		correlator_fail(c, -ENOMEM);
		return TEXT_NONE;
	}
	list[c->t->n_texts] = copy;
	return c->t->n_texts++;
}

uint32_t texts_add_record(struct correlator *c, const struct record_text *r)
{
	char text[RECORD_TEXT_SIZE + 3];
	size_t size = MIN(r->size, (uint32_t)RECORD_TEXT_SIZE);

	if (!size)
		return TEXT_NONE;
	for (size_t i = 0; i < size; i++)
		text[i] = r->text[i] > ' ' && r->text[i] < 0x7f ? r->text[i] : '?';
	if (r->size > RECORD_TEXT_SIZE) {
		memcpy(text + size, "...", 3);
		size += 3;
	}
	return texts_add(c, text, size);
}

const char *texts_get(const struct correlator *c, uint32_t text)
{
	return text == TEXT_NONE ? "" : c->t->texts[text];
}

void texts_done(struct texts *t)
{
	map_done(&t->by_hash);
}
