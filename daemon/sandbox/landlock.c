/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "lib/base/macro.h"

/* linux/landlock.h of Linux 6.12: the headers of older distributions have less. */
struct ruleset {
	uint64_t files, network, scoped;
};

struct beneath {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

enum {
	ACCESS_WRITE_FILE = 1 << 1,
	ACCESS_READ_FILE = 1 << 2,
	ACCESS_READ_DIR = 1 << 3,
	ACCESS_REMOVE_FILE = 1 << 5,
	ACCESS_MAKE_REG = 1 << 8,
	ACCESS_TRUNCATE = 1 << 14,
};

#define CREATE_VERSION 1u /* landlock_create_ruleset: returns the version */
#define RULE_BENEATH 1

/* What each version of the interface can restrict. */
static const struct {
	int version;
	struct ruleset restricted;
} versions[] = {
	{ 6, { 0xffff, 3, 3 } }, { 5, { 0xffff, 3, 0 } }, { 4, { 0x7fff, 3, 0 } },
	{ 3, { 0x7fff, 0, 0 } }, { 2, { 0x3fff, 0, 0 } }, { 1, { 0x1fff, 0, 0 } },
};

static int allow(int ruleset, int fd, uint64_t access)
{
	const struct beneath rule = { .allowed = access, .parent = fd };

	return syscall(SYS_landlock_add_rule, ruleset, RULE_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

static int allow_path(int ruleset, const char *path)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	return allow(ruleset, fd, ACCESS_READ_FILE | (S_ISDIR(st.st_mode) ? ACCESS_READ_DIR : 0));
}

int landlock_restrict(const char *const *readable, int writable)
{
	const int version =
		(int)syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, CREATE_VERSION);
	_cleanup_close_ int ruleset = -1;
	struct ruleset restricted = {};
	int r = 0;

	if (version < 1)
		return -EOPNOTSUPP;
	for (unsigned i = 0; i < ARRAY_SIZE(versions) && !restricted.files; i++)
		if (version >= versions[i].version)
			restricted = versions[i].restricted;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &restricted, sizeof(restricted), 0);
	if (ruleset < 0)
		return -errno;
	for (; *readable && r == 0; readable++)
		r = allow_path(ruleset, *readable);
	if (r == 0 && writable >= 0)
		r = allow(ruleset, writable,
			  (ACCESS_READ_FILE | ACCESS_READ_DIR | ACCESS_WRITE_FILE |
			   ACCESS_REMOVE_FILE | ACCESS_MAKE_REG | ACCESS_TRUNCATE) &
				  restricted.files);
	if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		r = -errno;
	return r;
}
