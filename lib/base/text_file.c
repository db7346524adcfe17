/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/text_file.h"

#include <errno.h>
#include <fcntl.h>

#include "lib/base/macro.h"

int text_file_read_fd(int fd, size_t max, char **ret)
{
	_cleanup_free_ char *text = malloc(max + 1);
	size_t size = 0;

	if (!text)
		return -ENOMEM;
	for (;;) {
		ssize_t n = read(fd, text + size, max + 1 - size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		size += (size_t)n;
		if (size > max)
			return -EFBIG;
	}
	text[size] = 0;
	*ret = TAKE_PTR(text);
	return 0;
}

int text_file_read(const char *path, size_t max, char **ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? -errno : text_file_read_fd(fd, max, ret);
}
