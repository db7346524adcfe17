/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/seccomp.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>

/* Of a process with more threads it is not determined: each takes about 20 us. */
#define THREADS_MAX 2048

/* -1: unknown; -ENOENT: the thread has ended. */
static int mode_of(const char *path)
{
	char line[256];
	FILE *f = fopen(path, "re");
	int mode = f ? -1 : errno == ENOENT ? -ENOENT : -1;

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "Seccomp: %d", &mode);
	/* It ended while it was read. */
	if (f && mode < 0 && ferror(f) && errno == ESRCH)
		mode = -ENOENT;
	if (f)
		fclose(f);
	return mode;
}

bool seccomp_filters(pid_t pid)
{
	char path[sizeof("/proc//task//status") + 2 * 11];
	const struct dirent *entry;
	bool filters = false;
	unsigned n = 0;
	DIR *tasks;

	if (!pid)
		return mode_of("/proc/self/status") != 0;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && !filters && (entry = readdir(tasks))) {
		int tid, mode;

		if (sscanf(entry->d_name, "%d", &tid) != 1)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
		mode = mode_of(path);
		n += mode == 0;
		filters = (mode != 0 && mode != -ENOENT) || n > THREADS_MAX;
	}
	if (tasks)
		closedir(tasks);
	return filters || !n;
}
