/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports processes that start, end, execute another program and map code, from the kernel's perf
 * side-band: without a BPF program and without polling /proc. The records wait in a buffer per CPU
 * until they are read; those that do not fit are counted as lost.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct sideband;

enum sideband_kind {
	/* Parent made the process pid; threads are not reported. */
	SIDEBAND_FORKED,
	/* The process executed another program, whose mappings come next. */
	SIDEBAND_EXECUTED,
	/* It mapped size bytes of a file for execution; name is the file's path as the process sees
	 * it. */
	SIDEBAND_MAPPED,
	/* Its first thread ended, and usually the process with it. */
	SIDEBAND_EXITED,
};

/* Pids are those of the caller's pid namespace; processes outside it are not reported. */
struct sideband_event {
	enum sideband_kind kind;
	pid_t pid, parent;
	uint64_t time; /* nanoseconds of CLOCK_MONOTONIC */
	const char *name;
	uint64_t size;
};

typedef void (*sideband_fn)(const struct sideband_event *event, void *data);

/*
 * Opens the events; nothing is reported until sideband_start(), which needs no capability.
 * CAP_PERFMON is enough up to perf_event_paranoid 2; Debian's kernels, at 3, require CAP_SYS_ADMIN.
 * -EACCES, -EPERM, -ENOSYS or another error of perf_event_open, mmap or epoll_create1.
 */
int sideband_new(struct sideband **ret);
void sideband_start(struct sideband *sideband);
struct sideband *sideband_free(struct sideband *sideband);
/* Becomes readable when a buffer is half full, until sideband_read(). */
int sideband_fd(const struct sideband *sideband);
/* Calls fn for every event since the last call, in the order of time; returns 1 if any were lost,
 * else 0. */
int sideband_read(struct sideband *sideband, sideband_fn fn, void *data);
