/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learns of processes that come, go, become another program and map code, by the kernel's perf
 * side-band: no program runs in the kernel for it and nobody polls /proc. The records wait in a
 * buffer per CPU until they are looked at; what does not fit is counted as lost.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct sideband;

enum sideband_kind {
	SIDEBAND_FORKED,   /* parent made the process pid; threads are not told */
	SIDEBAND_EXECUTED, /* the process became another program, whose mappings come next */
	SIDEBAND_MAPPED, /* it mapped size bytes of a file for execution; name is the file's path as
			    the process sees it */
	SIDEBAND_EXITED, /* its first thread ended, and with it the process, as a rule */
};

/* Numbers of processes are those of the caller's pid namespace; what that does not see is not told.
 */
struct sideband_event {
	enum sideband_kind kind;
	pid_t pid, parent;
	uint64_t time; /* nanoseconds of CLOCK_MONOTONIC */
	const char *name;
	uint64_t size;
};

typedef void (*sideband_fn)(const struct sideband_event *event, void *data);

/*
 * Opens the events that report them; nothing is reported until sideband_start(), which needs no
 * capability. CAP_PERFMON is enough up to perf_event_paranoid 2; Debian's kernels, at 3, ask for
 * CAP_SYS_ADMIN. -EACCES, -EPERM, -ENOSYS or another error of perf_event_open, mmap or
 * epoll_create1.
 */
int sideband_new(struct sideband **ret);
void sideband_start(struct sideband *sideband);
struct sideband *sideband_free(struct sideband *sideband);
/* Becomes readable when a buffer is half full, until sideband_read(). */
int sideband_fd(const struct sideband *sideband);
/* Calls fn for everything since the last time, in the order of time; returns 1 when something was
 * lost, else 0. */
int sideband_read(struct sideband *sideband, sideband_fn fn, void *data);
