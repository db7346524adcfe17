/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on standard error: priorities are for the journal alone. */
#include "lib/base/log.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/check.h"

static char written[8192];
static const char *name = "it is gone";

/* What a message comes to on a standard error that JOURNAL_STREAM names with this offset to its
 * inode, -1: not at all. */
static const char *log_with_stream(int offset)
{
	FILE *file = tmpfile();
	int saved = dup(STDERR_FILENO);
	struct stat st;
	char stream[64];
	size_t n;

	fstat(fileno(file), &st);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev,
		 (uintmax_t)st.st_ino + (uintmax_t)offset);
	if (offset < 0)
		unsetenv("JOURNAL_STREAM");
	else
		setenv("JOURNAL_STREAM", stream, 1);
	dup2(fileno(file), STDERR_FILENO);
	log_errno(LOG_WARNING, -ENOENT, "%s: %m", name);
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(file);
	n = fread(written, 1, sizeof(written) - 1, file);
	written[n] = '\0';
	fclose(file);
	return written;
}

TEST(priorities_are_written_only_where_the_journal_reads)
{
	static const char plain[] = "tfprofd: it is gone: No such file or directory\n";

	CHECK_STR(log_with_stream(-1), plain);
	CHECK_STR(log_with_stream(1), plain);
	CHECK_STR(log_with_stream(0), "<4>tfprofd: it is gone: No such file or directory\n");
}

/* Truth is the rule itself: only printable characters between the line's beginning and its end. */
TEST(text_of_others_can_neither_control_a_terminal_nor_begin_a_line)
{
	name = "evil\n<0>tfprofd: forged\x1b[2J\r\x7f\xff";
	CHECK_STR(
		log_with_stream(-1),
		"tfprofd: evil\\x0a<0>tfprofd: forged\\x1b[2J\\x0d\\x7f\\xff: No such file or directory\n");
	/* U+202E reorders what follows; letters of any language are kept. */
	name = "\xe2\x80\xae"
	       "gnp \xc3\xa9";
	CHECK_STR(log_with_stream(-1),
		  "tfprofd: \\u{202e}gnp \xc3\xa9: No such file or directory\n");
}

TEST(a_long_message_remains_one_line)
{
	static char many[900];

	memset(many, 1, sizeof(many) - 1);
	name = many;
	CHECK(log_with_stream(-1));
	CHECK_EQ(strlen(written), strlen("tfprofd: ") + 4 * (sizeof(many) - 1) +
					  strlen(": No such file or directory\n"));
	CHECK(strchr(written, '\n') == written + strlen(written) - 1);
}

CHECK_MAIN()
