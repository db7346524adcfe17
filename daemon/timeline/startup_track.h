/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of how a process came to serve. Times are nanoseconds of CLOCK_MONOTONIC. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STARTUP_LOADS_MAX 32
#define STARTUP_PATH_MAX 112
/* Phases of a process at most: three of each load, and those around them. */
#define STARTUP_PHASES_MAX (3 * STARTUP_LOADS_MAX + 5)

enum startup_phase_kind {
	STARTUP_START,     /* from the exec until its runtime is mapped */
	STARTUP_LIBRARIES, /* until the runtime, or a load, begins */
	STARTUP_RUNTIME,   /* from the creation of devices until a load begins */
	STARTUP_LOAD,
	STARTUP_RESTORE, /* within a load */
	STARTUP_WARMUP,  /* after it */
	STARTUP_WAIT,    /* until the first request */
	STARTUP_SERVING,
};

struct startup_phase {
	enum startup_phase_kind kind;
	uint64_t start_ns, end_ns;   /* 0: it goes on, or failed, or its end is unknown */
	char path[STARTUP_PATH_MAX]; /* of its model; "" */
	uint64_t runs;               /* of STARTUP_WARMUP */
	bool goes_on;
	bool failed;
	bool start_is_bound; /* start_ns is the latest possible time, or has a precision of 10 ms */
	bool end_is_bound;   /* end_ns has a precision of 10 ms, or is the latest possible time */
};

/* The phases of a process. */
struct startup_track {
	uint32_t pid;
	unsigned n;
	struct startup_phase phases[STARTUP_PHASES_MAX];
};

/* The name for people and programs: "start", … */
const char *startup_phase_name(enum startup_phase_kind kind);

/* The tracks of several processes. Zeros at first. */
struct startups {
	struct startup_track *list;
	size_t n, allocated;
};

/* Adds a track without phases; NULL: no memory, or there are RECORD_MAX_TARGETS already. */
struct startup_track *startups_add(struct startups *s, uint32_t pid);
void startups_done(struct startups *s);
