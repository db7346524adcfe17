/* SPDX-License-Identifier: Apache-2.0 */
/* A file that a process has mapped, and its plan, which the broker has made for it. */
#pragma once

#include "daemon/discovery/target.h"
#include "daemon/plan/plan.h"
#include "daemon/proxy/proxy.h"

struct opened_file {
	uint32_t id; /* the broker's */
	uint64_t device, inode, size;
};

/* The broker opens it, until target_file_close(). -errno. */
int target_file_open(struct proxy *proxy, pid_t pid, const struct target_file *file,
		     struct opened_file *ret);
void target_file_close(struct proxy *proxy, const struct opened_file *file);

/*
 * Its plan for a set of packs, or what else is wanted. *ret_known (may be NULL): it was planned
 * before; -ENODATA: it was not, and such a plan is wanted. -EINPROGRESS: the file is being read,
 * ask again soon; others as plan_new(), with the reason in ret_text ("": none).
 */
int target_file_plan(struct proxy *proxy, const struct opened_file *file,
		     const struct pack_set *set, enum plan_wanted wanted, struct plan **ret,
		     bool *ret_known, char *ret_text, size_t text_size);
/* The same for a file that is not opened yet. */
int target_file_look(struct proxy *proxy, pid_t pid, const struct target_file *file,
		     const struct pack_set *set, enum plan_wanted wanted, struct plan **ret);
/* How many whole plans this process has received: with each more files can be known. */
unsigned target_files_planned(void);
