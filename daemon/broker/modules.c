/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/modules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "daemon/broker/limits.h"
#include "lib/base/macro.h"
#include "lib/proc/xla_flags.h"

/* The kernel returns no more than this in one piece for a process that was started with default
 * limits. */
#define ENVIRON_BYTES_MAX (2u << 20)
/* Of the directory; entries beyond are not found. */
#define ENTRIES_MAX 16384

#define FAIL(error, ...)                                                                           \
	({                                                                                         \
		snprintf(ret_text, text_size, __VA_ARGS__);                                        \
		(error);                                                                           \
	})

/* The name under which XLA writes the result of its passes, for every backend:
 * "module_0001.NAME.cpu_after_optimizations.hlo.pb". */
static bool is_module(const char *name)
{
	static const char prefix[] = "module_", suffix[] = "_after_optimizations.hlo.pb";
	size_t n = strlen(name);

	return n < MODULE_NAME_MAX && n > sizeof(prefix) + sizeof(suffix) &&
	       !strncmp(name, prefix, sizeof(prefix) - 1) &&
	       !strcmp(name + n - (sizeof(suffix) - 1), suffix);
}

static int read_environ(pid_t pid, char **ret, size_t *ret_size)
{
	_cleanup_free_ char *text = malloc(ENVIRON_BYTES_MAX);
	_cleanup_close_ int fd = -1;
	size_t size = 0;
	char path[32];
	ssize_t n;

	if (!text)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((n = read(fd, text + size, ENVIRON_BYTES_MAX - size)) > 0)
		size += (size_t)n;
	if (n < 0)
		return -errno;
	*ret = TAKE_PTR(text);
	*ret_size = size;
	return 0;
}

/* Resolved in the process's own root, or relative to its directory; no link leads out of either. */
static int open_directory(pid_t pid, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK,
				.resolve = RESOLVE_NO_MAGICLINKS };
	_cleanup_close_ int base = -1;
	char base_path[32];
	int fd;

	how.resolve |= *path == '/' ? RESOLVE_IN_ROOT : RESOLVE_BENEATH;
	snprintf(base_path, sizeof(base_path), "/proc/%d/%s", pid, *path == '/' ? "root" : "cwd");
	base = open(base_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (base < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	fd = (int)syscall(SYS_openat2, base, path, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

/* Finds the next name; false: there is none. */
static bool find_next(DIR *directory, char name[MODULE_NAME_MAX])
{
	char next[MODULE_NAME_MAX] = "";
	const struct dirent *entry;

	for (unsigned i = 0; i < ENTRIES_MAX && (entry = readdir(directory)); i++)
		if (is_module(entry->d_name) && strcmp(entry->d_name, name) > 0 &&
		    (!*next || strcmp(entry->d_name, next) < 0))
			strcpy(next, entry->d_name);
	strcpy(name, next);
	return *next;
}

static int open_module(int directory, const char *name, uid_t uid)
{
	_cleanup_close_ int link = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char path[32];
	struct stat st;
	int fd;

	if (link < 0 || fstat(link, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != uid)
		return -EACCES;
	if (st.st_size > BROKER_MODULE_BYTES_MAX)
		return -EFBIG;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", link);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int module_open_next(pid_t pid, uid_t uid, char name[MODULE_NAME_MAX], char *ret_text,
		     size_t text_size)
{
	_cleanup_free_ char *environment = NULL;
	char path[XLA_PATH_MAX];
	struct stat st;
	DIR *directory;
	size_t size = 0;
	int fd, r;

	r = read_environ(pid, &environment, &size);
	if (r < 0)
		return r;
	r = xla_flags_dump_directory(environment, size, path);
	if (r == -EOPNOTSUPP)
		return FAIL(
			r, "its XLA_FLAGS names a file: write --xla_dump_to into XLA_FLAGS itself");
	if (r < 0)
		return r == -ENODATA
			       ? r
			       : FAIL(r, "the path of --xla_dump_to in its XLA_FLAGS is too long");
	fd = open_directory(pid, path);
	if (fd == -ESRCH)
		return fd;
	/* The same sentence for every reason: it must not reveal which one. */
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != uid) {
		safe_close(fd);
		return FAIL(
			-EACCES,
			"the directory of --xla_dump_to in its XLA_FLAGS does not exist, or does not belong to the process's own user");
	}
	directory = fdopendir(fd);
	if (!directory) {
		close(fd);
		return -ENOMEM;
	}
	fd = find_next(directory, name) ? open_module(dirfd(directory), name, uid) : -ENOENT;
	closedir(directory);
	if (fd == -EACCES)
		return FAIL(fd, "%.100s does not belong to the process's own user", name);
	return fd;
}
