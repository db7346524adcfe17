/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a site of a plan may be probed in a process, and what its probe reads: from the plan and
 * the tables of the packs alone. */
#pragma once

#include <sys/types.h>

#include "daemon/broker/kernel/attach.h"
#include "daemon/broker/kernel/code_range.h"
#include "daemon/plan/plan.h"

#define MAPPED_FILES_MAX 16

/* A file that a process has mapped, with its plan. */
struct mapped_file {
	int fd;
	pid_t pid;
	uint64_t start, offset; /* where a mapping of code begins, and its offset in the file */
	const struct plan *plan;
	struct code_ranges ranges;
	bool has_seccomp; /* a filter restricts the system calls of the process */
	/* The releases that the files of this process state. */
	const char *versions[MAPPED_FILES_MAX];
	unsigned n_versions;
};

/*
 * The probe at a site of the file's plan, for the target with this index in the capture. -EINVAL:
 * the site is refused, lies outside the file's code, or belongs to another release; -EPERM: a probe
 * at a return is no option in this process.
 */
int site_check(const struct mapped_file *file, const struct plan_site *site, unsigned target,
	       struct attach_site *ret);
