/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of files seen before, by (device, inode, size, change time): a build-id is only a label
 * that anyone can copy. In memory, and in files of a directory that outlive the daemon. Such a file
 * is only a hint: each function in it is compared with the binary's own symbol, so that a wrong one
 * can cost time or leave a probe out, but not place a wrong one. It may be deleted at any time.
 * Bounded; may be used from any thread.
 */
#pragma once

#include "daemon/plan/plan.h"

#define PLAN_CACHE_FILES 128

struct plan_cache;

/* directory: a descriptor that stays open for as long as the cache is used; -1: nothing is kept on
 * disk. -ENOMEM. */
int plan_cache_new(int directory, struct plan_cache **ret);
struct plan_cache *plan_cache_free(struct plan_cache *cache);
/*
 * The plan of a file; the caller gets a reference of its own. alone: waits while another thread
 * plans a file that was never seen, because some files take a lot of memory; not for callers that
 * others wait for. *ret_known (may be NULL): whether it was seen before. Errors as plan_new().
 */
int plan_cache_get(struct plan_cache *cache, int fd, const struct pack_set *set, bool alone,
		   struct plan **ret, bool *ret_known, const char **ret_reason);
