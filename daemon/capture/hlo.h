/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the modules that XLA wrote for the targets, for Graph Viewer and Memory Viewer. */
#pragma once

#include "daemon/capture/capture.h"
#include "daemon/capture/session.h"

struct journal;

/* Open files that are still to be read. */
struct hlo_files {
	struct hlo_file {
		int fd;
		pid_t pid;
		uint64_t device, inode;
		char name[SESSION_NAME_MAX];
	} list[MODULES_MAX];
	unsigned n;
};

/* Call between the end of the window and session_finish(); the result gets a warning about what
 * cannot be read. */
void hlo_open(struct session *s, struct hlo_files *ret, struct capture_result *result);
/* Reads and closes them; the journal (NULL: none) gets them, too. -ENOMEM. */
int hlo_read(struct hlo_files *files, struct journal *journal, struct capture_result *result);
