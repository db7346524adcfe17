/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/escape.h"

static int max_level = LOG_INFO;
static const char *role = "tfprofd";

void log_set_level(int level)
{
	max_level = level;
}

void log_set_role(const char *name)
{
	role = name;
}

/* JOURNAL_STREAM names the device and the inode of the journal's stream. A process can inherit the
 * variable with another standard error, so both are compared. */
static bool is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char own[64];
	struct stat st;

	if (!stream || fstat(fd, &st) < 0)
		return false;
	snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return !strcmp(stream, own);
}

static void log_va(int level, const char *format, va_list ap)
{
	char message[1024], line[4096];
	int saved = errno, n = 0;

	if (level > max_level)
		return;
	if (is_journal(STDERR_FILENO))
		n = snprintf(line, sizeof(line), "<%d>", level);
	n += snprintf(line + n, sizeof(line) - (size_t)n, "%s: ", role);
	errno = saved;
	vsnprintf(message, sizeof(message), format, ap);
	escape_text(message, line + n, sizeof(line) - (size_t)n - 1);
	strcat(line, "\n");
	/* One write per line, so that two roles on one terminal do not mix their lines. */
	if (write(STDERR_FILENO, line, strlen(line)) < 0)
		errno = saved;
}

void log_message(int level, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	log_va(level, format, ap);
	va_end(ap);
}

int log_errno(int level, int error, const char *format, ...)
{
	va_list ap;

	errno = error < 0 ? -error : error;
	va_start(ap, format);
	log_va(level, format, ap);
	va_end(ap);
	return error < 0 ? error : -error;
}
