/* The daemon's configuration file. */
#include "daemon/config.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/macro.h"
#include "tests/unit/check.h"

static char error[512], path[64];

/* What config_read() says of a file with this text; *ret is NULL on failure. */
static int read_text(const char *text, struct config **ret)
{
	FILE *file;
	int fd, r;

	strcpy(path, "/tmp/tfprofd-config-XXXXXX");
	fd = mkstemp(path);
	file = fdopen(fd, "w");
	fputs(text, file);
	fclose(file);
	*ret = NULL;
	*error = 0;
	r = config_read(path, ret, error, sizeof(error));
	unlink(path);
	return r;
}

static void expect_refused(const char *text, const char *message)
{
	struct config *config;
	char whole[600];

	CHECK_EQ(read_text(text, &config), -EINVAL);
	snprintf(whole, sizeof(whole), "%s:%s", path, message);
	CHECK_STR(error, whole);
	CHECK(!config);
	config_free(config);
}

TEST(every_key_is_read)
{
	struct config *config;
	const struct config_target *t;

	CHECK_EQ(read_text("# comment\n\n[target serving*]\nslower-than = 20ms\npath=/v1/*  ; a comment\nmodel = a b\n"
			   "requests-count = 7\nmax-overhead = 2.5%\nlevel = 1\n", &config), 0);
	t = config_find(config, 12, "serving_main");
	CHECK(t);
	if (t) {
		CHECK_EQ(t->filter.slower_than_ns, 20000000);
		CHECK_STR(t->filter.path, "/v1/*");
		CHECK_STR(t->filter.model, "a b");
		CHECK_EQ(t->filter.count, 7);
		CHECK(t->max_overhead == 2.5);
		CHECK_EQ(t->level, 1);
	}
	config_free(config);
}

TEST(the_first_section_that_a_process_is_of_counts)
{
	struct config *config;

	CHECK_EQ(read_text("[target 77]\nlevel = 1\n[target  a?c ]\nlevel = 2\n[target *]\nlevel = 3", &config), 0);
	CHECK_EQ(config_find(config, 77, "abc")->level, 1);
	CHECK_EQ(config_find(config, 78, "abc")->level, 2);
	CHECK_EQ(config_find(config, 77777, "ac")->level, 3);
	config_free(config);
	CHECK_EQ(read_text("[target x]\n", &config), 0);
	CHECK(!config_find(config, 1, "y"));
	CHECK(!config_find(NULL, 1, "y"));
	config_free(config);
}

TEST(an_empty_file_is_a_configuration)
{
	struct config *config;

	CHECK_EQ(read_text("", &config), 0);
	CHECK(config && !config->n_targets);
	config_free(config);
}

TEST(what_is_not_understood_is_refused_with_its_line)
{
	char line[400], text[500];

	expect_refused("[target a]\n\nlevl = 1\n", "3: there is no key 'levl'");
	expect_refused("\n[tenant a]\n", "2: there is no section '[tenant a]': write [target GLOB]");
	expect_refused("[target]\nlevel = 1\n", "1: there is no section '[target]': write [target GLOB]");
	expect_refused("[target  ]\n", "1: a target's section names a process: write [target GLOB]");
	expect_refused("level = 1\n[target a]\n", "1: 'level' is outside of a section");
	expect_refused("[target a]\nlevel\n", "2: neither [target GLOB] nor KEY = VALUE");
	expect_refused("[target a]\nlevel\nlevl = 1\n", "2: neither [target GLOB] nor KEY = VALUE");
	expect_refused("[target a]\nlevel = 4\n", "2: '4' is no level: 1, 2 or 3");
	expect_refused("[target a]\nlevel = 0\n", "2: '0' is no level: 1, 2 or 3");
	expect_refused("[target a]\nrequests-count = 1x\n", "2: '1x' is no count of 1 to 1000000");
	expect_refused("[target a]\nslower-than = 0\n", "2: '0' is no time: write 500ms, 2s, 1.5s or 1m");
	expect_refused("[target a]\nmax-overhead = 101\n", "2: '101' is no share above 0 and up to 100: write 1, 0.5 or 20%");
	expect_refused("[target a]\npath =\n", "2: a value is missing");
	expect_refused("[target a]\npath = /a\npath = /b\n", "3: 'path' is given twice");
	expect_refused("[target a]\npath = /a\n /b\n", "3: 'path' is given twice");
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = 0;
	snprintf(text, sizeof(text), "[target a]\npath = %s\nlevel = 1\n", line);
	expect_refused(text, "2: the line is longer than 198 bytes");
}

TEST(a_file_that_is_not_there_is_named)
{
	struct config *config = NULL;

	CHECK_EQ(config_read("/nowhere/tfprofd.ini", &config, error, sizeof(error)), -ENOENT);
	CHECK_STR(error, "cannot read /nowhere/tfprofd.ini: No such file or directory");
}

CHECK_MAIN()
