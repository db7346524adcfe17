/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/timeline/startup_track.h"

const char *startup_phase_name(enum startup_phase_kind kind)
{
	static const char *const names[] = {
		[STARTUP_START] = "start",
		[STARTUP_LIBRARIES] = "libraries",
		[STARTUP_RUNTIME] = "runtime",
		[STARTUP_LOAD] = "load",
		[STARTUP_RESTORE] = "restore",
		[STARTUP_WARMUP] = "warm-up",
		[STARTUP_WAIT] = "wait for the first request",
		[STARTUP_SERVING] = "serving",
	};

	return names[kind];
}
