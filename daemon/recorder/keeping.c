/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recorder/keeping.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/record/journal.h"
#include "lib/base/macro.h"

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

static int write_journal(int fd, struct journal *j)
{
	const void *bytes;
	void *owner;
	size_t size;
	int r = 0;

	while (journal_take(j, &bytes, &size, &owner)) {
		if (r == 0)
			r = write_all(fd, bytes, size);
		journal_release(owner);
	}
	return r;
}

static int fail(struct capture_result *result, int error, const char *text)
{
	snprintf(result->text, sizeof(result->text), "%s", *text ? text : strerror(-error));
	return error;
}

int keeping_write(struct proxy *proxy, const char *trigger, pid_t pid, uint32_t capture,
		  struct capture_result *result, struct kept_file *ret)
{
	struct broker_message m = { .type = BROKER_SNAPSHOT, .pid = (uint32_t)pid };
	int fds[BROKER_MAX_FDS] = { -1 }, written, r;
	unsigned n = 0;

	snprintf(m.name, sizeof(m.name), "%s", trigger);
	r = proxy_call(proxy, &m, fds, &n);
	if (r == 0 && n != 1)
		r = -EBADMSG;
	if (r < 0) {
		for (unsigned i = 0; i < n; i++)
			close(fds[i]);
		return fail(result, r, m.text);
	}
	written = write_journal(fds[0], result->recording);
	close(fds[0]);
	m = (struct broker_message){ .type = BROKER_SNAPSHOT_END,
				     .id = capture,
				     .count = written == 0 };
	snprintf(m.name, sizeof(m.name), "%s", trigger);
	r = proxy_call(proxy, &m, NULL, NULL);
	if (written < 0) {
		snprintf(result->text, sizeof(result->text),
			 "cannot write to snapshot-directory: %s", strerror(-written));
		return written;
	}
	if (r < 0)
		return fail(result, r, m.text);
	m.name[sizeof(m.name) - 1] = 0;
	snprintf(ret->name, sizeof(ret->name), "%.95s", m.name);
	ret->bytes = m.start;
	return 0;
}
