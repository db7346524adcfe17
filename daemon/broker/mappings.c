/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/broker/identity.h"
#include "lib/base/macro.h"
#include "lib/proc/maps.h"

int mappings_list(pid_t pid, uid_t *ret_uid)
{
	char path[32];
	uid_t uid;
	int fd, r;

	r = identity_of_process(pid, &uid);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_uid = uid;
	return fd;
}

struct mapping_search {
	uint64_t start, end, offset;
	/* Any mapping at all: a process that has ended has none. */
	bool any;
};

static int is_mapping(const struct maps_entry *e, void *data)
{
	struct mapping_search *search = data;

	search->any = true;
	search->offset = e->offset;
	return e->start == search->start && e->end == search->end && e->executable;
}

int mappings_open(pid_t pid, uint64_t start, uint64_t end, uint64_t *ret_offset)
{
	struct mapping_search search = { .start = start, .end = end };
	_cleanup_close_ int link = -1, maps = -1;
	char path[80];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = open(path, O_RDONLY | O_CLOEXEC);
	if (maps < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	if (maps_read(maps, is_mapping, &search) != 1)
		return search.any ? -EACCES : -ESRCH;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", pid, (unsigned long long)start,
		 (unsigned long long)end);
	link = open(path, O_PATH | O_CLOEXEC);
	if (link < 0)
		return errno == ENOENT ? -ESRCH : -errno; /* the mapping was there a moment ago */
	if (fstat(link, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", link);
	/* Its owner may hold a lease on it, and a plain open would wait for the end of that
	 * lease. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	*ret_offset = search.offset;
	return fd;
}
