/* SPDX-License-Identifier: Apache-2.0 */
/* A process that can be profiled: it has code of a known runtime mapped, or a client has named it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/plan/model.h"

#define TARGET_FILES_MAX 8

struct target_file {
	uint64_t start, end; /* of the executable mapping */
	uint64_t device, inode;
	char path[256]; /* as the process sees it; for display */
	/* Not the runtime's: the program has static probes for tfprofd, or it is a library for
	 * serving that reports its requests. */
	bool is_beside;
};

struct target {
	pid_t pid;
	pid_t parent;
	pid_t own_pid; /* as the process itself has it: of its pid namespace */
	/* A distinct number for each program that a process has executed. */
	uint32_t program;
	uid_t uid; /* the user who may profile it besides root */
	char name[16];
	const struct pack_set *packs;
	struct target_file files[TARGET_FILES_MAX];
	unsigned n_files;
	char version[96];
	unsigned knowledge; /* daemon/plan/knowledge.h */
	unsigned asked_at;  /* target_files_planned() + 1 when the broker last had no plan of it */
	uint16_t port;      /* its own port, 0: none */
	/* The server's id of that port; set by the service, like the next. */
	int listener;
	unsigned listener_index;
	/* Private to the table. */
	int pidfd;
	struct loop_source *ended;
	struct targets *table;
	bool used;
};
