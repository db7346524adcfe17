/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file with one JSON object per request and line. It gets its name when it is complete (see
 * new_file.h), and is removed unless it is committed.
 */
#pragma once

#include <stdint.h>

#include "proto/control.pb-c.h"

struct request_file;

/* Fails if a file of this name cannot be written: -EISDIR, -ENOMEM, or an error of open(). */
int request_file_new(const char *path, struct request_file **ret);
/* Removes the file unless it was committed. */
struct request_file *request_file_free(struct request_file *file);

int request_file_add(struct request_file *file, const Tfprofd__Request *request);
/* Gives the file its name, replacing an existing file. */
int request_file_commit(struct request_file *file);
