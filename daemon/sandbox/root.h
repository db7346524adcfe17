/* SPDX-License-Identifier: Apache-2.0 */
/* A root directory of its own for a process. */
#pragma once

/*
 * In a mount namespace of its own the process gets an empty file system, read only, as its root.
 * It shows these paths of the host, read only, as they are now; NULL ends the list, and missing
 * ones are left out. *directory, -1: none, is replaced by a descriptor of the same directory from
 * which no other one can be reached.
 *
 * 0, or an error: then the process sees the file system that it saw before. -EPERM: it may not.
 */
int root_enter(const char *const *shown, int *directory);
