/* SPDX-License-Identifier: Apache-2.0 */
/* The names of operations. */
#pragma once

#include "include/record_types.h"

struct correlator;

/* Zeros at first. */
struct objects {
	struct record_layout layouts[RECORD_MAX_TARGETS][RECORD_LAYOUTS]; /* of zeros: unknown */
	struct waiting_object *first, **tail; /* whose layout is not known yet */
	unsigned n_waiting;
	/* By target: what its different names take, and how many objects have had one. */
	uint64_t name_bytes[RECORD_MAX_TARGETS];
	uint32_t n_named[RECORD_MAX_TARGETS];
};

/* The key of an operation's object: the value of an entry, or that of a name, whose row has this
 * head.
 */
uint64_t objects_key(const struct correlator *c, const struct record *head, uint64_t object);
void objects_on_name(struct correlator *c, const struct record_name *record);
void objects_on_object(struct correlator *c, const struct record_object *record);
void objects_done(struct objects *o);
