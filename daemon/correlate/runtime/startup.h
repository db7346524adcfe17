/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process came to serve: from its exec over its libraries and its models to its first
 * request. Made from what the kernel reports of every process, and from records of those that are
 * watched while they start. Pure.
 *
 * All times are nanoseconds of CLOCK_MONOTONIC, 0: not seen.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/model.h"
#include "daemon/timeline/startup_track.h"
#include "include/record_types.h"

/* Calls of handlers that are remembered until they end. */
#define STARTUP_CALLS_MAX 64

/* A model that is loaded. */
struct startup_load {
	char path[STARTUP_PATH_MAX]; /* of its directory, its end where it is long; "": not seen */
	uint32_t tid;
	uint64_t begin_ns, end_ns;
	bool failed;         /* another one began on its thread, so it never ended */
	bool begin_is_bound; /* it had begun before it was watched */
	bool interrupted; /* the process was not watched for a moment: the load may have ended then
			   */
	uint64_t restore_begin_ns, restore_end_ns; /* its variables were read */
	uint64_t warmup_begin_ns, warmup_end_ns;   /* runs on the same thread afterwards */
	uint64_t warmup_runs;
	uint32_t reader; /* low half of the object that reads them */
};

struct startup {
	uint64_t executed_ns;     /* it became this program */
	uint64_t started_ns;      /* the process was created; precision 10 ms */
	uint64_t first_mapped_ns; /* the first of its runtime's files */
	uint64_t
		pools_ns; /* the oldest living thread of the runtime was created; precision 10 ms */
	uint64_t watched_ns;   /* since when loads and runs are seen */
	uint64_t unwatched_ns; /* until when */
	uint64_t runtime_ns;   /* the runtime created its devices */
	uint64_t first_request_ns;
	bool has_handlers; /* its requests are known from its own functions: other runs are for none
			    */
	struct startup_call {
		uint32_t tid;
		const struct pack *pack;
		uint8_t group;
		uint64_t begin_ns;
	} calls[STARTUP_CALLS_MAX];
	unsigned n_calls;  /* total; the latest are kept */
	unsigned n_unkept; /* open loads that were left out */
	struct startup_load loads[STARTUP_LOADS_MAX];
	unsigned n_loads, n_loads_left_out;
};

/* Takes the record of a probe. */
void startup_feed(struct startup *s, const struct pack *pack, const struct probe_row *row,
		  const struct record *record);
/* The process is not watched for a moment. */
void startup_interrupt(struct startup *s);
/* The process has started: later records change nothing. */
bool startup_is_over(const struct startup *s);

/* By time; unknown phases are left out. */
void startup_phases(const struct startup *s, struct startup_track *ret);
