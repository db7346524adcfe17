/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of processes. */
#pragma once

#include <poll.h>
#include <stdbool.h>

/* Whether all threads of the process have ended; false for -1. */
static inline bool pidfd_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return pidfd >= 0 && poll(&p, 1, 0) > 0;
}
