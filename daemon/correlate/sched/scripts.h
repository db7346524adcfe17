/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of scripts in sampled stacks, in place of the interpreter that evaluates them. */
#pragma once

#include "daemon/timeline/stacks.h"
#include "include/record_types.h"
#include "lib/base/map.h"

struct correlator;

struct scripts {
	struct map names; /* functions of the timeline's stacks, by the kernel's numbers */
	uint64_t n_samples, n_unreadable, n_unnamed;
};

/* Of a thread: the frames of a stack, and one that stands for those that are missing. */
#define SCRIPTS_LISTED_MAX (RECORD_USER_FRAMES + RECORD_SCRIPT_FRAMES + 1)

/* The number of words that the record has for them, if they are not too many. */
unsigned scripts_words(const struct record_stack *record);
void scripts_on_script(struct correlator *c, const struct record_script *record);
void scripts_count(struct correlator *c, const struct record_stack *record);
/* Appends the frames of the thread, the innermost one first, at most SCRIPTS_LISTED_MAX. Errors as
 * stacks_frame(). */
int scripts_list(struct stacks *s, const struct record_stack *record, uint32_t *list, uint32_t *n);
/* Frames of scripts get their functions. */
void scripts_finish(struct correlator *c);
void scripts_done(struct scripts *scripts);
