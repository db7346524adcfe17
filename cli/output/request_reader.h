/* SPDX-License-Identifier: Apache-2.0 */
/* Single requests of a capture: how they are requested from the daemon, and what happens to those
 * that arrive. */
#pragma once

#include <stddef.h>

#include "cli/options/arguments.h"
#include "cli/output/request_file.h"
#include "proto/control.pb-c.h"

/* The filter refers to the options. */
void request_filter_fill(const struct request_options *options, Tfprofd__RequestFilter *filter);

struct request_reader {
	struct request_file *file;       /* NULL: not requested */
	const char *path;                /* of it; borrowed from the options */
	Tfprofd__CaptureReply **replies; /* that own the slowest */
	size_t n_replies;
	Tfprofd__Request **slowest;
	size_t n_slowest;
};

/* Opens the file; a failure was explained to the user, as by the functions below. */
int request_reader_open(struct request_reader *reader, const struct request_options *options);
/* Takes ownership of a message with requests, also on failure. */
int request_reader_take(struct request_reader *reader, Tfprofd__CaptureReply *reply);
/* Gives the file its name. */
int request_reader_commit(struct request_reader *reader, const struct request_options *options);
/* Removes a file that was not committed. */
void request_reader_done(struct request_reader *reader);
