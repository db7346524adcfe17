/* SPDX-License-Identifier: Apache-2.0 */
/* The spans of a timeline, as they are added. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/timeline/timeline.h"
#include "include/record_types.h"

struct correlator;

/* In place of a span's index. */
#define NO_SPAN UINT64_MAX

/* How many of something there are, by process, and of threads whose process is not known yet. */
struct shares {
	uint64_t n, of[RECORD_MAX_TARGETS + 1];
};

/* Takes one of max for a thread. False: there are none left for its process. One process among
 * others gets at most half of all, so that it cannot take those of the others. */
bool shares_take(struct shares *shares, const struct correlator *c, uint32_t thread, uint64_t max);

struct spans {
	uint64_t size, kinds_size;
	struct shares shares;
	uint64_t last_context; /* that was made */
	uint32_t unknown_name;
};

void spans_init(struct correlator *c);
/* The index of a new span, NO_SPAN: no room. */
uint64_t spans_add(struct correlator *c, uint32_t thread, enum span_kind kind, uint64_t start_ns);
/* A context that no other span has. */
uint64_t spans_make_context(struct correlator *c);
