/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/libbpf_log.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"

static _Thread_local struct {
	FILE *file;
	char *text;
	size_t size;
} collected;

static int collect(enum libbpf_print_level level, const char *format, va_list ap)
{
	return level == LIBBPF_DEBUG || !collected.file ? 0 : vfprintf(collected.file, format, ap);
}

void libbpf_log_setup(void)
{
	libbpf_set_print(collect);
}

int libbpf_log_begin(void)
{
	collected.file = open_memstream(&collected.text, &collected.size);
	return collected.file ? 0 : -ENOMEM;
}

char *libbpf_log_take(void)
{
	if (!collected.file)
		return NULL;
	fclose(collected.file);
	collected.file = NULL;
	return TAKE_PTR(collected.text);
}

static bool begins(const char *line, const char *with)
{
	return !strncmp(line, with, strlen(with));
}

/* The line before the figures in the verifier's log; without such a log, the first message of
 * libbpf. */
void libbpf_log_reason(const char *log, char *ret, size_t size)
{
	static const char prefix[] = "libbpf: ";
	const char *line = strstr(log, "BEGIN PROG LOAD LOG --\n"),
		   *reason = log + (begins(log, prefix) ? strlen(prefix) : 0);

	line = line ? strchr(line, '\n') : NULL;
	while (line && *++line && !begins(line, "processed ") &&
	       !begins(line, "-- END PROG LOAD LOG")) {
		if (*line != '\n')
			reason = line;
		line = strchr(line, '\n');
	}
	snprintf(ret, size, "%.*s", (int)strcspn(reason, "\n"), reason);
}
