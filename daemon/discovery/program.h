/* SPDX-License-Identifier: Apache-2.0 */
/* The program that a process runs: its runtime, the runtime's release, and the files of both. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/discovery/target.h"
#include "daemon/proxy/proxy.h"

/* One for each kind that packs name. */
#define BESIDE_MAX 5

struct process_program {
	/* Packs, as bits; 0: it has no known runtime. */
	uint64_t runtimes;
	/* The set of these packs; NULL: none, or no memory. */
	const struct pack_set *packs;
	uid_t uid; /* the user who may profile it besides root */
	struct target_file files[TARGET_FILES_MAX];
	unsigned n_files;
	/* Libraries to probe besides the runtime's. */
	struct target_file beside[BESIDE_MAX];
	unsigned n_beside;
	/* Of code, of any file: the first is the program's own. */
	unsigned n_mappings;
	struct target_file own;
	bool own_is_big;
};

/* Examines the mappings of a process; any: one without a known runtime has packs, too, those that
 * are in every set. -EINPROGRESS: its files are being read, ask again soon; -ESRCH, and others of
 * the broker. */
int program_examine(struct proxy *proxy, pid_t pid, bool any, struct process_program *ret);
/* The pid of its parent, and its own in its own pid namespace; 0: unknown. */
void program_read_pids(pid_t pid, pid_t *ret_parent, pid_t *ret_own);
/* The name of its first thread. */
void program_read_name(pid_t pid, char ret[16]);
/* The release that one of the runtime's files states, or else the build-id of the last file that
 * has one, or "unknown". -EINPROGRESS, as above. */
int program_read_version(struct proxy *proxy, pid_t pid, const struct process_program *program,
			 char *ret, size_t size);
