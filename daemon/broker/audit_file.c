/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/audit_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/broker/audit.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

static int append(const struct audit_file *f, const char *text, size_t length)
{
	ssize_t n = write(f->fd, text, length);
	int error = n < 0 ? errno : ENOSPC;
	struct stat st;

	if (n == (ssize_t)length)
		return 0;
	/* A line is there whole, or not at all. */
	if (n > 0 && fstat(f->fd, &st) == 0 && ftruncate(f->fd, st.st_size - n) < 0)
		log_debug("cannot truncate the audit log: %m");
	return -error;
}

/* The last line of a daemon that did not finish it is ended; nothing more is written to a full
 * file. */
static int end_unfinished(const struct audit_file *f)
{
	char last = '\n';

	if (f->bytes && f->bytes < AUDIT_FILE_BYTES &&
	    pread(f->fd, &last, 1, (off_t)f->bytes - 1) < 0)
		return -errno;
	return last == '\n' ? 0 : append(f, "\n", 1);
}

int audit_file_open(struct audit_file *f)
{
	struct stat st;
	int r;

	f->fd = openat(f->directory, AUDIT_FILE,
		       O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
	if (f->fd < 0)
		return -errno;
	if (fstat(f->fd, &st) == 0) {
		f->bytes = (uint64_t)st.st_size;
		r = end_unfinished(f);
	} else {
		r = -errno;
	}
	if (r < 0)
		f->fd = safe_close(f->fd);
	return r;
}

int audit_file_write(struct audit_file *f, const char *text, size_t length)
{
	int r = 0;

	if (f->fd >= 0 && f->bytes >= AUDIT_FILE_BYTES &&
	    renameat(f->directory, AUDIT_FILE, f->directory, AUDIT_FILE_OLD) == 0)
		f->fd = safe_close(f->fd);
	if (f->fd < 0)
		r = audit_file_open(f);
	if (r >= 0)
		r = append(f, text, length);
	if (r >= 0)
		f->bytes += length;
	return r;
}
