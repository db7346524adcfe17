/* SPDX-License-Identifier: Apache-2.0 */
/* What XLA_FLAGS says in the environment that a process was started with. */
#pragma once

#include <stddef.h>

#define XLA_PATH_MAX 1024

/*
 * The directory of --xla_dump_to in an environment as /proc/PID/environment has it: texts that end
 * with 0. As XLA reads it: flags between white space, with quotes and backslashes as in a shell;
 * the last one counts. ret has XLA_PATH_MAX bytes.
 *
 * Returns 0; -ENODATA: it says nothing of it, or that modules go to the standard output;
 * -ENAMETOOLONG; -EOPNOTSUPP: the variable names a file that the flags are in, which is not read.
 */
int xla_flags_dump_directory(const char *environment, size_t size, char *ret);
