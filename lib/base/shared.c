/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/shared.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int shared_new(const char *name, size_t size)
{
	int fd = memfd_create(name, MFD_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

int shared_map(int fd, size_t size, void *ret)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return -errno;
	memcpy(ret, &memory, sizeof(memory));
	return 0;
}
