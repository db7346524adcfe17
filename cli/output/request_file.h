/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file with a JSON object in each line, for each request. It has its name only when it is
 * complete: until then it is written beside, under a hidden name, and gone when it is not
 * committed.
 */
#pragma once

#include <stdint.h>

#include "proto/control.pb-c.h"

struct request_file;

/* Finds out whether a file of this name can be written, before there is anything to write. -ENOMEM,
 * -EISDIR, or an error of open(). */
int request_file_new(const char *path, struct request_file **ret);
/* Removes what was not committed. */
struct request_file *request_file_free(struct request_file *file);

int request_file_add(struct request_file *file, const Tfprofd__Request *request);
/* Gives it its name, in place of a file that has it. */
int request_file_commit(struct request_file *file);
