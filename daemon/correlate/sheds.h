/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of probes that were disabled to keep a budget, and when. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/plan/detail.h"

/* A kind was disabled, or enabled again, at that time. */
struct shed_change {
	uint64_t at_ns;
	enum probe_kind kind;
	bool is_shed;
};

/* Zeros at first. */
struct sheds {
	/* By time; the first n_done are in effect. */
	struct shed_change *changes;
	size_t n, n_done, allocated;
	bool is_shed[KIND_COUNT];   /* after the last change */
	bool in_effect[KIND_COUNT]; /* a record of that time or later was seen */
};

/* From that time on, which is not before that of earlier calls, the probes of a kind are disabled,
 * or enabled again. 0: they were already. -ENOMEM. */
int sheds_note(struct sheds *s, enum probe_kind kind, bool is_shed, uint64_t at_ns);
/* Whether there may be a next one: this is asked for each record. */
static inline bool sheds_pending(const struct sheds *s)
{
	return s->n_done < s->n;
}

/* The next change until that time, which is in effect from this call on. False: there is none. */
bool sheds_next(struct sheds *s, uint64_t now_ns, struct shed_change *ret);
bool sheds_has(const struct sheds *s, enum probe_kind kind);
void sheds_done(struct sheds *s);
