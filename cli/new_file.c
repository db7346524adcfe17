#include "cli/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/macro.h"

#define NAMES_TRIED 1000

struct new_file {
	char *path, *temporary; /* temporary: NULL once it is gone */
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

		if (asprintf(&name, "%.*s.%s.%d-%d.tmp", directory, file->path, file->path + directory, (int)getpid(), i) < 0)
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

int new_file_open(const char *path, struct new_file **ret)
{
	struct new_file *file;
	struct stat there;
	int r;

	if (!*path)
		return -ENOENT;
	if (!stat(path, &there) && S_ISDIR(there.st_mode))
		return -EISDIR;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->fd = -1;
	file->path = strdup(path);
	r = file->path ? open_temporary(file) : -ENOMEM;
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
	if (close(TAKE_FD(file->fd)) < 0 || rename(file->temporary, file->path) < 0) {
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
