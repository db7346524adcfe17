/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/export_files.h"

#include <errno.h>
#include <string.h>

#include "cli/outcome.h"

const char *export_format_name(enum export_format format)
{
	static const char *const names[EXPORT_COUNT] = {
		[EXPORT_FOLDED] = "folded", [EXPORT_PPROF] = "pprof"
	};

	return names[format];
}

static int explain(const struct export_file *f, int error)
{
	outcome_report("cannot write %s: %s", f->path,
		       error == -ENOENT ? "its parent directory does not exist" : strerror(-error));
	return error;
}

int export_files_open(struct export_files *files, const struct output_options *options)
{
	int r = 0;

	*files = (struct export_files){};
	for (unsigned i = 0; i < EXPORT_COUNT && r >= 0; i++) {
		struct export_file *f = &files->list[files->n];

		if (!options->exports[i])
			continue;
		f->format = export_format_name((enum export_format)i);
		f->path = options->exports[i];
		r = new_file_open(f->path, &f->file);
		if (r < 0)
			explain(f, r);
		else
			files->n++;
	}
	if (r < 0)
		export_files_done(files);
	return r;
}

int export_files_add(struct export_files *files, uint32_t number, const void *bytes, size_t size)
{
	struct export_file *f;
	int r;

	if (!number || number > files->n) {
		outcome_report("the daemon sent a format that was not requested");
		return -EBADMSG;
	}
	f = &files->list[number - 1];
	r = new_file_write(f->file, bytes, size);
	return r < 0 ? explain(f, r) : 0;
}

int export_files_commit(struct export_files *files, const uint64_t *sizes, size_t n)
{
	int r = 0;

	for (unsigned i = 0; i < files->n && r >= 0; i++) {
		struct export_file *f = &files->list[i];

		if (i >= n || sizes[i] != new_file_size(f->file)) {
			outcome_report("%s was not written: a part of it is missing", f->path);
			return -EBADMSG;
		}
		r = new_file_commit(f->file);
		if (r < 0)
			explain(f, r);
	}
	return r;
}

void export_files_done(struct export_files *files)
{
	for (unsigned i = 0; i < files->n; i++)
		new_file_free(files->list[i].file);
	files->n = 0;
}
