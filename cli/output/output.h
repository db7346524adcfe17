/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a capture, a snapshot or a replay: a run for TensorBoard and a summary. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "cli/options/arguments.h"
#include "cli/outcome.h"
#include "cli/output/export_files.h"
#include "cli/output/request_reader.h"
#include "cli/output/run_directory.h"
#include "proto/control.pb-c.h"

/* What is kept of a reply until its end. The caller sets the options, the selection and the run,
 * and zeroes the rest. */
struct output {
	const struct output_options *options;
	const struct selection *selection; /* of the capture */
	const struct request_options *request_options;
	struct run_directory *run;
	uint64_t size;                  /* of the trace so far */
	struct request_reader requests; /* opened and fed by the command */
	struct export_files *exports;   /* likewise; NULL: none */
	Tfprofd__CaptureReply *planned; /* the message with the plan, if the report needs it */
	Tfprofd__CaptureReply *reply;   /* the message with the result */
};

/* Prepares options->logdir; anything but OUTCOME_OK was explained to the user. */
enum outcome output_prepare(const struct output_options *options, struct run_directory **ret);
/* Shows the plan, or keeps it for the report. Takes ownership of the message. */
void output_take_plan(struct output *output, Tfprofd__CaptureReply *reply);
/* Writes the next piece of the trace to the file. Anything but OUTCOME_OK was explained to the
 * user. */
enum outcome output_take_xspace(struct output *output, const void *bytes, size_t size);
/* The recording that was written or replayed. */
struct output_recording {
	const char *path;
	uint64_t size; /* bytes */
};
/*
 * After the result, output->reply, has arrived: names the run after the time and prints the
 * summary. commit(data), if not NULL, is called before that, unless there is nothing to keep; its
 * outcome is returned if it is not OUTCOME_OK. recording: NULL: none.
 */
enum outcome output_write(struct output *output, time_t time,
			  const struct output_recording *recording,
			  enum outcome (*commit)(void *data), void *data);
void output_done(struct output *output);
