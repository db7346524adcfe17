/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the modules that the targets' XLA wrote, for Graph Viewer and Memory Viewer. */
#pragma once

#include "daemon/capture/capture.h"
#include "daemon/capture/session.h"

struct journal;

/* Files that are open, to be read. */
struct hlo_files {
	struct hlo_file {
		int fd;
		pid_t pid;
		uint64_t device, inode;
		char name[SESSION_NAME_MAX];
	} list[MODULES_MAX];
	unsigned n;
};

/* Between the window and session_finish(); what cannot be had is in the result's warnings. */
void hlo_open(struct session *s, struct hlo_files *ret, struct capture_result *result);
/* Reads and closes them; the journal (NULL: none) gets them, too. -ENOMEM. */
int hlo_read(struct hlo_files *files, struct journal *journal, struct capture_result *result);
