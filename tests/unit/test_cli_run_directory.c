/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in a log directory: their names, and that nothing is overwritten or left behind. */
#include <stdlib.h>

#include "cli/output/run_directory.c"
#include "tests/unit/check.h"

/* 2026-01-02 03:04:05 UTC. */
#define NOW 1767323045
#define RUN "/plugins/profile/2026_01_02_03_04_05"

static char directory[64];

static const char *in(const char *name)
{
	static char path[4][256];
	static unsigned int next;

	next = (next + 1) % 4;
	snprintf(path[next], sizeof(path[0]), "%s%s", directory, name);
	return path[next];
}

static bool exists(const char *name)
{
	return !access(in(name), F_OK);
}

static void begin(void)
{
	setenv("TZ", "UTC", 1);
	tzset();
	strcpy(directory, "/tmp/test_cli_run_directory-XXXXXX");
	if (!mkdtemp(directory))
		abort();
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", directory);
	CHECK_EQ(system(command), 0);
}

/* One run of the bytes "abc"; 0 or -errno. The path below the directory is checked. */
static int write_run(const char *logdir, const char *host, const char *expected)
{
	struct run_directory *run;
	char *path = NULL, content[8] = "";
	FILE *file;
	int r = run_directory_prepare(in(logdir), &run);

	if (r < 0)
		return r;
	CHECK_EQ(run_directory_add(run, "ab", 2), 0);
	CHECK_EQ(run_directory_add(run, "c", 1), 0);
	r = run_directory_commit(run, NOW, host, &path);
	run_directory_free(run);
	if (r < 0)
		return r;
	CHECK_STR(path, in(expected));
	file = fopen(path, "r");
	CHECK(file && fread(content, 1, sizeof(content), file) == 3 && !strcmp(content, "abc"));
	if (file)
		fclose(file);
	free(path);
	return 0;
}

TEST(a_run_is_named_after_its_time_and_host)
{
	begin();
	CHECK_EQ(write_run("/log", "server-1.example", "/log" RUN "/server-1.example.xplane.pb"),
		 0);
	CHECK_EQ(unlink(in("/log" RUN "/server-1.example.xplane.pb")), 0);
	/* No other file is there. */
	CHECK_EQ(rmdir(in("/log" RUN)), 0);
	CHECK_EQ(rmdir(in("/log/plugins/profile")), 0);
	end();
}

TEST(a_run_that_exists_is_never_written_over)
{
	begin();
	CHECK_EQ(write_run("/log", "h", "/log" RUN "/h.xplane.pb"), 0);
	CHECK_EQ(write_run("/log", "h", "/log" RUN "_2/h.xplane.pb"), 0);
	CHECK_EQ(write_run("/log", "other", "/log" RUN "_3/other.xplane.pb"), 0);
	/* Whatever kind of file has the name. */
	CHECK_EQ(symlink("/nowhere", in("/log" RUN "_4")), 0);
	CHECK_EQ(write_run("/log", "h", "/log" RUN "_5/h.xplane.pb"), 0);
	end();
}

TEST(two_runs_in_the_same_second_get_different_names)
{
	struct run_directory *first, *second;
	char *path1 = NULL, *path2 = NULL;

	begin();
	CHECK_EQ(run_directory_prepare(in("/log"), &first), 0);
	CHECK_EQ(run_directory_prepare(in("/log"), &second), 0);
	CHECK_EQ(run_directory_add(second, "2", 1), 0);
	CHECK_EQ(run_directory_add(first, "1", 1), 0);
	CHECK_EQ(run_directory_commit(second, NOW, "h", &path2), 0);
	CHECK_EQ(run_directory_commit(first, NOW, "h", &path1), 0);
	run_directory_free(first);
	run_directory_free(second);
	CHECK_STR(path2, in("/log" RUN "/h.xplane.pb"));
	CHECK_STR(path1, in("/log" RUN "_2/h.xplane.pb"));
	free(path1);
	free(path2);
	end();
}

TEST(a_host_of_any_text_stays_one_file_name)
{
	static const struct {
		const char *host, *name;
	} cases[] = { { "", "localhost" },
		      { "..", "_." },
		      { "../../etc/x", "_._.._etc_x" },
		      { ".hidden", "_hidden" },
		      { "a b\n\xff", "a_b__" } };
	char name[HOST_MAX], long_host[300];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		host_file_name(cases[i].host, name);
		CHECK_STR(name, cases[i].name);
	}
	memset(long_host, 'h', sizeof(long_host) - 1);
	long_host[sizeof(long_host) - 1] = '\0';
	host_file_name(long_host, name);
	CHECK_EQ(strlen(name), HOST_MAX - 1);
}

TEST(nothing_is_left_when_nothing_is_written)
{
	struct run_directory *run;

	begin();
	CHECK_EQ(run_directory_prepare(in("/log"), &run), 0);
	CHECK(exists("/log/plugins/profile"));
	run_directory_free(run);
	CHECK(!exists("/log"));
	end();
}

TEST(what_was_there_before_stays)
{
	struct run_directory *run;

	begin();
	CHECK_EQ(mkdir(in("/log"), 0777), 0);
	CHECK_EQ(mkdir(in("/log/plugins"), 0777), 0);
	CHECK_EQ(run_directory_prepare(in("/log///"), &run), 0);
	run_directory_free(run);
	CHECK(exists("/log/plugins"));
	CHECK(!exists("/log/plugins/profile"));
	end();
}

TEST(a_log_directory_that_cannot_be_written_is_refused_and_leaves_nothing)
{
	struct run_directory *run = NULL;
	FILE *file;

	begin();
	CHECK_EQ(run_directory_prepare(in("/no/log"), &run), -ENOENT);
	CHECK(!exists("/no"));
	CHECK_EQ(run_directory_prepare("", &run), -ENOENT);
	file = fopen(in("/file"), "w");
	if (file)
		fclose(file);
	CHECK_EQ(run_directory_prepare(in("/file"), &run), -ENOTDIR);
	CHECK_EQ(mkdir(in("/log"), 0777), 0);
	CHECK_EQ(rename(in("/file"), in("/log/plugins")), 0);
	CHECK_EQ(run_directory_prepare(in("/log"), &run), -ENOTDIR);
	CHECK(!run);
	end();
}

TEST(a_write_that_fails_leaves_nothing)
{
	struct run_directory *run;
	char *path = NULL;

	begin();
	CHECK_EQ(run_directory_prepare(in("/log"), &run), 0);
	/* A descriptor that cannot be written imitates a full disk. */
	close(run->file);
	run->file = open("/dev/full", O_WRONLY | O_CLOEXEC);
	CHECK_EQ(run_directory_add(run, "abc", 3), -ENOSPC);
	CHECK(!path);
	run_directory_free(run);
	CHECK(!exists("/log"));
	end();
}

CHECK_MAIN()
