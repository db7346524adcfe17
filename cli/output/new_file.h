/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that appears complete or not at all: it is written under a hidden name in the same
 * directory and renamed at the end, replacing an existing file. If the path is a link, its target
 * is replaced; a device or a pipe is written directly.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct new_file;

/* Creates the file under its hidden name. -EISDIR, -ENOMEM, or an error of open: -ENOENT if its
 * directory does not exist, -EACCES, -EROFS… */
int new_file_open(const char *path, struct new_file **ret);
/* An error of write, such as -ENOSPC; every later call returns it, too. */
int new_file_write(struct new_file *file, const void *bytes, size_t size);
uint64_t new_file_size(const struct new_file *file);
/* Gives the file its name; to be called once. An error of an earlier write, of close or of rename.
 */
int new_file_commit(struct new_file *file);
/* Removes the file unless it was committed. */
struct new_file *new_file_free(struct new_file *file);
