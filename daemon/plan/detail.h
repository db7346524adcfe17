/* SPDX-License-Identifier: Apache-2.0 */
/* How much a capture records, and which of its probes are attached and detached together. */
#pragma once

#include <stdbool.h>

#include "daemon/plan/model.h"

/* What a capture can do without if it costs too much: probes that are attached and detached
 * together. The first is shed last. */
enum probe_kind {
	KIND_RUNS,
	KIND_EXECUTORS,
	KIND_OPS,
	KIND_HANDOVER,
	/* The scheduler's tracepoints: not a probe of a pack. */
	KIND_SWITCHES,
	KIND_SOCKETS, /* those of system calls and sockets: likewise */
	KIND_MEMORY,
	KIND_LABELS,
	KIND_ITERATORS,
	KIND_STACKS, /* samples of what threads execute: not a probe of a pack */
	/* How a process starts; no capture has them. */
	KIND_STARTUP,
	KIND_DECRYPTED, /* requests on encrypted connections */
	KIND_CONTEXTS,  /* which request a thread works for, by what threads hand one another */
	KIND_COUNT,
};

enum probe_kind probe_kind_of_row(const struct probe_row *row);
/* Whether the rest of a process is captured all the same if the kernel refuses a probe of the kind
 * in it. */
bool probe_kind_is_optional(enum probe_kind kind);
/* For display: "ops", … */
const char *probe_kind_name(enum probe_kind kind);

/* Whether allocations are recorded: there is one for nearly every operation. The control service
 * has the same numbers. */
enum memory_choice {
	MEMORY_BY_LEVEL, /* at level 3 */
	MEMORY_ON,
	MEMORY_OFF,
};

#define STACKS_HZ_MAX 999

/* How much a capture records. */
struct detail {
	unsigned level;  /* as host_tracer_level: 1 to 3 */
	bool no_sockets; /* requests are not looked for at sockets */
	/* Also on encrypted connections, if the configuration allows that for every process. */
	bool decrypted;
	enum memory_choice memory;
	bool startup; /* its purpose is how processes start */
	/* How often each CPU is sampled for what threads execute; 0: never. */
	unsigned stacks_hz;
	/* One probe per operation: it ends where the next one starts, or the executor returns. */
	bool ops_at_entry;
};

/* The kinds with BPF programs of their own that the capture wants; a bit each. */
unsigned detail_program_kinds(const struct detail *detail);
/* Whether a capture attaches the probe. */
bool probe_is_wanted(const struct probe_row *row, const struct detail *detail);
