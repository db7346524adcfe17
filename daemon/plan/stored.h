/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as text of a file that outlives the daemon, for one file of a target, by (device, inode,
 * size, change time): a build-id is only a label that anyone can copy. It is only a hint: each
 * function in it is compared with the target's own symbol, so that a wrong hint can cost time or
 * leave a probe out, but not place a wrong one. It may be deleted at any time.
 */
#pragma once

#include <sys/stat.h>

#include "daemon/plan/plan.h"

/* PLAN_SITES_MAX lines. */
#define STORED_BYTES_MAX (1 << 20)

/* has_debug: the target's file has a separate debug file, which may contain more functions.
 * -EINVAL: a function of the plan could not be compared later; -E2BIG, -ENOMEM, or an error of
 * write, such as -ENOSPC. */
int stored_write(int fd, const struct stat *st, bool has_debug, const struct plan *plan);
/* The plan, with its sites chosen again in the target's file; NULL: it is damaged, it does not fit
 * the file, or fd is negative. */
struct plan *stored_read(int fd, int file, const struct stat *st, bool has_debug,
			 const struct pack_set *set);
