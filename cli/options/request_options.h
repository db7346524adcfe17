/* SPDX-License-Identifier: Apache-2.0 */
/* What of requests a capture is to show: options, the question to the daemon, and what comes of it.
 */
#pragma once

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/output/request_file.h"
#include "proto/control.pb-c.h"

struct request_options {
	const char *file; /* for every request, NULL: none */
	uint32_t slowest;
	uint64_t count, slower_than_ns;
	const char *path, *model; /* NULL: any */
};

/* --requests and --slowest, and --requests-count, --slower-than, --path and --model; child parsers
 * with a struct request_options as their input. */
extern const struct argp request_output_argp, request_filter_argp;

/* The filter refers to the options. */
void request_options_fill(const struct request_options *o, Tfprofd__RequestFilter *filter);

/* What the daemon tells of single requests. */
struct request_reader {
	struct request_file *file;       /* NULL: nobody asked for it */
	Tfprofd__CaptureReply **replies; /* that hold the slowest */
	size_t n_replies;
	Tfprofd__Request **slowest;
	size_t n_slowest;
};

/* Opens the file; on failure the user has been told. */
int request_reader_open(struct request_reader *reader, const struct request_options *o);
/* Takes a message with requests, also on failure, of which the user has been told. */
int request_reader_take(struct request_reader *reader, Tfprofd__CaptureReply *reply);
/* The file gets its name; on failure the user has been told. */
int request_reader_commit(struct request_reader *reader, const struct request_options *o);
/* Removes a file that was not committed. */
void request_reader_done(struct request_reader *reader);
