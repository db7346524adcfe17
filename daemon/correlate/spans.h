/* SPDX-License-Identifier: Apache-2.0 */
/* The spans of a timeline, as they are added. */
#pragma once

#include <stdint.h>

#include "daemon/timeline/timeline.h"

struct correlator;

/* In place of a span's index. */
#define NO_SPAN UINT64_MAX

struct spans {
	uint64_t size;
	uint64_t last_context; /* that was made */
	uint32_t unknown_name;
};

void spans_init(struct correlator *c);
/* The index of a new span, NO_SPAN: no room. */
uint64_t spans_add(struct correlator *c, uint32_t thread, enum span_kind kind, uint64_t start_ns);
/* A context that no other span has. */
uint64_t spans_make_context(struct correlator *c);
