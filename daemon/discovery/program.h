/* SPDX-License-Identifier: Apache-2.0 */
/* The program that a process runs: its runtime, the runtime's release, and the files of both. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/discovery/target.h"
#include "daemon/plan/plan_cache.h"
#include "daemon/proxy/proxy.h"

/* One of each that packs name. */
#define BESIDE_MAX 2

struct process_program {
	uint64_t runtimes;            /* packs, as bits; 0: it has no known runtime */
	const struct pack_set *packs; /* of these; NULL: none, or no memory */
	uid_t uid;                    /* who may profile it besides root */
	struct target_file files[TARGET_FILES_MAX];
	unsigned n_files;
	struct target_file
		beside[BESIDE_MAX]; /* libraries that may be looked at with the runtime's */
	unsigned n_beside;
	unsigned n_mappings; /* of code, of whatever file: the first is the program's own */
	struct target_file own;
	bool own_is_big;
};

/* Looks at what a process has mapped. -ESRCH, and others of the broker. */
int program_look(struct proxy *proxy, struct plan_cache *plans, pid_t pid,
		 struct process_program *ret);
/* The name of its first thread. */
void program_read_name(pid_t pid, char ret[16]);
/* The release that one of a target's files tells, or else the build-id of the first that has one.
 */
void program_read_version(struct proxy *proxy, struct target *target);
