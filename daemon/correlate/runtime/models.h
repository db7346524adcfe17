/* SPDX-License-Identifier: Apache-2.0 */
/* Which model a run is of, where its thread names that before. */
#pragma once

#include <stdint.h>

#include "lib/base/map.h"

struct correlator;
struct entry;

/* Zeros at first. */
struct models {
	uint32_t *next; /* beside the timeline's threads: of the next run, index into texts + 1 */
	uint64_t next_size;
	struct map of_span; /* index into texts, by that of the run's span */
};

/* The thread names the model of its next run. */
void models_point(struct correlator *c, const struct entry *e);
/* A thread entered an outermost run; NO_SPAN: an inner one. */
void models_on_run(struct correlator *c, uint32_t thread, uint64_t span);
/* The model of a run: index into texts; TEXT_NONE: unknown. */
uint32_t models_of_run(const struct correlator *c, uint64_t span);
void models_done(struct models *m);
