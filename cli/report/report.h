/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a capture, as text and as JSON. */
#pragma once

#include <stdio.h>

#include "cli/options/arguments.h"
#include "cli/output/request_reader.h"
#include "proto/control.pb-c.h"

struct report {
	const Tfprofd__CaptureResult *result;
	const Tfprofd__PlanReply *plan; /* for the JSON object; NULL: not requested */
	const struct selection *selection;
	const char *logdir;
	const char *path;      /* of the trace; NULL: not written */
	const char *recording; /* path, NULL: none */
	uint64_t recording_bytes;
	const struct request_reader *requests; /* NULL: not requested */
	const char *requests_file;             /* NULL: not written */
};

void report_print(FILE *file, const struct report *report);
/* One JSON object with every number of the result; times in ns, the overhead in percent. */
void report_print_json(FILE *file, const struct report *report);
/* Runs that began and ended in the window, per second of it. */
double report_runs_per_second(const Tfprofd__CaptureResult *result);
