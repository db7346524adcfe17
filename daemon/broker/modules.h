/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HLO modules that XLA writes for a process: files in the directory that XLA_FLAGS in its
 * environment names, as the process sees it.
 *
 * The process, whoever started it, chose that directory: it must belong to the process's own user,
 * and so must the files, which must be regular. So a client can neither read another user's files
 * this way, nor find out what exists where the client may not look.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define MODULE_NAME_MAX 256

/*
 * Opens for reading the optimized module whose file name follows the given name ("": the first);
 * puts its name there. Errors: -ENODATA (the process does not write any), -ENOENT (there are no
 * more), -ESRCH, -EFBIG (larger than the limit; name identifies it), and those of finding it, with
 * a sentence in ret_text.
 */
int module_open_next(pid_t pid, uid_t uid, char name[MODULE_NAME_MAX], char *ret_text,
		     size_t text_size);
