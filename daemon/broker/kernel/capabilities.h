/* SPDX-License-Identifier: Apache-2.0 */
/* The capabilities that the broker keeps, and which of them it lacks. */
#pragma once

#include "daemon/sandbox/user.h"

#include <stdbool.h>
#include <stdint.h>

struct capability {
	int number;
	const char *name; /* "CAP_BPF" */
	/* Of the finding if it is missing. */
	const char *code;
	/* What is impossible without it: "cannot …". */
	const char *use;
};

/* The last one is needed only for probes by perf events. */
enum { CAPABILITIES = 6 };
extern const struct capability capabilities[CAPABILITIES];

/* The effective ones: a bit for each index of capabilities. */
uint32_t capabilities_effective(void);
/* Drops all others for good, and the means to gain more, and root becomes the user. Returns 0 or
 * -errno. */
int capabilities_keep(bool perf_event_uprobes, const struct sandbox_user *user);
