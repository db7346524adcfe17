/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/runtime/models.h"

#include <stdlib.h>

#include "daemon/correlate/correlator.h"
#include "daemon/correlate/runtime/nesting.h"

/* In place of a model: the thread has named several since its last run. */
#define AMBIGUOUS UINT32_MAX

/* NULL: no memory. */
static uint32_t *next_of(struct correlator *c, uint32_t thread)
{
	struct models *m = &c->models;

	return correlator_element(c, &m->next, &m->next_size, thread, sizeof(*m->next));
}

void models_point(struct correlator *c, const struct entry *e)
{
	uint32_t *next = next_of(c, e->thread), model;

	nesting_pass(c, e);
	if (!next || !entry_text(e))
		return;
	model = texts_add_record(c, entry_text(e)) + 1;
	*next = *next && *next != model ? AMBIGUOUS : model;
}

void models_on_run(struct correlator *c, uint32_t thread, uint64_t span)
{
	uint32_t *next = next_of(c, thread);

	if (next && *next && *next != AMBIGUOUS && span != NO_SPAN)
		correlator_put(c, &c->models.of_span, span, *next - 1);
	if (next)
		*next = 0;
}

uint32_t models_of_run(const struct correlator *c, uint64_t span)
{
	const uint64_t *found = map_get(&c->models.of_span, span);

	return found ? (uint32_t)*found : TEXT_NONE;
}

void models_done(struct models *m)
{
	free(m->next);
	map_done(&m->of_span);
}
