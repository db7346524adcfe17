/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HLO modules that XLA writes for a process: files in the directory that XLA_FLAGS of its
 * environment names, as the process sees it.
 *
 * The process, whoever started it, chose that directory: it has to be its own user's, and so have
 * the files, which are regular ones. So nobody gets to read by this what is not theirs, or to know
 * what there is where they may not look.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define MODULE_NAME_MAX 256

/*
 * Opens the optimised module whose file's name comes next after a name ("": the first), for
 * reading; puts the name there. Errors: -ENODATA (the process does not write any), -ENOENT (there
 * is none any more), -ESRCH, -EFBIG (it is larger than is taken; name says which it is), and those
 * of finding it, with a sentence in ret_text.
 */
int module_open_next(pid_t pid, uid_t uid, char name[MODULE_NAME_MAX], char *ret_text,
		     size_t text_size);
