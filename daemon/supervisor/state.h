/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory, prepared with the daemon's initial privileges. */
#pragma once

#include "daemon/sandbox/user.h"

/* Creates it, and locks it for this daemon: the lock is held as long as the descriptor is open in
 * any process. -errno; the log has the reason. */
int state_lock(const char *path);
/* It belongs to the broker's user, with what an earlier daemon of root left in it; if it has files
 * of others, the broker's user becomes root. Returns its descriptor; -1: it cannot be used, and the
 * log has the reason. */
int state_open(const char *path, struct sandbox_user *broker);
/* The directory of triggers' snapshots, which is created if it does not exist: it belongs to the
 * broker's user, or is empty and root's, and then it becomes the broker's. Returns its descriptor;
 * -errno: it cannot be used, and the log has the reason. */
int state_open_snapshots(const char *path, const struct sandbox_user *broker);
/*
 * A directory that the front, which owns nothing else, may write to. It is a cache: without it (-1)
 * the daemon is only slower. Other processes of the front's user cannot reach it: the state
 * directory belongs to the broker's.
 */
int state_open_cache(const char *path, const struct sandbox_user *front);
