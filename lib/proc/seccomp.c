/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/seccomp.h"

#include <stdio.h>

bool seccomp_filters(pid_t pid)
{
	char path[32] = "/proc/self/status", line[256];
	bool filters = true;
	FILE *f;
	int mode;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Seccomp: %d", &mode) == 1)
			filters = mode != 0;
	if (f)
		fclose(f);
	return filters;
}
