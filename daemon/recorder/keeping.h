/* SPDX-License-Identifier: Apache-2.0 */
/* How a trigger's snapshot becomes a file, which the broker makes. */
#pragma once

#include "daemon/capture/capture.h"
#include "daemon/proxy/proxy.h"

/* What is known of the file. */
struct kept_file {
	char name[96];
	uint64_t bytes;
};

/*
 * Writes the result's recording, which is used up. trigger: the name of its rule; capture: the
 * broker's id of what was recorded. One at a time. Waits for the broker, and for the disk: not for
 * the loop's thread. -EALREADY: the broker refuses another one so soon; otherwise -errno; each with
 * the reason in the result's text, and nothing is left behind.
 */
int keeping_write(struct proxy *proxy, const char *trigger, pid_t pid, uint32_t capture,
		  struct capture_result *result, struct kept_file *ret);
