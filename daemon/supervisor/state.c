/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "daemon/broker/audit.h"
#include "daemon/broker/kernel/program_cache.h"
#include "daemon/broker/kernel/site_log.h"
#include "lib/base/directory.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

int state_lock(const char *path)
{
	char lock[600];
	int fd, r;

	r = directory_make(path, 0700);
	if (r < 0)
		return log_error_errno(
			r,
			"cannot create the state directory %s: %m; choose another one with --state-dir",
			path);
	snprintf(lock, sizeof(lock), "%s/lock", path);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return log_error_errno(
			-errno,
			"cannot write to the state directory %s: %m; choose another one with --state-dir",
			path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		r = -errno;
		close(fd);
		return log_error_errno(
			r,
			"the state directory %s is in use by another tfprofd; choose another one with --state-dir",
			path);
	}
	return fd;
}

/* What the daemon writes there; whatever else lies in a directory of root stays root's. */
static bool is_ours(const char *name)
{
	static const char *const names[] = { ".",     "..",       "lock",         "cache",
					     "plans", AUDIT_FILE, AUDIT_FILE_OLD, PROGRAMS_LOG };

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return !strncmp(name, SITE_LOG_PREFIX, sizeof(SITE_LOG_PREFIX) - 1) ||
	       !strncmp(name, SITE_LOG_LEFT, sizeof(SITE_LOG_LEFT) - 1);
}

static int find_foreign(int directory, char *ret_name, size_t size)
{
	DIR *d = directory_list(directory);
	const struct dirent *entry;

	*ret_name = 0;
	if (!d)
		return -errno;
	while (!*ret_name && (entry = readdir(d)))
		if (!is_ours(entry->d_name))
			snprintf(ret_name, size, "%s", entry->d_name);
	closedir(d);
	return *ret_name ? 1 : 0;
}

/* Also what is in its directories: plans. */
static int give(int directory, const struct sandbox_user *user, unsigned depth)
{
	DIR *d = directory_list(directory);
	const struct dirent *entry;
	int r = d ? 0 : -errno;

	while (r == 0 && (entry = readdir(d))) {
		struct stat st;
		int below;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
		    fstatat(directory, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid)
			continue;
		if (S_ISDIR(st.st_mode) && depth > 0) {
			below = openat(directory, entry->d_name,
				       O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
			r = below < 0 ? -errno : give(below, user, depth - 1);
			safe_close(below);
		} else if (S_ISREG(st.st_mode) && fchownat(directory, entry->d_name, user->uid,
							   user->gid, AT_SYMLINK_NOFOLLOW) < 0) {
			r = -errno;
		}
	}
	if (d)
		closedir(d);
	return r < 0 ? r : fchown(directory, user->uid, user->gid) < 0 ? -errno : 0;
}

int state_open(const char *path, struct sandbox_user *broker)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), r = 0;
	char foreign[256];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		r = -errno;
	/* Once it is another user's, nothing in it is trusted. */
	else if (!st.st_uid && broker->uid)
		r = find_foreign(fd, foreign, sizeof(foreign)) ?: give(fd, broker, 1);
	if (r > 0) {
		log_warning(
			"the state directory %s has other files (%s): the broker stays root; choose another one with --state-dir",
			path, foreign);
		*broker = (struct sandbox_user){};
	}
	if (r < 0) {
		log_warning_errno(
			r, "cannot use %s: %m; nothing is stored, and there is no audit.log", path);
		return safe_close(fd);
	}
	return fd;
}

static bool is_empty(int directory)
{
	DIR *d = directory_list(directory);
	const struct dirent *entry;
	bool empty = d;

	while (empty && (entry = readdir(d)))
		empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
	if (d)
		closedir(d);
	return empty;
}

/* -EPERM: it is another user's. */
static int take_directory(int fd, const struct sandbox_user *user)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	if (st.st_uid == user->uid || (geteuid() && st.st_uid == geteuid()))
		return 0;
	if (st.st_uid || geteuid() || !is_empty(fd))
		return -EPERM;
	return fchown(fd, user->uid, user->gid) < 0 ? -errno : 0;
}

int state_open_snapshots(const char *path, const struct sandbox_user *broker)
{
	bool is_new = access(path, F_OK) < 0;
	int r = directory_make(path, 0755), fd;

	if (r < 0)
		return log_error_errno(
			r, "cannot create the directory %s: %m; choose another snapshot-directory",
			path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	/* Whatever the umask is: names are no secret, and who may read a file is a matter of it. */
	r = fd < 0 || (is_new && fchmod(fd, 0755) < 0) ? -errno : take_directory(fd, broker);
	if (r == 0)
		return fd;
	safe_close(fd);
	if (r == -EPERM)
		log_error(
			"the directory %s must belong to user %u, and nobody else may write to it, or be empty and root's: choose another snapshot-directory",
			path, broker->uid);
	else
		log_error_errno(
			r, "cannot use the directory %s: %m; choose another snapshot-directory",
			path);
	return r;
}

int state_open_cache(const char *state, const struct sandbox_user *user)
{
	char path[600];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/cache", state);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		fd = -1;
	else
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	/* Without CAP_CHOWN it is the group's. */
	if (fd < 0 || fstat(fd, &st) < 0 ||
	    (st.st_uid != user->uid && fchown(fd, user->uid, user->gid) < 0 &&
	     (fchown(fd, (uid_t)-1, user->gid) < 0 || fchmod(fd, 0770) < 0))) {
		log_warning("cannot use %s: %m; plans are not cached", path);
		return safe_close(fd);
	}
	return fd;
}
