/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/xla_flags.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define VARIABLE "XLA_FLAGS="
#define FLAG "--xla_dump_to="

static bool is_space(char c)
{
	return c && strchr(" \t\r\n", c);
}

/* Reads the next flag, without its quotes, truncated to fit. Returns its end in the text. */
static const char *next_flag(const char *at, char *ret, size_t size)
{
	char quote = 0;
	size_t n = 0;

	for (; *at && (quote || !is_space(*at)); at++) {
		if (*at == quote) {
			quote = 0;
			continue;
		}
		if (!quote && (*at == '"' || *at == '\'')) {
			quote = *at;
			continue;
		}
		if (*at == '\\' && quote != '\'' && at[1])
			at++;
		if (n < size - 1)
			ret[n++] = *at;
	}
	ret[n] = 0;
	return at;
}

static int find_directory(const char *flags, char *ret)
{
	char flag[sizeof(FLAG) + XLA_PATH_MAX];
	int r = -ENODATA;

	for (const char *at = flags + strspn(flags, " \t\r\n"); *at; at += strspn(at, " \t\r\n")) {
		const char *value = flag + sizeof(FLAG) - 1;

		at = next_flag(at, flag, sizeof(flag));
		if (strncmp(flag, FLAG, sizeof(FLAG) - 1))
			continue;
		if (strlen(value) >= XLA_PATH_MAX) {
			r = -ENAMETOOLONG;
			continue;
		}
		strcpy(ret, value);
		/* Modules that go to the standard output, or nowhere, are in no directory. */
		r = *value && strcmp(value, "-") ? 0 : -ENODATA;
	}
	return r;
}

int xla_flags_dump_directory(const char *environment, size_t size, char *ret)
{
	const char *end = environment + size;

	for (const char *at = environment; at < end;) {
		size_t n = strnlen(at, (size_t)(end - at));
		const char *flags = at + sizeof(VARIABLE) - 1;

		/* A truncated variable is ignored. */
		if (at + n == end)
			break;
		if (!strncmp(at, VARIABLE, sizeof(VARIABLE) - 1)) {
			flags += strspn(flags, " \t\r\n");
			return *flags && *flags != '-' ? -EOPNOTSUPP : find_directory(flags, ret);
		}
		at += n + 1;
	}
	return -ENODATA;
}
