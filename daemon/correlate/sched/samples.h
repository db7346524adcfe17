/* SPDX-License-Identifier: Apache-2.0 */
/* What threads executed when their CPUs were sampled. */
#pragma once

#include "include/record_types.h"
#include "lib/base/map.h"

struct correlator;

struct samples {
	struct map kernel_names; /* functions of the timeline's stacks, by the kernel's numbers */
};

void samples_on_stack(struct correlator *c, const struct record_stack *record);
void samples_on_kernel_name(struct correlator *c, const struct record_kernel_name *record);
/* Frames of the kernel get their functions. */
void samples_finish(struct correlator *c);
void samples_done(struct samples *samples);
