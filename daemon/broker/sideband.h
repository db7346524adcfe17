/*
 * Learns of code that processes map, by the kernel's perf side-band: no program runs in the kernel for it and nobody polls /proc.
 * The records wait in a buffer per CPU until they are looked at.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct sideband;

/* A process mapped a file for execution; name is its path as the process sees it. */
typedef void (*sideband_mapped_fn)(pid_t pid, const char *name, uint64_t size, void *data);

/* Needs CAP_PERFMON; -EPERM, -ENOSYS or another error of perf_event_open or mmap. */
int sideband_new(struct sideband **ret);
struct sideband *sideband_free(struct sideband *sideband);
/* Calls mapped for every record since the last time; returns 1 when some were lost, else 0. */
int sideband_read(struct sideband *sideband, sideband_mapped_fn mapped, void *data);
