/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is there as a whole or not at all: it is written beside its place under a hidden
 * name, and takes its place, and that of a file that was there before, at the end. Of a link it is
 * the file behind it; a device or a pipe is written to as it is.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct new_file;

/* Makes the file under its hidden name. -EISDIR, -ENOMEM, or an error of open: -ENOENT when its
 * directory does not exist, -EACCES, -EROFS… */
int new_file_open(const char *path, struct new_file **ret);
/* An error of write, -ENOSPC and the like; every later call returns it, too. */
int new_file_write(struct new_file *file, const void *bytes, size_t size);
uint64_t new_file_size(const struct new_file *file);
/* Puts it in its place, once. An error of an earlier write, or of close or rename. */
int new_file_commit(struct new_file *file);
/* Removes it unless it was put in its place. */
struct new_file *new_file_free(struct new_file *file);
