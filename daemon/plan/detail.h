/* SPDX-License-Identifier: Apache-2.0 */
/* How much a capture is to see, and which of its probes come and go together. */
#pragma once

#include <stdbool.h>

#include "daemon/plan/model.h"

/* What a capture can do without when it costs too much: probes that come and go together. The first
 * is given up last. */
enum probe_kind {
	KIND_RUNS,
	KIND_EXECUTORS,
	KIND_OPS,
	KIND_HANDOVER,
	KIND_SWITCHES, /* the scheduler's tracepoints: no probe of a pack */
	KIND_SOCKETS,  /* those of system calls and sockets: likewise */
	KIND_MEMORY,
	KIND_LABELS,
	KIND_ITERATORS,
	KIND_STARTUP, /* how a process starts; no capture has them */
	KIND_COUNT,
};

enum probe_kind probe_kind_of_row(const struct probe_row *row);
/* Whether the rest of a process is captured all the same when the kernel refuses a probe of the
 * kind in it. */
bool probe_kind_is_optional(enum probe_kind kind);
/* For people: "ops", … */
const char *probe_kind_name(enum probe_kind kind);

/* Whether allocations are seen: there is one for nearly every operation. The control service has
 * the same numbers. */
enum memory_choice {
	MEMORY_BY_LEVEL, /* at level 3 */
	MEMORY_ON,
	MEMORY_OFF,
};

/* How much a capture is to see. */
struct detail {
	unsigned level;  /* as host_tracer_level: 1 to 3 */
	bool no_sockets; /* requests are not looked for at sockets */
	enum memory_choice memory;
	bool startup;      /* how processes start is what it is for */
	bool ops_at_entry; /* one probe per operation: it ends where the next one starts, or the
			      executor leaves */
};

/* The kinds that the capture wants of those that have no probes of a pack; a bit each. */
unsigned detail_program_kinds(const struct detail *detail);
/* Whether a capture plants the probe. */
bool probe_is_wanted(const struct probe_row *row, const struct detail *detail);
