/* SPDX-License-Identifier: Apache-2.0 */
/* Directories. */
#pragma once

#include <sys/types.h>

/* Creates the directory with this mode, and its missing parents with 0755. -ENAMETOOLONG, or an
 * error of mkdir. */
int directory_make(const char *path, mode_t mode);
