/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/clock.h"

#define READINGS 10

uint64_t clock_now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

uint64_t clock_unix_offset(void)
{
	uint64_t best = UINT64_MAX, offset = 0;

	for (int i = 0; i < READINGS; i++) {
		uint64_t before = clock_now(CLOCK_MONOTONIC), unix_now = clock_now(CLOCK_REALTIME),
			 after = clock_now(CLOCK_MONOTONIC);

		if (after - before < best) {
			best = after - before;
			offset = unix_now - (before + (after - before) / 2);
		}
	}
	return offset;
}
