/* SPDX-License-Identifier: Apache-2.0 */
/* A file of requests exists when it is complete, and nothing is left of one that is not. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include <sys/stat.h>

#include "cli/output/new_file.c"
#include "cli/output/request_file.c"
#include "cli/report/hot_report.c"
#include "cli/report/json.c"
#include "cli/report/request.c"
#include "cli/report/request_json.c"
#include "cli/report/symbol.c"
#include "cli/report/text.c"
#include "tests/unit/check.h"

static char directory[64], path[128];

static void enter(void)
{
	strcpy(directory, "/tmp/tfprofd-requests-XXXXXX");
	if (mkdtemp(directory))
		snprintf(path, sizeof(path), "%s/r.ndjson", directory);
}

/* The number of files, including hidden ones. */
static unsigned count_files(void)
{
	struct dirent *entry;
	unsigned n = 0;
	DIR *d = opendir(directory);

	while ((entry = readdir(d)))
		n += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
	closedir(d);
	return n;
}

static void leave(void)
{
	unlink(path);
	CHECK_EQ(rmdir(directory), 0);
}

static unsigned count_lines(void)
{
	FILE *file = fopen(path, "re");
	unsigned n = 0;
	int c;

	while (file && (c = getc(file)) >= 0)
		n += c == '\n';
	if (file)
		fclose(file);
	return n;
}

TEST(a_file_has_its_name_when_it_is_complete)
{
	Tfprofd__Request request = TFPROFD__REQUEST__INIT;
	struct request_file *file;

	enter();
	CHECK_EQ(request_file_new(path, &file), 0);
	CHECK_EQ(request_file_add(file, &request), 0);
	CHECK_EQ(request_file_add(file, &request), 0);
	CHECK(access(path, F_OK) < 0);
	CHECK_EQ(request_file_commit(file), 0);
	CHECK_EQ(count_lines(), 2);
	request_file_free(file);
	CHECK_EQ(count_files(), 1);
	/* Another file takes its place. */
	CHECK_EQ(request_file_new(path, &file), 0);
	CHECK_EQ(request_file_commit(file), 0);
	request_file_free(file);
	CHECK_EQ(count_lines(), 0);
	CHECK_EQ(count_files(), 1);
	leave();
}

TEST(an_uncommitted_file_is_removed)
{
	Tfprofd__Request request = TFPROFD__REQUEST__INIT;
	struct request_file *file;

	enter();
	CHECK_EQ(request_file_new(path, &file), 0);
	CHECK_EQ(request_file_add(file, &request), 0);
	CHECK_EQ(count_files(), 1);
	request_file_free(file);
	CHECK_EQ(count_files(), 0);
	leave();
}

TEST(an_unwritable_path_is_reported_at_open)
{
	struct request_file *file;

	enter();
	CHECK_EQ(request_file_new(directory, &file), -EISDIR);
	CHECK_EQ(request_file_new("", &file), -ENOENT);
	CHECK_EQ(request_file_new("/nowhere/x", &file), -ENOENT);
	leave();
}

TEST(a_device_or_pipe_is_written_in_place)
{
	Tfprofd__Request request = TFPROFD__REQUEST__INIT;
	struct request_file *file;
	struct stat st;
	char link[160];

	/* A device. */
	CHECK_EQ(request_file_new("/dev/null", &file), 0);
	CHECK_EQ(request_file_add(file, &request), 0);
	CHECK_EQ(request_file_commit(file), 0);
	request_file_free(file);
	CHECK_EQ(stat("/dev/null", &st), 0);
	CHECK(S_ISCHR(st.st_mode));
	/* The target of a link is replaced, and keeps its mode. */
	enter();
	snprintf(link, sizeof(link), "%s/link", directory);
	CHECK_EQ(symlink(path, link), 0);
	fclose(fopen(path, "we"));
	CHECK_EQ(chmod(path, 0600), 0);
	CHECK_EQ(request_file_new(link, &file), 0);
	CHECK_EQ(request_file_add(file, &request), 0);
	CHECK_EQ(request_file_commit(file), 0);
	request_file_free(file);
	CHECK_EQ(lstat(link, &st), 0);
	CHECK(S_ISLNK(st.st_mode));
	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
	CHECK_EQ(count_lines(), 1);
	unlink(link);
	leave();
}

CHECK_MAIN()
