/* SPDX-License-Identifier: Apache-2.0 */
/* Small language helpers that every part of tfprofd uses: scope-bound cleanup and transfer of
 * ownership. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void cleanup_freep(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* Frees, or closes, the variable when its scope ends. */
#define _cleanup_free_ __attribute__((cleanup(cleanup_freep)))
#define _cleanup_close_ __attribute__((cleanup(cleanup_closep)))
#define _cleanup_(f) __attribute__((cleanup(f)))

/* Moves the value out of a variable that has a cleanup, so that the caller owns it. */
#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) take_ = (p);                                                         \
		(p) = NULL;                                                                        \
		take_;                                                                             \
	})
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int take_fd_ = (fd);                                                               \
		(fd) = -1;                                                                         \
		take_fd_;                                                                          \
	})

/* Closes a valid descriptor, and returns -1 to assign back. */
static inline int safe_close(int fd)
{
	if (fd >= 0)
		close(fd);
	return -1;
}
