/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run in a log directory, as TensorBoard lists it: LOGDIR/plugins/profile/<run>/<host>.xplane.pb.
 * A directory that cannot be written is noticed before the capture. A run never replaces another
 * one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct run_directory;

/*
 * Creates LOGDIR (not its parents) and the directories below it as needed, and opens a temporary
 * file there. -ENOMEM, or an error of mkdir or open: -ENOENT if the parent of LOGDIR does not
 * exist, -EACCES, -EROFS, -ENOTDIR…
 */
int run_directory_prepare(const char *logdir, struct run_directory **ret);

/* Adds bytes to the file. An error of write. */
int run_directory_add(struct run_directory *run, const void *bytes, size_t size);
/*
 * Moves the file into a run named after now, in local time, with "_2", "_3"… if that run exists.
 * The host is untrusted text. To be called once. *ret_path is the path of the file, malloc'ed.
 * -EEXIST if a thousand runs have that name, -ENOMEM, or an error of mkdir or rename.
 */
int run_directory_commit(struct run_directory *run, time_t now, const char *host, char **ret_path);

/* Removes the directories that were created and are empty. */
struct run_directory *run_directory_free(struct run_directory *run);
