#include "cli/request_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/request_json.h"
#include "lib/base/macro.h"

#define SAME_NAME_MAX 1000

struct request_file {
	FILE *stream;
	char *path, *temporary;
};

/* Beside the file, so that renaming does not copy. */
static int open_temporary(struct request_file *file)
{
	const char *slash = strrchr(file->path, '/');
	int directory = slash ? (int)(slash + 1 - file->path) : 0;

	for (int i = 0; i < SAME_NAME_MAX; i++) {
		char *name;
		int fd;

		if (asprintf(&name, "%.*s.tfprofctl-%d-%d.tmp", directory, file->path, (int)getpid(), i) < 0)
			return -ENOMEM;
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0) {
			file->temporary = name;
			file->stream = fdopen(fd, "w");
			if (file->stream)
				return 0;
			close(fd);
			return -ENOMEM;
		}
		free(name);
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

int request_file_new(const char *path, struct request_file **ret)
{
	struct request_file *file = calloc(1, sizeof(*file));
	size_t length = strlen(path);
	struct stat st;
	int r;

	if (!file)
		return -ENOMEM;
	file->path = strdup(path);
	if (!file->path)
		r = -ENOMEM;
	else if (!length || path[length - 1] == '/' || (!stat(path, &st) && S_ISDIR(st.st_mode)))
		r = length ? -EISDIR : -ENOENT;
	else
		r = open_temporary(file);
	if (r < 0) {
		request_file_free(file);
		return r;
	}
	*ret = file;
	return 0;
}

struct request_file *request_file_free(struct request_file *file)
{
	if (!file)
		return NULL;
	if (file->stream)
		fclose(file->stream);
	if (file->temporary)
		unlink(file->temporary);
	free(file->temporary);
	free(file->path);
	free(file);
	return NULL;
}

int request_file_add(struct request_file *file, const Tfprofd__Request *request)
{
	struct json json = { .file = file->stream, .compact = true };

	errno = 0;
	request_json(&json, NULL, request);
	return ferror(file->stream) ? -(errno ?: EIO) : 0;
}

int request_file_commit(struct request_file *file)
{
	FILE *stream = TAKE_PTR(file->stream);
	int r = 0;

	errno = 0;
	if (fflush(stream) || ferror(stream))
		r = -(errno ?: EIO);
	if (fclose(stream) && !r)
		r = -errno;
	if (!r && rename(file->temporary, file->path) < 0)
		r = -errno;
	if (r < 0)
		return r;
	free(TAKE_PTR(file->temporary));
	return 0;
}
