/* SPDX-License-Identifier: Apache-2.0 */
/* Directories. */
#pragma once

#include <dirent.h>
#include <sys/types.h>

/* Creates the directory with this mode, and its missing parents with 0755. -ENAMETOOLONG, or an
 * error of mkdir. */
int directory_make(const char *path, mode_t mode);
/* The entries of the directory behind a descriptor, which stays as it is, from the first one on.
 * NULL with errno. */
DIR *directory_list(int directory);
