/* SPDX-License-Identifier: Apache-2.0 */
/* The capabilities that the broker keeps, and which of them it was not given. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct capability {
	int number;
	const char *name; /* "CAP_BPF" */
	const char *code; /* of the finding when it is missing */
	const char *use;  /* what is impossible without it: "cannot …" */
};

/* The last one is needed for probes by perf events only, for which the kernel asks it. */
enum { CAPABILITIES = 6 };
extern const struct capability capabilities[CAPABILITIES];

/* Those that are effective, a bit for each index of capabilities. */
uint32_t capabilities_effective(void);
/* Gives up all others for good, and the way to get more. Returns 0 or -errno. */
int capabilities_keep(bool perf_event_uprobes);
