/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox/user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>
#include <sys/capability.h>
#include <unistd.h>

#include "lib/base/hash.h"

/* https://systemd.io/UIDS-GIDS: "Dynamic service users". */
#define DYNAMIC_FIRST 61184
#define DYNAMIC_LAST 65519

int sandbox_user_find(const char *name, const char *seed, const struct sandbox_user *other,
		      struct sandbox_user *ret)
{
	const struct passwd *user = getpwnam(name);
	const uint32_t n = DYNAMIC_LAST - DYNAMIC_FIRST + 1;
	const uint32_t begin = (uint32_t)(hash_text(1, seed, strlen(seed)) % n);

	if (user) {
		*ret = (struct sandbox_user){ user->pw_uid, user->pw_gid };
		return 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		const uid_t id = DYNAMIC_FIRST + (begin + i) % n;

		if (!(other && other->uid == id) && !getpwuid(id) && !getgrgid(id)) {
			*ret = (struct sandbox_user){ id, id };
			return 0;
		}
	}
	return -ENOENT;
}

static bool is_capable(cap_value_t capability)
{
	cap_flag_value_t has = CAP_CLEAR;
	cap_t caps = cap_get_proc();

	if (caps)
		cap_get_flag(caps, capability, CAP_EFFECTIVE, &has);
	cap_free(caps);
	return has == CAP_SET;
}

int sandbox_user_become(const struct sandbox_user *user)
{
	if (!is_capable(CAP_SETUID) || !is_capable(CAP_SETGID))
		return 1;
	if (setgroups(0, NULL) < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
	    setresuid(user->uid, user->uid, user->uid) < 0)
		return -errno;
	return 0;
}
