/* SPDX-License-Identifier: Apache-2.0 */
/* The users that roles become. */
#pragma once

#include <sys/types.h>

struct sandbox_user {
	uid_t uid;
	gid_t gid;
};

/*
 * The user of this name, or, if this host has none, a uid and a gid of systemd's range for dynamic
 * users (61184 to 65519) that no user and no group has: the same ones for the same seed, so that a
 * daemon finds its files again, and not those of the other user (NULL: none). -ENOENT: there are
 * none left.
 */
int sandbox_user_find(const char *name, const char *seed, const struct sandbox_user *other,
		      struct sandbox_user *ret);
/* Becomes this user, without supplementary groups, if the process may do so. 0; 1: it may not, and
 * remains who it is; or an error. */
int sandbox_user_become(const struct sandbox_user *user);
