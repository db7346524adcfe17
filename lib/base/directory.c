/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/macro.h"

int directory_make(const char *path, mode_t mode)
{
	char copy[PATH_MAX];

	if (strlen(path) >= sizeof(copy))
		return -ENAMETOOLONG;
	strcpy(copy, path);
	for (char *p = copy + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			if (mkdir(copy, 0755) < 0 && errno != EEXIST)
				return -errno;
			*p = '/';
		}
	return mkdir(copy, mode) < 0 && errno != EEXIST ? -errno : 0;
}

DIR *directory_list(int directory)
{
	int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy < 0 ? NULL : fdopendir(copy);

	if (!list)
		safe_close(copy);
	return list;
}
