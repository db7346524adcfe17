/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of probes that were disabled to keep a budget, and since when. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/detail.h"

/* Zeros at first. */
struct sheds {
	struct {
		uint64_t at_ns;
		bool noted;     /* at_ns is known */
		bool in_effect; /* a record of that time or later was seen */
	} kinds[KIND_COUNT];
	unsigned n_pending; /* noted and not in effect */
};

/* The probes of a kind are disabled from that time on. False: they were already. */
bool sheds_note(struct sheds *s, enum probe_kind kind, uint64_t at_ns);
/* Whether there may be a next one: this is asked for each record. */
static inline bool sheds_pending(const struct sheds *s)
{
	return s->n_pending > 0;
}

/* The next kind that is disabled by now and was not in effect yet: it is from this call on. False:
 * none. */
bool sheds_next(struct sheds *s, uint64_t now_ns, enum probe_kind *ret_kind, uint64_t *ret_at_ns);
bool sheds_has(const struct sheds *s, enum probe_kind kind);
