/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/request_file.h"

#include <errno.h>
#include <stdio.h>

#include "cli/output/new_file.h"
#include "cli/report/request_json.h"
#include "lib/base/macro.h"

struct request_file {
	struct new_file *file;
	FILE *stream; /* into the file */
};

static ssize_t write_stream(void *cookie, const char *bytes, size_t size)
{
	/* A stream expects 0 for a failure; the file keeps the error. */
	return new_file_write(cookie, bytes, size) < 0 ? 0 : (ssize_t)size;
}

int request_file_new(const char *path, struct request_file **ret)
{
	struct request_file *file = calloc(1, sizeof(*file));
	int r;

	if (!file)
		return -ENOMEM;
	r = new_file_open(path, &file->file);
	if (r >= 0) {
		file->stream = fopencookie(file->file, "w",
					   (cookie_io_functions_t){ .write = write_stream });
		if (!file->stream)
			r = -ENOMEM;
	}
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
	new_file_free(file->file);
	free(file);
	return NULL;
}

int request_file_add(struct request_file *file, const Tfprofd__Request *request)
{
	struct json json = { .file = file->stream, .compact = true };

	request_json(&json, NULL, request);
	return ferror(file->stream) ? new_file_write(file->file, NULL, 0) ?: -EIO : 0;
}

int request_file_commit(struct request_file *file)
{
	bool failed = fclose(TAKE_PTR(file->stream)) != 0;
	int r = new_file_commit(file->file);

	return r < 0 ? r : failed ? -EIO : 0;
}
