/* SPDX-License-Identifier: Apache-2.0 */
/* Static probes that a server may have for tfprofd, with any runtime: include/tfprof.h. */
#include <stddef.h>

#include "daemon/plan/model.h"

enum { GROUP_MARK = 1 };

static const struct probe_row rows[] = {
	/* The server's own marks: the request (a number of 64 bits) on which its thread works from
	 * the first to the second. */
	{ .usdt = "request_begin",
	  OPEN(RUN),
	  .slack = SLACK_ANY,
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .group = GROUP_MARK,
	  .min_level = 1,
	  .event = "Request" },
	{ .usdt = "request_end",
	  CLOSE(RUN),
	  .action = ACTION_ENTRY,
	  .group = GROUP_MARK,
	  .min_level = 1 },
	/* The thread's activity in the server's own words (text, bytes): until the next end. */
	{ .usdt = "span_begin",
	  OPEN(LABEL),
	  .action = ACTION_TEXT,
	  .value = { ARGUMENT_1 },
	  .value2 = { ARGUMENT_2 },
	  .min_level = 1 },
	{ .usdt = "span_end", CLOSE(LABEL), .action = ACTION_ENTRY, .min_level = 1 },
	/* Work (a number of 64 bits) that a thread makes for the request that it has read last, and
	 * that any thread does. */
	{ .usdt = "work_made",
	  ENQUEUE(CONTEXT),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .min_level = 1 },
	{ .usdt = "work_begin",
	  OPEN(CONTEXT),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .min_level = 1 },
	{ .usdt = "work_end",
	  CLOSE(CONTEXT),
	  .action = ACTION_ENTRY,
	  .value = { ARGUMENT_1 },
	  .min_level = 1 },
};

/* Servers in languages without a preprocessor use the library. */
static const char *const files[] = { "libtfprof.so*", NULL };

const struct pack pack_marks = {
	.name = "marks",
	.files = files,
	.everywhere = true,
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
};
