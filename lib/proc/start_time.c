/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/start_time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/macro.h"

int started_ago(pid_t pid, pid_t tid, uint64_t *ret_ns)
{
	unsigned long long ticks;
	uint64_t now, started;
	char path[64], text[1024];
	const char *rest;
	size_t n;
	FILE *f;

	if (tid)
		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	else
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return -ESRCH;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	/* The name before it may contain any character. It is the 22nd field, and the second one is
	 * the name. */
	rest = strrchr(text, ')');
	if (!rest ||
	    sscanf(rest + 1,
		   " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
		   &ticks) != 1)
		return n ? -EBADMSG : -ESRCH;
	started = ticks * (1000000000ull / (unsigned long long)sysconf(_SC_CLK_TCK));
	now = clock_now(CLOCK_BOOTTIME);
	*ret_ns = now - MIN(now, started);
	return 0;
}
