/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/correlate/spans.h"

#include "daemon/correlate/correlator.h"
#include "lib/base/macro.h"

/* 56 bytes each: below 1 GiB. */
#define SPANS_MAX (16u << 20)

bool shares_take(struct shares *shares, const struct correlator *c, uint32_t thread, uint64_t max)
{
	uint32_t process = MIN(c->t->threads[thread].process, (uint32_t)RECORD_MAX_TARGETS);
	bool is_known = process < RECORD_MAX_TARGETS;
	uint64_t share = c->t->n_processes <= 1 ? max : is_known ? max / 2 : max / 4;

	if (shares->n >= max || shares->of[process] >= share)
		return false;
	shares->n++;
	shares->of[process]++;
	return true;
}

void spans_init(struct correlator *c)
{
	c->spans.unknown_name = correlator_name(c, "unknown");
}

uint64_t spans_add(struct correlator *c, uint32_t thread, enum span_kind kind, uint64_t start_ns)
{
	struct span *spans;
	uint8_t *kinds;

	if (!shares_take(&c->spans.shares, c, thread, SPANS_MAX)) {
		c->t->n_spans_left_out++;
		return NO_SPAN;
	}
	spans = correlator_grow(c, c->t->spans, &c->spans.size, c->t->n_spans, sizeof(spans[0]));
	if (!spans)
		return NO_SPAN;
	c->t->spans = spans;
	kinds = correlator_grow(c, c->t->kinds, &c->spans.kinds_size, c->t->n_spans, 1);
	if (!kinds)
		return NO_SPAN;
	c->t->kinds = kinds;
	kinds[c->t->n_spans] = (uint8_t)kind;
	spans[c->t->n_spans] = (struct span){ .start_ns = start_ns,
					      .end_ns = start_ns,
					      .thread = thread,
					      .kind = (uint8_t)kind,
					      .name = c->spans.unknown_name,
					      .step = -1 /* or what another kind has */ };
	return c->t->n_spans++;
}

uint64_t spans_make_context(struct correlator *c)
{
	return ++c->spans.last_context;
}
