/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a process shares with those that it starts. */
#pragma once

#include <stddef.h>

/* Zeros, as a descriptor for mmap(2). An error of memfd_create(2) or ftruncate(2). */
int shared_new(const char *name, size_t size);
/* Maps it. -errno. */
int shared_map(int fd, size_t size, void *ret);
