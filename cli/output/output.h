/* SPDX-License-Identifier: Apache-2.0 */
/* What a command makes of a capture, whether it has just been made or is a recording: a run for
 * TensorBoard, and a summary. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "cli/options/arguments.h"
#include "cli/outcome.h"
#include "cli/output/request_reader.h"
#include "cli/output/run_directory.h"
#include "proto/control.pb-c.h"

/* The messages of a capture that are kept until its end; zeroed but for the options, the selection
 * and the run. */
struct output {
	const struct output_options *options;
	const struct selection *selection; /* as the capture was asked for */
	const struct request_options *request_options;
	struct run_directory *run;
	uint64_t size;                  /* of the trace, as far as it came */
	struct request_reader requests; /* to be opened, and given what comes, by the command */
	Tfprofd__CaptureReply
		*planned; /* the one that holds the plan, for a report that is to have it */
	Tfprofd__CaptureReply *reply; /* the one that holds the result */
};

/* Prepares options->logdir; anything but OUTCOME_OK has been explained to the user. */
enum outcome output_prepare(const struct output_options *options, struct run_directory **ret);
/* The plan came: shows it, or keeps it for the report. Takes the message. */
void output_take_plan(struct output *output, Tfprofd__CaptureReply *reply);
/* The next piece of the trace came: it goes to the file at once. Anything but OUTCOME_OK has been
 * explained to the user. */
enum outcome output_take_xspace(struct output *output, const void *bytes, size_t size);
/* The recording that was made, or is replayed. */
struct output_recording {
	const char *path;
	uint64_t size; /* bytes */
};
/*
 * The result came, output->reply: gives the run its place, named after this time, and prints the
 * summary. commit(data) is called, unless it is NULL, before anything is printed, once there is
 * something to keep; what it returns counts when it is not OUTCOME_OK. recording: NULL: none.
 */
enum outcome output_write(struct output *output, time_t time,
			  const struct output_recording *recording,
			  enum outcome (*commit)(void *data), void *data);
void output_done(struct output *output);
