/* SPDX-License-Identifier: Apache-2.0 */
/* Where XLA writes its modules, according to a process's environment. */
#include "lib/proc/xla_flags.h"

#include <errno.h>

#include "lib/base/macro.h"
#include "tests/unit/check.h"

TEST(the_directory_is_the_one_that_xla_uses)
{
	static const struct {
		const char *flags, *directory; /* NULL: none */
		int error;
	} cases[] = {
		{ "--xla_dump_to=/tmp/hlo", "/tmp/hlo", 0 },
		{ " \t--a=b --xla_dump_to=/tmp/hlo\n--c ", "/tmp/hlo", 0 },
		{ "--xla_dump_to=/a --xla_dump_to=b/c", "b/c", 0 },
		{ "--xla_dump_to=/a --xla_dump_to=", NULL, -ENODATA },
		{ "--xla_dump_to=\"/a b\"/c", "/a b/c", 0 },
		{ "--xla_dump_to='/a \"b\\'", "/a \"b\\", 0 },
		{ "--q \"--xla_dump_to=/a\\\"b\" --z", "/a\"b", 0 },
		{ "\"--xla_dump_to=/a\"", NULL, -EOPNOTSUPP },
		{ "--xla_dump_to=/a\\ b", "/a b", 0 },
		{ "--xla_dump_to=\"/never ends", "/never ends", 0 },
		{ "--xla_dump_to=-", NULL, -ENODATA },
		{ "--xla_dump_top=/a --xxla_dump_to=/b --other='--xla_dump_to=/c'", NULL,
		  -ENODATA },
		{ "", NULL, -ENODATA },
		{ "  ", NULL, -ENODATA },
		{ "/etc/xla.flags", NULL, -EOPNOTSUPP },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char environment[256], found[XLA_PATH_MAX] = "";
		size_t size =
			(size_t)snprintf(environment, sizeof(environment),
					 "PATH=/bin%cXLA_FLAGS=%s%cHOME=/", 0, cases[i].flags, 0) +
			1;

		CHECK_EQ(xla_flags_dump_directory(environment, size, found), cases[i].error);
		if (cases[i].directory)
			CHECK_STR(found, cases[i].directory);
	}
}

TEST(variables_with_similar_names_are_ignored)
{
	static const char environment[] =
		"TF_XLA_FLAGS=--xla_dump_to=/a\0NXLA_FLAGS=--xla_dump_to=/b\0XLA_FLAGS\0XLA_FLAGSX=--xla_dump_to=/c\0\0";
	char found[XLA_PATH_MAX];

	CHECK_EQ(xla_flags_dump_directory(environment, sizeof(environment), found), -ENODATA);
	CHECK_EQ(xla_flags_dump_directory("", 0, found), -ENODATA);
}

TEST(a_truncated_environment_is_ignored_and_not_read_beyond_its_end)
{
	static const char environment[] = "A=b\0XLA_FLAGS=--xla_dump_to=/tmp/hlo";
	char found[XLA_PATH_MAX];

	for (size_t size = 0; size < sizeof(environment); size++) {
		char *copy = malloc(size + !size);

		memcpy(copy, environment, size);
		CHECK_EQ(xla_flags_dump_directory(copy, size, found), -ENODATA);
		free(copy);
	}
	CHECK_EQ(xla_flags_dump_directory(environment, sizeof(environment), found), 0);
}

TEST(a_path_that_is_too_long_is_refused_and_a_later_one_counts)
{
	char environment[2 * XLA_PATH_MAX] = "XLA_FLAGS=--xla_dump_to=", found[XLA_PATH_MAX] = "";
	size_t size = strlen(environment);

	memset(environment + size, 'x', XLA_PATH_MAX);
	size += XLA_PATH_MAX;
	CHECK_EQ(xla_flags_dump_directory(environment, size + 1, found), -ENAMETOOLONG);
	strcpy(environment + size, " --xla_dump_to=/b");
	CHECK_EQ(xla_flags_dump_directory(environment, size + sizeof(" --xla_dump_to=/b"), found),
		 0);
	CHECK_STR(found, "/b");
}

CHECK_MAIN()
