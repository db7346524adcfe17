/* SPDX-License-Identifier: Apache-2.0 */
/* Small text files: certificates, keys. */
#pragma once

#include <stddef.h>

/* The whole file, malloc'ed, followed by a 0. -EFBIG if it has more than max bytes, -ENOMEM, or an
 * error of open or read. */
int text_file_read(const char *path, size_t max, char **ret);
/* The same for a descriptor, from its position on. */
int text_file_read_fd(int fd, size_t max, char **ret);
