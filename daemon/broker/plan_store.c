/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/plan_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/plan/stored.h"
#include "lib/base/directory.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

#define DIRECTORY "plans"
#define FILE_PREFIX "plan-"

struct plan_store {
	int directory;
};

int plan_store_new(int state, struct plan_store **ret)
{
	struct plan_store *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->directory = -1;
	if (state >= 0 && (mkdirat(state, DIRECTORY, 0700) == 0 || errno == EEXIST))
		s->directory =
			openat(state, DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (s->directory < 0)
		log_warning("cannot use the directory " DIRECTORY
			    " in the state directory: %m; plans are not kept");
	*ret = s;
	return 0;
}

struct plan_store *plan_store_free(struct plan_store *s)
{
	if (s)
		safe_close(s->directory);
	free(s);
	return NULL;
}

int plan_store_directory(const struct plan_store *s)
{
	return s->directory;
}

static void file_name(const struct stat *st, const struct pack_set *set, char ret[128])
{
	snprintf(ret, 128, FILE_PREFIX "%" PRIx64 "-%" PRIx64 "-%.32s", (uint64_t)st->st_dev,
		 (uint64_t)st->st_ino, set->name);
}

int plan_store_open(struct plan_store *s, const struct stat *st, const struct pack_set *set)
{
	char name[128];

	if (s->directory < 0)
		return -1;
	file_name(st, set, name);
	return openat(s->directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static void warn_not_kept(int error)
{
	log_warning_errno(
		error,
		"cannot store a plan in the state directory: %m; after its next start the daemon makes it again");
}

/* A later plan is named when it is complete: nothing is left behind by one that is not. */
int plan_store_create(struct plan_store *s)
{
	int fd;

	if (s->directory < 0)
		return -1;
	fd = openat(s->directory, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (fd < 0)
		warn_not_kept(-errno);
	return fd;
}

/* Deletes the oldest plan if there are too many; other files are left alone. */
static void make_room(const struct plan_store *s)
{
	DIR *directory = directory_list(s->directory);
	char oldest[256] = "";
	struct timespec age = {};
	struct dirent *entry;
	unsigned n = 0;

	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		struct stat st;

		if (strncmp(entry->d_name, FILE_PREFIX, strlen(FILE_PREFIX)) ||
		    fstatat(s->directory, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		n++;
		if (*oldest &&
		    (st.st_mtim.tv_sec > age.tv_sec ||
		     (st.st_mtim.tv_sec == age.tv_sec && st.st_mtim.tv_nsec >= age.tv_nsec)))
			continue;
		snprintf(oldest, sizeof(oldest), "%s", entry->d_name);
		age = st.st_mtim;
	}
	closedir(directory);
	if (n >= PLAN_STORE_FILES)
		unlinkat(s->directory, oldest, 0);
}

void plan_store_keep(struct plan_store *s, int fd, int error, const struct stat *st,
		     const struct pack_set *set)
{
	char name[128], path[32];
	struct stat made;

	if (error && error != -EINVAL)
		warn_not_kept(error);
	else if (fstat(fd, &made) == 0 && made.st_size > 0 && made.st_size <= STORED_BYTES_MAX) {
		file_name(st, set, name);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		unlinkat(s->directory, name, 0);
		make_room(s);
		if (linkat(AT_FDCWD, path, s->directory, name, AT_SYMLINK_FOLLOW) < 0)
			warn_not_kept(-errno);
	}
	close(fd);
}
