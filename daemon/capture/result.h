/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last step of a capture: the timeline and the counts become its result. Pure, so that a replay
 * makes the same result from the same facts, byte for byte.
 */
#pragma once

#include <stdint.h>

#include "daemon/capture/capture.h"
#include "daemon/capture/session.h"
#include "daemon/timeline/timeline.h"
#include "lib/base/clock_steps.h"

/* What is known at the end of the window besides the timeline. */
struct result_facts {
	uint64_t start_ns, stop_ns; /* of the window, CLOCK_MONOTONIC */
	uint64_t start_unix_ns;
	struct detail detail;
	const char *hostname;
	struct drain_counts counts;
	unsigned n_left_out; /* processes for which there was no room */
	/* A bit for each target that ended before the window did. */
	uint32_t ended;
	/* Which requests are listed one by one; not part of a recording. */
	struct request_list_options requests;
	struct export_extras extras; /* of the trace */
};

/* Adds a warning, unless there are CAPTURE_WARNINGS_MAX already. restate: it only puts .shed or
 * .ops_at_entry into words. */
__attribute__((format(printf, 2, 3))) void result_warn(struct capture_result *result,
						       const char *format, ...);
__attribute__((format(printf, 2, 3))) void result_restate(struct capture_result *result,
							  const char *format, ...);
/* Adds a warning for each step of the system clock in a window of CLOCK_MONOTONIC. */
void result_warn_of_steps(struct capture_result *result, const struct clock_steps *steps,
			  uint64_t start, uint64_t stop);
/*
 * Completes a result that already has its warnings, the shed kinds, the overhead and the truncation
 * of its window; the timeline gets the warnings, too. -ENOMEM, -EFBIG (the trace is too large).
 */
int result_make(struct timeline *timeline, const struct result_facts *facts,
		struct capture_result *result);
/* Frees what the result owns, which does not include the plan. */
void result_done(struct capture_result *result);
