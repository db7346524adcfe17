/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/snapshots.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/directory.h"
#include "lib/base/log.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/base/number.h"

/* "20261123T191924.123Z-NAME-PID.tfp" */
#define TIME_LENGTH 20
#define SUFFIX ".tfp"

struct snapshots {
	struct snapshots_options options;
	/* When the latest one of each trigger was begun; 0: never. */
	uint64_t begun_ns[TRIGGERS_MAX];
	int fd; /* of the one that is being made, -1: none */
	char trigger[TRIGGER_NAME_SIZE];
	pid_t pid;
	bool warned_of_readers;
};

/* A file that an earlier call has made. */
struct kept {
	char name[96];
	uint64_t bytes;
	uint64_t age_ns;
};

#define FAIL(m, error, ...)                                                                        \
	({                                                                                         \
		snprintf((m)->text, sizeof((m)->text), __VA_ARGS__);                               \
		(error);                                                                           \
	})

/* The trigger's name within the name of a file; its length, 0: the file is not ours. */
static size_t find_trigger(const char *name, const char **ret)
{
	static const char digits[] = "dddddddd_dddddd_ddd__";
	size_t length = strlen(name), end;
	const char *dash;
	uint64_t pid;
	char number[16];

	if (length < TIME_LENGTH + strlen(SUFFIX) || length >= sizeof(((struct kept *)0)->name) ||
	    strcmp(name + length - strlen(SUFFIX), SUFFIX))
		return 0;
	for (unsigned i = 0; i < TIME_LENGTH; i++)
		if (digits[i] == 'd' && (name[i] < '0' || name[i] > '9'))
			return 0;
	if (name[8] != 'T' || name[15] != '.' || name[19] != 'Z' || name[TIME_LENGTH] != '-')
		return 0;
	end = length - strlen(SUFFIX);
	dash = memrchr(name + TIME_LENGTH + 1, '-', end - TIME_LENGTH - 1);
	if (!dash || (size_t)(name + end - dash - 1) >= sizeof(number))
		return 0;
	snprintf(number, sizeof(number), "%.*s", (int)(name + end - dash - 1), dash + 1);
	if (number_parse(number, 0, INT32_MAX, &pid) < 0)
		return 0;
	*ret = name + TIME_LENGTH + 1;
	return (size_t)(dash - *ret);
}

static int compare_kept(const void *a, const void *b)
{
	return strcmp(((const struct kept *)a)->name, ((const struct kept *)b)->name);
}

static uint64_t age_of(const struct stat *st)
{
	struct timespec now;
	int64_t s;

	clock_gettime(CLOCK_REALTIME, &now);
	s = now.tv_sec - st->st_mtim.tv_sec;
	return s > 0 ? (uint64_t)s * 1000000000 : 0;
}

/* Lists the files that the daemon made, the oldest first; others are left alone. The caller frees
 * the list. */
static int list_files(const struct snapshots *s, struct kept **ret, size_t *ret_n)
{
	DIR *directory = directory_list(s->options.directory);
	struct kept *list = NULL;
	size_t n = 0, allocated = 0;
	const struct dirent *entry;
	const char *trigger;
	struct stat st;
	int r = directory ? 0 : -errno;

	while (r == 0 && (entry = readdir(directory))) {
		if (!find_trigger(entry->d_name, &trigger) ||
		    fstatat(s->options.directory, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode) || st.st_uid != geteuid())
			continue;
		r = array_reserve(&list, n, &allocated, sizeof(list[0]), 1);
		if (r < 0)
			break;
		list[n] = (struct kept){ .bytes = (uint64_t)st.st_size, .age_ns = age_of(&st) };
		/* find_trigger() has looked at its length. */
		strcpy(list[n++].name, entry->d_name);
	}
	if (directory)
		closedir(directory);
	if (r < 0) {
		free(list);
		return r;
	}
	if (n)
		qsort(list, n, sizeof(list[0]), compare_kept);
	*ret = list;
	*ret_n = n;
	return 0;
}

/* The interval also holds for those of an earlier broker. */
static void note_latest(struct snapshots *s, const struct kept *file)
{
	uint64_t now = loop_now();
	const char *name;
	size_t size = find_trigger(file->name, &name);

	for (unsigned i = 0; i < s->options.triggers.n; i++)
		if (strlen(s->options.triggers.names[i]) == size &&
		    !strncmp(s->options.triggers.names[i], name, size) && file->age_ns < now)
			s->begun_ns[i] = MAX(s->begun_ns[i], now - file->age_ns);
}

static void note_all(struct snapshots *s)
{
	struct kept *files = NULL;
	size_t n = 0;

	if (s->options.directory >= 0 && list_files(s, &files, &n) == 0)
		for (size_t i = 0; i < n; i++)
			note_latest(s, &files[i]);
	free(files);
}

static int find_name(const struct trigger_names *names, const char *name)
{
	for (unsigned i = 0; i < names->n; i++)
		if (!strncmp(names->names[i], name, TRIGGER_NAME_SIZE))
			return (int)i;
	return -ENOENT;
}

bool trigger_names_are_valid(const struct trigger_names *names)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

	if (names->n > TRIGGERS_MAX)
		return false;
	for (unsigned i = 0; i < names->n; i++) {
		size_t size = strnlen(names->names[i], TRIGGER_NAME_SIZE);

		if (!size || size == TRIGGER_NAME_SIZE ||
		    strspn(names->names[i], letters) != size ||
		    find_name(names, names->names[i]) != (int)i)
			return false;
	}
	return true;
}

int snapshots_new(const struct snapshots_options *options, struct snapshots **ret)
{
	struct snapshots *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->options = *options;
	s->fd = -1;
	note_all(s);
	*ret = s;
	return 0;
}

void snapshots_set_triggers(struct snapshots *s, const struct trigger_names *triggers)
{
	uint64_t begun[TRIGGERS_MAX] = {};

	for (unsigned i = 0; i < triggers->n; i++) {
		int was = find_name(&s->options.triggers, triggers->names[i]);

		begun[i] = was < 0 ? 0 : s->begun_ns[was];
	}
	memcpy(s->begun_ns, begun, sizeof(begun));
	s->options.triggers = *triggers;
	note_all(s);
}

struct snapshots *snapshots_free(struct snapshots *s)
{
	if (s)
		safe_close(s->fd);
	free(s);
	return NULL;
}

int snapshots_begin(struct snapshots *s, struct broker_message *m, int *ret_fd)
{
	int trigger = find_name(&s->options.triggers, m->name), error;
	uint64_t now = loop_now(), *begun;

	if (s->options.directory < 0 || m->pid > INT32_MAX)
		return -EINVAL;
	if (trigger < 0)
		return FAIL(m, trigger, "the configuration does not have this trigger any more");
	begun = &s->begun_ns[trigger];
	if (*begun && now - *begun < s->options.interval_ns)
		return FAIL(m, -EALREADY, "it is too soon after the last one (snapshot-interval)");
	*begun = now;
	s->fd = safe_close(s->fd);
	/* It is named when it is complete. */
	s->fd = openat(s->options.directory, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	if (s->fd < 0) {
		error = errno;
		return FAIL(m, -error, "cannot write to snapshot-directory: %s", strerror(error));
	}
	memcpy(s->trigger, s->options.triggers.names[trigger], sizeof(s->trigger));
	s->pid = (pid_t)m->pid;
	*ret_fd = s->fd;
	return 0;
}

/* The owner may add a reader to the file's access list (acl(5)); to give the file away would need
 * CAP_CHOWN. */
static int permit(int fd, uid_t reader)
{
	struct {
		struct posix_acl_xattr_header head;
		struct posix_acl_xattr_entry entries[5];
	} acl = { .head.a_version = POSIX_ACL_XATTR_VERSION,
		  .entries = { { ACL_USER_OBJ, ACL_READ | ACL_WRITE, ACL_UNDEFINED_ID },
			       { ACL_USER, ACL_READ, reader },
			       { ACL_GROUP_OBJ, 0, ACL_UNDEFINED_ID },
			       { ACL_MASK, ACL_READ, ACL_UNDEFINED_ID },
			       { ACL_OTHER, 0, ACL_UNDEFINED_ID } } };

	_Static_assert(sizeof(acl) == 4 + 5 * 8, "the kernel's layout");
	return fsetxattr(fd, "system.posix_acl_access", &acl, sizeof(acl), 0) < 0 ? -errno : 0;
}

/* Room for one more of that size: the oldest ones are removed. */
static void make_room(const struct snapshots *s, uint64_t bytes)
{
	struct kept *files = NULL;
	size_t n = 0, first = 0;
	uint64_t used = bytes;

	if (list_files(s, &files, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		used += files[i].bytes;
	for (; first < n && (n - first >= s->options.keep || used > s->options.bytes); first++) {
		used -= files[first].bytes;
		if (unlinkat(s->options.directory, files[first].name, 0) < 0)
			log_warning("cannot remove the snapshot %s: %m", files[first].name);
	}
	free(files);
}

static void file_name(const struct snapshots *s, char *ret, size_t size)
{
	struct timespec now;
	struct tm utc;
	char time[32];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	strftime(time, sizeof(time), "%Y%m%dT%H%M%S", &utc);
	snprintf(ret, size, "%s.%03ldZ-%s-%d" SUFFIX, time, now.tv_nsec / 1000000, s->trigger,
		 s->pid);
}

static int name_file(const struct snapshots *s, struct broker_message *m)
{
	char path[32];
	struct stat st;
	int error;

	if (fstat(s->fd, &st) < 0 || st.st_size == 0)
		return FAIL(m, -EINVAL, "nothing was written");
	if ((uint64_t)st.st_size > s->options.bytes)
		return FAIL(m, -EFBIG,
			    "it has %lld bytes, more than all of them may (snapshots-size)",
			    (long long)st.st_size);
	make_room(s, (uint64_t)st.st_size);
	file_name(s, m->name, sizeof(m->name));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
	if (linkat(AT_FDCWD, path, s->options.directory, m->name, AT_SYMLINK_FOLLOW) < 0) {
		error = errno;
		return FAIL(m, -error, "cannot write to snapshot-directory: %s", strerror(error));
	}
	m->start = (uint64_t)st.st_size;
	return 0;
}

int snapshots_end(struct snapshots *s, struct broker_message *m, uid_t reader)
{
	bool is_begun = s->fd >= 0 && !strncmp(m->name, s->trigger, sizeof(s->trigger));
	int r = is_begun ? 0 : -EINVAL, permitted = 0;

	if (r < 0)
		return r;
	m->pid = (uint32_t)s->pid;
	if (m->count && reader != (uid_t)-1 && reader != 0)
		permitted = permit(s->fd, reader);
	if (permitted < 0 && !s->warned_of_readers) {
		log_warning_errno(
			permitted,
			"snapshots are for root only, because snapshot-directory is on a file system without access lists: %m");
		s->warned_of_readers = true;
	}
	if (m->count)
		r = name_file(s, m);
	s->fd = safe_close(s->fd);
	return r;
}
