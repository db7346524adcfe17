/* SPDX-License-Identifier: Apache-2.0 */
/* Directories. */
#pragma once

#include <sys/types.h>

/* Makes the directory with this mode, and those that it lies in with 0755, where they are not
 * there. -ENAMETOOLONG, or an error of mkdir. */
int directory_make(const char *path, mode_t mode);
