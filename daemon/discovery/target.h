/* SPDX-License-Identifier: Apache-2.0 */
/* A process that can be profiled: it has code of a known runtime mapped. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/plan/model.h"
#include "daemon/proxy/proxy.h"

#define TARGET_FILES_MAX 5

struct target_file {
	uint64_t start, end; /* of the executable mapping */
	uint64_t device, inode;
	char path[256]; /* as the process sees it; for people */
	bool is_beside; /* not the runtime's: the program has static probes for us, or a library
			   that serves tells of its requests */
};

struct target {
	pid_t pid;
	uint32_t program; /* a number of its own for each program that a process has been */
	uid_t uid;        /* who may profile it besides root */
	char name[16];
	const struct pack_set *packs;
	struct target_file files[TARGET_FILES_MAX];
	unsigned n_files;
	char version[96];
	uint16_t port; /* of its own, 0: none */
	int listener;  /* of that port, with the server; set by who listens, like the next */
	unsigned listener_index;
	/* Private to the table. */
	int pidfd;
	struct loop_source *ended;
	struct targets *table;
	bool used;
};

/* Opens a file that a process has mapped, by the broker. -errno. */
int target_file_open(struct proxy *proxy, pid_t pid, const struct target_file *file);
