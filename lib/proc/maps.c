/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/maps.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX (16u << 20)

static int parse_line(char *line, maps_fn fn, void *data)
{
	static const char deleted[] = " (deleted)";
	struct maps_entry entry = {};
	char permissions[5];
	unsigned major, minor;
	int path = 0;
	size_t size;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &entry.start, &entry.end, permissions, &entry.offset, &major, &minor,
		   &entry.inode, &path) < 7)
		return 0;
	entry.executable = permissions[2] == 'x';
	entry.device = (uint64_t)major << 32 | minor;
	entry.path = line + path;
	size = strlen(entry.path);
	if (size >= sizeof(deleted) - 1 &&
	    !strcmp(entry.path + size - (sizeof(deleted) - 1), deleted)) {
		line[(size_t)path + size - (sizeof(deleted) - 1)] = 0;
		entry.deleted = true;
	}
	return fn(&entry, data);
}

int maps_read(int fd, maps_fn fn, void *data)
{
	char buffer[2 * PATH_MAX + 256];
	size_t have = 0, total = 0;
	int r;

	for (;;) {
		ssize_t n = read(fd, buffer + have, sizeof(buffer) - 1 - have);
		char *line = buffer, *end;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		total += (size_t)n;
		if (total > TEXT_MAX)
			return -E2BIG;
		have += (size_t)n;
		buffer[have] = 0;
		while ((end = memchr(line, '\n', have - (size_t)(line - buffer)))) {
			*end = 0;
			r = parse_line(line, fn, data);
			if (r)
				return r;
			line = end + 1;
		}
		have -= (size_t)(line - buffer);
		memmove(buffer, line, have);
		/* A line longer than any path can be is skipped in pieces, none of which parses. */
		if (have == sizeof(buffer) - 1)
			have = 0;
	}
}
