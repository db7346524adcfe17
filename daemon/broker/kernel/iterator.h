/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

/* Runs an iterator program over the tasks of a process, 0: of all; its results are in maps and
 * rings. -errno. */
int iterator_run(int program, pid_t pid);
