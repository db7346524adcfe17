/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of text that a person wrote: certificates, keys. */
#pragma once

#include <stddef.h>

/* All of the file, malloc'ed, with a 0 behind it. -EFBIG when it has more than max bytes, -ENOMEM,
 * or an error of open or read. */
int text_file_read(const char *path, size_t max, char **ret);
/* The same of a descriptor, from its place on. */
int text_file_read_fd(int fd, size_t max, char **ret);
