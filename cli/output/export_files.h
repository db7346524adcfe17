/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a capture beside the run for TensorBoard: one for each other format that is wanted.
 */
#pragma once

#include <stdint.h>

#include "cli/options/arguments.h"
#include "cli/output/new_file.h"

struct export_files {
	unsigned n;
	/* In the order in which the formats are requested. */
	struct export_file {
		const char *format, *path;
		struct new_file *file;
	} list[EXPORT_COUNT];
};

/* Creates the files that the options name. On failure, which was explained to the user, none. */
int export_files_open(struct export_files *files, const struct output_options *options);
/* Writes the next piece of the format with this number, from 1; an error was explained. */
int export_files_add(struct export_files *files, uint32_t number, const void *bytes, size_t size);
/* Gives the files their names if they have these sizes; an error was explained. */
int export_files_commit(struct export_files *files, const uint64_t *sizes, size_t n);
void export_files_done(struct export_files *files);
/* The daemon's name of a format. */
const char *export_format_name(enum export_format format);
