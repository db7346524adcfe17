/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last step of a capture: what was seen and counted becomes its result. Pure, so that a replay
 * makes the same result of the same facts, byte for byte.
 */
#pragma once

#include <stdint.h>

#include "daemon/capture/capture.h"
#include "daemon/capture/session.h"
#include "daemon/timeline/timeline.h"

/* What is known at the end of the window besides the timeline. */
struct result_facts {
	uint64_t start_ns, stop_ns; /* of the window, CLOCK_MONOTONIC */
	uint64_t start_unix_ns;
	struct detail detail;
	const char *hostname;
	struct drain_counts counts;
	unsigned n_left_out; /* processes for which there was no room */
	uint32_t ended;      /* a bit for each target that ended before the window did */
	struct request_list_options
		requests; /* which requests are told one by one; no part of a recording */
	struct export_extras extras; /* of the trace */
};

/* Adds a warning, unless there are CAPTURE_WARNINGS_MAX already. */
__attribute__((format(printf, 2, 3))) void result_warn(struct capture_result *result,
						       const char *format, ...);
/*
 * Completes a result that has its warnings, what was given up, the overhead and whether the window
 * was cut; the timeline gets the warnings, too. -ENOMEM, -EFBIG (the trace is too large).
 */
int result_make(struct timeline *timeline, const struct result_facts *facts,
		struct capture_result *result);
/* Frees what the result owns; the plan is not among it. */
void result_done(struct capture_result *result);
