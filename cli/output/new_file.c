/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/macro.h"

#define NAMES_TRIED 1000

struct new_file {
	char *path, *temporary; /* temporary: NULL if there is none */
	bool direct;            /* not a regular file: written in place */
	int fd;
	uint64_t size;
	int error;
};

static int open_temporary(struct new_file *file)
{
	const char *slash = strrchr(file->path, '/');
	int directory = slash ? (int)(slash - file->path) + 1 : 0;

	for (int i = 0; i < NAMES_TRIED; i++) {
		char *name;

		if (asprintf(&name, "%.*s.%s.%d-%d.tmp", directory, file->path,
			     file->path + directory, (int)getpid(), i) < 0)
			return -ENOMEM;
		file->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (file->fd >= 0) {
			file->temporary = name;
			return 0;
		}
		free(name);
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

/* To create a file, or to replace a regular one, whose mode is kept. */
static int open_beside(struct new_file *file, const char *path, const struct stat *there)
{
	int r;

	/* A link is kept: its target is replaced. */
	file->path = there ? realpath(path, NULL) : strdup(path);
	if (!file->path)
		return there && errno ? -errno : -ENOMEM;
	r = open_temporary(file);
	if (r >= 0 && there && fchmod(file->fd, there->st_mode & 07777) < 0)
		r = -errno;
	return r;
}

static int open_direct(struct new_file *file, const char *path)
{
	file->direct = true;
	file->fd = open(path, O_WRONLY | O_CLOEXEC);
	return file->fd < 0 ? -errno : 0;
}

int new_file_open(const char *path, struct new_file **ret)
{
	size_t length = strlen(path);
	struct new_file *file;
	struct stat there;
	bool exists;
	int r;

	if (!length)
		return -ENOENT;
	exists = stat(path, &there) == 0;
	if (path[length - 1] == '/' || (exists && S_ISDIR(there.st_mode)))
		return -EISDIR;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->fd = -1;
	if (exists && !S_ISREG(there.st_mode))
		r = open_direct(file, path);
	else
		r = open_beside(file, path, exists ? &there : NULL);
	if (r < 0) {
		new_file_free(file);
		return r;
	}
	*ret = file;
	return 0;
}

int new_file_write(struct new_file *file, const void *bytes, size_t size)
{
	const char *from = bytes;

	while (size && !file->error) {
		ssize_t n = write(file->fd, from, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			file->error = -errno;
			break;
		}
		from += n;
		size -= (size_t)n;
		file->size += (uint64_t)n;
	}
	return file->error;
}

uint64_t new_file_size(const struct new_file *file)
{
	return file->size;
}

int new_file_commit(struct new_file *file)
{
	if (file->error)
		return file->error;
	if (close(TAKE_FD(file->fd)) < 0 ||
	    (!file->direct && rename(file->temporary, file->path) < 0)) {
		file->error = -errno;
		return file->error;
	}
	free(TAKE_PTR(file->temporary));
	return 0;
}

struct new_file *new_file_free(struct new_file *file)
{
	if (!file)
		return NULL;
	safe_close(file->fd);
	if (file->temporary)
		unlink(file->temporary);
	free(file->temporary);
	free(file->path);
	free(file);
	return NULL;
}
