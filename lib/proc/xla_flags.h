/* SPDX-License-Identifier: Apache-2.0 */
/* XLA_FLAGS in the environment with which a process was started. */
#pragma once

#include <stddef.h>

#define XLA_PATH_MAX 1024

/*
 * The directory of --xla_dump_to in an environment in the form of /proc/PID/environ: texts that end
 * with 0. Parsed like XLA does: flags between white space, with quotes and backslashes as in a
 * shell; the last one counts. ret has XLA_PATH_MAX bytes.
 *
 * Returns 0; -ENODATA: the flag is missing, or modules go to the standard output; -ENAMETOOLONG;
 * -EOPNOTSUPP: the variable names a file with the flags, which is not read.
 */
int xla_flags_dump_directory(const char *environment, size_t size, char *ret);
