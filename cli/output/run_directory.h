/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run in a log directory, as TensorBoard lists it: LOGDIR/plugins/profile/<run>/<host>.xplane.pb.
 * Whether it can be written is found out before there is anything to write, and a run is never
 * written over another one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct run_directory;

/*
 * Makes LOGDIR (not its parents) and what is missing below it, and opens a temporary file there. An
 * error of mkdir or open: -ENOENT when LOGDIR's parent does not exist, -EACCES, -EROFS, -ENOTDIR…,
 * or -ENOMEM.
 */
int run_directory_prepare(const char *logdir, struct run_directory **ret);

/* Adds bytes to the file. An error of write. */
int run_directory_add(struct run_directory *run, const void *bytes, size_t size);
/*
 * Gives the file its place in a run that is named after now, in local time, with "_2", "_3"… when
 * that run exists. The host is untrusted text. Once per run directory. *ret_path is the file,
 * malloc'ed. An error of mkdir or rename, -EEXIST when a thousand runs have that name, or -ENOMEM.
 */
int run_directory_commit(struct run_directory *run, time_t now, const char *host, char **ret_path);

/* Removes whatever was made and holds nothing. */
struct run_directory *run_directory_free(struct run_directory *run);
